"""Ranks that pass work on wait for one another at the ends of a run, and their programs are not accused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from parsers.model import Trace
from parsers.ranks.merge import merge
from rules import diagnosis_of
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.groups import stages_of
from rules.catalog.ranks import empty_slots
from rules.findings.base import Category, Severity
from rules.fixes.plan import Promise, make_plan
from tests.opened import diagnosed
from tests.rules.builder import TinyTrace, steps


def two_ranks(first_message: str, second_message: str) -> Trace:
    """Rank 0 works in the first 2 ms of 6, rank 1 in the last 2; in between they exchange one message."""
    ranks = []
    for rank, (begin, message) in enumerate(((5, first_message), (4005, second_message))):
        trace = TinyTrace(rank=rank)
        for step in range(2):
            trace.step(step * 3000, (step + 1) * 3000, f"ProfilerStep#{step + 1}")
        trace.operation(begin, begin + 1900, "sm90_gemm", begin - 5)
        start = begin + 1900 if rank == 0 else begin - 20
        trace.collective(start, start + 10, begin - 5 if rank == 0 else begin - 30, collective=message)
        ranks.append(trace.build())
    return merge(ranks)


def idle_for(trace: Trace, cause: Cause) -> list[int]:
    analysis = Analysis(trace)
    return [analysis.budgets(device).idle_ns[cause] // 1000 for device in range(2)]


def test_before_its_first_and_after_its_last_operation_a_stage_waits_for_the_others() -> None:
    trace = two_ranks("send", "recv")
    assert stages_of(trace) == (0, 1)
    analysis = Analysis(trace)
    t0, t1 = analysis.window
    assert idle_for(trace, Cause.NEIGHBOURS) == [
        (t1 - analysis.span(0)[1]) // 1000,
        (analysis.span(1)[0] - t0) // 1000,
    ]
    assert idle_for(trace, Cause.HOST) == [0, 0]


def test_ranks_that_sum_gradients_do_not_wait_for_stages() -> None:
    trace = two_ranks("allreduce", "allreduce")
    assert stages_of(trace) == ()
    assert idle_for(trace, Cause.NEIGHBOURS) == [0, 0]


def test_more_micro_batches_leave_fewer_slots_empty() -> None:
    assert empty_slots(1, 4) == 0.75
    assert empty_slots(16, 4) == pytest.approx(3 / 19)


def test_a_recorded_pipeline_is_named_and_python_is_not_accused(shared_data: Path) -> None:
    paths = sorted((shared_data / "real").glob("pipeline.rank*.pt.trace.json.gz"))
    if not paths:
        pytest.skip("the recorded pipeline is not on this machine")
    found = diagnosed(*paths).findings
    assert found[0].category is Category.PIPELINE_BUBBLE
    loud = {each.category for each in found if each.severity in (Severity.HIGH, Severity.MEDIUM)}
    assert Category.HOST_BOUND not in loud


def unequal_stages(
    calls: int, answer: float = 1_000, ways: Mapping[str, str] = MappingProxyType({})
) -> Trace:
    """Rank 0 works 1 ms, passes on, and works 2 ms when rank 1 has worked; its launches take 20 us each."""
    trace = TinyTrace()
    answered = 1_110 + answer
    for rank in range(2):

        def body(made: TinyTrace, _: int, rank: int = rank) -> None:
            def stretch(begin: float, end: float, launched: float, count: int) -> None:
                each = (end - begin) / count
                for place in range(count):
                    at = begin + place * each
                    made.operation(at, at + each, "void gemm", launched + place * 20, device=rank)

            def message(begin: float, end: float, launched: float, way: str) -> None:
                made.collective(begin, end, launched, device=rank, stream=7, collective=ways.get(way, way))

            if rank == 0:
                stretch(100, 1_100, 10, calls)
                message(1_100, 1_110, 15 + calls * 20, "send")
                message(1_110, answered + 10, 25 + calls * 20, "recv")
                stretch(answered + 10, answered + 2_010, 35 + calls * 20, 2 * calls)
            else:
                message(50, 1_110, 10, "recv")
                stretch(1_110, answered, 30, calls)
                message(answered, answered + 10, 40 + calls * 20, "send")
            made.call(60 + calls * 60, answered + 2_030, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, answered + 2_040, body, into=trace)
    return trace.build()


def promises_of_stages(calls: int) -> dict[str, Promise]:
    analysis = Analysis(unequal_stages(calls))
    return {each.proposal.fix: each for each in make_plan(analysis).promises}


def test_a_stage_with_more_work_is_not_told_as_a_late_rank_but_a_rank_of_equals_is() -> None:
    ways = {"recv": "sendrecv", "send": "sendrecv"}
    for among_equals in (False, True):
        rules = {
            each.rule
            for each in diagnosis_of(Analysis(unequal_stages(10, 200, ways if among_equals else {}))).findings
        }
        assert ("late-rank" in rules) is among_equals
        assert ("pipeline-bubble" in rules) is not among_equals


def test_no_stage_is_late_and_no_more_is_promised_than_never_waiting_gives() -> None:
    promises = promises_of_stages(calls=10)
    assert not promises.keys() & {"mend-late-ranks", "hide-communication"}
    filled = promises["fill-pipeline"]
    assert 1.2 < filled.expected < 4.15 / 3
    assert filled.high < 1.2 * 4.15 / 3


def test_calls_that_are_made_for_each_micro_batch_limit_what_more_of_them_give() -> None:
    quick, slow = (promises_of_stages(calls=count)["fill-pipeline"].expected for count in (10, 20))
    assert slow < quick - 0.05
