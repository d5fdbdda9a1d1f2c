"""What is said beside the rows of a table that a profiler printed."""

from __future__ import annotations

from parsers.model.units import duration
from rules.analysis.beside.printed_totals import Spent


def at_barriers(spent: tuple[Spent, ...]) -> list[str]:
    """What a GPU of AMD's waited for, which rocprof lists among its kernels."""
    waits = [each.barriers for each in spent if each.barriers]
    return [
        f"Not counted: {duration(each.ns)} in {each.calls:,.0f} barrier packets, in which a queue waits for other work "
        "and computes nothing."
        for each in waits
    ]


def others_like_it(spent: tuple[Spent, ...]) -> list[str]:
    """That there are more tables of the same kind."""
    tables = max(each.tables for each in spent)
    return [f"There are {tables:,} such tables; these figures are from the longest."] if tables > 1 else []
