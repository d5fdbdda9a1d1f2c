"""The ranks of one machine agree on the step after which all of them end their recording."""

from __future__ import annotations

from pathlib import Path

from viewer.capture.torch_runner.stallscope_recorder.agreement import Agreement


def test_every_rank_ends_at_a_step_that_none_has_passed_and_the_last_to_leave_tidies_up(
    tmp_path: Path,
) -> None:
    behind, ahead, late = (Agreement(str(tmp_path), "run", rank) for rank in range(3))
    behind.note(5)
    ahead.note(6)
    assert ahead.last_step() is None
    behind.propose()
    agreed = behind.last_step()
    assert agreed is not None
    assert agreed > 6, "the rank ahead has passed that boundary already"
    ahead.note(7)
    late.note(5)
    late.propose()
    assert {rank.last_step() for rank in (behind, ahead, late)} == {agreed}
    behind.leave()
    ahead.leave()
    assert sum(1 for _ in tmp_path.iterdir()) == 2
    late.leave()
    assert not list(tmp_path.iterdir())
