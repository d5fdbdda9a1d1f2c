"""Kernels that a program launches itself, and the kernel that takes most of a GPU's time."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I64, EventKind, Trace, derived
from parsers.model.late import dataclass, regex
from parsers.model.names.kernels import kernel_name
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import time_by_name
from rules.analysis.gpu.inside_window import operations
from rules.analysis.names.families import Family

_OF_LIBRARIES = regex(
    r"(?i)::|nccl|nvjet|cutlass|cublas|cudnn|\bsm\d\d|ampere|hopper|volta|turing|^triton_(poi|red|per|tem|for|mm)|^Mem"
)


def has_own_name(trace: Trace, kernels: I64) -> BOOL:
    """Which kernels have no name of a library or a compiler, whose users do not launch them themselves."""
    return ~named(trace, kernels, _OF_LIBRARIES.search)


def launched_alone(analysis: Analysis, kernels: I64) -> I64:
    """The places of those kernels that no operator launched."""
    launch = analysis.trace.links.launch_of(kernels)
    at = np.flatnonzero(launch >= 0)
    launch = launch[at]
    alone = np.zeros(len(at), bool)
    for activity, mine in analysis.threads.by_thread(launch):
        alone[mine] = activity.operators.at(analysis.trace.events.start[launch[mine]]) < 0
    return at[alone]


@dataclass(frozen=True, slots=True)
class LongestKernel:
    """``share`` is the part of the analysed time that all launches of the kernel take."""

    name: str
    family: Family
    share: float


@derived
def longest_kernel(analysis: Analysis) -> LongestKernel | None:
    """Of the GPU that computes least; None without kernels."""
    device = min(analysis.active_devices, key=lambda each: analysis.budgets(each).compute_ns, default=None)
    if device is None or analysis.window_ns <= 0:
        return None
    trace = analysis.trace
    kernels = operations(analysis, device, EventKind.KERNEL)
    if not len(kernels):
        return None
    took = time_by_name(trace, kernels)
    longest = int(took.argmax())
    return LongestKernel(
        kernel_name(trace.strings[longest]),
        list(Family)[int(analysis.family_of_string[longest])],
        float(took.max()) / analysis.window_ns,
    )
