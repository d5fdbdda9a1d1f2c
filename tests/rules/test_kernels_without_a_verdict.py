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


@pytest.mark.parametrize(
    ("slow_us", "grid", "said_of_blocks"),
    [
        (60.5, (32, 32, 1), True),
        (59.5, (32, 32, 1), False),
        (60.5, (32, 64, 1), False),  # twice as many threads
    ],
)
def test_without_counters_the_blocks_that_are_faster_are_told(
    slow_us: float, grid: tuple[int, int, int], said_of_blocks: bool
) -> None:
    def timed(
        us: float, grid: tuple[int, int, int], block: tuple[int, int, int], ident: str
    ) -> KernelProfile:
        found = kernel(name="transpose(float *)", grid=grid, block=block, ident=ident)
        return replace(found, metrics={"gpu__time_duration.sum": us * 1000})

    title, _ = said(timed(50.0, (64, 64, 1), (16, 16, 1), "0"), timed(slow_us, grid, (32, 32, 1), "1"))
    expected = "transpose takes 50.0 us in blocks of 16 x 16 threads, 60.5 us in blocks of 32 x 32"
    assert (title == expected) is said_of_blocks


@pytest.mark.parametrize(("clock", "told"), [(1e9, True), (None, False)])
def test_of_counts_alone_the_rates_of_the_longest_kernel_are_told(clock: float | None, told: bool) -> None:
    counts = {
        "smsp__cycles_elapsed.avg": 2e9,
        "smsp__cycles_elapsed.avg.per_second": clock,
        "dram__bytes.sum": 6e10,
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 1e12,
        "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum": 4e11,
    }
    metrics = {name: value for name, value in counts.items() if value is not None}
    title, _ = said(replace(kernel(name="gemm(float *)"), metrics=metrics))
    assert title.startswith("1 profiled kernel, no verdict: its throughput was not measured")
    assert title.endswith("; gemm takes 2.00 s, at 1.20 Tflop/s and 30.0 GB/s of DRAM") is told
