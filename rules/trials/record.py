"""What is kept of a trial in the journal of a program, how well promises held, and what that says of the next one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from parsers.model.late import dataclass
from rules.fixes.plan import Plan, Promise
from rules.trials.trial import Kind, Promised, Trials


@dataclass(frozen=True, slots=True)
class KeptTrial:
    """One change; ``promised`` is (low, expected, high), ``measured`` (low, gain, high), None where there is none."""

    switch: str
    kind: str
    title: str
    fix: str = ""
    promised: tuple[float, float, float] | None = None
    measured: tuple[float, float, float] | None = None
    loss: str = ""

    @property
    def held(self) -> bool | None:
        """Whether the bands of what was promised and measured meet; None where one is missing."""
        if self.promised is None or self.measured is None:
            return None
        return self.promised[0] <= self.measured[2] and self.measured[0] <= self.promised[2]


def kept_trials(trials: Trials) -> tuple[KeptTrial, ...]:
    """What is kept of a trial: every change of which something was measured, but not the control."""
    if trials.restless:
        return ()
    return tuple(
        KeptTrial(
            each.candidate.switch,
            each.candidate.kind.value,
            each.candidate.title,
            each.candidate.fix,
            (promised.low, promised.expected, promised.high) if promised is not None else None,
            (each.gain.low, each.gain.value, each.gain.high),
            each.loss.likeness.value if each.loss is not None else "",
        )
        for each in trials.trials
        for promised in [each.candidate.promised]
        if each.gain is not None and each.candidate.kind is not Kind.CONTROL
    )


MIN_TRIALS = 5  # fewer say too little of how far a promise is off
COVERAGE = 0.8
MIN_EXPECTED = 1.02  # a promise of less says nothing that a measurement could miss


@dataclass(frozen=True, slots=True)
class Correction:
    """Factors on the expected gain of a promise; COVERAGE of the measured gains lie from ``low`` to ``high``."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class FixRecord:
    """All trials of a fix: how many, in how many the bands of promise and measurement met, and measured / expected."""

    fix: str
    trials: int
    held: int
    ratios: tuple[float, ...]

    @property
    def correction(self) -> Correction | None:
        """What the next promise of this fix may be multiplied with; None where too few were tried."""
        if len(self.ratios) < MIN_TRIALS:
            return None
        logs = np.sort(np.log(self.ratios))
        outside = (1 - COVERAGE) / 2
        low, middle, high = np.exp(
            np.quantile(logs, [outside, 0.5, 1 - outside], method="median_unbiased")
        ).tolist()
        return Correction(low, middle, high)


def here(promised: Promised, record: FixRecord, most: float) -> Promised | None:
    """A promise as the machine of a record keeps it, at most ``most`` times as fast; None after too few trials.

    Its band holds what the trials measured of other promises, and is no narrower than the promise's own.
    """
    found = record.correction
    if found is None:
        return None
    expected = promised.expected * found.middle
    low = min(promised.expected * found.low, promised.low * found.middle)
    high = max(promised.expected * found.high, promised.high * found.middle)
    return Promised(*(min(each, most) for each in (low, expected, high)))


def promise_here(plan: Plan, promise: Promise, record: FixRecord) -> Promised | None:
    """A promise of a plan as the machine of a record keeps it; None after too few trials, or without a gain."""
    if promise.proposal.redesign:
        return None
    return here(Promised(promise.low, promise.expected, promise.high), record, plan.most(promise))


def records_by_fix(trials: Iterable[KeptTrial]) -> tuple[FixRecord, ...]:
    """The records of all fixes of which a promise was tried, those with most trials first.

    Ceilings are left out: they take away more than a fix can.
    """
    by_fix: dict[str, list[KeptTrial]] = defaultdict(list)
    for each in trials:
        if each.held is not None and each.fix and each.kind != Kind.CEILING.value:
            by_fix[fix_of(each.fix)].append(each)
    records = [
        FixRecord(fix, len(group), sum(bool(each.held) for each in group), _ratios(group))
        for fix, group in by_fix.items()
    ]
    return tuple(sorted(records, key=lambda each: (-each.trials, each.fix)))


def fix_of(promise: str) -> str:
    """The fix that a promise is of: its id without the number ("fuse-optimizer-1")."""
    stem, dash, number = promise.rpartition("-")
    return stem if dash and number.isdecimal() else promise


def _ratios(group: Iterable[KeptTrial]) -> tuple[float, ...]:
    pairs = [(each.promised, each.measured) for each in group]
    return tuple(
        measured[1] / promised[1]
        for promised, measured in pairs
        if promised is not None
        and measured is not None
        and promised[1] >= MIN_EXPECTED
        and measured[1] > 0
        and math.isfinite(measured[1] / promised[1])
    )
