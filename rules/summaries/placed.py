"""A summary on the clock of its run, and the rows of a run: one for each device that worked."""

from __future__ import annotations

from dataclasses import dataclass

from rules.summaries.rank_summary import RankSummary


@dataclass(frozen=True, slots=True)
class Placed:
    """A summary on the run's clock: ``shift`` (ns) is added to its times; ``rank`` is the number it has in the run."""

    summary: RankSummary
    shift: int
    rank: int | None
    clock_error_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One device of one rank."""

    member: int  # index into ``members``
    device: int  # index into the member's devices
    rank: int | None
    node: str  # empty where nothing tells
