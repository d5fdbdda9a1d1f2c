"""The tables of ranks and of collectives, and the waiting of each rank in each step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from parsers.model import Trace
from rules.analysis.analysis import Analysis
from rules.analysis.ranks import MISSING, Ranks, ranks_of

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RankTables:
    """``waiting`` is (steps, ranks) in ns; ``rank_names`` are its columns."""

    ranks: pd.DataFrame
    collectives: pd.DataFrame
    step_names: tuple[str, ...]
    rank_names: tuple[str, ...]
    waiting: I64
    late: str


def rank_tables(trace: Trace, analysis: Analysis) -> RankTables:
    """Everything the ranks tab shows, inside the analysed window; times in ns, shares of the window."""
    ranks = ranks_of(analysis)
    nothing = np.empty((0, 0), np.int64)
    steps, waiting = ranks.waiting_by_step() if ranks.devices else ((), nothing)
    names = tuple(row.name for row in ranks.table)
    return RankTables(
        _ranks(trace, analysis, ranks),
        _collectives(ranks),
        steps,
        names,
        waiting,
        names[ranks.late] if ranks.late != MISSING and names else "",
    )


def _ranks(trace: Trace, analysis: Analysis, ranks: Ranks) -> pd.DataFrame:
    known = {row.device: row for row in ranks.table}
    window = max(analysis.window_ns, 1)
    rows = []
    for device in analysis.active_devices:
        budget, row, found = analysis.budgets(device), known.get(device), trace.devices[device]
        name = f"rank {found.rank}" if found.rank is not None else f"GPU {found.id}"
        rows.append(
            {
                "name": row.name if row is not None else name,
                "device": device,
                "busy": budget.busy_ns / window,
                "compute": budget.compute_ns,
                "communication": row.communication_ns if row is not None else 0,
                "exposed": budget.exposed_communication_ns,
                "waiting": row.waiting_ns if row is not None else 0,
                "caused": row.caused_ns if row is not None else 0,
                "idle": budget.total_idle_ns,
                "clock": row.clock_error_ns if row is not None else 0,
            }
        )
    return pd.DataFrame(rows)


def _collectives(ranks: Ranks) -> pd.DataFrame:
    columns = [
        "collective", "group", "bytes", "count", "ranks", "transfer_ns", "waiting_ns",
        "algorithm_bandwidth", "bus_bandwidth",
    ]  # fmt: skip
    rows = [[getattr(row, column) for column in columns] for row in ranks.collectives]
    return pd.DataFrame(rows, columns=columns)
