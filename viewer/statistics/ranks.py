"""The tables of ranks and of collectives, and the waiting of each rank in each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers.model import Trace
from parsers.model.arrays import median_of
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, length, union
from rules.analysis.ranks.collectives import measured_bus_bandwidth
from rules.analysis.ranks.late import Ranks
from rules.analysis.ranks.recorded import RecordedRun, ranks_of
from viewer.statistics.rank_map import RankMap

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False)
class RankTables:
    """``map`` shows the waiting of each rank in each step."""

    ranks: pd.DataFrame
    collectives: pd.DataFrame
    step_names: tuple[str, ...]
    map: RankMap


def rank_tables(analysis: Analysis) -> RankTables:
    """Everything the ranks tab shows, inside the analysed window; times in ns, shares of the window."""
    ranks = ranks_of(analysis)
    return RankTables(
        _ranks(analysis, ranks), _collectives(analysis.trace, ranks), ranks.run.step_names, RankMap(ranks)
    )


def _by_number(trace: Trace, device: int) -> tuple[int, int, int]:
    found = trace.devices[device]
    return (found.rank if found.rank is not None else len(trace.devices), found.id, device)


def _ranks(analysis: Analysis, ranks: Ranks[RecordedRun]) -> pd.DataFrame:
    import pandas as pd

    run, caused = ranks.run, ranks.run.meetings.caused_by_row
    window = max(analysis.window_ns, 1)
    rows = []
    for device in sorted(analysis.active_devices, key=lambda device: _by_number(analysis.trace, device)):
        budget, row = analysis.budgets(device), run.row_of(device)
        mine = run.columns.device == device
        whole = clip(union(run.columns.start[mine], run.columns.end[mine]), *analysis.window)
        last, late_by = _lateness(ranks, row)
        rows.append(
            {
                "name": run.name(row),
                "device": device,
                "busy_share": budget.busy_ns / window,
                "compute_ns": budget.compute_ns,
                "communication_ns": length(whole),
                "exposed_communication_ns": budget.exposed_communication_ns,
                "waiting_ns": int(ranks.waiting[row]),
                "makes_wait_ns": int(caused[row]),
                "last_share": last,
                "late_ns": late_by,
                "idle_ns": budget.total_idle_ns,
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
    return float(was_last.mean()), float(median_of(after_first))


def _collectives(trace: Trace, ranks: Ranks[RecordedRun]) -> pd.DataFrame:
    """What a benchmark reached at that size is 0 where none was opened."""
    import pandas as pd

    columns = {
        "collective": "collective",
        "process_group": "group",
        "message_bytes": "bytes",
        "calls": "count",
        "ranks": "ranks",
        "transfer_ns": "transfer_ns",
        "waiting_ns": "waiting_ns",
        "algorithm_bytes_per_s": "algorithm_bandwidth",
        "bus_bytes_per_s": "bus_bandwidth",
    }
    table = pd.DataFrame(
        {name: [getattr(row, of) for row in ranks.collectives] for name, of in columns.items()}
    )
    table["measured_bus_bytes_per_s"] = [
        measured_bus_bandwidth(trace, row.collective, row.bytes) or 0.0 for row in ranks.collectives
    ]
    return table
