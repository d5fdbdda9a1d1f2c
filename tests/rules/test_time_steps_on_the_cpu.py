"""Recurrent networks written as loops on the CPU: by their cells, or by a state while one walks through time."""

from __future__ import annotations

import pytest

from parsers.model import Trace
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import cpu_time
from rules.catalog.cpu_many_operators import time_steps
from rules.losses import cpu_loops
from rules.losses.cpu_loops import ItemLoops
from tests.rules.builder import TinyTrace, steps

ROUNDS = 32
ROUND_US = 50
GRADIENT = "autograd::engine::evaluate_function: MmBackward0"


def by_hand(trace: TinyTrace, at: float, state: int) -> None:
    """The next row is picked, and it and the state are multiplied by weights."""
    trace.shapes(trace.op(at, at + 8, "aten::select"), [[8, ROUNDS, 4]], ["float"])
    trace.shapes(trace.op(at + 10, at + 18, "aten::mm"), [[8, 4], [4, 16]], ["float", "float"])
    trace.shapes(trace.op(at + 20, at + 28, "aten::mm"), [[8, state], [state, 16]], ["float", "float"])
    trace.shapes(trace.op(at + 30, at + 38, "aten::add"), [[8, 16], [8, 16]], ["float", "float"])
    trace.shapes(trace.op(at + 40, at + 48, "aten::tanh"), [[8, 16]], ["float"])


def steps_of(monkeypatch: pytest.MonkeyPatch, state: int = 16, side: int = 1, next_one: int = 1) -> ItemLoops:
    """``next_one``: how far one walks with each round."""

    def asked(trace: Trace, event: int) -> tuple[str, ...]:
        number = int(trace.events.start[event] // (ROUND_US * 1_000)) % ROUNDS
        return ("", str(side), str(next_one * number))

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(ROUNDS):
            by_hand(trace, ROUND_US * number, state)

    monkeypatch.setattr(cpu_loops, "concrete_inputs", asked)
    analysis = Analysis(steps(5, ROUND_US * ROUNDS, body).build())
    time = cpu_time(analysis)
    assert time is not None
    return time_steps(analysis, time)


def test_walking_along_an_inner_side_with_a_state_is_going_through_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = steps_of(monkeypatch)
    assert {each.times for each in found.loops} == {ROUNDS}
    assert found.of_operators == 1


@pytest.mark.parametrize(
    ("state", "side", "next_one"),
    [(3, 1, 1), (16, 0, 1), (16, 1, 0)],
    ids=["no state of that size", "rows of the batch", "the same place again and again, as the last token"],
)
def test_other_loops_are_not_of_time(
    monkeypatch: pytest.MonkeyPatch, state: int, side: int, next_one: int
) -> None:
    assert not steps_of(monkeypatch, state, side, next_one).loops


@pytest.mark.parametrize(("rounds", "counts"), [(16, True), (15, False)])
def test_a_backward_pass_of_at_least_half_as_many_rounds_is_counted(rounds: int, counts: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(ROUNDS):
            trace.op(20 * number, 20 * number + 8, "aten::select")
            trace.op(20 * number + 10, 20 * number + 18, "aten::lstm_cell")
        for number in range(rounds):
            trace.op(640 + 20 * number, 650 + 20 * number, GRADIENT)
            trace.op(650 + 20 * number, 658 + 20 * number, GRADIENT.replace("Mm", "Add"))
        trace.op(1_280, 1_290, "aten::mul")

    analysis = Analysis(steps(5, 1_300, body).build())
    time = cpu_time(analysis)
    assert time is not None
    found = time_steps(analysis, time)
    assert {each.times for each in found.loops} == ({ROUNDS, rounds} if counts else {ROUNDS})
