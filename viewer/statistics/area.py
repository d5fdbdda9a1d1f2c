"""What lies in a selected area: time by name, kernel family or lane, with durations clipped to the area."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from parsers.model import GPU_WORK, Trace
from rules.analysis.analysis import Analysis
from viewer.statistics.grouping import clipped, grouped
from viewer.statistics.kernels import longest_events

I64 = npt.NDArray[np.int64]
By = Literal["name", "family", "lane"]


def events_in(trace: Trace, t0: int, t1: int, lanes: Sequence[int] = ()) -> I64:
    """Events that touch [t0, t1) on these lanes, in table order; no lanes means all."""
    events = trace.events
    parts = []
    for lane in lanes or range(len(trace.lanes)):
        for depth in events.rows(lane):
            found = events.window(lane, depth, t0, t1)
            parts.append(np.arange(found.start, found.stop, dtype=np.int64))
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def area_table(
    trace: Trace, analysis: Analysis | None, events: I64, t0: int, t1: int, by: By = "name"
) -> pd.DataFrame:
    """One row a group: count, total, mean, shortest and longest (ns, clipped to the area), share of all that time."""
    table = trace.events
    name = table.name[events]
    if by == "lane":
        key: npt.NDArray[np.integer] = table.lane[events]
        labels: list[str] = [lane.name for lane in trace.lanes]
    elif by == "family" and analysis is not None:
        gpu = np.isin(table.kind[events], GPU_WORK)
        events, name = events[gpu], name[gpu]
        labels = sorted({analysis.families[index].label for index in np.unique(name)})
        number = {label: index for index, label in enumerate(labels)}
        distinct, inverse = np.unique(name, return_inverse=True)
        of_name = np.array([number[analysis.families[index].label] for index in distinct], np.int64)
        key = of_name[inverse] if len(distinct) else np.empty(0, np.int64)
    else:
        key, labels = name, list(trace.strings)
    time = clipped(table.start[events], table.end[events], t0, t1)
    groups = grouped(key, time)
    return pd.DataFrame(
        {
            "group": [labels[index] for index in groups.key],
            "count": groups.count,
            "total": groups.total,
            "mean": groups.mean,
            "least": groups.least,
            "most": groups.most,
            "share": groups.total / max(int(groups.total.sum()), 1),
            "event": longest_events(key, time, events, groups.key),
        }
    ).sort_values("total", ascending=False, ignore_index=True)


def instances(trace: Trace, name: int) -> I64:
    """All events with this name (index into ``Trace.strings``), by start."""
    found = np.flatnonzero(trace.events.name == name)
    return found[np.argsort(trace.events.start[found], kind="stable")]
