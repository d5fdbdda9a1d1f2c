"""Small batches whose gradients are added up before an update become one, unless something tells them apart."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.fixes.plan import Plan, Promise, make_plan
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import plan_of_body

PASS = 12  # calls
FUNCTION = "autograd::engine::evaluate_function: AddmmBackward0"


def training(
    passes: int = 4,
    *,
    calls: tuple[int, ...] = (PASS,) * 8,
    grid: int = 8,
    updates_each: bool = False,
    inside_update: bool = False,
    update: str = "Optimizer.step#AdamW.step",
    busy_us: float = 10.0,
    kept: int = 0,
) -> Plan:
    """Steps of forward and backward passes with so many calls in each, and an update behind the last, or each.

    So many gradients are ``kept`` behind the first pass, and those of the others added to them.
    """

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for number in range(passes):
            begin = at
            for place in range(kept if number else 0):
                name = f"void {'clone' if number == 1 else 'sum'}{chr(97 + place % 26)}_kernel"
                trace.operation(at + 6, at + 6 + busy_us, name, at, grid=grid)
                at += 20
            for direction in ("forward", "backward"):
                for place in range(calls[number]):
                    name = f"void {direction}{chr(97 + place % 26)}_kernel"
                    trace.operation(at + 6, at + 6 + busy_us, name, at, grid=grid)
                    if direction == "backward":
                        trace.op(at - 2, at + 8, FUNCTION)
                    at += 20
                if direction == "forward" and inside_update and number == passes - 1:
                    trace.region(begin - 1, at - 3, update)
            if updates_each or (number == passes - 1 and not inside_update):
                trace.region(at, at + 18, update)
                trace.kernels(at + 4, 1, 8, 20, "void update_kernel")
                at += 20

    length = 40 + 40 * sum(calls[:passes]) + 20 * (passes if updates_each else 1) + 20 * kept * (passes - 1)
    return plan_of_body(body, length=length)


def joined(plan: Plan) -> list[Promise]:
    assert plan.reason == ""
    assert plan.crashed == ()
    return [each for each in plan.promises if each.proposal.fix == "join-batches"]


def test_four_batches_become_one() -> None:
    (found,) = joined(training())
    assert found.proposal.title.startswith("Use one batch instead of 4 small ones")
    assert 2.5 < found.expected < 4.0
    assert found.low < 2.1 < found.expected, "two batches may be all that memory has room for"


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"passes": 2}, True),
        ({"passes": 1}, False),
        ({"updates_each": True}, False),
        ({"passes": 2, "updates_each": True}, False),
        ({"inside_update": True}, True),
        ({"update": "send to the next stage"}, False),
        ({"calls": (8, 8, 8, 8)}, True),
        ({"calls": (7, 7, 7, 7)}, False),
        ({"calls": (24, 23, 24, 24)}, True),
        ({"calls": (24, 20, 24, 24)}, False),
        ({"calls": (18, 24, 24, 24)}, True),
        ({"calls": (16, 24, 24, 24)}, False),
    ],
    ids=[
        "two batches",
        "one",
        "an update for each",
        "an update for each of two",
        "called by the update",
        "no update at all",
        "short passes",
        "shorter ones",
        "nearly alike",
        "not alike",
        "the first adds no gradients",
        "the first is another one",
    ],
)
def test_which_batches_are_parts_of_one(told: dict[str, object], found: bool) -> None:
    assert bool(joined(training(**told))) is found  # type: ignore[arg-type]


@pytest.mark.parametrize(("grid", "found"), [(8, True), (132, False)])
def test_batches_that_fill_the_gpu_gain_nothing(grid: int, found: bool) -> None:
    made = training(grid=grid, busy_us=19.0)
    assert bool([each for each in joined(made) if each.expected > 1.2]) is found


@pytest.mark.parametrize(("kept", "found"), [(10, True), (11, False)])
@pytest.mark.parametrize("passes", [2, 3, 4, 16])
def test_gradients_that_the_program_adds_up_itself(passes: int, kept: int, found: bool) -> None:
    assert bool(joined(training(passes, calls=(PASS,) * passes, kept=kept))) is found


def with_collectives(passes: int) -> float:
    """What one batch instead of four gives where that many passes reduce gradients for 400 us, on two ranks."""
    made = TinyTrace()
    for rank in range(2):

        def body(trace: TinyTrace, _: int, rank: int = rank) -> None:
            at = 10.0
            for number in range(4):
                for direction in ("forward", "backward"):
                    for place in range(PASS):
                        name = f"void {direction}{chr(97 + place)}_kernel"
                        trace.operation(at + 6, at + 16, name, at, grid=8, device=rank)
                        if direction == "backward":
                            trace.op(at - 2, at + 8, FUNCTION)
                        at += 20
                if number >= 4 - passes:
                    trace.collective(at, at + 400, at - 8, device=rank, stream=7)
                    at += 400
            trace.region(at, at + 18, "Optimizer.step#AdamW.step")
            trace.operation(at + 8, at + 16, "void update_kernel", at + 4, device=rank)

        made.rank = rank
        steps(6, 2_000 + 400 * passes, body, into=made)
    plan = make_plan(Analysis(made.build()), reaches={})
    return next(each.expected for each in joined(plan))


def test_what_each_pass_exchanges_is_exchanged_once() -> None:
    """1.2 ms of collectives go with 1.4 ms of passes, and a single one behind the last pass stays."""
    assert 3.0 < with_collectives(4) < 4.5
    assert 2.0 < with_collectives(1) < 3.0
