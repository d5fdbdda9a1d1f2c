"""Passes that differ in a dropout at their end only, and what looks like them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from parsers.model import I64
from rules.fixes.catalog import joined_batches as random_passes
from rules.fixes.catalog.joined_batches import MAX_DROPOUTS, MIN_AHEAD
from rules.fixes.plan import Plan
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

Called = tuple[str, list[object]]
PICTURES, FEATURES, SCORES = [8, 3, 32, 32], [8, 64], [8, 10]
LAYER: list[Called] = [("aten::relu", [[8, 16, 32, 32]])]
CONVOLUTION: Called = ("aten::conv2d", [PICTURES, [16, 3, 3, 3], []])
DROPOUT: Called = ("aten::dropout", [FEATURES, [], []])
HEAD: list[Called] = [("aten::linear", [FEATURES, [10, 64], [10]]), ("aten::softmax", [SCORES, [], []])]
BACKBONE = [CONVOLUTION, *LAYER * (MIN_AHEAD - 1)]
PASS = [*BACKBONE, DROPOUT, *HEAD]
FIX = "run-once-before-dropout"


def gain(each: Sequence[Called] = PASS, **changed: Any) -> float | None:
    """What running the backbone once gives; None where that is not told."""
    found = [one.expected for one in planned(each, **changed).promises if one.proposal.fix == FIX]
    return found[0] if found else None


def planned(
    each: Sequence[Called] = PASS,
    *,
    passes: int = 4,
    behind: Sequence[Called] = (("aten::stack", [[SCORES] * 4, []]),),
    draws: str = "aten::native_dropout",
    us: float = 50.0,
    other_us: float = 50.0,
    shapes: bool = True,
    backward: bool = False,
) -> Plan:
    """Steps of such passes; their operators take ``us`` on the GPU, those from the dropout on others."""
    called = [*list(each) * passes, *behind]
    length = 30.0 + 60 * len(called) + 20

    def body(trace: TinyTrace, _: int) -> None:
        dropped = False
        for place, (name, dims) in enumerate(called):
            at = 10.0 + 12 * place
            dropped = (dropped or "dropout" in name) and name != each[0][0]
            event = trace.op(at, at + 9, name)
            if shapes:
                trace.shapes(event, dims, ["float"] * len(dims))  # type: ignore[arg-type]
            if "dropout" in name:
                trace.op(at + 1, at + 8, draws)
            if backward:
                trace.op(at - 1, at + 10, "autograd::engine::evaluate_function: ReluBackward0")
            begin = 30.0 + 60 * place
            trace.operation(begin, begin + (other_us if dropped else us), f"kernel of {name}", at + 2)
        trace.call(10.0 + 12 * len(called), length - 10, "cudaDeviceSynchronize")

    made = plan_of_body(body, length=length)
    assert made.crashed == ()
    return made


def test_the_backbone_runs_in_the_first_pass_only() -> None:
    found = gain()
    whole, gone = 4 * len(PASS) + 1, 3 * MIN_AHEAD
    assert found == pytest.approx(whole / (whole - gone), rel=0.05)


def test_the_rest_of_the_passes_is_launched_once_or_by_each() -> None:
    plan = planned()
    (made,) = (each.proposal for each in plan.promises if each.proposal.fix == FIX)
    assert made.low is not None
    apart, once = (plan.replay.overlay([each]) for each in (made.low, made.expected))
    assert (apart.present == once.present).all()
    launched = plan.replay.steps * 3 * (len(PASS) - MIN_AHEAD)
    assert np.count_nonzero((apart.cost > 0) & (once.cost == 0)) == launched


def test_two_passes_do() -> None:
    assert gain(passes=2) is not None
    assert gain(passes=1) is None


@pytest.mark.parametrize(
    ("each", "found"),
    [
        (PASS, True),
        ([*BACKBONE, ("aten::feature_dropout", DROPOUT[1]), *HEAD], True),
        (PASS[1:], False),
        ([CONVOLUTION, *LAYER, DROPOUT, *LAYER * MIN_AHEAD, DROPOUT, *HEAD], False),
        ([("aten::select", [[4, *PICTURES], [], []]), *PASS], False),
        ([("aten::to", [PICTURES, [], []]), *PASS], False),
        ([*PASS, ("aten::add", [PICTURES, PICTURES, []])], False),
        ([*PASS, ("aten::argmax", [SCORES, [], []])], False),
        ([*BACKBONE, *HEAD], False),
        ([*LAYER * MIN_AHEAD, DROPOUT, *HEAD], False),
    ],
    ids=[
        "a head with dropout",
        "whole channels dropped",
        "few operators before",
        "another dropout before",
        "each takes a part of what there is",
        "each sends its own",
        "a pass changes what the next begins with",
        "a pass chooses what the next begins with",
        "no dropout",
        "no product before",
    ],
)
def test_passes_that_repeat_a_backbone(each: list[Called], found: bool) -> None:
    assert (gain(each) is not None) is found


@pytest.mark.parametrize(
    "changed",
    [{"draws": "aten::mul"}, {"shapes": False}, {"backward": True}, {"us": 0.5, "other_us": 60.0}],
    ids=["it draws nothing", "no shapes", "trained", "less than a twentieth of the GPU's time"],
)
def test_what_is_no_such_pass(changed: dict[str, object]) -> None:
    assert gain(**changed) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("dropouts", "found"), [(MAX_DROPOUTS, True), (MAX_DROPOUTS + 1, False)])
def test_a_pass_has_at_most_so_many_dropouts(dropouts: int, found: bool) -> None:
    each = [*BACKBONE * 4, *[DROPOUT] * dropouts, *HEAD]
    assert (gain(each, passes=2) is not None) is found


@pytest.mark.parametrize(("ahead", "found"), [(8, True), (7, False)])
def test_eight_operators_are_a_backbone(ahead: int, found: bool) -> None:
    each = [CONVOLUTION, *LAYER * (ahead - 1), DROPOUT, *HEAD]
    assert (gain(each) is not None) is found


def test_dropouts_behind_other_operators_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network has hundreds, and comparing all operators for each two of them takes longer than all else together."""
    compared: list[int] = []
    run = random_passes._run

    def counted(differs: I64, count: int, drop: int, period: int) -> tuple[int, int, int, int] | None:
        compared.append(drop)
        return run(differs, count, drop, period)

    monkeypatch.setattr(random_passes, "_run", counted)
    layers: list[Called] = [("aten::relu", [[8, 16, 32, size]]) for size in range(6)]
    parts = [[CONVOLUTION, *layers[:size], *LAYER * 9, layers[size], DROPOUT] for size in range(1, 6)]
    assert gain([each for part in parts for each in part], passes=1) is None
    assert not compared
    assert gain() is not None
    assert compared


def test_a_few_operators_are_no_pass() -> None:
    assert gain([DROPOUT, *HEAD], passes=2, behind=()) is None
