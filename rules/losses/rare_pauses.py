"""Pauses that a few of a program's steps hold on the CPU, and what of a loss every step has."""

from __future__ import annotations

import numpy as np

from parsers.model import I64
from parsers.model.arrays import median_of
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, measure
from rules.analysis.cpu.cpu_time import CpuTime
from rules.terms import MAJORITY, NEARLY_ALL

MIN_STEPS = 3  # of two, nobody knows which one is usual
MORE = 2.0  # times the median step has of a loss: less is what steps differ by


def few_of_steps(analysis: Analysis, time: CpuTime, lost: Intervals) -> tuple[int, int]:
    """How few of how many steps hold nearly all of a loss, given as disjoint intervals; 0 where most share it."""
    of_step = measure(lost, *_steps(analysis, time))
    largest = np.cumsum(np.sort(of_step)[::-1])
    if len(of_step) < MIN_STEPS or not largest[-1]:
        return 0, len(of_step)
    few = int(np.searchsorted(largest, NEARLY_ALL * largest[-1])) + 1
    return few if few <= MAJORITY * len(of_step) else 0, len(of_step)


def rare_pauses(analysis: Analysis, time: CpuTime, lost: Intervals) -> tuple[Intervals, Intervals]:
    """The longest intervals of the few steps that lose far more than the median one, and all others.

    As many of such a step as make it lose what the median one does.
    """
    begins, ends = _steps(analysis, time)
    of_step = measure(lost, begins, ends)
    start, end = lost
    rare = np.zeros(len(start), bool)
    usual = float(median_of(of_step)) if len(of_step) >= MIN_STEPS else np.inf
    for step in np.flatnonzero(of_step > MORE * usual).tolist():
        mine = np.flatnonzero((start < ends[step]) & (end > begins[step]))
        took = np.minimum(end[mine], ends[step]) - np.maximum(start[mine], begins[step])
        longest = np.argsort(-took, kind="stable")
        left = of_step[step] - np.cumsum(took[longest])
        rare[mine[longest[: int(np.count_nonzero(left > usual)) + 1]]] = True
    return (start[rare], end[rare]), (start[~rare], end[~rare])


def _steps(analysis: Analysis, time: CpuTime) -> tuple[I64, I64]:
    """When the steady steps of the thread's rank begin and end."""
    rank = analysis.threads.keys[time.thread][0]
    steps = [each for each in analysis.steady_steps if each.rank is None or each.rank == rank]
    begins, ends = (
        np.array(each, np.int64) for each in ([of.start for of in steps], [of.end for of in steps])
    )
    return begins, ends
