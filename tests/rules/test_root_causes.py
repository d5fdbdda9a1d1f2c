"""Causes that hide: work of the CPU on tensors of its own, gradients that it reduces, and what mending took away."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers.ranks.merge import merge
from rules.analysis.analysis import Analysis
from rules.findings.base import Category, Severity
from rules.fixes.plan import make_plan
from tests.opened import diagnosed
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body, promised


@pytest.mark.parametrize(("lasts", "found"), [(1200, True), (200, False)])
@pytest.mark.parametrize("operator", ["aten::randperm", "aten::_embedding_bag"])
def test_operators_on_tensors_of_the_cpu_move_to_the_gpu(operator: str, lasts: float, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        trace.op(620, 620 + lasts, operator)
        trace.kernels(630 + lasts, 15, 20, 40)

    plan = plan_of_body(body, length=1250 + lasts)
    assert ("move-host-phase" in promised(plan)) is found
    assert any(operator in each.proposal.title for each in plan.promises) is found


@pytest.mark.parametrize("on_cpu", [True, False])
def test_gradients_that_the_cpu_reduces_are_reduced_by_the_gpus(on_cpu: bool) -> None:
    traces, length = [], 8000.0 if on_cpu else 1750.0
    for rank in range(2):
        trace = TinyTrace(rank=rank)
        for index in range(4):
            trace.shift = index * length
            trace.step(0, length, f"ProfilerStep#{index}")
            trace.kernels(10, 30, 30, 40)
            if on_cpu:
                trace.copy(1300, 2300, "DtoH", 1250, pageable=True, bytes=20_000_000, launch_us=1055)
                trace.op(2310, 6300, "gloo:all_reduce")
                trace.copy(6330, 7330, "HtoD", 6310, pageable=True, bytes=20_000_000, launch_us=1025)
            else:
                trace.collective(1300, 1700, 1280)
            trace.kernels(7400 if on_cpu else 1300, 10, 30, 40)
        traces.append(trace.build())
    plan = make_plan(Analysis(merge(traces)))
    about_the_cpu = [each for each in plan.promises if Category.HOST_BOUND in each.proposal.categories]
    assert bool(about_the_cpu) is on_cpu
    if on_cpu:
        assert about_the_cpu[0].expected > 2
        assert "gloo" in about_the_cpu[0].proposal.title


@pytest.mark.parametrize(
    ("program", "category"),
    [
        ("recompile", Category.RECOMPILATION),
        ("recompile", Category.VARIABILITY),
        ("plans", Category.HOST_BOUND),
        ("decode", Category.HOST_BOUND),
        ("fields", Category.NO_TENSOR_CORES),
        ("fields", Category.COPY_H2D),
        ("graph", Category.COPY_H2D),
        ("moderate", Category.NO_TENSOR_CORES),
    ],
)
def test_what_was_mended_is_accused_no_longer(fixtures: Path, program: str, category: Category) -> None:
    def loud(name: str) -> bool:
        findings = diagnosed(fixtures / "programs" / f"{name}.pt.trace.json.gz").findings
        return any(
            each.category is category and each.severity in (Severity.HIGH, Severity.MEDIUM)
            for each in findings
        )

    assert loud(program)
    assert not loud(f"{program}.fixed")
