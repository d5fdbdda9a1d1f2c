"""Why some ranks are late: what they do more of than the others, in the same time."""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import replace
from enum import Enum, auto

import numpy as np

from parsers.model.arrays import BOOL, F64, I64, median_of, without
from parsers.model.late import dataclass
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.lateness import Lateness
from rules.analysis.ranks.run import COMPUTE, COPIES, FIRST_IDLE, RunOfRanks

MIN_SHARE = 0.005  # of the time: who takes no longer than that himself was held up before
CLEARLY_MORE = 0.05  # of the time: what is told beside the largest
ALIKE = 0.05  # counts and blocks that differ by less are the same work
MIN_MATCHED = 0.8  # of the slow GPU's kernel time must be in kernels that the others run as often
CLEARLY_SLOWER = 1.05  # times as long for the same kernels: GPUs of one kind differ by 1 to 3 %
MIN_LARGER = 0.02  # of its kernel time must be in kernels with larger grids than the others'
EXPLAINED = 1.2  # times the work: as long the kernels whose grids are the same on all ranks may take for it
MORE_WORK = 1.05  # times the blocks of the others: they have more to compute
SLOWER_CLOCK = 0.95  # times the others' clock
OF_ITS_OWN = (
    Cause.HOST, Cause.INPUT, Cause.LAUNCH, Cause.SYNCHRONIZATION, Cause.ALLOCATOR, Cause.UNKNOWN,
)  # fmt: skip


class Why(Enum):
    """What late ranks do more of."""

    CLOCK = auto()  # they compute at a lower clock
    SLOW = auto()  # they compute the same work more slowly
    MORE = auto()  # they have more to compute
    COMPUTES = auto()
    COPIES = auto()
    IDLE = auto()  # for one ``cause``
    HELD_UP = auto()  # nothing of their own: what they waited for before came late


@dataclass(frozen=True, slots=True)
class Reason:
    """``share`` of the time and ``ns`` a step beyond the others' median; ``times`` the others' work, or kernel time."""

    why: Why
    share: float = 0.0
    ns: int = 0
    cause: Cause | None = None
    culprit: str = ""
    clock: tuple[float, float] | None = None  # MHz: theirs, and the others'
    times: float = 1.0


def reasons_of(lateness: Lateness, rows: I64, late: I64, steps: I64 | None = None) -> tuple[Reason, ...]:
    """What these rows do more of than those of their stages that are not ``late``, the most first.

    In some steps (indices), or in the analysed time. Empty where that is not known: where nothing tells, or nothing
    but communication was recorded.
    """
    run = lateness.run
    every = np.arange(len(run.rows))
    like = np.flatnonzero(np.isin(lateness.stage, lateness.stage[rows]))
    others = next(
        (
            each
            for each in (without(like, [*rows, *late]), without(like, rows), without(every, rows))
            if len(each)
        ),
        every[:0],
    )
    if not len(others) or (steps is not None and not len(steps)) or not run.parts[:, COMPUTE].any():
        return ()
    time = run.parts if steps is None else run.by_step[:, steps].sum(axis=1)
    whole = max(run.window_ns if steps is None else float(time[rows].sum(axis=1).mean()), 1)
    count = max(run.steps_in_window if steps is None else len(steps), 1)
    more = time[rows].mean(axis=0) - median_of(time[others], axis=0)
    kinds = [Reason(Why.COMPUTES), Reason(Why.COPIES), *(Reason(Why.IDLE, cause=each) for each in OF_ITS_OWN)]
    parts = [COMPUTE, COPIES, *(FIRST_IDLE + each for each in OF_ITS_OWN)]
    found = [
        replace(kind, share=float(more[part]) / whole, ns=int(more[part] / count))
        for kind, part in zip(kinds, parts, strict=True)
    ]
    found.sort(key=lambda each: -each.share)
    if found[0].share < MIN_SHARE:
        waited = lateness.blamed[rows] if steps is None else lateness.blamed[np.ix_(rows, steps)]
        return (Reason(Why.HELD_UP),) if waited.sum() else ()
    told = [found[0], *(each for each in found[1:] if each.share >= CLEARLY_MORE)]
    return tuple(
        _computing(run, each, rows, others, steps)
        if each.why is Why.COMPUTES
        else replace(each, culprit=_culprit(run, rows, each.cause))
        if each.cause is not None
        else each
        for each in told
    )


def _computing(run: RunOfRanks, reason: Reason, rows: I64, others: I64, steps: I64 | None) -> Reason:
    """Why they compute longer: a lower clock, a slower GPU, or more work."""

    def of(values: F64, which: I64) -> F64:
        return values[which] if steps is None else values[np.ix_(which, steps)]

    clock = run.reading("clock")
    own, usual = of(clock, rows), of(clock, others)
    if np.isfinite(own).any() and np.isfinite(usual).any():
        pair = float(np.nanmedian(own)), float(np.nanmedian(usual))
        if pair[0] < SLOWER_CLOCK * pair[1]:
            return replace(reason, why=Why.CLOCK, clock=pair)
    times, work = compared_kernels(run, int(rows[0]), others)
    if work >= MORE_WORK and times <= EXPLAINED * work:
        return replace(reason, why=Why.MORE, times=work)
    if times >= CLEARLY_SLOWER:
        return replace(reason, why=Why.SLOW, times=times)
    blocks = run.reading("blocks")
    own, usual = of(blocks, rows), of(blocks, others)
    if np.isfinite(own).any() and np.isfinite(usual).any():
        work = float(np.nanmean(own)) / max(float(np.nanmedian(usual)), 1.0)
        if work >= MORE_WORK:
            return replace(reason, why=Why.MORE, times=work)
    return reason


def compared_kernels(run: RunOfRanks, row: int, others: I64) -> tuple[float, float]:
    """How many times as long the same kernels take as on the others' median, and how many times the work others have.

    The same kernels run equally often, with equally large grids; 0 where most of the work is done by others. Larger
    grids are more work; 0 where next to nothing is done by such kernels. A grid that is as large on all ranks may
    also follow from the GPU: then the kernel says nothing of the work. Grids must have been recorded.
    """
    mine = run.kernels(row)
    if not len(mine.name) or not len(others):
        return 0.0, 0.0
    theirs = np.zeros((3, len(others), len(mine.name)))
    for index, other in enumerate(others.tolist()):
        found = run.kernels(other)
        _, here, there = np.intersect1d(mine.name, found.name, assume_unique=True, return_indices=True)
        for which, column in enumerate((found.count, found.time, found.blocks)):
            theirs[which, index, here] = column[there]
    usual_count, usual_time, usual_blocks = median_of(theirs, axis=1)
    often = _alike(mine.count, usual_count) & (usual_blocks > 0)
    same = often & _alike(mine.blocks, usual_blocks)
    larger = often & ~same & (mine.blocks > usual_blocks)
    whole = mine.time.sum()
    times = work = 0.0
    if mine.time[same].sum() >= MIN_MATCHED * whole and usual_time[same].sum():
        times = float(mine.time[same].sum() / usual_time[same].sum())
    if mine.time[larger].sum() >= MIN_LARGER * whole and larger.any():
        work = float(mine.blocks[larger].sum() / usual_blocks[larger].sum())
    return times, work


def _alike(own: I64, usual: F64) -> BOOL:
    return np.asarray(np.abs(own - usual) <= ALIKE * np.maximum(own, usual))


def _culprit(run: RunOfRanks, rows: I64, cause: Cause) -> str:
    """For whom most of the rows idle by this cause."""
    tally: Tally[str] = Tally()
    for row in rows.tolist():
        for each in run.culprits(row):
            if each.cause == cause:
                tally[each.text] += each.ns
    return tally.most_common(1)[0][0] if tally else ""
