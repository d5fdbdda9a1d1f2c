"""Pauses of a thread at places that change from step to step: something else had its CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model import BOOL, I32, I64, Trace
from parsers.model.arrays import median_of
from parsers.model.events import of_kinds
from rules.analysis.arithmetic.intervals import Intervals, union
from rules.analysis.idle.blocking import CAN_BLOCK
from rules.analysis.idle.threads import Threads
from rules.analysis.steps.steps import Step
from rules.terms import NEARLY_ALL, reason

SOMETHING_ELSE = reason("something else that has the CPU")
MIN_PAUSE_NS = 1_000_000  # schedulers take a CPU away for several ms
MIN_TIMES_USUAL = 4.0  # times the median of the same pause in all steps: of two, none is
MIN_A_STEP = 2.0  # on average: collections of garbage and page faults are rarer
MIN_SHARE = 0.05  # of the steps
MIN_STEPS = 3  # that are compared with one another; of fewer, rounds
MIN_ROUNDS = 8
MIN_CALLS = 5  # in a round: of fewer, nobody knows one place from another
MAX_IN_A_ROUND = 4  # times that a round makes the call by which rounds are told apart
_NONE: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))


def interruptions(trace: Trace, threads: Threads, thread: int, steps: Sequence[Step]) -> Intervals:
    """When a thread stood still though at the same place of most other steps it did not (ns); steps of one rank.

    Only steps with the same calls are compared, call by call; of fewer than three, the rounds that most of their calls
    make, such as layers. Nothing is told where such pauses are rare, short, all in a few steps or in the first half of
    the rounds: those have other causes. Calls that may wait for the GPU are never called interrupted.
    """
    calls, classes = threads.noted_calls(thread)
    if len(calls) < 2 or not steps:
        return _NONE
    start = trace.events.start[calls]
    before = np.append(start[0], np.maximum.accumulate(trace.events.end[calls])[:-1])
    first = np.searchsorted(start, [each.start for each in steps])
    last = np.searchsorted(start, [each.end for each in steps])
    whole, few = sum(each.duration for each in steps), len(steps) < MIN_STEPS
    if few:
        first, last = _rounds(trace.events.name[calls], int(first[0]), int(last[-1]))
    if not len(first) or not (alike := _alike(trace.events.name[calls], first, last)).any():
        return _NONE
    often = int((last - first)[alike][0])
    place = first[alike][:, None] + np.arange(often)
    pause = np.maximum(start - before, 0)[place]
    long = (pause >= MIN_PAUSE_NS) & (pause >= MIN_TIMES_USUAL * median_of(pause, axis=0))
    if few:
        rare = np.count_nonzero(long[len(long) // 2 :]) < MIN_A_STEP * len(steps)
    else:
        whole = sum(each.duration for each, same in zip(steps, alike.tolist(), strict=True) if same)
        rare = np.count_nonzero(long) < MIN_A_STEP * len(long)
        rare |= 2 * np.count_nonzero(long.any(axis=1)) < len(long)
    if rare or pause[long].sum() < MIN_SHARE * whole:
        return _NONE
    inside = (trace.events.end[calls] - start)[place]
    inside_long = (inside >= MIN_PAUSE_NS) & (inside >= MIN_TIMES_USUAL * median_of(inside, axis=0))
    between, within = place[long], place[inside_long & ~of_kinds(classes[place], *CAN_BLOCK)]
    return union(
        np.concatenate((before[between], start[within])),
        np.concatenate((start[between], trace.events.end[calls[within]])),
    )


def _rounds(names: I32, begin: int, end: int) -> tuple[I64, I64]:
    """First calls of rounds, and the ones after their last: they begin with a call that comes as often in each."""
    found, counts = np.unique(names[begin:end], return_counts=True)
    for index in np.argsort(counts, kind="stable")[np.count_nonzero(counts < MIN_ROUNDS) :].tolist():
        places = begin + np.flatnonzero(names[begin:end] == found[index])
        for each in range(1, min(MAX_IN_A_ROUND, len(places) // MIN_ROUNDS) + 1):
            apart = places[each:] - places[:-each]
            usual = int(median_of(apart))
            if usual >= MIN_CALLS and np.count_nonzero(apart == usual) >= NEARLY_ALL * len(apart):
                return places[:-each:each], places[each::each]
    return np.empty(0, np.int64), np.empty(0, np.int64)


def _alike(names: I32, first: I64, last: I64) -> BOOL:
    """Which steps make the same calls, each given by its first and the one after its last, as most steps do."""
    count = last - first
    values, often = np.unique(count, return_counts=True)
    usual = int(values[often.argmax()])
    same = (count == usual) & (usual > 0)
    if same.any():
        made = names[first[same][:, None] + np.arange(usual)]
        same[same] = (made == np.sort(made, axis=0)[len(made) // 2]).all(axis=1)
    return np.asarray(same)
