"""Matched calls as rows: what each kernel before is after, with launches and time a step on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import numpy as np

from parsers.model.arrays import F64, I64, distinct_values, in_both
from parsers.model.late import dataclass
from rules.comparison.calls import NONE, Calls
from rules.comparison.matching import Matched

Work = tuple[float, float]  # (launches, ns) a step


class Match(Enum):
    """How a row was matched; the value is its sign."""

    SAME = "="  # the same kernel
    COUNTERPART = "≈"  # another kernel for the same operator, shapes or place
    JOINED = "⇒"  # some kernels became fewer or more
    GONE = "-"
    NEW = "+"


@dataclass(frozen=True, slots=True)
class KernelChange:
    """One kernel, or one family of kernels: launches and ns a step, before and after.

    ``before`` and ``after`` are the names on either side, by time; ``name`` is the first of them.
    """

    name: str
    calls_before: float
    calls_after: float
    ns_before: float
    ns_after: float
    match: Match = Match.SAME
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    family: str = ""

    @property
    def ns_change(self) -> float:
        return self.ns_after - self.ns_before


@dataclass(frozen=True, slots=True, eq=False)
class KernelRows:
    """The rows, the largest change first, and for each call of either step the row that it belongs to."""

    rows: tuple[KernelChange, ...]
    row_before: I64
    row_after: I64


def kernel_rows(
    calls: tuple[Calls, Calls],
    matched: Matched,
    texts: list[str],
    works: tuple[Mapping[str, Work], Mapping[str, Work]],
    shown: Mapping[str, str],
) -> KernelRows:
    """``texts`` belong to the codes; ``works`` are launches and ns a step by comparable name, over all steps."""
    groups = _groups(calls, matched)
    count = max((int(each.max()) + 1 for each in groups if len(each)), default=0)
    sums = []
    names: list[list[list[str]]] = []
    for side, of_side, work in zip(calls, groups, works, strict=True):
        launches, ns = _scaled(side, texts, work)
        sums.append((np.bincount(of_side, launches, count), np.bincount(of_side, ns, count)))
        names.append(_names(of_side, side.name, ns, count, texts, shown))
    signs = _signs(groups, matched, calls, count)
    families = _families(groups, calls, count, texts)
    rows = [
        KernelChange(
            (names[0][row] or names[1][row])[0],
            calls_before=float(sums[0][0][row]),
            calls_after=float(sums[1][0][row]),
            ns_before=float(sums[0][1][row]),
            ns_after=float(sums[1][1][row]),
            match=signs[row],
            before=tuple(names[0][row]),
            after=tuple(names[1][row]),
            family=families[row],
        )
        for row in range(count)
    ]
    order = np.array(
        sorted(range(count), key=lambda row: (-abs(rows[row].ns_change), rows[row].name)), np.int64
    )
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    return KernelRows(tuple(rows[row] for row in order.tolist()), place[groups[0]], place[groups[1]])


def _groups(calls: tuple[Calls, Calls], matched: Matched) -> tuple[I64, I64]:
    """The number of each call's row; rows are numbered from 0 without a gap."""
    keys = np.full(len(calls[0]), NONE, np.int64), np.full(len(calls[1]), NONE, np.int64)
    pairs = np.concatenate((matched.same, matched.counterpart))
    keys[0][pairs[:, 0]] = keys[1][pairs[:, 1]] = calls[0].name[pairs[:, 0]]
    runs = tuple(
        np.where(side.kernel, run, NONE)
        for side, run in zip(calls, (matched.run_before, matched.run_after), strict=True)
    )
    together = in_both(runs[0][runs[0] >= 0], runs[1][runs[1] >= 0])
    known = distinct_values(calls[0].name[matched.same[:, 0]])
    most = max((int(each.name.max()) + 1 for each in calls if len(each)), default=1)
    if len(together):
        signature = _signatures(calls, runs, together)
        for key, run in zip(keys, runs, strict=True):
            inside = np.isin(run, together)
            key[inside] = most + signature[np.searchsorted(together, run[inside])]
    for key, side in zip(keys, calls, strict=True):
        again = (key < 0) & np.isin(side.name, known)
        key[again] = side.name[again]
    alone = [side.family[key < 0] for key, side in zip(keys, calls, strict=True)]
    of_both = in_both(alone[0], alone[1])
    for key, side in zip(keys, calls, strict=True):
        joined = (key < 0) & np.isin(side.family, of_both)
        key[joined] = most + len(together) + side.family[joined]
        key[key < 0] = side.name[key < 0]
    _, numbered = np.unique(np.concatenate(keys), return_inverse=True)
    return numbered[: len(keys[0])], numbered[len(keys[0]) :]


def _signatures(calls: tuple[Calls, Calls], runs: tuple[I64, ...], together: I64) -> I64:
    """A number for each run: runs with the same names on both sides have the same one, from 0."""
    random = np.random.default_rng(0)  # names get the same numbers each time
    most = max(int(each.name.max()) + 1 for each in calls if len(each))
    value = random.integers(1, 2**62, (2, most), dtype=np.int64)
    found = []
    for side, run, values in zip(calls, runs, value, strict=True):
        inside = np.isin(run, together)
        distinct = np.unique(np.column_stack((run[inside], side.name[inside])), axis=0)
        total = np.zeros(len(together), np.int64)
        np.add.at(total, np.searchsorted(together, distinct[:, 0]), values[distinct[:, 1]])
        found.append(total)
    return np.unique(np.column_stack(found), axis=0, return_inverse=True)[1].reshape(-1)


def _scaled(side: Calls, texts: list[str], work: Mapping[str, Work]) -> tuple[F64, F64]:
    """Launches and ns of each call, so that the calls of a name add up to its work in a mean step."""
    count = len(texts)
    calls, ns = np.bincount(side.name, minlength=count), np.bincount(side.name, side.ns, count)
    mean = np.zeros((2, count))
    for name in distinct_values(side.name).tolist():
        mean[:, name] = work.get(texts[name], (calls[name], ns[name]))
    launches = (mean[0] / np.maximum(calls, 1))[side.name]
    return launches, side.ns * (mean[1] / np.maximum(ns, 1))[side.name]


def _names(
    groups: I64, names: I64, ns: F64, count: int, texts: list[str], shown: Mapping[str, str]
) -> list[list[str]]:
    """The names of each row, those that take most time first."""
    found: list[list[str]] = [[] for _ in range(count)]
    if not len(groups):
        return found
    pairs, place = np.unique(np.column_stack((groups, names)), axis=0, return_inverse=True)
    total = np.bincount(place.reshape(-1), ns)
    for index in np.argsort(-total, kind="stable").tolist():
        group, name = pairs[index].tolist()
        found[group].append(shown.get(texts[name], texts[name]))
    return found


def _signs(groups: tuple[I64, I64], matched: Matched, calls: tuple[Calls, Calls], count: int) -> list[Match]:
    has = [np.bincount(each, minlength=count) > 0 for each in groups]
    same, other = (
        np.bincount(groups[0][pairs[:, 0]], calls[0].ns[pairs[:, 0]] + 1, count)
        for pairs in (matched.same, matched.counterpart)
    )
    found = []
    for row in range(count):
        if not has[1][row]:
            found.append(Match.GONE)
        elif not has[0][row]:
            found.append(Match.NEW)
        elif not same[row] and not other[row]:
            found.append(Match.JOINED)
        else:
            found.append(Match.SAME if same[row] >= other[row] else Match.COUNTERPART)
    return found


def _families(groups: tuple[I64, I64], calls: tuple[Calls, Calls], count: int, texts: list[str]) -> list[str]:
    """The family that takes most of each row's time, on both sides together."""
    of_call = np.concatenate([each.family for each in calls])
    ns = np.concatenate([each.ns for each in calls]) + 1
    pairs, place = np.unique(np.column_stack((np.concatenate(groups), of_call)), axis=0, return_inverse=True)
    total = np.bincount(place.reshape(-1), ns)
    found = [""] * count
    for index in np.argsort(total, kind="stable").tolist():
        found[int(pairs[index, 0])] = texts[int(pairs[index, 1])]
    return found
