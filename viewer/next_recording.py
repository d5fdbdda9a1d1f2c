"""Which recording would tell what this one cannot: the request that belongs to a finding or a kernel; no Qt."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from parsers.model import EventKind, Trace
from rules import Category, Finding
from rules.analysis.kernel_names import base_name
from viewer.capture.request import CaptureRequest, NcuOptions, Tool, TorchOptions, Window

PROFILED_LAUNCHES = 3
LATER_STEPS = Window(skip_first=10, warmup=3)


def recording_for(finding: Finding, trace: Trace) -> tuple[str, CaptureRequest] | None:
    """What a button should say and which recording it should offer; None when no recording would tell more."""
    kernel = next((each.event for each in finding.evidence if _is_kernel(trace, each.event)), -1)
    if finding.category in _ABOUT_KERNELS and kernel >= 0:
        return "Profile the longest kernel with Nsight Compute", kernel_recording(trace, kernel)
    make = _BY_CATEGORY.get(finding.category)
    if make is None:
        return None
    text, request = make()
    already = (request.torch.stacks and trace.capture.with_stack) or (
        request.torch.memory and trace.capture.profile_memory
    )
    return None if already else (text, request)


def kernel_recording(trace: Trace, event: int) -> CaptureRequest:
    """Nsight Compute on one kernel of the timeline: its name, and how many launches of it come before.

    The skip counts launches inside this recording; a program that ran longer before it needs a larger one.
    """
    events = trace.events
    same = events.of_kind(EventKind.KERNEL)
    same = same[events.name[same] == events.name[event]]
    before = int(np.count_nonzero(events.start[same] < events.start[event]))
    name = base_name(trace.name(event)).rsplit("::", 1)[-1]
    options = NcuOptions(kernel_name=name, launch_skip=before, launch_count=PROFILED_LAUNCHES, range="whole")
    return CaptureRequest(tool=Tool.NCU, ncu=options)


def _is_kernel(trace: Trace, event: int) -> bool:
    return event >= 0 and trace.events.kind[event] == EventKind.KERNEL


def _with_stacks() -> tuple[str, CaptureRequest]:
    return "Record with Python stacks", CaptureRequest(torch=TorchOptions(stacks=True))


def _with_memory() -> tuple[str, CaptureRequest]:
    return "Record with memory", CaptureRequest(torch=TorchOptions(memory=True))


def _without_extras() -> tuple[str, CaptureRequest]:
    return "Record without stacks and memory", CaptureRequest()


def _later_steps() -> tuple[str, CaptureRequest]:
    return "Record later steps", CaptureRequest(window=LATER_STEPS)


_ABOUT_KERNELS = frozenset(
    {Category.MEMORY_BOUND_KERNELS, Category.NO_TENSOR_CORES, Category.GEMM_SHAPE, Category.GPU_BOUND}
)
_BY_CATEGORY: dict[Category, Callable[[], tuple[str, CaptureRequest]]] = {
    Category.HOST_BOUND: _with_stacks,
    Category.INPUT_BOUND: _with_stacks,
    Category.SYNCHRONIZATION: _with_stacks,
    Category.ALLOCATOR: _with_memory,
    Category.MEMORY_PEAK: _with_memory,
    Category.RECORDING_OVERHEAD: _without_extras,
    Category.WARM_UP: _later_steps,
    Category.VARIABILITY: _later_steps,
}
