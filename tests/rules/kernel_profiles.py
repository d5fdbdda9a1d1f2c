"""Makes profiled launches for tests: a kernel without faults, and changes to single metrics of it."""

from __future__ import annotations

from dataclasses import replace

from parsers.model import KernelProfile, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.kernels import MetricValue

COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
ISSUED = "smsp__issue_active.avg.per_cycle_active"
THEORETICAL = "sm__maximum_warps_per_active_cycle_pct"
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"

SOUND: dict[str, MetricValue] = {
    "gpu__time_duration.sum": 100_000,
    COMPUTE: 50.0,
    MEMORY: 85.0,
    DRAM: 85.0,
    "l1tex__throughput.avg.pct_of_peak_sustained_active": 40.0,
    "l1tex__throughput.avg.pct_of_peak_sustained_elapsed": 40.0,
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": 60.0,
    "launch__waves_per_multiprocessor": 20.0,
    "device__attribute_multiprocessor_count": 132,
    ISSUED: 0.7,
    LATENCY: 20.0,
    THEORETICAL: 100.0,
    ACHIEVED: 95.0,
    "smsp__maximum_warps_avg_per_active_cycle": 16,
    "smsp__warps_active.avg.peak_sustained": 16,
    "smsp__warps_active.avg.per_cycle_active": 15.0,
    "smsp__warps_eligible.avg.per_cycle_active": 2.0,
    "launch__occupancy_limit_registers": 8,
    "launch__occupancy_limit_shared_mem": 32,
    "launch__occupancy_limit_warps": 8,
    "launch__occupancy_limit_blocks": 32,
    "smsp__thread_inst_executed_per_inst_executed.ratio": 32.0,
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": 31.0,
    "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed": 40.0,
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed": 30.0,
    "lts__t_sector_hit_rate.pct": 60.0,
}


def stall(reason: str, share: float) -> dict[str, MetricValue]:
    """The metric of one stall reason, as a share of the sound kernel's 20 cycles."""
    return {f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio": share * 20.0}


def kernel(
    *changes: dict[str, MetricValue],
    without: tuple[str, ...] = (),
    name: str = "void some_kernel<float>(float *, int)",
    grid: tuple[int, int, int] = (2640, 1, 1),
    block: tuple[int, int, int] = (256, 1, 1),
    ident: str = "0",
) -> KernelProfile:
    """The sound kernel with some metrics changed or left out."""
    metrics = dict(SOUND)
    for change in changes:
        metrics.update(change)
    for metric in without:
        metrics.pop(metric, None)
    return KernelProfile(
        id=ident,
        name=name,
        grid=grid,
        block=block,
        device=0,
        compute_capability=(9, 0),
        context=1,
        stream=7,
        process=1,
        process_name="python",
        metrics=metrics,
        device_name="NVIDIA H200",
    )


def trace_of(*kernels: KernelProfile) -> Trace:
    """A recording that holds kernel counters only; equal ids are numbered."""
    builder = TraceBuilder()
    ids = [each.id for each in kernels]
    numbered = [replace(each, id=str(at)) for at, each in enumerate(kernels)]
    builder.kernels = list(kernels) if len(set(ids)) == len(ids) else numbered
    return builder.build()
