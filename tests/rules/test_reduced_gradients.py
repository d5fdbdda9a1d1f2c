"""Gradients of several backward passes are reduced once, and what starts it on the CPU goes with it."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.fixes.plan import make_plan
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import promised

ACCUMULATES = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


@pytest.mark.parametrize(("passes", "found"), [(3, True), (1, False)])
def test_gradients_of_several_passes_are_reduced_once(passes: int, found: bool) -> None:
    trace = TinyTrace()
    for rank in range(2):

        def body(made: TinyTrace, _: int, rank: int = rank) -> None:
            for number in range(3):
                at, launch = 100 + number * 560, 10 + number * 50
                if number < passes:
                    made.region(launch - 2, launch + 30, "DistributedDataParallel.forward")
                made.operation(at, at + 120, "void gemm", launch, device=rank)
                made.collective(at + 120, at + 520, launch + 10, device=rank, stream=7)
                made.operation(at + 520, at + 560, "void gemm", launch + 20, device=rank)
            made.region(200, 230, "Optimizer.step#SGD.step")
            made.operation(1810, 1820, "void update", 205, device=rank)
            made.call(240, 1890, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, 1900, body, into=trace)
    assert ("reduce-once" in promised(make_plan(Analysis(trace.build())))) is found


def gain(operator: str, function: str = ACCUMULATES, passes: int = 4) -> float:
    """What reducing once gives where the CPU is the limit, and each pass runs eight operators of a name."""
    trace = TinyTrace()
    for rank in range(2):

        def body(made: TinyTrace, _: int, rank: int = rank) -> None:
            for number in range(passes):
                at = 10 + number * 600
                made.region(at - 2, at + 30, "DistributedDataParallel.forward")
                made.operation(at + 8, at + 12, "void gemm", at, device=rank)
                for place in range(8):
                    begun = at + 50 + place * 60
                    if function:
                        made.op(begun, begun + 55, function)
                    made.op(begun + 3, begun + 50, operator)
                    made.operation(begun + 48, begun + 50, "void elementwise", begun + 40, device=rank)
                made.collective(at + 545, at + 560, at + 540, device=rank, stream=7)
            made.region(2_420, 2_450, "Optimizer.step#SGD.step")
            made.operation(2_440, 2_445, "void update", 2_430, device=rank)

        trace.rank = rank
        steps(6, 2_500, body, into=trace)
    return promised(make_plan(Analysis(trace.build()))).get("reduce-once", 1.0)


@pytest.mark.parametrize(
    ("operator", "function", "goes"),
    [
        ("torch::distributed::reducer::mul_out", ACCUMULATES, True),
        ("torch::distributed::reducer::mul_out", "", True),
        ("aten::div_", ACCUMULATES, True),
        ("aten::div_", "", False),
        ("aten::add_", ACCUMULATES, False),
    ],
    ids=[
        "into buckets",
        "into buckets, by itself",
        "averaged in buckets",
        "a division elsewhere",
        "added up",
    ],
)
def test_what_fills_the_buckets_goes_with_the_early_reductions(
    operator: str, function: str, goes: bool
) -> None:
    assert (gain(operator, function) > 1.5) is goes


def test_what_fills_the_buckets_of_the_last_pass_stays() -> None:
    assert 1.1 < gain("torch::distributed::reducer::mul_out", passes=2) < 1.6
