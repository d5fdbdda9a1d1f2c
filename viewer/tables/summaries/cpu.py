"""Summaries of what the CPU did: operators by name, by shapes and by module, regions, calls, system calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.model import EventKind
from rules.analysis.analysis import Analysis
from viewer.statistics.operators import operator_table, operator_times
from viewer.tables.columns import texts, times
from viewer.tables.summaries.wording import CALLS, LONGEST, MEAN, P50, P99, TOTAL, ByText, during
from viewer.tables.table import Column, Summary, summary

if TYPE_CHECKING:
    import pandas as pd

CPU_SELF = Column("cpu_self_ns", "time in it, without the operators it calls", "CPU self")
CPU_TOTAL = Column(
    "cpu_total_ns", "time with the operators it calls; its own recursion counts once", "CPU total"
)
GPU_SELF = Column("gpu_self_ns", "time of the GPU work that it launched itself", "GPU self")
GPU_TOTAL = Column("gpu_total_ns", "time of all GPU work launched while it ran", "GPU total")
LAUNCHES = Column("launches", "operations on the GPU launched while it ran", "Launches")


@summary
class OperatorSummary(Summary):
    """The table of the tab Operators."""

    name = "operator_summary"
    title = "Operators"
    about = "operators by name, on the CPU and on the GPU"
    order = 30
    columns = (
        Column("name", "name as recorded", "Operator"),
        Column("calls", "how many calls of it the CPU begins", "CPU calls"),
        CPU_SELF,
        CPU_TOTAL,
        GPU_SELF,
        GPU_TOTAL,
        LAUNCHES,
        Column("memory_self_bytes", "GPU memory that it asked for itself", "Memory self"),
        Column("memory_total_bytes", "GPU memory that was asked for while it ran", "Memory total"),
        LONGEST,
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        return operator_table(analysis.trace, operator_times(analysis.trace), t0, t1)


@summary
class OperatorsByShape(Summary):
    """What ``key_averages(group_by_input_shape=True)`` lists."""

    name = "operator_shapes"
    title = "Operators by input shapes"
    about = "operators by name and by the shapes of their inputs"
    order = 32
    columns = (
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
        found = ByText(rows[rows["input_shapes"].notna()], "name", "input_shapes")
        found.table["cpu_self_ns"] = found.summed("self_ns")
        found.table["cpu_total_ns"] = found.summed("", outermost=True)
        found.table["gpu_self_ns"] = found.summed("gpu_self_ns")
        found.table["gpu_total_ns"] = found.summed("gpu_ns", outermost=True)
        found.table["launches"] = found.summed("launches", outermost=True)
        return found.by("cpu_self_ns")


@summary
class ModuleSummary(Summary):
    """Modules of a model; empty where stacks were not recorded."""

    name = "module_summary"
    title = "Modules"
    about = "calls of the modules of a model, where stacks were recorded"
    order = 34
    columns = (
        Column("name", "name as recorded"),
        CALLS,
        Column("cpu_total_ns", "time in it, with everything it calls"),
        MEAN,
        Column("gpu_total_ns", "time of all GPU work launched while it ran"),
        LAUNCHES,
        LONGEST,
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        found = ByText(during(analysis, "modules", t0, t1), "name")
        found.table["cpu_total_ns"], found.table["mean_ns"] = found.stats.total, found.stats.mean
        found.table["gpu_total_ns"] = found.summed("gpu_ns")
        found.table["launches"] = found.summed("launches")
        return found.by("cpu_total_ns")


@summary
class RegionSummary(Summary):
    """Annotated ranges by name."""

    name = "region_summary"
    title = "Regions"
    about = "annotated ranges by name, with the GPU work launched inside"
    order = 40
    columns = (
        Column("name", "name as recorded"),
        CALLS,
        Column("total_ns", "time of the outermost ones of this name, added up"),
        Column("self_ns", "without the ranges inside"),
        P50,
        P99,
        Column("gpu_ns", "time on the GPU of everything launched inside, also by autograd's threads"),
        Column("launches", "operations on the GPU launched while it ran, also by autograd's threads"),
        LONGEST,
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        found = ByText(during(analysis, "regions", t0, t1), "name")
        found.table["total_ns"] = found.summed("", outermost=True)
        found.table["self_ns"] = found.summed("self_ns")
        found.table["p50_ns"], found.table["p99_ns"] = found.stats.median, found.stats.p99
        for column in ("gpu_ns", "launches"):
            own, engines = (found.summed(each, outermost=True) for each in (column, f"autograd_{column}"))
            found.table[column] = own + engines
        return found.by("total_ns")


@summary
class ApiSummary(Summary):
    """Runtime and driver calls by name."""

    name = "api_summary"
    title = "Calls of the GPU's interface"
    about = "calls of runtime and driver by name"
    order = 50
    columns = (
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
        found = ByText(during(analysis, "api_calls", t0, t1), "name")
        found.tell_durations()
        found.table["gpu_idle_ns"] = found.summed("gpu_idle_ns")
        return found.by("total_ns")


@summary
class SystemCallSummary(Summary):
    """Calls of the operating system, which Nsight Systems records."""

    name = "system_call_summary"
    title = "System calls"
    about = "calls of the operating system by name, where recorded"
    order = 55
    columns = (Column("name", "name as recorded"), CALLS, TOTAL, MEAN, P50, P99, LONGEST)

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        import pandas as pd

        trace = analysis.trace
        events = trace.events.of_kind(EventKind.OS_RUNTIME)
        start = trace.events.start[events]
        events = events[(start >= t0) & (start < t1)]
        names = {"event": events, "name": texts(trace.events.name[events], trace.strings)}
        found = ByText(pd.DataFrame(names | times(trace, events)), "name")
        found.tell_durations()
        return found.by("total_ns")
