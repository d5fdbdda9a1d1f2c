"""What the CPU's operators did while a GPU idled, where nothing tells which of them started the GPU's work."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, EventKind
from parsers.model.arrays import median_of
from parsers.model.late.dataclass import dataclass
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, intersect, length, measure, union
from rules.terms.shares import MAJORITY

LARGEST, BLAMED = (
    3,
    2,
)  # names that are looked at, and of those that may be blamed: what more share has no culprit
ONE_CALL, BEYOND_THE_OTHERS = 0.8, 10  # of a name's time, and times what its other calls usually take


@dataclass(frozen=True, slots=True)
class Doing:
    """The operators of one name: ns of the idle time that they fill, of the longest, and of the others (0: none)."""

    name: str
    ns: int
    longest_ns: int
    usual_ns: int

    @property
    def is_first_use(self) -> bool:
        """Whether one call is nearly all of it, and the others show that it need not take as long."""
        alone = self.longest_ns >= ONE_CALL * self.ns
        return alone and 0 < BEYOND_THE_OTHERS * self.usual_ns <= self.longest_ns


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Operators on the CPU during some idle time: the part of it that they fill, and the largest by their names."""

    share: float
    largest: tuple[Doing, ...]
    blamed: tuple[Doing, ...]  # the first of them, where these few fill most of the idle time

    @property
    def blamed_ns(self) -> int:
        return sum(each.ns for each in self.blamed)


def meanwhile(analysis: Analysis, idle: Intervals) -> Meanwhile | None:
    """What operators fill of some disjoint idle intervals; None if that is less than half of them."""
    table, whole = analysis.trace.events, length(idle)
    operators = table.of_kind(EventKind.CPU_OP)
    operators = operators[table.depth[operators] == 0]
    filled = _filled(analysis, operators, idle)
    if not whole or filled < MAJORITY * whole:
        return None
    overlap = measure(idle, *table.spans(operators))
    names = table.name[operators].astype(np.int64)
    spent = np.bincount(names, overlap)
    chosen = np.argsort(-spent, kind="stable")[:LARGEST]
    found = [_doing(analysis, operators[names == name], idle) for name in chosen[spent[chosen] > 0].tolist()]
    largest = sorted(found, key=lambda each: -each.ns)
    enough = [
        many for many in range(1, BLAMED + 1) if sum(each.ns for each in largest[:many]) >= MAJORITY * whole
    ]
    return Meanwhile(filled / whole, tuple(largest), tuple(largest[: enough[0]] if enough else ()))


def _doing(analysis: Analysis, operators: I64, idle: Intervals) -> Doing:
    table = analysis.trace.events
    inside = measure(idle, *table.spans(operators))
    others = np.delete(table.duration[operators], inside.argmax())
    return Doing(
        analysis.trace.name(int(operators[0])),
        _filled(analysis, operators, idle),
        int(inside.max()),
        int(median_of(others)) if len(others) else 0,
    )


def _filled(analysis: Analysis, operators: I64, idle: Intervals) -> int:
    table = analysis.trace.events
    return length(intersect(union(*table.spans(operators)), idle))
