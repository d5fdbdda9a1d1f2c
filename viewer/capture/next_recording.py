"""Which recording would tell what this one cannot: the request that belongs to a finding or a kernel; no Qt."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I64, EventKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.names.kernels import base_name
from rules import Finding
from rules.findings.category import NextRecording
from viewer.capture.request import CaptureRequest, NcuOptions, Tool, TorchOptions, Window

PROFILED_LAUNCHES = 3
LATER_STEPS = Window(skip_first=10, warmup=3)


def recording_for(finding: Finding, trace: Trace) -> tuple[str, CaptureRequest] | None:
    """What a button should say and which recording it should offer; None when no recording would tell more."""
    kernel = next((each.event for each in finding.evidence if _is_kernel(trace, each.event)), -1)
    wanted = finding.category.next_recording
    if wanted is NextRecording.KERNEL_COUNTERS and kernel >= 0:
        return "Profile its longest kernel", kernel_recording(trace, kernel)
    if wanted not in _RECORDINGS:
        return None
    text, request = _RECORDINGS[wanted]
    already = (request.torch.stacks and trace.capture.with_stack) or (
        request.torch.memory and trace.capture.profile_memory
    )
    return None if already else (text, request)


def kernel_recording(trace: Trace, event: int) -> CaptureRequest:
    """Nsight Compute on one kernel of the timeline: its name, and how many launches of it come before.

    ncu compares the function's name, so every instance of a template counts, in the order of the launches. It counts
    from where it is switched on: from the beginning of the step, or from that of the program where there are no steps.
    """
    events = trace.events
    kernels = events.of_kind(EventKind.KERNEL)
    kernels = kernels[_same_process(trace, event)[events.lane[kernels]]]
    name = base_name(trace.name(event))
    names = distinct_values(events.name[kernels])
    alike = names[[base_name(trace.strings[each]) == name for each in names]]
    same = kernels[np.isin(events.name[kernels], alike)]
    launched = _launch_times(trace, same)
    own = _launch_times(trace, np.array([event]))[0]
    steps = events.start[events.of_kind(EventKind.STEP)]
    begun = steps[steps <= own]
    before = int(np.count_nonzero((launched < own) & (launched >= begun.max(initial=0))))
    options = NcuOptions(
        kernel_name=name,
        launch_skip=before,
        launch_count=PROFILED_LAUNCHES,
        range="steps" if len(begun) else "whole",
    )
    return CaptureRequest(tool=Tool.NCU, ncu=options, window=Window(active=1))


def _same_process(trace: Trace, event: int) -> BOOL:
    """Whether each lane belongs to the rank and device of the event's lane."""
    own = trace.lanes[trace.events.lane[event]]
    return np.array([(lane.rank, lane.device) == (own.rank, own.device) for lane in trace.lanes])


def _launch_times(trace: Trace, operations: I64) -> I64:
    """When each operation was launched; when it began where that was not recorded."""
    launch = trace.links.launch_of(operations)
    times: I64 = trace.events.start[np.where(launch >= 0, launch, operations)]
    return times


def _is_kernel(trace: Trace, event: int) -> bool:
    return event >= 0 and trace.events.kind[event] == EventKind.KERNEL


_RECORDINGS = {
    NextRecording.STACKS: ("Record with Python stacks", CaptureRequest(torch=TorchOptions(stacks=True))),
    NextRecording.MEMORY: ("Record with memory", CaptureRequest(torch=TorchOptions(memory=True))),
    NextRecording.WITHOUT_EXTRAS: ("Record without stacks and memory", CaptureRequest()),
    NextRecording.LATER_STEPS: ("Record later steps", CaptureRequest(window=LATER_STEPS)),
}
