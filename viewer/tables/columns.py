"""Columns that many tables share: texts as categories, numbers that may be missing, and where an event happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from parsers.model import BOOL, I64, Attribute, Trace
from parsers.model.arrays import distinct_values
from rules.analysis.analysis import Analysis
from viewer.tables.table import Column

if TYPE_CHECKING:
    import pandas as pd

Integers = npt.NDArray[np.integer]

RANK = Column("rank", "rank of the process; empty where the recording names none")
DEVICE = Column("device", "number of the GPU as recorded")
STREAM = Column("stream", "stream on the GPU")
PROCESS = Column("process", "process id")
THREAD = Column("thread", "thread id")
ON_GPU = (RANK, DEVICE, STREAM)
ON_THREAD = (RANK, PROCESS, THREAD)
TIMES = (
    Column("start_ns", "when it began, counted from the start of the recording"),
    Column("end_ns", "when it ended"),
)
EVENT = Column("event", "index of the event in the table events")
STEP = Column("step", "number of the step of its rank that it began in, as in the table steps")


def texts(codes: Integers, strings: Sequence[str]) -> pd.Categorical:
    """The strings with these numbers; empty where the number is negative. Only the strings that occur are kept."""
    import pandas as pd

    used = np.flatnonzero(np.bincount(codes[codes >= 0])) if len(codes) else np.empty(0, np.int64)
    distinct: dict[str, int] = {}
    place = np.full(int(used[-1]) + 2 if len(used) else 1, -1, np.int32)
    for number in used.tolist():
        place[number] = distinct.setdefault(strings[number], len(distinct))
    return pd.Categorical.from_codes(place[codes], categories=pd.Index(list(distinct), dtype=object))


def every_name(trace: Trace, codes: Integers) -> pd.Categorical:
    """Names of all events: the model's own column of codes where the strings differ, as they do but for damage."""
    import pandas as pd

    if len(set(trace.strings)) != len(trace.strings):
        return texts(codes, trace.strings)
    return pd.Categorical.from_codes(codes, categories=pd.Index(trace.strings, dtype=object))


def known(values: Integers, missing: BOOL | None = None) -> pd.arrays.IntegerArray:
    """Whole numbers of which some may be missing: the negative ones, unless said otherwise."""
    import pandas as pd

    where = values < 0 if missing is None else missing
    return pd.arrays.IntegerArray(values.astype(np.int64, copy=False), np.asarray(where, bool))


def optional(values: Sequence[int | None]) -> I64:
    """Whole numbers as a column; -1 for None."""
    return np.array([-1 if value is None else value for value in values], np.int64)


def times(trace: Trace, events: I64) -> dict[str, I64]:
    """Start and end of events."""
    return {"start_ns": trace.events.start[events], "end_ns": trace.events.end[events]}


def on_gpu(trace: Trace, events: I64) -> dict[str, pd.arrays.IntegerArray]:
    """Rank, device and stream of GPU events."""
    lane = trace.events.lane[events]
    device = trace.lane_device[lane]
    ids = np.array([*(each.id for each in trace.devices), -1], np.int64)
    return {
        "rank": known(optional([each.rank for each in trace.lanes])[lane]),
        "device": known(ids[device], device < 0),
        "stream": known(optional([each.stream for each in trace.lanes])[lane]),
    }


def on_thread(trace: Trace, events: I64) -> dict[str, pd.arrays.IntegerArray]:
    """Rank, process and thread of events on the CPU."""
    lane = trace.events.lane[events]
    return {
        which: known(optional([getattr(each, which) for each in trace.lanes])[lane])
        for which in ("rank", "process", "thread")
    }


def of_devices(trace: Trace, devices: Integers) -> dict[str, pd.arrays.IntegerArray]:
    """Rank and recorded number of devices, which are indices into ``Trace.devices``; -1 for none."""
    ranks = np.array([*optional([each.rank for each in trace.devices]), -1], np.int64)
    ids = np.array([*(each.id for each in trace.devices), -1], np.int64)
    return {"rank": known(ranks[devices]), "device": known(ids[devices], devices < 0)}


def steps_at(analysis: Analysis, ranks: Integers, times: I64) -> pd.arrays.IntegerArray:
    """The steps, as numbers in ``Analysis.steps``, in which these times of these ranks lie; -1 is no rank."""
    found = np.full(len(times), -1, np.int64)
    steps = analysis.steps
    own = optional([step.rank for step in steps])
    bounds = np.array([(step.start, step.end) for step in steps], np.int64).reshape(-1, 2)
    for rank in distinct_values(own).tolist():
        mine = np.flatnonzero(own == rank)
        mine = mine[np.argsort(bounds[mine, 0], kind="stable")]
        rows = np.flatnonzero(ranks == rank) if rank >= 0 else np.arange(len(times))
        last = np.searchsorted(bounds[mine, 0], times[rows], side="right") - 1
        step = mine[np.maximum(last, 0)]
        inside = (last >= 0) & (times[rows] < bounds[step, 1])
        found[rows[inside]] = step[inside]
    return known(found)


def steps_of_events(analysis: Analysis, events: I64) -> pd.arrays.IntegerArray:
    """The steps in which events begin."""
    trace = analysis.trace
    return steps_at(analysis, trace.lane_rank[trace.events.lane[events]], trace.events.start[events])


def number(trace: Trace, which: Attribute, events: I64) -> pd.arrays.IntegerArray:
    """An attribute of events; missing where it was not recorded."""
    missing = np.iinfo(np.int64).min
    values = trace.attribute(which, events, missing)
    return known(values, values == missing)


def text(trace: Trace, which: Attribute, events: I64) -> pd.Categorical:
    """A text attribute of events; missing where it was not recorded."""
    return texts(trace.attribute(which, events, -1), trace.strings)


def innermost(analysis: Analysis, events: I64, which: str) -> I64:
    """The region or operator ("regions", "operators") around each event on its thread; -1 outside of any, and where
    an event is -1."""
    trace, threads = analysis.trace, analysis.threads
    found = np.full(len(events), -1, np.int64)
    real = np.flatnonzero(events >= 0)
    for activity, rows in threads.by_thread(events[real]):
        mine = real[rows]
        found[mine] = getattr(activity, which).at(trace.events.start[events[mine]])
    return found


def names_of(trace: Trace, events: I64) -> pd.Categorical:
    """The names of events; missing where an event is -1."""
    if not len(trace.events):
        return texts(np.full(len(events), -1), ())
    return texts(np.where(events < 0, -1, trace.events.name[np.maximum(events, 0)]), trace.strings)


def columns(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Several groups of columns as one, in this order."""
    return {name: column for part in parts for name, column in part.items()}
