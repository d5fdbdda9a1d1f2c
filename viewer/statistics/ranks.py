"""The tables of ranks and of collectives, and the waiting of each rank in each step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from parsers.model import Trace
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, length, union
from rules.analysis.ranks.collectives import measured_bus_bandwidth
from rules.analysis.ranks.late import Ranks
from rules.analysis.ranks.recorded import RecordedRun, ranks_of
from viewer.statistics.rank_map import RankMap


@dataclass(frozen=True, slots=True, eq=False)
class RankTables:
    """``map`` shows the waiting of each rank in each step."""

    ranks: pd.DataFrame
    collectives: pd.DataFrame
    step_names: tuple[str, ...]
    map: RankMap


def rank_tables(trace: Trace, analysis: Analysis) -> RankTables:
    """Everything the ranks tab shows, inside the analysed window; times in ns, shares of the window."""
    ranks = ranks_of(analysis)
    return RankTables(
        _ranks(trace, analysis, ranks), _collectives(trace, ranks), ranks.run.step_names, RankMap(ranks)
    )


def _by_number(trace: Trace, device: int) -> tuple[int, int, int]:
    found = trace.devices[device]
    return (found.rank if found.rank is not None else len(trace.devices), found.id, device)


def _ranks(trace: Trace, analysis: Analysis, ranks: Ranks[RecordedRun]) -> pd.DataFrame:
    run, caused = ranks.run, ranks.run.meetings.caused_by_row
    window = max(analysis.window_ns, 1)
    rows = []
    for device in sorted(analysis.active_devices, key=lambda device: _by_number(trace, device)):
        budget, row = analysis.budgets(device), run.row_of(device)
        mine = run.columns.device == device
        whole = clip(union(run.columns.start[mine], run.columns.end[mine]), *analysis.window)
        last, late_by = _lateness(ranks, row)
        rows.append(
            {
                "name": run.name(row),
                "device": device,
                "busy": budget.busy_ns / window,
                "compute": budget.compute_ns,
                "communication": length(whole),
                "exposed": budget.exposed_communication_ns,
                "waiting": int(ranks.waiting[row]),
                "caused": int(caused[row]),
                "last": last,
                "late": late_by,
                "idle": budget.total_idle_ns,
                "clock": int(ranks.clock_error[row]),
            }
        )
    return pd.DataFrame(rows)


def _lateness(ranks: Ranks[RecordedRun], row: int) -> tuple[float, float]:
    """The share of a row's collectives to which it came last, and how long after the first, median ns.

    All participants leave a collective together, so who came later was in it for less time. Not a number for a row
    that met no other one.
    """
    meetings = ranks.run.meetings
    mine = meetings.of_row(row)
    mine = mine[meetings.in_window[meetings.meeting[mine]]]
    if not len(mine):
        return float("nan"), float("nan")
    longest = np.maximum.reduceat(meetings.duration, meetings.first[:-1])
    after_first = longest[meetings.meeting[mine]] - meetings.duration[mine]
    was_last = meetings.last[meetings.meeting[mine]] == mine
    return float(was_last.mean()), float(np.median(after_first))


def _collectives(trace: Trace, ranks: Ranks[RecordedRun]) -> pd.DataFrame:
    """``measured`` is what a benchmark reached at that size, bytes per second; 0 where none was opened."""
    columns = [
        "collective", "group", "bytes", "count", "ranks", "transfer_ns", "waiting_ns",
        "algorithm_bandwidth", "bus_bandwidth",
    ]  # fmt: skip
    rows = [[getattr(row, column) for column in columns] for row in ranks.collectives]
    table = pd.DataFrame(rows, columns=columns)
    table["measured"] = [
        measured_bus_bandwidth(trace, row.collective, row.bytes) or 0.0 for row in ranks.collectives
    ]
    return table
