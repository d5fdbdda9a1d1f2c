"""When a thread was off the processor, and what it waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from parsers.model import BOOL, I64, EventKind, derived_by
from parsers.model.names.per_name import named
from parsers.model.names.sleeping import WaitFor, is_processor, may_wait_for, waits_for
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import EMPTY, Intervals, complement, durations, subtract, union

MIN_ASLEEP_NS = 100_000  # a shorter call may return at once, and a shorter break is an interruption
EDGE_NS = 50_000  # by which the clocks of the scheduler and of the recorder may differ
_RECORDED = (EventKind.API, EventKind.OS_RUNTIME, EventKind.CPU_OP, EventKind.REGION, EventKind.PYTHON)


@derived_by
def running(analysis: Analysis, thread: int) -> Intervals | None:
    """When a thread was on a processor; None where the recording does not hold that."""
    trace = analysis.trace
    events = trace.events.only(analysis.threads.events(thread), EventKind.OTHER)
    events = events[named(trace, events, is_processor)]
    return union(*trace.events.spans(events)) if len(events) else None


@derived_by
def asleep(analysis: Analysis, thread: int) -> Mapping[WaitFor, Intervals]:
    """When a thread slept or waited (ns), disjoint by what for; without its calls of CUDA, which wait for the GPU.

    Calls of the operating system say what for. Where it is known when the thread ran, they count while it did not, and
    the rest of that time as unknown: but for times in which it is known to have done something, whose records lack.
    """
    trace = analysis.trace
    table, events = trace.events, analysis.threads.events(thread)
    calls = table.only(events, EventKind.OS_RUNTIME)
    calls = calls[durations(trace, calls) >= MIN_ASLEEP_NS]
    ran = running(analysis, thread)
    left = (np.zeros(1, np.int64), np.array([trace.duration], np.int64))
    if ran is not None:
        left = _credible(complement(ran, 0, trace.duration), table.start[table.only(events, *_RECORDED)])
    api = table.only(events, EventKind.API)
    left = subtract(left, union(*table.spans(api)))
    reason = waits_for if ran is None else may_wait_for
    found: dict[WaitFor, Intervals] = {}
    for kind in (WaitFor.TIMER, WaitFor.IO, WaitFor.THREAD):
        mine = calls[named(trace, calls, _of_kind(reason, kind))]
        rest = subtract(left, union(*table.spans(mine)))
        found[kind], left = subtract(left, rest), rest
    return found | {WaitFor.UNKNOWN: left if ran is not None else EMPTY}


def _of_kind(reason: Callable[[str], WaitFor | None], kind: WaitFor) -> Callable[[str], bool]:
    return lambda name: reason(name) is kind


def _credible(off: Intervals, begun: I64) -> Intervals:
    """Those stretches off the processor that are long, and within which the thread begins nothing."""
    start, end = off
    begun = np.sort(begun)
    inside = np.searchsorted(begun, end - EDGE_NS) - np.searchsorted(begun, start + EDGE_NS)
    good: BOOL = (end - start >= MIN_ASLEEP_NS) & (inside <= 0)
    return start[good], end[good]
