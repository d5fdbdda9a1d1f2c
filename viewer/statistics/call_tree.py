"""Calls of the same name under the same callers, added up: the tree behind the icicle graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model import I64, Trace
from parsers.model.late import dataclass
from viewer.statistics.kernels import clipped

ROOT = -1


@dataclass(frozen=True, slots=True, eq=False)
class CallTree:
    """Equal columns, one row a node, parents before children; times in ns, clipped to the interval.

    ``left`` places a node between 0 and the total of all roots: children lie inside their parent, longest first.
    """

    name: I64  # index into Trace.strings
    parent: I64  # row; ROOT for outermost calls
    depth: I64
    total: I64
    own: I64  # without the children
    count: I64
    left: I64
    longest: I64  # the longest event of the node

    def __len__(self) -> int:
        return len(self.name)

    @property
    def whole(self) -> int:
        return int(self.total[self.parent == ROOT].sum())

    def path(self, node: int) -> list[int]:
        """The node and its callers, outermost first."""
        found = []
        while node != ROOT:
            found.append(node)
            node = int(self.parent[node])
        return found[::-1]


def ran(trace: Trace, lanes: Sequence[int], t0: int, t1: int) -> bool:
    """Whether anything of these lanes lies in [t0, t1], ns."""
    events = trace.events
    parts = [events.lane_slice(lane) for lane in lanes]
    return any(bool(((events.start[part] < t1) & (events.end[part] > t0)).any()) for part in parts)


def call_tree(trace: Trace, lanes: Sequence[int], t0: int, t1: int) -> CallTree:
    """The calls on these lanes in [t0, t1); equal outermost names of several lanes become one node."""
    events = trace.events
    above_event = np.empty(0, np.int64)
    above_node = np.empty(0, np.int64)
    levels: list[tuple[I64, I64, I64, I64, I64]] = []
    base = 0
    for depth in range(max((len(events.rows(lane)) for lane in lanes), default=0)):
        windows = [events.window(lane, depth, t0, t1) for lane in lanes]
        found = np.concatenate([np.arange(part.start, part.stop, dtype=np.int64) for part in windows])
        if not len(found):
            break
        parent = enclosing(trace, found, above_event, above_node)
        names = len(trace.strings)
        distinct, node = np.unique((parent - ROOT) * names + events.name[found], return_inverse=True)
        time = clipped(*events.spans(found), t0, t1)
        total = np.bincount(node, weights=time, minlength=len(distinct)).astype(np.int64)
        by_time = np.lexsort((time, node))
        last = np.append(np.flatnonzero(np.diff(node[by_time])), len(node) - 1)
        levels.append(
            (distinct % names, distinct // names + ROOT, total, np.bincount(node), found[by_time[last]])
        )
        above_event, above_node = found, node + base
        base += len(distinct)
    return _placed(levels)


def enclosing(trace: Trace, found: I64, above_event: I64, above_node: I64) -> I64:
    """What ``above_node`` says of the event around each of ``found``, out of ``above_event``; ROOT where there is none.

    Events of ``above_event`` that share a lane lie on one depth.
    """
    if not len(above_event):
        return np.full(len(found), ROOT, np.int64)
    events = trace.events
    span = np.int64(trace.duration + 1)
    above = events.lane[above_event] * span + events.start[above_event]
    here = events.lane[found] * span + events.start[found]
    order = np.argsort(above, kind="stable")
    place = np.searchsorted(above[order], here, side="right") - 1
    around = order[np.maximum(place, 0)]
    inside = (
        (place >= 0)
        & (events.lane[above_event[around]] == events.lane[found])
        & (events.end[above_event[around]] >= events.end[found])
    )
    return np.where(inside, above_node[around], ROOT)


def _placed(levels: list[tuple[I64, I64, I64, I64, I64]]) -> CallTree:
    if not levels:
        empty = np.empty(0, np.int64)
        return CallTree(empty, empty, empty, empty, empty, empty, empty, empty)
    name, parent, total, count, longest = (np.concatenate(column) for column in zip(*levels, strict=True))
    depth = np.repeat(np.arange(len(levels)), [len(level[0]) for level in levels])
    inner = np.zeros(len(name), np.int64)
    has_parent = parent != ROOT
    np.add.at(inner, parent[has_parent], total[has_parent])
    left = np.zeros(len(name), np.int64)
    for level in range(len(levels)):
        rows = np.flatnonzero(depth == level)
        rows = rows[np.lexsort((-total[rows], parent[rows]))]
        ends = np.cumsum(total[rows])
        first = np.concatenate(([True], parent[rows][1:] != parent[rows][:-1]))
        before = np.where(first, ends - total[rows], 0)
        start_of_group = np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
        offset = ends - total[rows] - before[start_of_group]
        outer = np.where(parent[rows] == ROOT, 0, left[np.maximum(parent[rows], 0)])
        left[rows] = outer + offset
    return CallTree(name, parent, depth, total, np.maximum(total - inner, 0), count, left, longest)
