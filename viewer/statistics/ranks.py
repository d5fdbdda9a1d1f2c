"""The tables of ranks and of collectives, and the waiting of each rank in each step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from parsers.model import I64, Trace
from parsers.model.names.devices import short_device_name
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.collectives import measured_bus_bandwidth
from rules.analysis.ranks.waiting import Ranks, ranks_of


@dataclass(frozen=True, slots=True, eq=False)
class RankTables:
    """``waiting`` is (steps, ranks) in ns; ``rank_names`` are its columns. Ranks stand in order of their numbers."""

    ranks: pd.DataFrame
    collectives: pd.DataFrame
    step_names: tuple[str, ...]
    rank_names: tuple[str, ...]
    waiting: I64


def rank_tables(trace: Trace, analysis: Analysis) -> RankTables:
    """Everything the ranks tab shows, inside the analysed window; times in ns, shares of the window."""
    ranks = ranks_of(analysis)
    nothing = np.empty((0, 0), np.int64)
    steps, waiting = ranks.waiting_by_step() if ranks.devices else ((), nothing)
    order = sorted(range(len(ranks.table)), key=lambda column: _by_number(trace, ranks.devices[column]))
    return RankTables(
        _ranks(trace, analysis, ranks),
        _collectives(trace, ranks),
        steps,
        tuple(ranks.table[column].name for column in order),
        waiting[:, order] if waiting.size else waiting,
    )


def _by_number(trace: Trace, device: int) -> tuple[int, int, int]:
    found = trace.devices[device]
    return (found.rank if found.rank is not None else len(trace.devices), found.id, device)


def _ranks(trace: Trace, analysis: Analysis, ranks: Ranks) -> pd.DataFrame:
    known = {row.device: row for row in ranks.table}
    late = dict(zip(ranks.devices, _lateness(ranks), strict=True))
    window = max(analysis.window_ns, 1)
    rows = []
    for device in sorted(analysis.active_devices, key=lambda device: _by_number(trace, device)):
        budget, row = analysis.budgets(device), known.get(device)
        last, late_by = late.get(device, (float("nan"), float("nan")))
        rows.append(
            {
                "name": short_device_name(trace, device),
                "device": device,
                "busy": budget.busy_ns / window,
                "compute": budget.compute_ns,
                "communication": row.communication_ns if row is not None else 0,
                "exposed": budget.exposed_communication_ns,
                "waiting": row.waiting_ns if row is not None else 0,
                "caused": row.caused_ns if row is not None else 0,
                "last": last,
                "late": late_by,
                "idle": budget.total_idle_ns,
                "clock": row.clock_error_ns if row is not None else 0,
            }
        )
    return pd.DataFrame(rows)


def _lateness(ranks: Ranks) -> list[tuple[float, float]]:
    """For each device: the share of its collectives to which it came last, and how long after the first, median ns.

    All participants leave a collective together, so who came later was in it for less time. Not a number for a device
    that met no other one.
    """
    nothing = float("nan"), float("nan")
    if not len(ranks.row):
        return [nothing for _ in ranks.devices]
    together = ranks.in_window & (ranks.present.sum(axis=1) > 1)
    after_first = ranks.duration.max(axis=1)[:, None] - ranks.duration
    found = []
    for column in range(len(ranks.devices)):
        here = together & ranks.present[:, column]
        was_last = ranks.last[here] == column
        found.append(
            (float(was_last.mean()), float(np.median(after_first[here, column]))) if here.any() else nothing
        )
    return found


def _collectives(trace: Trace, ranks: Ranks) -> pd.DataFrame:
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
