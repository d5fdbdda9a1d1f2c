"""What ran on the GPUs and what was called on the CPU inside the analysed window, and which operator launched what."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from parsers.model import BOOL, I64, EventKind, derived_by
from parsers.model.events import of_kinds
from parsers.model.names.calls import Call
from parsers.model.names.per_name import distinct
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import durations
from rules.analysis.names.families import Family


@derived_by
def operations(
    analysis: Analysis, device: int, *kinds: EventKind, within: tuple[int, int] | None = None
) -> I64:
    """GPU operations of one device that start inside the window, or ``within`` another time, by start.

    Of these kinds, or of all.
    """
    trace = analysis.trace
    found = trace.operations_of_device(device)
    first, last = np.searchsorted(trace.events.start[found], within or analysis.window).tolist()
    found = found[first:last]
    wanted = of_kinds(trace.events.kind[found], *kinds) if kinds else np.ones(1, bool)
    return found if wanted.all() else found[wanted]


def of_family(analysis: Analysis, events: I64, *families: Family) -> I64:
    """Those of the operations that belong to these kernel families."""
    return events[of_kinds(analysis.family_of_string, *families)[analysis.trace.events.name[events]]]


def of_type(analysis: Analysis, events: I64, *types: str) -> BOOL:
    """Whether each operation is a kernel that calculates with one of these types, such as "fp64"."""
    names = analysis.trace.events.name[events]
    found = np.zeros(len(analysis.trace.strings), bool)
    for name in distinct(names).tolist():
        found[name] = analysis.classes[name].dtype in types
    return found[names]


def api_calls(analysis: Analysis, device: int, *classes: Call) -> I64:
    """API calls of these classes, by the threads that drive a device, that overlap the window, by start."""
    events = analysis.trace.events
    t0, t1 = analysis.window
    found = analysis.threads.calls(analysis.threads.drivers(device)[0], *classes)
    return found[(events.end[found] > t0) & (events.start[found] < t1)]


def total(analysis: Analysis, events: I64) -> int:
    """Summed duration of events, ns."""
    return int(durations(analysis.trace, events).sum())


def busiest_device(analysis: Analysis, events: Mapping[int, I64]) -> int | None:
    """The device whose events last longest in all; None where there are none."""
    device = max(events, key=lambda each: total(analysis, events[each]), default=None)
    return device if device is not None and len(events[device]) else None


def operator_of(analysis: Analysis, operation: int) -> int:
    """The innermost operator around the call that launched an operation; -1 where that was not recorded."""
    launch = int(analysis.trace.links.launch_of(np.array([operation], np.int64))[0])
    if launch < 0:
        return -1
    thread = int(analysis.threads.of_events(np.array([launch], np.int64))[0])
    if thread < 0:
        return -1
    at = np.array([analysis.trace.events.start[launch]], np.int64)
    return int(analysis.threads.activity(thread).operators.at(at)[0])
