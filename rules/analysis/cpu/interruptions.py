"""Which times of a thread are so long because something else had the CPU, and which because the program took them."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I64, EventKind
from rules.analysis.arithmetic.intervals import Intervals
from rules.analysis.idle.threads import ThreadActivity
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


def medians_of_kinds(took: I64, *kind: I64) -> tuple[I64, I64]:
    """For each time the (upper) median of those of its kind, and how many these are."""
    order = np.lexsort((took, *kind))
    differs = np.any([np.diff(each[order]) != 0 for each in kind], axis=0)
    first = np.flatnonzero(np.append(True, differs))[: len(order)]
    count = np.diff(np.append(first, len(order)))
    median, many = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    median[order] = np.repeat(took[order][first + count // 2], count)
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
