"""Libraries that build a plan for each new shape are named, with padding as the remedy."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.losses.lost_time import IdleTime
from rules.losses.plan_building import PlanBuilding, plan_building
from tests.opened import diagnosed, opened
from tests.rules.builder import TinyTrace

PROGRAMS = Path(__file__).parents[1] / "fixtures" / "programs"
OPERATOR = "aten::_cudnn_attention_forward"
USUAL_US = 60.0


def plans_of(trace: Trace) -> PlanBuilding | None:
    return plan_building(IdleTime(Analysis(trace), Cause.HOST))


def program(slow_us: float, slow: int, operator: str = OPERATOR) -> Trace:
    """Twelve calls of an operator, each of which launches one kernel at its end; the last ones are slow."""
    tiny, now = TinyTrace(), 0.0
    for each in range(12):
        taken = slow_us if each >= 12 - slow else USUAL_US
        tiny.op(now, now + taken, operator)
        tiny.operation(now + taken, now + taken + 20, "cudnn_generated_sdpa", now + taken - 10)
        now += taken + 40
    return tiny.build()


def test_an_operator_whose_calls_are_now_and_then_far_slower_builds_plans() -> None:
    found = plans_of(program(20 * USUAL_US, 3))
    assert found is not None
    assert (found.who, found.operator, found.count, found.others) == ("cuDNN", OPERATOR, 3, 9)
    assert found.each_ns == 20 * USUAL_US * 1000
    assert found.others_ns == USUAL_US * 1000


@pytest.mark.parametrize(
    ("slow_us", "slow", "operator"),
    [(19 * USUAL_US, 3, OPERATOR), (20 * USUAL_US, 2, OPERATOR), (20 * USUAL_US, 3, "aten::unique")],
)
def test_slower_calls_that_are_no_plans_are_not_called_so(slow_us: float, slow: int, operator: str) -> None:
    assert plans_of(program(slow_us, slow, operator)) is None


@pytest.mark.parametrize("recording", ["plans.pt.trace.json.gz", "plans.sqlite.gz"])
def test_plans_for_each_length_are_named_first_with_padding_as_the_remedy(
    recording: str, tmp_path: Path
) -> None:
    file = tmp_path / recording.removesuffix(".gz")
    file.write_bytes(gzip.decompress((PROGRAMS / recording).read_bytes()))
    first = diagnose(open_trace([file])).findings[0]
    assert "builds a new plan for each new shape" in first.title
    assert first.advice[0].startswith("Pad to a few lengths")


def test_an_attention_that_needs_no_plan_is_not_accused() -> None:
    assert plans_of(opened(PROGRAMS / "plans.fixed.pt.trace.json.gz")) is None


@pytest.mark.thorough  # every day the smaller ones above
@pytest.mark.parametrize("recording", ["engine.pt.trace.json.gz", "engine.sqlite"])
def test_a_serving_engine_is_told_to_pad_its_prompts(recording: str, shared_data: Path) -> None:
    file = shared_data / "serve" / recording
    if not file.is_file():
        pytest.skip("the recordings of the serving engine are not on this machine")
    first = diagnosed(file).findings[0]
    assert "builds a new plan for each new shape" in first.title
    assert first.advice[0].startswith("Pad to a few lengths")
    assert "hooks" not in " ".join(first.advice)
    assert f"{first.title} {first.explanation}".count(
        "new plan for each new shape, such as a prompt of a new length"
    )
    named = OPERATOR if "pt." in recording else "cuDNN's attention"  # Nsight Systems records no operators
    assert named in first.explanation
