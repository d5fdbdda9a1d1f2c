"""Whether two recordings did the same work, and what is different: precision, shapes, counts, fused kernels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum

import numpy as np

from parsers.model.late import dataclass
from parsers.model.units import average_count, percent, three_digits
from rules.analysis.names.families import Family, classify
from rules.comparison.calls import Calls
from rules.comparison.kernel_rows import KernelChange, Match
from rules.comparison.matched_steps import MatchedSteps
from rules.comparison.matching import Matched
from rules.terms import MAJORITY

ALL = 0.98  # of the operations' time in the same kernels, as often: the same work
SAME_CALLS = 0.02
MANY_CALLS = 0.25  # so many more or fewer of the same kernels are other work
NOTICEABLE = 0.05  # of the operations' time
OVERLAP = 0.1  # of the communication's time that runs beside computing: smaller changes are not told
OTHER_SIZE = 0.1  # so many more or fewer numbers in an operator's tensors are another batch or length
SHAPES = 0.25  # of the time of calls whose shapes are known on both sides
OF_STATES = frozenset({"memory copy", "memset", "random numbers"})


class Answer(Enum):
    """Whether the work is the same."""

    YES = "yes"
    NEARLY = "nearly"
    NO = "no"


@dataclass(frozen=True, slots=True)
class SameWork:
    """The answer with its reason, and everything that is different, as sentences, the most important first."""

    answer: Answer
    reason: str
    differences: tuple[str, ...] = ()


def same_work(
    steps: MatchedSteps,
    *,
    different_programs: bool,
    other_size: float | None,
    exposed: tuple[float, float] = (0.0, 0.0),
) -> SameWork | None:
    """None where a side has no GPU work.

    ``other_size``: by what factor equal kernels take longer, where that is beyond another clock. ``exposed``:
    communication that nothing covers, ns a step.
    """
    if not all(len(each) for each in steps.calls):
        return None
    each = " a step" if steps.steps[0] is not None and steps.steps[1] is not None else ""
    calls, matched, rows, texts = steps.calls, steps.pairs, steps.rows.rows, steps.texts
    totals = [max(sum(row.ns_before for row in rows), 1.0), max(sum(row.ns_after for row in rows), 1.0)]
    precision = _precision(rows, totals[0])
    shapes, resized = _shapes(calls, matched, texts)
    size = ""
    if other_size is not None and not shapes:
        longer = other_size > 1
        size = (
            f"the same kernels take {three_digits(other_size if longer else 1 / other_size)} times "
            f"{'longer' if longer else 'less time'} each: another batch size or length"
        )
    joined = _joined(rows, totals, each)
    renamed = _share(rows, totals, Match.COUNTERPART)
    other_names = (
        f"{percent(renamed)} of the kernel time is in other kernels for the same operators"
        if renamed >= NOTICEABLE and not precision
        else ""
    )
    covered = _covered(rows, totals, exposed)
    one_sided = [
        _one_sided(rows, match, total) for match, total in ((Match.GONE, totals[0]), (Match.NEW, totals[1]))
    ]
    counts = _counts(rows, each)
    differences = tuple(
        each for each in (precision, shapes, size, joined, other_names, covered, *one_sided, counts) if each
    )
    alike = [
        sum(ns for row, ns in zip(rows, side, strict=True) if row.match is Match.SAME and _as_often(row))
        / total
        for side, total in zip(
            ([row.ns_before for row in rows], [row.ns_after for row in rows]), totals, strict=True
        )
    ]
    found = [
        1 - sum(_ns(row, side) for row in rows if row.match in (Match.GONE, Match.NEW)) / totals[side]
        for side in (0, 1)
    ]
    if different_programs or max(found) < MAJORITY:
        return SameWork(Answer.NO, "almost no kernel of one has a counterpart in the other", differences)
    for changed in (precision, shapes if resized else "", size):
        if changed:
            return SameWork(Answer.NO, changed, differences)
    if min(alike) >= ALL and not (counts or shapes):
        return SameWork(
            Answer.YES,
            f"{percent(min(alike))} of the kernel time is in the same kernels, launched equally often",
            differences,
        )
    often = _other_counts(rows, totals)
    if often:
        return SameWork(Answer.NO, often, differences)
    return SameWork(
        Answer.NEARLY,
        differences[0]
        if differences
        else f"{percent(min(alike))} of the kernel time is in the same kernels, launched equally often",
        differences,
    )


def _ns(row: KernelChange, side: int) -> float:
    return row.ns_after if side else row.ns_before


def _share(rows: Sequence[KernelChange], totals: list[float], match: Match) -> float:
    return max(sum(_ns(row, side) for row in rows if row.match is match) / totals[side] for side in (0, 1))


def _as_often(row: KernelChange) -> bool:
    return abs(row.calls_after - row.calls_before) <= SAME_CALLS * max(row.calls_before, row.calls_after)


def _precision(rows: Sequence[KernelChange], total: float) -> str:
    """Kernels that compute in another data type than their counterparts, weighed by their time before."""
    changed: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.match is Match.COUNTERPART:
            one, other = classify(row.before[0]).dtype, classify(row.after[0]).dtype
            if one and other and one != other:
                changed[one, other] = changed.get((one, other), 0.0) + row.ns_before
    if sum(changed.values()) < NOTICEABLE * total:
        return ""
    one, other = max(changed, key=lambda each: changed[each])
    share = percent(sum(changed.values()) / total)
    return f"another precision: {one} before and {other} after, in {share} of the kernel time"


def _shapes(calls: tuple[Calls, Calls], matched: Matched, texts: list[str]) -> tuple[str, bool]:
    """Calls of the same operator whose inputs have other shapes, weighed by their time before.

    The sentence is empty where they take little of the time; True where most of them hold much more or less.
    """
    pairs = np.concatenate((matched.same, matched.counterpart))
    one, other = calls[0].dims[pairs[:, 0]], calls[1].dims[pairs[:, 1]]
    alike = calls[0].operator[pairs[:, 0]] == calls[1].operator[pairs[:, 1]]
    known = (one >= 0) & (other >= 0) & alike
    ns = calls[0].ns[pairs[:, 0]]
    changed = known & (one != other)
    if (
        not known.any()
        or ns[changed].sum() < SHAPES * ns[known].sum()
        or ns[known].sum() < NOTICEABLE * calls[0].ns.sum()
    ):
        return "", False
    both = np.unique(np.column_stack((one[changed], other[changed])), axis=0, return_inverse=True)
    heaviest = both[0][np.bincount(both[1].reshape(-1), ns[changed]).argmax()]
    weight = np.bincount(both[1].reshape(-1), ns[changed])
    sizes = np.array([[_elements(texts[code]) for code in pair] for pair in both[0].tolist()], float)
    resized = np.abs(sizes[:, 1] / np.maximum(sizes[:, 0], 1.0) - 1) > OTHER_SIZE
    return (
        f"other shapes in {percent(ns[changed].sum() / max(ns[known].sum(), 1))} of the kernel time, such as "
        f"{_short(texts[heaviest[0]])} before and {_short(texts[heaviest[1]])} after",
        bool(weight[resized].sum() > MAJORITY * weight.sum()),
    )


def _elements(dims: str) -> float:
    """How many numbers the tensors of a list of shapes hold; 0 where it is none."""
    try:
        return float(sum(np.prod(shape) for shape in json.loads(dims)))
    except (TypeError, ValueError):
        return 0.0


def _short(dims: str) -> str:
    return dims if len(dims) <= 60 else dims[:57] + "..."


def _joined(rows: Sequence[KernelChange], totals: list[float], each: str) -> str:
    """How many kernels were joined, or split, all together, and of which kind most of them are."""
    mine = [row for row in rows if row.match is Match.JOINED]
    if max((sum(_ns(row, side) for row in mine) / totals[side] for side in (0, 1)), default=0.0) < NOTICEABLE:
        return ""
    counts = sum(row.calls_before for row in mine), sum(row.calls_after for row in mine)
    times: dict[str, float] = {}
    for row in mine:
        times[row.family] = times.get(row.family, 0.0) + row.ns_before + row.ns_after
    most = max(times, key=lambda family: times[family])
    return f"{average_count(counts[0])} kernels{each} became {average_count(counts[1])}, most of them: {most}"


def _covered(rows: Sequence[KernelChange], totals: list[float], exposed: tuple[float, float]) -> str:
    """How much of the communication runs beside computing, where that changed."""
    sums = [sum(_ns(row, side) for row in rows if row.family == Family.COLLECTIVE.label) for side in (0, 1)]
    if min(sums) < NOTICEABLE * min(totals):
        return ""
    shares = [max(0.0, 1 - alone / ns) for alone, ns in zip(exposed, sums, strict=True)]
    if abs(shares[1] - shares[0]) < OVERLAP:
        return ""
    return f"computation covers {percent(shares[1])} of the communication instead of {percent(shares[0])}"


def _one_sided(rows: Sequence[KernelChange], match: Match, total: float) -> str:
    mine = [row for row in rows if row.match is match]
    ns = sum(row.ns_before + row.ns_after for row in mine)
    if ns < NOTICEABLE / 5 * total:
        return ""
    when = "before" if match is Match.GONE else "after"
    return f"{percent(ns / total)} of the kernel time {when} is in kernels that only that side has"


def _counts(rows: Sequence[KernelChange], each: str) -> str:
    counts = [sum(row.calls_before for row in rows), sum(row.calls_after for row in rows)]
    if abs(counts[1] - counts[0]) <= SAME_CALLS * max(counts):
        return ""
    return f"{average_count(counts[0])} operations{each} became {average_count(counts[1])}"


def _other_counts(rows: Sequence[KernelChange], totals: list[float]) -> str:
    """Where the same kernels run much more or less often, in most of the time."""
    paired = (Match.SAME, Match.COUNTERPART)
    same = [row for row in rows if row.match in paired and row.family not in OF_STATES]
    ns = sum(row.ns_before for row in same)
    many = [
        row for row in same if row.calls_before and abs(row.calls_after / row.calls_before - 1) > MANY_CALLS
    ]
    if ns < MAJORITY * totals[0] or sum(row.ns_before for row in many) < MAJORITY * ns:
        return ""
    calls = sum(row.calls_before for row in many), sum(row.calls_after for row in many)
    counts = average_count(calls[0]), average_count(calls[1])
    return f"the same work is launched {counts[1]} times instead of {counts[0]}"
