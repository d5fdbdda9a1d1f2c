"""Summaries of what the CPU did: operators by name, by shapes and by module, regions, calls, system calls."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd

from parsers.model import EventKind
from rules.analysis.analysis import Analysis
from viewer.statistics.kernels import longest_events
from viewer.statistics.operators import operator_table, operator_times
from viewer.tables.columns import texts
from viewer.tables.summaries.wording import (
    CALLS,
    LONGEST,
    MEAN,
    P50,
    P99,
    TOTAL,
    by_text,
    during,
    summed,
    tell_durations,
)
from viewer.tables.table import Column, Summary, summary

CPU_SELF = Column("cpu_self_ns", "time in it, without the operators it calls")
CPU_TOTAL = Column("cpu_total_ns", "time with the operators it calls; its own recursion counts once")
GPU_SELF = Column("gpu_self_ns", "time of the GPU work that it launched itself")
GPU_TOTAL = Column("gpu_total_ns", "time of all GPU work launched while it ran")
LAUNCHES = Column("launches", "operations on the GPU launched while it ran")


@summary
class OperatorSummary(Summary):
    """The table of the tab Operators."""

    name: ClassVar[str] = "operator_summary"
    title: ClassVar[str] = "Operators"
    about: ClassVar[str] = "operators by name, on the CPU and on the GPU"
    order: ClassVar[int] = 30
    columns: ClassVar[tuple[Column, ...]] = (
        Column("name", "name as recorded"),
        CALLS,
        CPU_SELF,
        CPU_TOTAL,
        GPU_SELF,
        GPU_TOTAL,
        LAUNCHES,
        Column("memory_self_bytes", "GPU memory that it asked for itself"),
        Column("memory_total_bytes", "GPU memory that was asked for while it ran"),
        LONGEST,
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        table = operator_table(analysis.trace, operator_times(analysis.trace), t0, t1)
        times = ("cpu_self", "cpu_total", "gpu_self", "gpu_total")
        sizes = ("memory_self", "memory_total")
        return table.rename(
            columns={name: f"{name}_ns" for name in times} | {name: f"{name}_bytes" for name in sizes}
        )


@summary
class OperatorsByShape(Summary):
    """What ``key_averages(group_by_input_shape=True)`` lists."""

    name: ClassVar[str] = "operator_shapes"
    title: ClassVar[str] = "Operators by input shapes"
    about: ClassVar[str] = "operators by name and by the shapes of their inputs"
    order: ClassVar[int] = 32
    columns: ClassVar[tuple[Column, ...]] = (
        Column("name", "name as recorded"),
        Column("input_shapes", "shapes of the inputs"),
        CALLS,
        CPU_SELF,
        CPU_TOTAL,
        GPU_SELF,
        GPU_TOTAL,
        LAUNCHES,
        LONGEST,
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        rows = during(analysis, "operators", t0, t1)
        rows = rows[rows["input_shapes"].notna()]
        group, stats, table = by_text(rows, "name", "input_shapes")
        outer = rows["outermost"].to_numpy(bool)
        length = (rows["end_ns"] - rows["start_ns"]).to_numpy(np.int64)

        def sums(column: str, only_outer: bool) -> np.ndarray:
            values = rows[column].to_numpy(np.int64)
            return summed(group, np.where(outer, values, 0) if only_outer else values, len(stats.key))

        table["calls"] = stats.count
        table["cpu_self_ns"] = sums("self_ns", False)
        table["cpu_total_ns"] = summed(group, np.where(outer, length, 0), len(stats.key))
        table["gpu_self_ns"], table["gpu_total_ns"] = sums("gpu_self_ns", False), sums("gpu_ns", True)
        table["launches"] = sums("launches", True)
        table["event"] = longest_events(group, length, rows["event"].to_numpy(np.int64), stats.key)
        return table.sort_values("cpu_self_ns", ascending=False, ignore_index=True)


@summary
class ModuleSummary(Summary):
    """Modules of a model; empty where stacks were not recorded."""

    name: ClassVar[str] = "module_summary"
    title: ClassVar[str] = "Modules"
    about: ClassVar[str] = "calls of the modules of a model, where stacks were recorded"
    order: ClassVar[int] = 34
    columns: ClassVar[tuple[Column, ...]] = (
        Column("name", "name as recorded"),
        CALLS,
        Column("cpu_total_ns", "time in it, with everything it calls"),
        MEAN,
        Column("gpu_total_ns", "time of all GPU work launched while it ran"),
        LAUNCHES,
        LONGEST,
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        rows = during(analysis, "modules", t0, t1)
        group, stats, table = by_text(rows, "name")
        length = (rows["end_ns"] - rows["start_ns"]).to_numpy(np.int64)
        table["calls"], table["cpu_total_ns"], table["mean_ns"] = stats.count, stats.total, stats.mean
        table["gpu_total_ns"] = summed(group, rows["gpu_ns"].to_numpy(np.int64), len(stats.key))
        table["launches"] = summed(group, rows["launches"].to_numpy(np.int64), len(stats.key))
        table["event"] = longest_events(group, length, rows["event"].to_numpy(np.int64), stats.key)
        return table.sort_values("cpu_total_ns", ascending=False, ignore_index=True)


@summary
class RegionSummary(Summary):
    """Annotated ranges by name."""

    name: ClassVar[str] = "region_summary"
    title: ClassVar[str] = "Regions"
    about: ClassVar[str] = "annotated ranges by name, with the GPU work launched inside"
    order: ClassVar[int] = 40
    columns: ClassVar[tuple[Column, ...]] = (
        Column("name", "name as recorded"),
        CALLS,
        Column("total_ns", "time of the outermost ones of this name, added up"),
        Column("self_ns", "without the ranges inside"),
        P50,
        P99,
        Column("gpu_ns", "time on the GPU of everything launched inside"),
        LAUNCHES,
        LONGEST,
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        rows = during(analysis, "regions", t0, t1)
        group, stats, table = by_text(rows, "name")
        outer = rows["outermost"].to_numpy(bool)
        length = (rows["end_ns"] - rows["start_ns"]).to_numpy(np.int64)
        groups = len(stats.key)
        table["calls"] = stats.count
        table["total_ns"] = summed(group, np.where(outer, length, 0), groups)
        table["self_ns"] = summed(group, rows["self_ns"].to_numpy(np.int64), groups)
        table["p50_ns"], table["p99_ns"] = stats.median, stats.p99
        table["gpu_ns"] = summed(group, np.where(outer, rows["gpu_ns"].to_numpy(np.int64), 0), groups)
        table["launches"] = summed(group, np.where(outer, rows["launches"].to_numpy(np.int64), 0), groups)
        table["event"] = longest_events(group, length, rows["event"].to_numpy(np.int64), stats.key)
        return table.sort_values("total_ns", ascending=False, ignore_index=True)


@summary
class ApiSummary(Summary):
    """Runtime and driver calls by name."""

    name: ClassVar[str] = "api_summary"
    title: ClassVar[str] = "Calls of the GPU's interface"
    about: ClassVar[str] = "calls of runtime and driver by name"
    order: ClassVar[int] = 50
    columns: ClassVar[tuple[Column, ...]] = (
        Column("name", "name as recorded"),
        CALLS,
        TOTAL,
        MEAN,
        P50,
        P99,
        Column("gpu_idle_ns", "how long the GPUs ran nothing meanwhile"),
        LONGEST,
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        rows = during(analysis, "api_calls", t0, t1)
        group, stats, table = by_text(rows, "name")
        length = (rows["end_ns"] - rows["start_ns"]).to_numpy(np.int64)
        tell_durations(table, stats)
        idle = rows["gpu_idle_ns"].fillna(0).to_numpy(np.int64)
        table["gpu_idle_ns"] = summed(group, idle, len(stats.key))
        table["event"] = longest_events(group, length, rows["event"].to_numpy(np.int64), stats.key)
        return table.sort_values("total_ns", ascending=False, ignore_index=True)


@summary
class SystemCallSummary(Summary):
    """Calls of the operating system, which Nsight Systems records."""

    name: ClassVar[str] = "system_call_summary"
    title: ClassVar[str] = "System calls"
    about: ClassVar[str] = "calls of the operating system by name, where recorded"
    order: ClassVar[int] = 55
    columns: ClassVar[tuple[Column, ...]] = (
        Column("name", "name as recorded"),
        CALLS,
        TOTAL,
        MEAN,
        P50,
        P99,
        LONGEST,
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        trace = analysis.trace
        events = trace.events.of_kind(EventKind.OS_RUNTIME)
        start = trace.events.start[events]
        events = events[(start >= t0) & (start < t1)]
        rows = pd.DataFrame(
            {
                "event": events,
                "name": texts(trace.events.name[events], trace.strings),
                "start_ns": trace.events.start[events],
                "end_ns": trace.events.end[events],
            }
        )
        group, stats, table = by_text(rows, "name")
        tell_durations(table, stats)
        table["event"] = longest_events(group, trace.events.duration[events], events, stats.key)
        return table.sort_values("total_ns", ascending=False, ignore_index=True)
