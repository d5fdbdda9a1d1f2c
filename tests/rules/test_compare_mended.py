"""Programs recorded before and after they were mended: the gain that was timed without a profiler is bounded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from rules.comparison.compare import compare
from rules.comparison.gate import Decision, Judgement, Outcome
from rules.comparison.recorders import RecorderCost, with_and_without
from rules.comparison.step_times import StepTimes, ratio_of

PROGRAMS = Path(__file__).resolve().parents[1] / "fixtures" / "programs"


def holds(folder: Path, name: str) -> None:
    gain = json.loads((folder / "truth.json").read_text("utf-8"))[name]["gain_all"]
    before, after = (folder / f"{name}{mended}.pt.trace.json.gz" for mended in ("", ".fixed"))
    result = compare(open_trace([before]), open_trace([after]))
    ratio = result.judgement.ratio
    assert ratio is not None
    assert result.judgement.outcome is Outcome.FASTER
    assert 1 / ratio.high <= gain <= 1 / ratio.low


@pytest.mark.parametrize("name", ["decode", "moderate"])
def test_the_timed_gain_lies_in_the_interval_although_recording_cost_one_side_more(name: str) -> None:
    holds(PROGRAMS, name)


def test_the_timed_gain_lies_in_the_interval_of_full_size_recordings(shared_data: Path) -> None:
    holds(shared_data / "real", "masks")


def test_a_difference_that_may_be_the_recorders_is_none_that_can_be_seen() -> None:
    steps = [StepTimes(np.array(ms) * 1e6) for ms in ([10.0] * 20, [12.0] * 20)]
    ratio = ratio_of(*steps)
    assert ratio is not None
    assert Judgement.of(with_and_without(ratio, RecorderCost(0.02, 0.02)), []).gate(5)[0] is Decision.FAILED
    slowed = with_and_without(ratio, RecorderCost(0.0, 0.2))
    assert slowed.unrecorded == pytest.approx(0.96)
    assert Judgement.of(slowed, []).outcome is Outcome.NO_DIFFERENCE_SEEN
    assert Judgement.of(slowed, []).gate(5)[0] is Decision.INCONCLUSIVE
    assert with_and_without(ratio, None) == replace(ratio, unrecorded=None)
