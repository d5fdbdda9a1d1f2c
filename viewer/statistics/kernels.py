"""Durations in groups, and the kernels table: GPU operations grouped by name, or by family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from parsers.model import F64, I64, Array, Trace
from parsers.model.late import dataclass
from parsers.model.names.kernels import distinct_names
from rules.analysis.analysis import Analysis

if TYPE_CHECKING:
    import pandas as pd

SPREAD_BINS = 24


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Equal columns, one row for each key that occurs, sorted by key; values are in the unit of the input."""

    key: I64
    count: I64
    total: I64
    least: I64
    median: I64
    p99: I64
    most: I64

    @property
    def mean(self) -> F64:
        return self.total / np.maximum(self.count, 1)


def grouped(key: npt.NDArray[np.integer], value: I64) -> Groups:
    """Statistics of ``value`` for each distinct ``key``; percentiles are values that occur (nearest rank)."""
    keys, value = _by_key_and_value(key, value)
    first = (
        np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        if len(keys)
        else np.empty(0, np.int64)
    )
    last = np.append(first[1:], len(keys))[: len(first)]
    count = last - first
    cumulated = np.concatenate(([0], np.cumsum(value)))

    def rank(share: float) -> I64:
        return value[first + np.ceil(share * count).astype(np.int64).clip(1) - 1] if len(first) else value[:0]

    return Groups(
        keys[first], count, cumulated[last] - cumulated[first], rank(0.0), rank(0.5), rank(0.99), rank(1.0)
    )


def _by_key_and_value(key: npt.NDArray[np.integer], value: I64) -> tuple[I64, I64]:
    """Both by key, equal keys by value: one sort of single numbers where a number has room for both."""
    if len(key) and key.min() >= 0 and value.min() >= 0:
        bits = int(value.max()).bit_length()
        if int(key.max()).bit_length() + bits < 64:
            both = np.sort(key.astype(np.int64) << bits | value)
            return both >> bits, both & ((1 << bits) - 1)
    order = np.lexsort((value, key))
    return key[order].astype(np.int64), value[order]


def totals(key: npt.NDArray[np.integer], value: I64, keys: I64) -> I64:
    """The exact sum of ``value`` for each of ``keys``."""
    found = np.zeros(int(key.max(initial=-1)) + 1, np.int64)
    np.add.at(found, key, value)
    return found[keys]


def clipped(start: I64, end: I64, t0: int, t1: int) -> I64:
    """How much of each interval lies in [t0, t1); never negative."""
    inside: I64 = np.maximum(np.minimum(end, t1) - np.maximum(start, t0), 0)
    return inside


def ordered(columns: Mapping[str, Array], by: str) -> dict[str, Array]:
    """Equal columns with the largest value of one of them first; what is equal keeps its order."""
    order = np.argsort(-columns[by], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def duration_counts(key: npt.NDArray[np.integer], value: I64, keys: I64) -> I64:
    """(keys, SPREAD_BINS): how many values of each of ``keys`` lie in equal ratios between its least and its most."""
    groups = grouped(key, value)
    place = np.searchsorted(groups.key, key)
    least, most = (np.log(np.maximum(each, 1).astype(np.float64)) for each in (groups.least, groups.most))
    span = np.where(most > least, most - least, 1.0)
    share = (np.log(np.maximum(value, 1).astype(np.float64)) - least[place]) / span[place]
    column = np.minimum((share * SPREAD_BINS).astype(np.int64), SPREAD_BINS - 1)
    counts = np.bincount(place * SPREAD_BINS + column, minlength=len(groups.key) * SPREAD_BINS)
    return np.asarray(counts.reshape(-1, SPREAD_BINS)[np.searchsorted(groups.key, keys)], np.int64)


def operations_in(trace: Trace, t0: int, t1: int) -> I64:
    """GPU operations that start in [t0, t1), of all devices."""
    operations = trace.gpu_operations
    start = trace.events.start[operations]
    inside = (start >= t0) & (start < t1)
    return operations[inside]


def kernel_columns(analysis: Analysis, t0: int, t1: int) -> dict[str, Any]:
    """Equal columns, one row for each name, the longest total first, as ``KernelSummary`` describes them."""
    trace = analysis.trace
    operations = operations_in(trace, t0, t1)
    duration = trace.events.duration[operations]
    name = trace.events.name[operations]
    groups = grouped(name, duration)
    whole = max(int(duration.sum()), 1)
    names = np.array([trace.strings[key] for key in groups.key], object)
    columns = {
        "name": names,
        "short_name": np.array(distinct_names(names.tolist()), object),
        "family": np.array([analysis.families[key].label for key in groups.key], object),
        "calls": groups.count,
        "total_ns": groups.total,
        "mean_ns": groups.mean,
        "p50_ns": groups.median,
        "p99_ns": groups.p99,
        "gpu_time_share": groups.total / whole,
        "event": longest_events(name, duration, operations, groups.key),
    }
    return ordered(columns, "total_ns")


def kernel_table(analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
    """``kernel_columns`` as a frame."""
    import pandas as pd

    return pd.DataFrame(kernel_columns(analysis, t0, t1))


def family_table(kernels: pd.DataFrame) -> pd.DataFrame:
    """The kernels table summed up by family."""
    longest = kernels.sort_values("p99_ns").groupby("family")["event"].last()
    summed = kernels.groupby("family", sort=False).agg(
        kernels=("name", "size"),
        calls=("calls", "sum"),
        total_ns=("total_ns", "sum"),
        gpu_time_share=("gpu_time_share", "sum"),
    )
    summed["mean_ns"] = summed["total_ns"] / summed["calls"].clip(lower=1)
    summed["event"] = longest
    return summed.reset_index().sort_values("total_ns", ascending=False, ignore_index=True)


def longest_events(name: npt.NDArray[np.integer], duration: I64, events: I64, keys: I64) -> I64:
    """The longest event of each key, in the order of ``keys`` (sorted, all present in ``name``)."""
    if not len(keys):
        return np.empty(0, np.int64)
    longest = np.full(int(name.max()) + 1, -1, np.int64)
    np.maximum.at(longest, name, duration)
    candidates = np.flatnonzero(duration == longest[name])
    last = np.empty(len(longest), np.int64)
    last[name[candidates]] = candidates  # of several the one that was given last
    return events[last[keys]]
