"""Summaries of work on the GPU: kernels by name and by kind, copies, collectives, GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers.model.names.devices import short_device_name
from rules.analysis.analysis import Analysis
from viewer.statistics.kernels import family_table, kernel_table
from viewer.statistics.operator_roofs import roof_table
from viewer.statistics.ranks import rank_tables
from viewer.tables.summaries.wording import CALLS, LONGEST, MEAN, P50, P99, TOTAL, ByText, during
from viewer.tables.table import Column, Summary, summary

if TYPE_CHECKING:
    import pandas as pd

SHARE = Column("gpu_time_share", "share of the summed time of all GPU operations", "Share of GPU time")


@summary
class KernelSummary(Summary):
    """The table of the tab Kernels."""

    name = "kernel_summary"
    title = "Kernels"
    about = "operations on the GPU by name: kernels, copies, memsets"
    order = 10
    columns = (
        Column("name", "name as recorded"),
        Column("short_name", "name without its template arguments", "Kernel"),
        Column("family", "kind of work", "Kind"),
        CALLS,
        TOTAL,
        MEAN,
        P50,
        P99,
        SHARE,
        LONGEST,
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        return kernel_table(analysis, t0, t1)


@summary
class KernelKinds(Summary):
    """The same table, grouped by family."""

    name = "kernel_kinds"
    title = "Kinds of kernels"
    about = "operations on the GPU by kind of work"
    order = 20
    columns = (
        Column("family", "kind of work", "Kind"),
        Column("kernels", "number of different names", "Kernels"),
        CALLS,
        TOTAL,
        MEAN,
        SHARE,
        LONGEST,
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        return family_table(kernel_table(analysis, t0, t1))


@summary
class OperatorRoofs(Summary):
    """The table of the tab Roofs."""

    name = "operator_roofs"
    title = "Operators and their roofs"
    about = "operators by shape and type, and how much of what the GPU can do each reaches"
    order = 34
    columns = (
        Column("name", "name as recorded", "Operator"),
        Column("input_shapes", "shapes of the first two inputs", "Shapes"),
        Column("input_type", "type of the inputs", "Type"),
        Column(
            "calls",
            "how many calls of it the GPU begins to run, which the CPU may have begun before",
            "GPU calls",
        ),
        TOTAL,
        MEAN,
        SHARE,
        Column(
            "moved_bytes_per_s",
            "at least: every input and output once; empty where that is not known",
            "Moves",
        ),
        Column("operations_per_s", "by the shapes; empty where that is not known"),
        Column(
            "roof_share",
            "part of its roof that it reaches: what the GPU's memory or arithmetic units would do at most; more comes "
            "from a cache or from an algorithm with fewer operations; empty where that is not known",
            "Reaches",
        ),
        Column("roof", "what limits it first: the memory, or the peak of a type", "Roof"),
        LONGEST,
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        return roof_table(analysis.trace, t0, t1)


@summary
class CopySummary(Summary):
    """Copies by direction and kind of memory."""

    name = "copy_summary"
    title = "Copies and memsets"
    about = "copies by direction and kind of memory, and memsets"
    order = 60
    columns = (
        Column("operation", "copy or memset"),
        Column("direction", "from where to where"),
        Column("from_memory", "kind of memory that is read"),
        Column("to_memory", "kind of memory that is written"),
        CALLS,
        TOTAL,
        MEAN,
        P50,
        P99,
        Column("size_bytes", "moved by all of them"),
        Column("moved_bytes_per_s", "while they ran; empty where sizes were not recorded"),
        LONGEST,
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        keys = ("operation", "direction", "from_memory", "to_memory")
        found = ByText(during(analysis, "copies", t0, t1), *keys)
        found.tell_durations()
        size, total = found.summed("size_bytes"), found.stats.total
        found.table["size_bytes"] = size
        known = (size > 0) & (total > 0)
        found.table["moved_bytes_per_s"] = np.where(known, size / np.maximum(total, 1) * 1e9, np.nan)
        return found.by("total_ns")


@summary
class CollectiveSummary(Summary):
    """The table of the tab Collectives."""

    name = "collective_summary"
    title = "Collectives"
    about = "collectives by kind, process group and size"
    order = 70
    whole_run = True
    columns = (
        Column("collective", "allreduce, allgather ...", "Collective"),
        Column("process_group", "process group, where recorded", "Group"),
        Column("message_bytes", "what one rank contributes", "Size"),
        CALLS,
        Column("ranks", "ranks of the group", "Ranks"),
        Column("transfer_ns", "median of the shortest participants: about the transfer itself", "Transfer"),
        Column(
            "waiting_ns", "waiting for others, exposed: mean over ranks, all calls together", "Exposed wait"
        ),
        Column("algorithm_bytes_per_s", "bytes of the message a second of transfer", "Algorithm"),
        Column(
            "bus_bytes_per_s",
            "what each link carries: algorithm bandwidth times the algorithm's factor",
            "Bus",
        ),
        Column(
            "measured_bus_bytes_per_s", "what nccl-tests reached at this size; 0: none was opened", "Measured"
        ),
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        return rank_tables(analysis).collectives


@summary
class RankSummary(Summary):
    """The table of the tab Ranks; of a single GPU it has one row."""

    name = "rank_summary"
    title = "GPUs and ranks"
    about = "what each GPU did in the analysed time, and how ranks waited for each other"
    order = 90
    whole_run = True
    columns = (
        Column("name", "which GPU, by its rank", "Rank"),
        Column("busy_share", "part of the analysed time in which it ran anything", "GPU busy"),
        Column("compute_ns", "time in which kernels ran", "Compute"),
        Column("communication_ns", "time in collectives, overlapped by compute or not"),
        Column("exposed_communication_ns", "time in collectives that compute does not overlap", "Exposed"),
        Column("waiting_ns", "inside collectives before the transfer could start, exposed", "Exposed wait"),
        Column("makes_wait_ns", "how long the others waited for it, on average", "Makes wait"),
        Column("late_ns", "how long after the first rank it comes to a collective, median", "Late by"),
        Column("last_share", "part of its collectives to which it came last", "Last"),
        Column("idle_ns", "time in which it ran nothing", "Idle"),
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        table = rank_tables(analysis).ranks
        return table if len(table) else table.reindex(columns=[column.name for column in self.columns])


def gpu_name(analysis: Analysis, device: int) -> str:
    """Which GPU, by its rank where it has one."""
    return short_device_name(analysis.trace, device)
