"""When a thread waited for Python's lock while other threads of its process ran Python."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, EventKind, derived_by
from parsers.model.events import of_kinds
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, durations, measure, union
from rules.analysis.idle.threads import is_users_frame

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
