"""What lies in a selected area: what the GPUs did in it, and time by name, kernel family or lane, clipped to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from parsers.model import BOOL, GPU_WORK, I64, Trace
from parsers.model.arrays import distinct_values
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.devices import device_name
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import budget_parts
from viewer.statistics.call_tree import ROOT, enclosing
from viewer.statistics.event_facts import called
from viewer.statistics.kernels import clipped, grouped, longest_events
from viewer.timeline.kinds.base import lane_words, style_of

By = Literal["name", "family", "lane"]


@dataclass(frozen=True, slots=True)
class DeviceArea:
    """What one GPU that ran anything did in an area: (key, label, ns) of parts that add up to its length."""

    device: int
    name: str
    parts: tuple[tuple[str, str, int], ...]
    window_ns: int

    @property
    def busy_ns(self) -> int:
        """The union of everything that ran."""
        return sum(ns for key, _, ns in self.parts if key in ("compute", "communication", "copy", "other"))

    @property
    def text(self) -> str:
        """ "GPU 0: busy 43 %: compute 40 % (4 ms), ..."."""
        told = ", ".join(
            f"{label} {percent(ns / max(self.window_ns, 1))} ({duration(ns)})" for _, label, ns in self.parts
        )
        return f"{self.name}: busy {percent(self.busy_ns / max(self.window_ns, 1))}: {told}"


def devices_in(analysis: Analysis, t0: int, t1: int, lanes: Sequence[int] = ()) -> tuple[DeviceArea, ...]:
    """The GPUs that an area is about: those whose lanes it covers, else those of the ranks whose lanes it covers."""
    trace = analysis.trace
    chosen = sorted({device for lane in lanes if (device := trace.lanes[lane].device) is not None})
    if not chosen:
        ranks = {trace.lanes[lane].rank for lane in lanes}
        chosen = [
            device
            for device in analysis.active_devices
            if not lanes or None in ranks or trace.devices[device].rank in ranks
        ]
    found = []
    for device in chosen:
        budget = analysis.budget(device, t0, t1)
        if budget.window_ns and len(trace.operations_of_device(device)):
            parts = tuple(budget_parts(budget, analysis.idle))
            found.append(DeviceArea(device, device_name(trace, device), parts, budget.window_ns))
    return tuple(found)


def events_in(trace: Trace, t0: int, t1: int, lanes: Sequence[int] = ()) -> I64:
    """Events that touch [t0, t1) on these lanes, in table order; no lanes means all."""
    events = trace.events
    parts = []
    for lane in lanes or range(len(trace.lanes)):
        for depth in events.rows(lane):
            found = events.window(lane, depth, t0, t1)
            parts.append(np.arange(found.start, found.stop, dtype=np.int64))
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Nested:
    """Of each event its time inside an area, that without the events inside it, and whether one of its name is around.

    On the lanes of a GPU nothing is nested: what shares a stream runs at once.
    """

    time: I64
    own: I64
    again: BOOL


def nested_in(trace: Trace, events: I64, t0: int, t1: int) -> Nested:
    """The times of events of ``events_in``, whose order is that of the table."""
    table = trace.events
    time = clipped(*table.spans(events), t0, t1)
    own, again = time.copy(), np.zeros(len(events), bool)
    depth = table.depth[events]
    nests = np.array([lane.device is None for lane in trace.lanes], bool)[table.lane[events]]
    above = np.flatnonzero((depth == 0) & nests)
    for level in range(1, int(depth.max(initial=0)) + 1):
        mine = np.flatnonzero((depth == level) & nests)
        around = enclosing(trace, events[mine], events[above], above)
        inside = around != ROOT
        np.subtract.at(own, around[inside], time[mine[inside]])
        again[mine[inside]] = table.name[events[mine[inside]]] == table.name[events[around[inside]]]
        above = mine
    return Nested(time, np.maximum(own, 0), again)


def area_table(
    trace: Trace, analysis: Analysis | None, events: I64, t0: int, t1: int, by: By = "name"
) -> pd.DataFrame:
    """One row a group and sort of lane: count, own time, total, mean, shortest and longest (ns, clipped to the area).

    ``own`` is without what is nested inside, so that it adds up; ``share`` is its part of all own time on lanes of that
    sort. An event inside one of its own name is not in ``total`` again. ``short`` is what panels call the group.
    """
    table = trace.events
    if by == "family" and analysis is not None:
        events = events[of_kinds(table.kind[events], *GPU_WORK)]
    nested = nested_in(trace, events, t0, t1)
    sorts = [style_of(lane.kind).category for lane in trace.lanes]
    distinct = sorted(set(sorts))
    sort = np.array([distinct.index(each) for each in sorts], np.int64)[table.lane[events]]
    name = table.name[events]
    if by == "lane":
        key: I64 = table.lane[events].astype(np.int64)
        labels: Sequence[str] = [lane_words(lane, trace) for lane in trace.lanes]
    elif by == "family" and analysis is not None:
        used = distinct_values(name)
        labels = sorted({analysis.families[index].label for index in used.tolist()})
        number = np.zeros(int(used[-1]) + 1 if len(used) else 1, np.int64)
        number[used] = [labels.index(analysis.families[index].label) for index in used.tolist()]
        key = number[name]
    else:
        key, labels = name.astype(np.int64), trace.strings
    key = key * len(distinct) + sort if distinct else key
    groups = grouped(key, nested.time)
    own = grouped(key, nested.own).total
    of_sort = groups.key % max(len(distinct), 1)
    whole = np.bincount(of_sort, own, max(len(distinct), 1))
    longest = longest_events(key, nested.time, events, groups.key)
    group = [labels[index // len(distinct)] for index in groups.key.tolist()]
    return pd.DataFrame(
        {
            "group": group,
            "short": [called(trace, event) for event in longest.tolist()] if by == "name" else group,
            "where": [distinct[index] for index in of_sort.tolist()],
            "count": groups.count,
            "own": own,
            "total": grouped(key, np.where(nested.again, 0, nested.time)).total,
            "mean": groups.mean,
            "least": groups.least,
            "most": groups.most,
            "share": own / np.maximum(whole[of_sort], 1),
            "event": longest,
        }
    ).sort_values(["own", "total"], ascending=False, ignore_index=True)


def instances(trace: Trace, name: int) -> I64:
    """All events with this name (index into ``Trace.strings``), by start."""
    found = np.flatnonzero(trace.events.name == name)
    return trace.events.by_start(found)
