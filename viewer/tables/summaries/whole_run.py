"""Summaries of the run: step times, where time went, gaps by culprit, peaks of memory, counters."""

from __future__ import annotations

from operator import attrgetter

import numpy as np
import pandas as pd

from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.memory.summary import memory_of
from viewer.statistics.kernels import clipped
from viewer.tables.summaries.gpu import gpu_name
from viewer.tables.table import Column, Summary, summary

PERCENTILES = (50, 90, 99)


@summary
class BudgetSummary(Summary):
    """The bars above the timeline."""

    name = "budget"
    title = "Where the time goes"
    about = "parts of the time of each GPU, which add up to all of it"
    order = 5
    columns = (
        Column("name", "which GPU, by its rank"),
        Column("part", "compute, communication, copy, other, a cause of idling, or residual"),
        Column("total_ns", "time of this part"),
        Column("time_share", "of the time that is looked at"),
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        rows = []
        for device in analysis.active_devices:
            budget = analysis.budget(device, t0, t1)
            parts = [
                ("compute", budget.compute_ns),
                ("communication", budget.exposed_communication_ns),
                ("copy", budget.exposed_copy_ns),
                ("other", budget.other_ns),
                *((cause.key, budget.idle_ns.get(cause, 0)) for cause in Cause),
                ("residual", budget.residual_ns),
            ]
            whole = max(budget.window_ns, 1)
            rows += [(gpu_name(analysis, device), part, ns, ns / whole) for part, ns in parts if ns]
        return pd.DataFrame(rows, columns=[column.name for column in self.columns])


@summary
class StepTimes(Summary):
    """Percentiles of the steady steps; the steps themselves are rows of ``steps``."""

    name = "step_summary"
    title = "Steps"
    about = "length of the steady steps of each rank"
    order = 80
    whole_run = True
    columns = (
        Column("rank", "rank of the process; empty where the recording names none"),
        Column("steps", "steady steps"),
        Column("mean_ns", "on average"),
        *(Column(f"p{each}_ns", f"{each} of 100 took no longer") for each in PERCENTILES),
        Column("shortest_ns", "the shortest"),
        Column("longest_ns", "the longest"),
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        rows = []
        ranks: dict[int | None, list[int]] = {}
        for step in analysis.steady_steps:
            ranks.setdefault(step.rank, []).append(step.duration)
        for rank, lengths in ranks.items():
            ordered = np.sort(np.array(lengths, np.int64))
            at = [ordered[int(np.ceil(each / 100 * len(ordered))) - 1] for each in PERCENTILES]
            rows.append((rank, len(ordered), ordered.mean(), *at, ordered[0], ordered[-1]))
        return pd.DataFrame(rows, columns=[column.name for column in self.columns])


@summary
class GapSummary(Summary):
    """Idle time by cause and culprit."""

    name = "gap_summary"
    title = "Idle time by cause and culprit"
    about = "gaps of all GPUs by cause and culprit"
    order = 85
    columns = (
        Column("cause", f"one of {', '.join(cause.key for cause in Cause)}"),
        Column("culprit", "the culprit"),
        Column("gaps", "how many"),
        Column("total_ns", "idle time of all GPUs together"),
        Column("time_share", "of the time that is looked at, of all GPUs together"),
        Column("event", "the event of the culprit in the longest gap, -1 where there is none"),
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        idle = analysis.idle
        inside = clipped(idle.start, idle.end, t0, t1)
        mine = np.flatnonzero(inside)
        key = idle.cause[mine].astype(np.int64) << 32 | idle.culprit[mine].astype(np.int64)
        by_length = np.lexsort((inside[mine], key))
        mine, key = mine[by_length], key[by_length]
        keys, first, count = np.unique(key, return_index=True, return_counts=True)
        total = np.add.reduceat(inside[mine], first) if len(mine) else np.empty(0, np.int64)
        longest = mine[first + count - 1] if len(mine) else mine
        whole = max(t1 - t0, 1) * max(len(analysis.active_devices), 1)
        return pd.DataFrame(
            {
                "cause": [Cause(each >> 32).key for each in keys.tolist()],
                "culprit": [idle.culprits[each & 0xFFFFFFFF].text for each in keys.tolist()],
                "gaps": count,
                "total_ns": total,
                "time_share": total / whole,
                "event": idle.event[longest],
            }
        ).sort_values("total_ns", ascending=False, ignore_index=True)


@summary
class MemoryPeaks(Summary):
    """The most that each GPU's allocator held."""

    name = "memory_peak"
    title = "Peak of memory"
    about = "the most that each GPU held, as its allocator counts"
    order = 95
    whole_run = True
    columns = (
        Column("name", "which GPU, by its rank"),
        Column("allocated_bytes", "most that was allocated"),
        Column("reserved_bytes", "most that the allocator had reserved, where recorded"),
        Column("peak_at_ns", "when most was allocated"),
        Column("growth_per_step_bytes", "how much more is held after each step, if memory grows"),
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        told = attrgetter("peak_allocated", "peak_reserved", "peak_at", "growth.per_step")
        rows = [(gpu_name(analysis, each.device), *told(each)) for each in memory_of(analysis)]
        return pd.DataFrame(rows, columns=[column.name for column in self.columns])


@summary
class CounterSummary(Summary):
    """Counters with their range."""

    name = "counter_summary"
    title = "Counters"
    about = "every sampled counter with its range"
    order = 100
    columns = (
        Column("name", "name of the counter"),
        Column("unit", "unit of its values"),
        Column("rank", "rank of the process; empty where the recording names none"),
        Column("samples", "how many"),
        Column("least", "least value"),
        Column("mean", "mean of the samples"),
        Column("most", "greatest value"),
    )

    def frame(self, analysis: Analysis, t0: int, t1: int) -> pd.DataFrame:
        rows = []
        for counter in analysis.trace.counters:
            low, high = np.searchsorted(counter.time, (t0, t1))
            value = counter.value[low:high]
            if len(value):
                told = float(value.min()), float(value.mean()), float(value.max())
                rows.append((counter.name, counter.unit, counter.rank, len(value), *told))
        return pd.DataFrame(rows, columns=[column.name for column in self.columns])
