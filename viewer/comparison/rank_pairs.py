"""The ranks that two runs have in common, the one that got slowest first."""

from __future__ import annotations

from rules.comparison.side import Side


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
