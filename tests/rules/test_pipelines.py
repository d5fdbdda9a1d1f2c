"""Ranks that pass work on wait for one another at the ends of a run, and their programs are not accused."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers.model import Trace
from parsers.ranks.merge import merge
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.stages import stages_of
from rules.catalog.pipeline_bubble import empty_slots
from rules.findings.base import Category, Severity
from tests.opened import diagnosed
from tests.rules.builder import TinyTrace


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
