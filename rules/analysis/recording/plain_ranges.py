"""Where time goes in a recording of which nothing is recognised: ranges on threads, and no word of what ran them."""

from __future__ import annotations

import numpy as np

from parsers.model import Array, EventKind, LaneKind, Trace, derived
from parsers.model.arrays import rows_by
from parsers.model.late import dataclass, regex
from rules.analysis.arithmetic.innermost import Innermost

_NUMBER = regex(r"\d+")
# of Ray's workers, for tasks and for results; of XLA's runtime, for the threads that compute
_WAITS = regex(r"ray\.(?:wait|get)$|worker_idle$|[\w:]{1,99} \(wait for completion\)$")
_OF_A_TASK = regex(r"task:(?:execute|deserialize_arguments|store_outputs)$")  # the parts of a task of Ray


@dataclass(frozen=True, slots=True)
class PlainRange:
    """The ranges of one name on the busiest thread: ns in which one of them is the innermost, of the recording's ns.

    Names that differ in their numbers alone, as those of a model's layers do, count as one; ``others``: how many more.
    """

    name: str
    ns: int
    whole_ns: int
    others: int = 0

    @property
    def share(self) -> float:
        return self.ns / self.whole_ns if self.whole_ns else 0.0


@derived
def longest_plain_range(trace: Trace) -> PlainRange | None:
    """What the busiest thread is in longest; None for recordings that hold anything else than plain ranges.

    Where others work, a thread of Ray or of XLA's runtime that waits for them is not busy; parts of a task of Ray are
    told by the task.
    """
    kinds = set(trace.kinds)
    if EventKind.OTHER not in kinds or kinds - {EventKind.OTHER, EventKind.MARK} or trace.stands_beside:
        return None
    table = trace.events
    of_thread = np.array([lane.kind is LaneKind.OTHER for lane in trace.lanes], bool)
    waits, is_part = (
        np.array([names.match(text) is not None for text in trace.strings], bool)
        for names in (_WAITS, _OF_A_TASK)
    )
    told = of_thread[table.lane] & (table.kind == EventKind.OTHER) & ~is_part[table.name]
    if (told & ~waits[table.name]).any():
        told &= ~waits[table.name]
    events = np.flatnonzero(told)
    busiest, longest = 0, None
    for _, rows in rows_by(table.lane[events]):
        inside = Innermost.of(trace, events[rows])
        length = np.diff(inside.edges, append=inside.edges[-1:])
        named = inside.event >= 0
        spent = np.bincount(table.name[inside.event[named]], length[named], len(trace.strings))
        if (busy := int(spent.sum())) > busiest:
            busiest, longest = busy, _longest(trace, spent.astype(np.float64))
    return longest


def _longest(trace: Trace, spent: Array) -> PlainRange:
    """Of ns by name."""
    names = np.flatnonzero(spent).tolist()
    alike: dict[str, list[int]] = {}
    for name in names:
        alike.setdefault(_NUMBER.sub("#", trace.strings[name]), []).append(name)
    most = max(alike.values(), key=lambda each: spent[each].sum())
    first = max(most, key=lambda name: spent[name])
    return PlainRange(trace.strings[first], int(spent[most].sum()), trace.duration, len(most) - 1)
