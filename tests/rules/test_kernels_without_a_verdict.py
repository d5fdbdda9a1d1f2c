"""What is said of reports whose kernels are too small, or were not measured to the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parsers.model import KernelProfile
from parsers.model.kernels import MetricValue
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import beside_the_verdict, verdict
from tests.rules.kernel_profiles import COMPUTE, DRAM, MEMORY, kernel, trace_of

TINY: dict[str, MetricValue] = {
    "gpu__time_duration.sum": 1_500,
    COMPUTE: 0.1,
    MEMORY: 1.2,
    DRAM: 0.1,
    "launch__waves_per_multiprocessor": 0.003,
}


def said(*kernels: KernelProfile) -> tuple[str, str]:
    trace = trace_of(*kernels)
    analysis, diagnosis = Analysis(trace), diagnose(trace)
    return verdict(analysis, diagnosis), beside_the_verdict(analysis, diagnosis)


@pytest.mark.parametrize("count", [3, 4])
def test_kernels_of_one_block_each_are_named_so(count: int) -> None:
    kernels = [
        kernel(TINY, name=f"math_{number}(float *)", grid=(1, 1, 1), ident=str(number))
        for number in range(count)
    ]
    assert said(*kernels)[0] == f"{count} profiled kernels, each with too few blocks for the GPU"


def test_one_that_fills_the_gpu_is_no_reason_to_say_so_of_all() -> None:
    kernels = [
        kernel(TINY, name=f"math_{number}(float *)", grid=(1, 1, 1), ident=str(number)) for number in range(3)
    ]
    sound = kernel({"gpu__time_duration.sum": 1_500}, name="sound(float *)", ident="9")
    assert "each with too few blocks" not in said(*kernels, sound)[0]


def test_kernels_without_a_time_beside_others_are_named() -> None:
    measured = kernel(name="fill(float *)", ident="0")
    cut = replace(
        kernel(name="void attention_kernel<128>(Params)", ident="1"), metrics={"launch__grid_size": 8}
    )
    beside = said(measured, cut)[1]
    assert beside.startswith("1 of 2 profiled kernels has neither a time nor throughput")
    assert beside.endswith("attention_kernel.")
    assert "neither a time" not in said(measured)[1]
    assert "neither a time" not in said(cut)[1]
