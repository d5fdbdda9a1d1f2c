"""The steps table: how long each step took, what the GPU did in it, and which steps are slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers.model import Trace
from parsers.model.arrays import median_of
from rules.analysis.analysis import Analysis

if TYPE_CHECKING:
    import pandas as pd

SLOW = 1.2  # times the median of the steady steps


def step_table(analysis: Analysis) -> pd.DataFrame:
    """One row a step: length (ns), busy share and idle time of its rank's first GPU, operations, remark."""
    import pandas as pd

    trace, steps = analysis.trace, list(analysis.steps)
    devices = [_device_of(trace, step.rank) for step in steps]
    budgets = [
        analysis.budget(device, step.start, step.end) if device is not None else None
        for device, step in zip(devices, steps, strict=True)
    ]
    starts = {
        device: np.sort(trace.events.start[trace.operations_of_device(device)])
        for device in set(devices)
        if device is not None
    }
    length = np.array([step.end - step.start for step in steps], np.int64)
    steady = length[[index for index, step in enumerate(steps) if step.steady]]
    median = float(median_of(steady if len(steady) else length)) if len(length) else 0.0
    of_ranks = len({step.rank for step in steps}) > 1
    return pd.DataFrame(
        {
            "name": [step.name for step in steps],
            "rank": [f"rank {step.rank}" if of_ranks else "" for step in steps],
            "start_ns": np.array([step.start for step in steps], np.int64),
            "end_ns": np.array([step.end for step in steps], np.int64),
            "duration_ns": length,
            "ratio": length / median if median else np.ones(len(length)),
            "gpu_idle_ns": [float("nan") if budget is None else budget.total_idle_ns for budget in budgets],
            "busy_share": [
                float("nan")
                if budget is None
                else 1 - (budget.total_idle_ns + budget.residual_ns) / max(budget.window_ns, 1)
                for budget in budgets
            ],
            "operations": [
                0
                if device is None
                else int(np.subtract(*np.searchsorted(starts[device], (step.end, step.start))))
                for device, step in zip(devices, steps, strict=True)
            ],
            "remark": [_remark(step.steady, length[index], median) for index, step in enumerate(steps)],
            "step": np.arange(len(steps)),
        }
    )


def _device_of(trace: Trace, rank: int | None) -> int | None:
    for index, device in enumerate(trace.devices):
        if (rank is None or device.rank in (None, rank)) and len(trace.operations_of_device(index)):
            return index
    return None


def _remark(steady: bool, length: int, median: float) -> str:
    if not steady:
        return "not steady"
    return "slow" if median and length > SLOW * median else ""
