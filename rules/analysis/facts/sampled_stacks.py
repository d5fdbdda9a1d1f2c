"""Where sampled threads spent their time, by the deepest frame of the user's own code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from parsers.model import I64, LaneKind, Trace, derived
from parsers.model.names.per_name import named
from parsers.model.names.source_files import frame_parts, is_own_frame
from rules.analysis.arithmetic.innermost import Innermost


@dataclass(frozen=True, slots=True)
class OwnFrame:
    """One function of the user's: time in which it is the deepest own frame, its costliest line, what runs below it."""

    function: str
    file: str
    line: int  # 0 where it is not known
    ns: int
    below: str  # the function that is innermost most often but for itself; empty where there is none
    below_ns: int
    longest: int  # an event


@dataclass(frozen=True, slots=True)
class OwnTime:
    """Sampled time of all threads in ns, the part without any own frame, and own functions, the costliest first."""

    sampled_ns: int
    foreign_ns: int
    frames: tuple[OwnFrame, ...]


def sampled(trace: Trace) -> I64:
    """The calls of sampled stacks, in table order."""
    lanes = np.array([lane.kind is LaneKind.SAMPLED_STACKS for lane in trace.lanes], bool)
    return np.flatnonzero(lanes[trace.events.lane]) if lanes.any() else np.empty(0, np.int64)


@derived
def own_time(trace: Trace) -> OwnTime:
    """The sampled time of a trace by own functions."""
    events = sampled(trace)
    spent: Counter[tuple[int, int]] = (
        Counter()
    )  # names of the deepest own frame (-1) and of the innermost one
    longest: dict[int, tuple[int, int]] = {}
    for lane in np.unique(trace.events.lane[events]).tolist():
        for pair, ns, event in _of_lane(trace, events[trace.events.lane[events] == lane]):
            spent[pair] += ns
            longest[pair[0]] = max(longest.get(pair[0], (0, -1)), (ns, event))
    frames = _frames(trace, {pair: ns for pair, ns in spent.items() if pair[0] >= 0}, longest)
    foreign = sum(ns for (own, _), ns in spent.items() if own < 0)
    return OwnTime(sum(spent.values()), foreign, frames)


def _of_lane(trace: Trace, events: I64) -> list[tuple[tuple[int, int], int, int]]:
    """Pairs of names, the time of each, and an own event (or -1), of one thread."""
    innermost = Innermost.of(trace, events)
    own = Innermost.of(trace, events[named(trace, events, is_own_frame)]).at(innermost.edges)
    length = np.diff(innermost.edges, append=innermost.edges[-1:])
    open_ = innermost.event >= 0
    own, leaf, length = own[open_], innermost.event[open_], length[open_]
    name = trace.events.name
    pair = np.stack([np.where(own >= 0, name[np.maximum(own, 0)], -1), name[leaf]], axis=1)
    distinct, first, which = np.unique(pair, axis=0, return_index=True, return_inverse=True)
    total = np.bincount(which.reshape(-1), length, len(distinct)).astype(np.int64)
    rows = zip(distinct.tolist(), total.tolist(), own[first].tolist(), strict=True)
    return [((mine, below), ns, event) for (mine, below), ns, event in rows]


def _frames(
    trace: Trace, spent: dict[tuple[int, int], int], longest: dict[int, tuple[int, int]]
) -> tuple[OwnFrame, ...]:
    """Functions, whose lines are added up."""
    parts = {name: frame_parts(trace.strings[name]) for pair in spent for name in pair}
    lines: dict[tuple[str, str], Counter[int]] = {}
    below: dict[tuple[str, str], Counter[str]] = {}
    for (own, leaf), ns in spent.items():
        function, file, _ = parts[own]
        lines.setdefault((function, file), Counter())[own] += ns
        inner, of_file, _ = parts[leaf]
        is_itself = (inner, of_file) == (function, file)
        if not is_itself:
            below.setdefault((function, file), Counter())[inner] += ns
    found = []
    for (function, file), by_line in lines.items():
        name = by_line.most_common(1)[0][0]
        inner, ns = below.get((function, file), Counter({"": 0})).most_common(1)[0]
        found.append(OwnFrame(function, file, parts[name][2], by_line.total(), inner, ns, longest[name][1]))
    return tuple(sorted(found, key=lambda each: -each.ns))
