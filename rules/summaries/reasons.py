"""Why some ranks are late: what they do more of than the others in the same steps."""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass
from enum import Enum

import numpy as np

from parsers.model.arrays import I64
from rules.analysis.idle.causes import Cause
from rules.summaries.lateness import Lateness
from rules.summaries.states import COMPUTE, COPIES, FIRST_IDLE

LEAST_SHARE = 0.005  # of a step: who takes no longer than that himself was held up before
MORE_WORK = 1.05  # times the blocks of the others: they have more to compute
SLOWER_CLOCK = 0.95  # times the others' clock


class Why(Enum):
    """What late ranks do more of; the value completes "because ..."."""

    CLOCK = "its GPU runs at a lower clock"
    SLOW = "its GPU takes longer for the same work"
    MORE = "it has more to compute"
    COMPUTES = "it computes longer"
    COPIES = "it copies more"
    IDLE = "its GPU waits for its own CPU"
    TRANSFER = "it comes from a transfer that took longer"
    UNKNOWN = "nothing recorded says why"


@dataclass(frozen=True, slots=True)
class Reason:
    """``ns`` more a step than the others' median; ``cause`` and ``culprit`` where it idles more."""

    why: Why
    ns: int
    cause: Cause | None = None
    culprit: str = ""
    clock: tuple[float, float] | None = None  # MHz: theirs, and the others'
    work: float = 1.0  # times the blocks of the others

    @property
    def text(self) -> str:
        """ "clock 1,110 instead of 1,980 MHz", in a few words."""
        if self.why is Why.CLOCK and self.clock is not None:
            return f"clock {self.clock[0]:,.0f} instead of {self.clock[1]:,.0f} MHz"
        if self.why is Why.MORE:
            return f"{self.work - 1:.0%} more work"
        if self.why is Why.IDLE and self.cause is not None:
            return self.cause.label + (f" ({self.culprit})" if self.culprit else "")
        return _SHORT[self.why]


_SHORT = {
    Why.SLOW: "slower at the same work",
    Why.COMPUTES: "computes longer",
    Why.COPIES: "copies more",
    Why.TRANSFER: "held up by a slow transfer",
    Why.UNKNOWN: "not recorded",
    Why.CLOCK: "lower clock",
    Why.MORE: "more work",
    Why.IDLE: "waits for its CPU",
}


def reason_of(lateness: Lateness, rows: I64, steps: I64) -> Reason:
    """Why these rows are late in these steps (indices); compared with the other rows of their stages."""
    run = lateness.run
    others = np.setdiff1d(np.flatnonzero(np.isin(lateness.stage, lateness.stage[rows])), rows)
    if not len(others):
        others = np.setdiff1d(np.arange(len(run.rows)), rows)
    if not len(steps) or not len(others):
        return Reason(Why.UNKNOWN, 0)
    parts = run.by_step
    mine = parts[np.ix_(rows, steps)].mean(axis=(0, 1))
    theirs = np.median(parts[np.ix_(others, steps)], axis=0).mean(axis=0)
    more = mine - theirs
    idle = FIRST_IDLE + int(np.argmax(more[FIRST_IDLE:]))
    largest = max((COMPUTE, COPIES, idle), key=lambda part: float(more[part]))
    ns = int(more[largest])
    if ns < LEAST_SHARE * mine.sum():
        return Reason(Why.TRANSFER if lateness.blamed[np.ix_(rows, steps)].sum() else Why.UNKNOWN, max(ns, 0))
    if largest == COPIES:
        return Reason(Why.COPIES, ns)
    if largest != COMPUTE:
        cause = Cause(largest - FIRST_IDLE)
        return Reason(Why.IDLE, ns, cause, _culprit(lateness, rows, cause))
    clock = run.reading("clock")
    own, usual = clock[np.ix_(rows, steps)], clock[np.ix_(others, steps)]
    if np.isfinite(own).any() and np.isfinite(usual).any():
        pair = float(np.nanmedian(own)), float(np.nanmedian(usual))
        if pair[0] < SLOWER_CLOCK * pair[1]:
            return Reason(Why.CLOCK, ns, clock=pair)
    blocks = run.reading("blocks")
    work = float(np.nanmean(blocks[np.ix_(rows, steps)])) / max(
        float(np.nanmedian(blocks[np.ix_(others, steps)])), 1.0
    )
    if not np.isfinite(work) or not work:
        return Reason(Why.COMPUTES, ns)
    return Reason(Why.MORE if work >= MORE_WORK else Why.SLOW, ns, work=work)


def _culprit(lateness: Lateness, rows: I64, cause: Cause) -> str:
    """For whom most of the rows idle by this cause."""
    tally: Tally[str] = Tally()
    for row in rows.tolist():
        found = lateness.run.rows[row]
        for each in lateness.run.members[found.member].summary.words.culprits:
            if each.device == found.device and each.cause == cause:
                tally[each.text] += each.ns
    return tally.most_common(1)[0][0] if tally else ""
