"""Numbers by which late ranks, their pattern and their reason are told, each with a case on either side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers.model.arrays import F64
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks import reasons
from rules.analysis.ranks.groups import PIPELINE
from rules.analysis.ranks.patterns import patterns_of
from rules.analysis.ranks.reasons import Why, reasons_of
from rules.analysis.ranks.run import COMPUTE, COPIES, PARTS, DeviceStates

STEPS = 8


def lateness(late: F64, own: F64 | None = None, stages: int = 0) -> Any:
    """Of rows in steps of 1,000 ns, in each as late as is given; of one row a stage where there are stages."""
    count = len(late)
    pipeline = SimpleNamespace(
        kind=PIPELINE,
        names=[f"stage {stage}" for stage in range(stages)],
        label=np.arange(stages),
        members=lambda label: np.array([label]),
    )
    return SimpleNamespace(
        run=SimpleNamespace(
            step_numbers=np.arange(STEPS),
            by_step=np.full((count, STEPS, 1), 1_000),
            name=lambda row: f"rank {row}",
        ),
        late=np.repeat(np.array(late, np.float64)[:, None], STEPS, axis=1),
        stage=np.arange(count) if stages else np.zeros(count, np.int64),
        own=np.repeat((np.zeros(count) if own is None else own)[:, None], STEPS, axis=1),
        dimensions=(pipeline,) if stages else (),
    )


def test_four_patterns_are_told_the_largest_ones() -> None:
    late = np.zeros(12)
    late[:5] = [500, 400, 300, 200, 100]
    assert [each.name for each in patterns_of(lateness(late))] == ["rank 0", "rank 1", "rank 2", "rank 3"]


@pytest.mark.parametrize(("late_ns", "told"), [(11, True), (9, False)])
def test_who_is_late_by_a_hundredth_of_a_step_makes_a_pattern(late_ns: float, told: bool) -> None:
    assert bool(patterns_of(lateness(np.array([late_ns, 0, 0, 0, 0])))) is told


@pytest.mark.parametrize(("beyond", "told"), [(51, True), (49, False)])
def test_a_stage_takes_longer_by_a_twentieth_of_a_step(beyond: float, told: bool) -> None:
    own = np.array([1_000.0, 1_000.0, 1_000.0, 1_000.0 + beyond])
    assert bool(patterns_of(lateness(np.zeros(4), own, stages=4))) is told


def why(copied: int, computed: int = 0, monkeypatch: pytest.MonkeyPatch | None = None) -> list[Why]:
    """What the first of four rows does more of in 10,000 ns."""
    if monkeypatch is not None:
        monkeypatch.setattr(reasons, "_computing", lambda _, each, *__: each)
    parts = np.zeros((4, PARTS))
    parts[:, COMPUTE] = 1_000
    parts[0, COMPUTE] += computed
    parts[0, COPIES] = copied
    run = SimpleNamespace(rows=range(4), parts=parts, window_ns=10_000, steps_in_window=1)
    late = SimpleNamespace(run=run, stage=np.zeros(4, np.int64), blamed=np.ones((4, 1)))
    return [each.why for each in reasons_of(cast(Any, late), np.array([0]), np.array([0]))]


@pytest.mark.parametrize(("copied", "told"), [(51, Why.COPIES), (49, Why.HELD_UP)])
def test_who_does_no_half_percent_more_himself_was_held_up(copied: int, told: Why) -> None:
    assert why(copied) == [told]


@pytest.mark.parametrize(("computed", "told"), [(501, [Why.COPIES, Why.COMPUTES]), (499, [Why.COPIES])])
def test_a_second_reason_takes_a_twentieth_of_the_time(
    computed: int, told: list[Why], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert why(2_000, computed, monkeypatch) == told


@pytest.mark.parametrize(("pieces", "kept"), [(24_000, True), (24_001, False)])
def test_the_states_of_a_device_are_kept_as_they_are_up_to_24000_pieces(pieces: int, kept: bool) -> None:
    part = (np.arange(pieces) % len(Cause)).astype(np.uint8)
    states = DeviceStates(np.arange(pieces + 1) * 100, part)
    assert (states.coarse(np.empty(0, np.int64)) is states) is kept
