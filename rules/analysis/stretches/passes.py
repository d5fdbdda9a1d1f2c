"""How often a model runs forward for each update of its parameters."""

from __future__ import annotations

from collections.abc import Callable

from parsers.model import EventKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.names.per_name import named
from rules.analysis.arithmetic.intervals import union
from rules.analysis.names.regions import is_optimizer_step


def passes_of_an_update(trace: Trace, *forward: str) -> int:
    """How many forward passes come to one update, by ranges whose names begin so; 1 where nothing tells."""
    updates = _count(trace, is_optimizer_step)
    return round(_count(trace, lambda name: name.startswith(forward)) / updates) if updates else 1


def _count(trace: Trace, wanted: Callable[[str], bool]) -> int:
    """How many ranges there are; those inside of one another, and those that touch, count once."""
    ranges = trace.events.of_kind(EventKind.REGION)
    mine = ranges[named(trace, ranges, wanted)]
    lanes = trace.events.lane[mine]
    return sum(len(union(*trace.events.spans(mine[lanes == lane]))[0]) for lane in distinct_values(lanes))
