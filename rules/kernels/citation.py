"""What Nsight Compute measured about kernels of the timeline, as one sentence that other findings can cite."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, KernelProfile, Trace
from parsers.model.names.kernels import base_name


def measured_sentence(trace: Trace, events: I64) -> str:
    """Counters of the profiled kernel that takes most of the time of ``events``; empty when none was profiled."""
    if not trace.kernels or not len(events):
        return ""
    from rules.kernels.join import Certainty, kernel_join

    join = kernel_join(trace)
    mine = np.isin(join.event, events) & (join.certainty >= Certainty.AMBIGUOUS)
    if not mine.any():
        return ""
    time = np.bincount(join.profile[mine], trace.events.duration[join.event[mine]].astype(np.float64))
    return profile_sentence(trace.kernels[int(time.argmax())])


def profile_sentence(kernel: KernelProfile) -> str:
    """The main verdict on one profiled launch, with its numbers."""
    from rules.kernels.checks.speed_of_light import dram_percent, speed_of_light
    from rules.kernels.roofline import nearest_roof

    sol = speed_of_light(kernel)
    if sol is None:
        return ""
    dram = dram_percent(kernel)
    roof = nearest_roof(kernel)
    parts = [f"{sol.compute:.0f} % of the compute and {sol.memory:.0f} % of the memory throughput"]
    if dram is not None:
        parts.append(f"{dram:.0f} % of the DRAM bandwidth")
    if roof is not None:
        parts.append(roof.text)
    return f"Nsight Compute measured {base_name(kernel.name)} at {', '.join(parts)}: {sol.bound.value}."
