"""Which times of a thread are long because something else had the CPU, or another thread Python's lock."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I64, EventKind, derived_by
from parsers.model.events import of_kinds
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, durations, measure, union
from rules.analysis.idle.threads import ThreadActivity, is_users_frame
from rules.terms import MAJORITY

LONG_GAP_NS = 100_000  # between two operators: a shorter gap is what calling the next one takes
# Linux shares out a container's CPU quota anew that often (cpu.cfs_period_us)
MAX_INTERRUPTION_NS = 100_000_000
MANY_TIMES = 10  # as long as usual: on a crowded machine all takes several times as long


def interrupted_among(took: I64, usual: I64) -> BOOL:
    """Which of some times are so much longer than usual that something else had the CPU."""
    return (took - usual >= LONG_GAP_NS) & (usual < MAJORITY * took)


def too_long(took: I64, usual: I64) -> BOOL:
    """Which of some times are so much longer than usual that nothing else can have had the CPU for so long."""
    return (took - usual > MAX_INTERRUPTION_NS) & (took > MANY_TIMES * usual)


def medians_of_kinds(took: I64, *kind: I64, upper: bool = True) -> tuple[I64, I64]:
    """For each time the upper or lower median of those of its kind, and how many these are."""
    order = np.lexsort((took, *kind))
    differs = np.any([np.diff(each[order]) != 0 for each in kind], axis=0)
    first = np.flatnonzero(np.append(True, differs))[: len(order)]
    count = np.diff(np.append(first, len(order)))
    median, many = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    median[order] = np.repeat(took[order][first + (count - (not upper)) // 2], count)
    many[order] = np.repeat(count, count)
    return median, many


def holds_rare_calls(activity: ThreadActivity, window: tuple[int, int], gaps: Intervals, among: BOOL) -> BOOL:
    """Which of some gaps are mostly in a function that they begin, and that is never quicker elsewhere."""
    (start, end), table = gaps, activity.trace.events
    frames = activity.of_kind(EventKind.PYTHON)
    frames = frames[(table.start[frames] >= window[0]) & (table.start[frames] < window[1])]
    found, places = np.zeros(len(start), bool), np.flatnonzero(among)
    if not len(frames) or not len(places):
        return found
    begin, name = table.start[frames], table.name[frames]
    gap = places[np.maximum(np.searchsorted(start[places], begin, side="right") - 1, 0)]
    mine = np.minimum(table.end[frames], end[gap]) - begin
    mostly = (begin >= start[gap]) & (mine >= MAJORITY * (end - start)[gap])
    least = np.full(int(name.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, name[mostly], mine[mostly])
    quick = np.bincount(name[table.duration[frames] < MAJORITY * least[name]], minlength=len(least)) > 0
    found[gap[mostly & ~quick[name]]] = True
    return found


# A thread that has Python's lock gives it up 5 ms after another one asked for it (sys.getswitchinterval).
INTERVAL_NS = 5_000_000
ABOUT = (0.96, 1.25)  # times the interval: how long a wait lasts that ends by it, as the system sees it
MIN_STRETCH_NS = 1_000_000  # without any record: a shorter one may be anything
MOSTLY = 0.6  # of a stretch the others must be seen at work
MIN_WAITS = 3  # as long as the interval: then the thread waits for this lock and no other
_TIMED_WAIT = "pthread_cond_timedwait"
_NONE: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))


@derived_by
def lock_waits(analysis: Analysis, members: tuple[int, ...]) -> Intervals:
    """The waits of one logical thread (ns), as disjoint intervals; none where the recording shows neither sign.

    Frames of Python are recorded by whoever has the lock: where this thread records nothing for a while and others go
    from frame to frame, they have it. Nsight Systems records the waits themselves: each ends after the interval.
    """
    if not {EventKind.PYTHON, EventKind.OS_RUNTIME} & analysis.trace.kinds:
        return _NONE
    timed = _timed_waits(analysis, members)
    others = others_at_work(analysis, members)
    if not len(others[0]):
        return timed
    trace = analysis.trace
    own = np.concatenate([analysis.threads.events(each) for each in members])
    own = own[of_kinds(trace.events.kind[own], EventKind.CPU_OP, EventKind.API, EventKind.PYTHON)]
    edges = np.sort(np.concatenate(trace.events.spans(own)))
    long = np.flatnonzero(np.diff(edges) >= MIN_STRETCH_NS)
    start, end = edges[long], edges[long + 1]
    denied = measure(others, start, end) >= MOSTLY * (end - start)
    return union(np.concatenate((timed[0], start[denied])), np.concatenate((timed[1], end[denied])))


def others_at_work(analysis: Analysis, members: tuple[int, ...]) -> Intervals:
    """When other threads of the same process went from frame to frame."""
    threads, trace = analysis.threads, analysis.trace
    mine = {threads.keys[each][:2] for each in members}
    parts = []
    for each, key in enumerate(threads.keys):
        if key[:2] in mine and each not in members:
            frames = _frames(analysis, each)
            parts.append(np.concatenate(trace.events.spans(frames)))
    edges = np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    apart = np.diff(edges)
    near = np.flatnonzero((apart > 0) & (apart <= ABOUT[1] * INTERVAL_NS))
    return union(edges[near], edges[near + 1])


def busiest_frame(analysis: Analysis, members: tuple[int, ...], waits: Intervals) -> str:
    """The user's frame in which other threads of the same process were longest during these waits; empty without."""
    threads, trace = analysis.threads, analysis.trace
    mine = {threads.keys[each][:2] for each in members}
    others = [
        _frames(analysis, each)
        for each, key in enumerate(threads.keys)
        if key[:2] in mine and each not in members
    ]
    frames = np.concatenate(others) if others else np.empty(0, np.int64)
    frames = frames[named(trace, frames, is_users_frame)]
    if not len(frames):
        return ""
    names = trace.events.name[frames]
    spent = np.bincount(names, measure(waits, *trace.events.spans(frames)))
    depth = np.bincount(names, trace.events.depth[frames]) / np.maximum(np.bincount(names), 1)
    most = np.flatnonzero(spent >= MOSTLY * spent.max())
    return trace.strings[int(most[np.argmax(depth[most])])] if spent.max() > 0 else ""


def _frames(analysis: Analysis, thread: int) -> I64:
    events = analysis.threads.events(thread)
    return analysis.trace.events.only(events, EventKind.PYTHON)


def _timed_waits(analysis: Analysis, members: tuple[int, ...]) -> Intervals:
    trace = analysis.trace
    events = np.concatenate([analysis.threads.events(each) for each in members])
    events = trace.events.only(events, EventKind.OS_RUNTIME)
    waits = events[named(trace, events, lambda name: name == _TIMED_WAIT)]
    lasted = durations(trace, waits)
    whole = (lasted >= ABOUT[0] * INTERVAL_NS) & (lasted <= ABOUT[1] * INTERVAL_NS)
    if np.count_nonzero(whole) < MIN_WAITS or np.count_nonzero(lasted > ABOUT[1] * INTERVAL_NS):
        return _NONE
    return union(*trace.events.spans(waits))
