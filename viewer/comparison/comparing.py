"""What is worked out of two recordings before the window shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from parsers.model import Trace
from parsers.model.late import dataclass
from rules.comparison.side import Side

if TYPE_CHECKING:
    from rules.comparison.compare import Comparison
    from rules.comparison.kernel_rows import KernelChange
    from rules.comparison.matched_steps import MatchedSteps
    from rules.terms import Thresholds
    from viewer.comparison.tables import Tables


def rank_pairs(before: Side, after: Side) -> list[tuple[int | None, str]]:
    """(rank, what is said of it); the mean of its steady steps after over before, the worst first."""
    means = []
    for side in (before, after):
        times: dict[int | None, list[int]] = {}
        for step in side.analysis.steady_steps if side.found_by else ():
            times.setdefault(step.rank, []).append(step.duration)
        means.append({rank: sum(each) / len(each) for rank, each in times.items()})
    common = [rank for rank in means[0] if rank in means[1]]
    ratio = {rank: means[1][rank] / max(means[0][rank], 1.0) for rank in common}
    return [
        (rank, f"{'' if rank is None else rank} ({_told(ratio[rank])})")
        for rank in sorted(common, key=lambda each: -ratio[each])
    ]


def _told(ratio: float) -> str:
    return f"{'+' if ratio >= 1 else '−'}{abs(ratio - 1) * 100:.0f} %"


@dataclass(frozen=True, slots=True)
class Compared:
    """What a job hands over: the result, and the steps that are shown first."""

    result: Comparison
    steps: MatchedSteps | None
    rows: Sequence[KernelChange]
    tables: Tables


def compared(before: Trace, after: Trace, thresholds: Thresholds) -> Compared:
    """Compare, match a step of the rank that got slowest, and work out what the tables hold."""
    from rules.comparison.compare import compare
    from rules.comparison.matched_steps import matched_steps
    from viewer.comparison.tables import tables_of

    result = compare(before, after, thresholds)
    if result.sides is None:
        return Compared(result, None, result.kernels, tables_of(result, result.kernels))
    pairs = rank_pairs(*result.sides)
    steps = [side.typical_of(pairs[0][0]) if pairs else side.typical for side in result.sides]
    matched = matched_steps(result.sides, (steps[0], steps[1]))
    return Compared(result, matched, matched.rows.rows, tables_of(result, matched.rows.rows))
