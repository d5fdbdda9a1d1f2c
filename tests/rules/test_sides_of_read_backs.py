"""Where read-backs, copies and captured launches become fixes: a recording on either side of each limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rules.fixes.plan import Plan
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body
from tests.rules.test_sides_of_fixes import is_told, promise
from tests.rules.test_written_forms import COPIED, OTHERS, SHIFTED, Program


def requests(
    *, count: int = 6, size: int = 640, answers: float = 400.0, each: float = 100.0, every: float = 3.0
) -> Plan:
    """Requests that multiply for a millisecond, and read so many bytes; it takes a while to prepare the next one."""

    def body(trace: TinyTrace, _: int) -> None:
        for place in range(10):
            at = 5 + place * every
            trace.op(at, at + 3, "aten::mm")
            begin = 20 + place * max(each, every)
            trace.operation(begin, begin + each, "void kernel", at, launch_us=2)
        ends, last = begin + each, at + 20
        trace.op(last, ends + 30, "aten::copy_")
        trace.copy(
            ends + 10, ends + 12, "DtoH", last + 1, pageable=True, bytes=size, launch_us=ends + 20 - last
        )

    return plan_of_body(body, count=count, length=10 * max(each, every) + 50 + answers)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, True),
        ({"count": 3}, True),
        ({"count": 2}, False),
        ({"size": 8}, False),
        ({"size": 12}, True),
        ({"size": 65_536}, True),
        ({"size": 65_540}, False),
        ({"answers": 70.0}, True),
        ({"each": 10.0, "every": 100.0, "answers": 800.0}, False),
    ],
    ids=[
        "a result",
        "three requests",
        "two",
        "one value",
        "three values",
        "many",
        "a large copy",
        "the next one takes a while",
        "the CPU hardly waits",
    ],
)
def test_results_of_requests(changed: dict[str, float], found: bool) -> None:
    assert is_told(requests(**changed), "read-results-later") is found  # type: ignore[arg-type]


def test_at_least_half_of_the_shifts_go() -> None:
    program = Program([replace(each, us=300) for each in SHIFTED])
    plan = plan_of_body(program.body, length=program.length_us)
    low = promise(plan, "fold-shifts").proposal.low
    assert low is not None
    assert plan.replay.gain([low]) == pytest.approx(1_400 / (1_400 - 600 / 2), rel=0.02)


@pytest.mark.parametrize(("apart", "found"), [(2, True), (3, False)])
def test_scores_are_copied_at_most_three_operators_behind_the_cut(apart: int, found: bool) -> None:
    called = [COPIED[0], *OTHERS[:apart], *COPIED[2:]]
    assert ("shift-labels" in Program(called).promises()) is found


@pytest.mark.parametrize(
    ("training", "every", "found"), [(True, 22, True), (True, 18, False), (False, 18, True)]
)
def test_a_training_step_is_captured_where_it_becomes_half_as_fast_again(
    training: bool, every: float, found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        if training:
            trace.region(1, 2, "Optimizer.step#SGD.step")
        for place in range(44):
            name = f"void {chr(97 + place % 26)}{chr(97 + place // 26)}_kernel"
            trace.kernels(10 + place * every, 1, 8, every, name)

    assert is_told(plan_of_body(body, length=1 + 48 * every), "replay-cuda-graph") is found


def training(*, waits: int = 0, launches: int = 44, more: int = 0) -> Plan:
    """Steps of so many launches, every second one of ``more`` of them, which read a value back so often."""

    def body(trace: TinyTrace, index: int) -> None:
        trace.region(1, 2, "Optimizer.step#SGD.step")
        for place in range(launches + more * (index % 2)):
            name = f"void {chr(97 + place % 26)}{chr(97 + place // 26)}_kernel"
            trace.kernels(10 + place * 40, 1, 5, 40, name)
        at = 10 + (launches + more) * 40
        for _ in range(waits):
            trace.copy(at + 8, at + 10, "DtoH", at, bytes=4)
            trace.call(at + 6, at + 14, "cudaStreamSynchronize")
            at += 20

    return plan_of_body(body, length=20 + 40 * (launches + more) + 20 * waits)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"waits": 4}, True),
        ({"waits": 5}, False),
        ({"launches": 102, "more": 2}, True),
        ({"launches": 96, "more": 3}, False),
    ],
    ids=["four values", "five", "a fiftieth more launches", "more"],
)
def test_what_keeps_a_training_step_from_being_captured(changed: dict[str, int], found: bool) -> None:
    assert is_told(training(**changed), "replay-cuda-graph") is found


@pytest.mark.parametrize(("lasts", "found"), [(49.0, False), (51.0, True)])
def test_a_copy_of_few_bytes_that_takes_long_is_large(lasts: float, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 5, 20, 40)
        trace.copy(240, 240 + lasts, "DtoH", 220, pageable=True, bytes=1_000, launch_us=lasts + 30)
        trace.kernels(270 + lasts, 5, 20, 40)

    assert is_told(plan_of_body(body, length=480 + lasts), "copy-less") is found


def in_rounds(rounds: int, launches: int) -> Plan:
    def body(trace: TinyTrace, _: int) -> None:
        for each in range(rounds):
            for place in range(launches):
                trace.kernels(
                    10 + (launches * each + place) * 60, 1, 5, 60, f"void {'abcdefgh'[place]}_kernel"
                )
        trace.kernels(10 + launches * rounds * 60, 1, 5, 60, "void last_kernel")

    return plan_of_body(body, length=130 + launches * rounds * 60)


@pytest.mark.parametrize(("rounds", "launches", "found"), [(8, 3, True), (9, 2, False)])
def test_a_loop_of_few_launches_is_not_joined(rounds: int, launches: int, found: bool) -> None:
    assert is_told(in_rounds(rounds, launches), "join-loop") is found
