"""The kernels table: GPU operations grouped by name, or by family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from parsers.model import I64, Trace
from parsers.model.names.kernels import distinct_names
from rules.analysis.analysis import Analysis
from viewer.statistics.grouping import grouped, ordered

if TYPE_CHECKING:
    import pandas as pd


def operations_in(trace: Trace, t0: int, t1: int) -> I64:
    """GPU operations that start in [t0, t1), of all devices."""
    operations = trace.gpu_operations
    start = trace.events.start[operations]
    inside = (start >= t0) & (start < t1)
    return operations[inside]


def kernel_columns(trace: Trace, analysis: Analysis, t0: int, t1: int) -> dict[str, Any]:
    """Equal columns, one row for each name, the longest total first: family, calls, total, mean, p50, p99 (ns), share
    of GPU time, longest event."""
    operations = operations_in(trace, t0, t1)
    duration = trace.events.duration[operations]
    name = trace.events.name[operations]
    groups = grouped(name, duration)
    whole = max(int(duration.sum()), 1)
    names = np.array([trace.strings[key] for key in groups.key], object)
    columns = {
        "name": names,
        "short": np.array(distinct_names(names.tolist()), object),
        "family": np.array([analysis.families[key].label for key in groups.key], object),
        "calls": groups.count,
        "total": groups.total,
        "mean": groups.mean,
        "p50": groups.median,
        "p99": groups.p99,
        "share": groups.total / whole,
        "event": longest_events(name, duration, operations, groups.key),
    }
    return ordered(columns, "total")


def kernel_table(trace: Trace, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
    """``kernel_columns`` as a frame."""
    import pandas as pd

    return pd.DataFrame(kernel_columns(trace, analysis, t0, t1))


def family_table(kernels: pd.DataFrame) -> pd.DataFrame:
    """The kernels table summed up by family."""
    longest = kernels.sort_values("p99").groupby("family")["event"].last()
    summed = kernels.groupby("family", sort=False).agg(
        kinds=("name", "size"), calls=("calls", "sum"), total=("total", "sum"), share=("share", "sum")
    )
    summed["mean"] = summed["total"] / summed["calls"].clip(lower=1)
    summed["event"] = longest
    return summed.reset_index().sort_values("total", ascending=False, ignore_index=True)


def longest_events(name: npt.NDArray[np.integer], duration: I64, events: I64, keys: I64) -> I64:
    """The longest event of each key, in the order of ``keys`` (sorted, all present in ``name``)."""
    if not len(keys):
        return np.empty(0, np.int64)
    order = np.lexsort((duration, name))
    last = np.searchsorted(name[order], keys, side="right") - 1
    return events[order[last]]
