"""The kernel that takes most of a GPU's time: where one takes most of it, that is what limits the program."""

from __future__ import annotations

from parsers.model import EventKind, derived
from parsers.model.late import dataclass
from parsers.model.names.kernels import kernel_name
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import time_by_name
from rules.analysis.gpu.inside_window import operations
from rules.analysis.names.families import Family


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
