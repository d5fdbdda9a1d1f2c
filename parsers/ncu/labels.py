"""Which metric a label on the details page stands for; labels repeat, so the section belongs to the key."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TypeGuard

SECTION_IDENTIFIERS = {
    "GPU Speed Of Light Throughput": "SpeedOfLight",
    "GPU Speed Of Light": "SpeedOfLight",
    "GPU Speed Of Light Roofline Chart": "SpeedOfLight_RooflineChart",
    "PM Sampling": "PmSampling",
    "Compute Workload Analysis": "ComputeWorkloadAnalysis",
    "Memory Workload Analysis": "MemoryWorkloadAnalysis",
    "Memory Workload Analysis Chart": "MemoryWorkloadAnalysis_Chart",
    "Memory Workload Analysis Tables": "MemoryWorkloadAnalysis_Tables",
    "Scheduler Statistics": "SchedulerStats",
    "Warp State Statistics": "WarpStateStats",
    "Instruction Statistics": "InstructionStats",
    "NVLink": "Nvlink",
    "NUMA Affinity": "NumaAffinity",
    "Launch Statistics": "LaunchStats",
    "Occupancy": "Occupancy",
    "GPU and Memory Workload Distribution": "WorkloadDistribution",
    "Source Counters": "SourceCounters",
}

MAX_LABEL_LENGTH = 300
_METRIC_NAME = re.compile(r"\w+__[\w.]+\w")
_SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
_MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
_L1 = "l1tex__throughput.avg.pct_of_peak_sustained_active"
_L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
_DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"

_LABELS: dict[str, dict[str, str]] = {
    "SpeedOfLight": {
        "Compute (SM) Throughput": _SM,
        "SM [%]": _SM,
        "SOL SM": _SM,
        "Memory Throughput": _MEMORY,
        "Memory [%]": _MEMORY,
        "SOL Memory": _MEMORY,
        "Duration": "gpu__time_duration.sum",
        "Elapsed Cycles": "gpc__cycles_elapsed.max",
        "L1/TEX Cache Throughput": _L1,
        "SOL L1/TEX Cache": _L1,
        "SOL TEX": _L1,
        "L2 Cache Throughput": _L2,
        "SOL L2 Cache": _L2,
        "SOL L2": _L2,
        "DRAM Throughput": _DRAM,
        "SOL DRAM": _DRAM,
        "SOL FB": _DRAM,
        "SM Active Cycles": "sm__cycles_active.avg",
        "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
        "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
        "Memory Frequency": "dram__cycles_elapsed.avg.per_second",
    },
    "ComputeWorkloadAnalysis": {
        "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
        "Executed Ipc Elapsed": "sm__inst_executed.avg.per_cycle_elapsed",
        "Issue Slots Busy": "sm__inst_issued.avg.pct_of_peak_sustained_active",
        "Issued Ipc Active": "sm__inst_issued.avg.per_cycle_active",
        "SM Busy": "sm__instruction_throughput.avg.pct_of_peak_sustained_active",
    },
    "MemoryWorkloadAnalysis": {
        "Memory Throughput": "dram__bytes.sum.per_second",
        "Mem Busy": "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed",
        "Max Bandwidth": "gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed",
        "Mem Pipes Busy": "sm__memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
        "L1 Hit Rate": "l1tex__t_sector_hit_rate.pct",
        "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
        "L2 Compression Input Sectors": "lts__gcomp_input_sectors.sum",
        "L2 Compression Success Rate": "lts__average_gcomp_input_sector_success_rate.pct",
        "L2 Compression Ratio": "lts__average_gcomp_output_sector_compression_achieved_rate.ratio",
        "L2 Persisting Size": "launch__persisting_l2_cache_size",
        "Local Memory Spilling Requests": "derived__local_spilling_requests",
        "Local Memory Spilling Request Overhead": "derived__local_spilling_requests_pct",
    },
    "SchedulerStats": {
        "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
        "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
        "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
        "No Eligible": "smsp__issue_inst0.avg.pct_of_peak_sustained_active",
        "One or More Eligible": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    },
    "WarpStateStats": {
        "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
        "Warp Cycles Per Executed Instruction": "smsp__average_warps_active_per_inst_executed.ratio",
        "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
        "Avg. Not Predicated Off Threads Per Warp": (
            "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
        ),
    },
    "InstructionStats": {
        "Avg. Executed Instructions Per Scheduler": "smsp__inst_executed.avg",
        "Executed Instructions": "smsp__inst_executed.sum",
        "Avg. Issued Instructions Per Scheduler": "smsp__inst_issued.avg",
        "Issued Instructions": "smsp__inst_issued.sum",
    },
    "LaunchStats": {
        "Block Size": "launch__block_size",
        "Grid Size": "launch__grid_size",
        "Registers Per Thread": "launch__registers_per_thread",
        "Shared Memory Configuration Size": "launch__shared_mem_config_size",
        "Driver Shared Memory Per Block": "launch__shared_mem_per_block_driver",
        "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
        "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
        "Threads": "launch__thread_count",
        "Waves Per SM": "launch__waves_per_multiprocessor",
        "Function Cache Configuration": "launch__func_cache_config",
        "Cluster Size": "launch__cluster_size",
        "Cluster Scheduling Policy": "launch__cluster_scheduling_policy",
        "# SMs": "launch__sm_count",
        "# TPCs": "launch__tpc_count",
        "Enabled TPC IDs": "launch__tpc_enabled",
        "Stack Size": "launch__stack_size",
        "Uses Green Context": "launch__uses_green_context",
    },
    "Occupancy": {
        "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
        "Achieved Active Warps Per SM": "sm__warps_active.avg.per_cycle_active",
        "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
        "Theoretical Active Warps per SM": "sm__maximum_warps_avg_per_active_cycle",
        "Block Limit SM": "launch__occupancy_limit_blocks",
        "Block Limit Registers": "launch__occupancy_limit_registers",
        "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
        "Block Limit Warps": "launch__occupancy_limit_warps",
        "Block Limit Barriers": "launch__occupancy_limit_barriers",
        "Max Active Clusters": "launch__cluster_max_active",
        "Max Cluster Size": "launch__cluster_max_potential_size",
        "Cluster Occupancy": "launch__occupancy_cluster_pct",
        "Overall GPU Occupancy": "launch__occupancy_cluster_gpu_pct",
    },
    "WorkloadDistribution": {
        f"{statistic} {name} {state} Cycles": f"{unit}__cycles_{state.lower()}.{rollup}"
        for name, unit in {
            "SM": "sm",
            "SMSP": "smsp",
            "L1": "l1tex",
            "L2": "lts",
            "DRAM": "dram",
        }.items()
        for statistic, state, rollup in (("Average", "Active", "avg"), ("Total", "Elapsed", "sum"))
    },
    "SourceCounters": {
        "Branch Instructions": "smsp__inst_executed_op_branch.sum",
        "Branch Instructions Ratio": "derived__smsp__inst_executed_op_branch_pct",
        "Branch Efficiency": "smsp__sass_average_branch_targets_threads_uniform.pct",
        "Avg. Divergent Branches": "smsp__sass_branch_targets_threads_divergent.avg",
    },
    "PmSampling": {
        "Maximum Buffer Size": "profiler__pmsampler_buffer_size_bytes",
        "Maximum Sampling Interval": "profiler__pmsampler_interval_time",
        "# Pass Groups": "profiler__pmsampler_pass_groups",
    },
}


def _unambiguous() -> dict[str, str]:
    seen: dict[str, set[str]] = {}
    for labels in _LABELS.values():
        for label, metric in labels.items():
            seen.setdefault(label.lower(), set()).add(metric)
    return {label: metrics.pop() for label, metrics in seen.items() if len(metrics) == 1}


_ANYWHERE = _unambiguous()
_LOWER = {
    section: {label.lower(): metric for label, metric in labels.items()}
    for section, labels in _LABELS.items()
}


@cache
def sections_of_metrics() -> dict[str, tuple[str, str]]:
    """For each metric that the details page shows: the identifier of its first section, and its label there."""
    found: dict[str, tuple[str, str]] = {}
    for section, labels in _LABELS.items():
        for label, metric in labels.items():
            found.setdefault(metric, (section, label))
    return found


def metric_of_label(section: str, label: str) -> str:
    """The metric's own name for a label in a section (display name or identifier).

    Labels that are metric names stay; unknown ones become "Section: label", so that nothing is lost.
    """
    if "__" in label or label.startswith(("breakdown:", "group:")):
        named = _METRIC_NAME.findall(label) if " " in label and len(label) < MAX_LABEL_LENGTH else []
        return named[-1] if named else label
    identifier = SECTION_IDENTIFIERS.get(section, section)
    known = _LOWER.get(identifier)
    metric = known.get(label.lower()) if known is not None else _ANYWHERE.get(label.lower())
    if metric is not None:
        return metric
    return label if "_" in label and " " not in label else f"{section}: {label}"


def _is_count(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and 0 < value < math.inf


def derived_metrics(metrics: dict[str, int | float | str]) -> dict[str, float]:
    """What a page with labels leaves out but states in another form: warps per scheduler from warps per SM."""
    found: dict[str, float] = {}
    theoretical = metrics.get("sm__maximum_warps_avg_per_active_cycle")
    percent = metrics.get("sm__maximum_warps_per_active_cycle_pct")
    schedulers = 4.0
    if _is_count(theoretical):
        found["smsp__maximum_warps_avg_per_active_cycle"] = math.ceil(theoretical / schedulers)
        if _is_count(percent) and _is_count(warps := theoretical / schedulers / percent * 100):
            found["smsp__warps_active.avg.peak_sustained"] = round(warps)
    sms = metrics.get("launch__sm_count")
    if isinstance(sms, (int, float)):
        found["device__attribute_multiprocessor_count"] = sms
    return {name: value for name, value in found.items() if name not in metrics}
