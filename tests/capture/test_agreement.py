"""All ranks of a run agree on the step after which each ends its recording."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from viewer.capture.torch_runner.stallscope_recorder import agreement
from viewer.capture.torch_runner.stallscope_recorder.agreement import Agreement, agreement_for


def test_every_rank_ends_at_a_step_none_has_passed_and_the_last_to_leave_removes_the_files(
    tmp_path: Path,
) -> None:
    behind, ahead, late = (
        Agreement(str(tmp_path), "run", rank, ranks, 0.0) for rank, ranks in ((0, 3), (1, 3), (2, 0))
    )
    behind.note(5)
    ahead.note(6)
    late.note(5)
    assert not ahead.look()
    assert ahead.last_step() is None
    behind.propose()
    assert behind.last_step() is None, "the others have not answered"
    assert ahead.look()
    assert late.look()
    agreed = behind.last_step()
    assert agreed is not None
    assert agreed > 6, "the rank ahead has passed that boundary already"
    assert {rank.last_step() for rank in (behind, ahead, late)} == {agreed}
    behind.leave()
    ahead.leave()
    assert len(list(tmp_path.iterdir())) == 4
    late.leave()
    assert not list(tmp_path.iterdir())


def test_a_rank_waits_at_the_step_it_announced_until_the_others_have_announced_theirs(tmp_path: Path) -> None:
    fast, slow = (Agreement(str(tmp_path), "run", rank, 2, 0.0) for rank in (0, 1))
    fast.propose()
    fast.note(2)
    slow.note(7)
    answers = threading.Timer(0.05, slow.look)
    answers.start()
    assert fast.last_step() == 9
    answers.join()
    assert slow.last_step() == 9


def test_a_rank_that_never_answers_or_has_left_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreement, "PATIENCE", 0.05)
    alone = Agreement(str(tmp_path), "silent", 0, 2)
    alone.propose()
    alone.note(2)
    assert alone.last_step() == 2
    monkeypatch.setattr(agreement, "PATIENCE", 1000.0)
    one, gone = (Agreement(str(tmp_path), "left", rank, 2) for rank in (0, 1))
    gone.leave()
    one.propose()
    assert one.last_step() == 2


def test_the_announced_step_leaves_time_for_all_to_hear_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(agreement, "time", SimpleNamespace(monotonic=lambda: now))
    rank = Agreement(str(tmp_path), "run", 0, 1, poll=0.5)
    for ended in range(41):
        rank.note(ended)
        now += 0.125
        rank.look()
    rank.propose()
    assert rank.last_step() == 40 + 2 + agreement.AHEAD * 0.5 / 0.125


def test_ranks_of_several_machines_share_their_files_and_those_of_one_are_told_by_their_launcher(
    tmp_path: Path,
) -> None:
    several = {"SLURM_NNODES": "2", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "1", "WORLD_SIZE": "2"}
    agreement_for(str(tmp_path), "run", 0, several)
    assert (tmp_path / ".run.7-1.rank0").exists()
    assert agreement_for(str(tmp_path), "run", -1, several) is None
    agreement_for(str(tmp_path), "run", 0, {"SLURM_NNODES": "1", "SLURM_JOB_ID": "7"})
    assert len(list(tmp_path.glob(".run.7-*.rank0"))) == 1
