"""What the first sentence says of a report of single kernels, of which nothing is accused."""

from __future__ import annotations

from collections import Counter

from parsers.model import KernelProfile, Trace
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, operations, percent, rate
from rules.analysis.gpu.gpu_vendor import is_amd
from rules.diagnosis import Diagnosis
from rules.findings.base import Category, Finding
from rules.kernels.launch_groups import groups_of_all_grids, profiled_ns, unlike_blocks
from rules.terms import MAJORITY
from rules.wording.words import shortened

MAX_NAME_LENGTH = 40
_CYCLES = "smsp__cycles_elapsed.avg"
_OPERATIONS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_OF_AMD = {
    "MemUnitBusy": "memory unit {} busy",
    "VALUBusy": "vector units {} busy",
    "OccupancyPercent": "{} occupancy",
}


def of_kernels(trace: Trace, diagnosis: Diagnosis) -> str:
    """What to say of a report of kernels in which nothing is accused: nothing is sound that was not measured."""
    count = len(trace.kernels)
    kernels = f"{count} profiled kernel{'s' if count != 1 else ''}"
    limits = [each for each in diagnosis.findings if each.rule == "kernel-speed-of-light"]
    if limits and (most := _of_the_longest(trace, limits)):
        return most.title
    if not any(each.metrics for each in trace.kernels):
        return _of_dispatches(trace) or f"{kernels}, no verdict: the profiler measured nothing"
    if "kernel-speed-of-light" in diagnosis.skipped and is_amd(trace):
        longest = _longest_of(trace) + _measured_by_amd(groups_of_all_grids(trace.kernels)[0].representative)
        return f"{kernels}{longest}: AMD's counters are shown, and only Nsight Compute's are judged"
    if "kernel-speed-of-light" in diagnosis.skipped:
        whose = "their" if count != 1 else "its"
        if (blocks := unlike_blocks(trace)) is not None:
            fast, slow = ((duration(each.ns), " x ".join(map(str, each.sides))) for each in blocks)
            return (
                f"{shortened(kernel_name(blocks[0].name), MAX_NAME_LENGTH)} takes {fast[0]} in blocks of {fast[1]} "
                f"threads, {slow[0]} in blocks of {slow[1]}"
            )
        return f"{kernels}, no verdict: {whose} throughput was not measured (--section SpeedOfLight){_rates(trace)}"
    if len(limits) == len(groups_of_all_grids(trace.kernels)) and all(
        each.category is Category.SMALL_GRID for each in limits
    ):
        return f"{kernels}, {'each with' if count > 1 else 'with'} too few blocks for the GPU"
    unmeasured = [rule for rule in diagnosis.skipped if rule.startswith("kernel-")]
    checked = "" if not unmeasured else " among what was measured"
    return f"{kernels}, none with a problem worth fixing first{checked}"


def _rates(trace: Trace) -> str:
    """How much the longest kernel computed and moved, as a part of a sentence; empty where that was not counted."""
    found = []
    for kernel in trace.kernels:
        cycles, per_second = kernel.number(_CYCLES), kernel.number(f"{_CYCLES}.per_second")
        if cycles and per_second and (moved := kernel.number("dram__bytes.sum")) is not None:
            found.append((cycles / per_second, moved, kernel))
    took, moved, longest = max(found, key=lambda each: each[0], default=(0.0, 0.0, None))
    if longest is None:
        return ""
    counts = (
        (1 + (kind == "fma")) * (longest.number(_OPERATIONS.format(width + kind)) or 0.0)
        for width in "dfh"
        for kind in ("add", "mul", "fma")
    )
    name = shortened(kernel_name(longest.name), MAX_NAME_LENGTH)
    speed = f"at {operations(sum(counts) / took)} and {rate(moved / took)} of DRAM"
    return f"; {name} takes {duration(took * 1e9)}, {speed}"


def _of_dispatches(trace: Trace) -> str:
    """What a list of AMD's that states neither times nor counters tells: what was started how often; else empty."""
    if not is_amd(trace):
        return ""
    names = Counter(each.name for each in trace.kernels)
    (name, most), count = names.most_common(1)[0], len(trace.kernels)
    listing = (
        f"{count:,} dispatch{'es' if count > 1 else ''} of {len(names)} kernel{'s' if len(names) > 1 else ''}"
    )
    often = f", {most:,} of them of {shortened(kernel_name(name), MAX_NAME_LENGTH)}" if len(names) > 1 else ""
    return f"A list of {listing}{often}, without times or counters (rocprofv3 --kernel-trace records times)"


def _longest_of(trace: Trace) -> str:
    """Which kernel took most of the profiled time; empty where no time was stated, or nothing is to be compared."""
    whole, groups = profiled_ns(trace), groups_of_all_grids(trace.kernels)
    if not whole or len(groups) < 2:
        return ""
    name = shortened(kernel_name(groups[0].representative.name), MAX_NAME_LENGTH)
    return f", {percent(groups[0].total_ns / whole)} of their time in {name}"


def _measured_by_amd(kernel: KernelProfile) -> str:
    """What AMD's derived counters say of one kernel, in brackets; empty without them."""
    known = ((words, kernel.number(name)) for name, words in _OF_AMD.items())
    told = [
        words.format(percent(value / 100)) for words, value in known if value is not None and value <= 100
    ]
    return f" ({', '.join(told)})" if told else ""


def _of_the_longest(trace: Trace, limits: list[Finding]) -> Finding | None:
    """What limits the kernel that takes most of the profiled time; None where none does, or nothing is known of it."""
    longest = groups_of_all_grids(trace.kernels)[0]
    if longest.count < len(trace.kernels) and longest.total_ns < MAJORITY * profiled_ns(trace):
        return None
    return next((each for each in limits if each.kernel == longest.representative.id), None)
