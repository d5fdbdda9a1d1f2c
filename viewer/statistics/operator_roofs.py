"""Time by operator and shape, and how much of its roof each reaches, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers.model import EventKind, Trace
from rules.kernels.operator_roofs import MEMORY_ROOF, OperatorRoof, operator_roofs, shown_shapes, shown_type
from viewer.statistics.kernels import operations_in

if TYPE_CHECKING:
    import pandas as pd


def roof_table(trace: Trace, t0: int, t1: int) -> pd.DataFrame:
    """One row for each operator, shape and type that launched kernels which start in [t0, t1), the longest first.

    What is moved and calculated a second, and the part of the roof, are missing where unknown.
    """
    import pandas as pd

    operations = operations_in(trace, t0, t1)
    whole = max(int(trace.events.duration[operations].sum()), 1)
    kernels = operations[trace.events.kind[operations] == EventKind.KERNEL]
    rows = operator_roofs(trace, kernels)
    return pd.DataFrame(
        {
            "name": np.array([row.name for row in rows], object),
            "input_shapes": np.array([shown_shapes(row.dims) for row in rows], object),
            "input_type": np.array([shown_type(row.dtype) for row in rows], object),
            "calls": np.array([row.calls for row in rows], np.int64),
            "total_ns": np.array([row.ns for row in rows], np.int64),
            "mean_ns": np.array([row.ns / row.calls for row in rows], np.float64),
            "gpu_time_share": np.array([row.ns / whole for row in rows], np.float64),
            "moved_bytes_per_s": np.array(
                [_a_second(row, row.work.moved if row.work else np.nan) for row in rows], np.float64
            ),
            "operations_per_s": np.array(
                [_a_second(row, row.work.operations if row.work else np.nan) for row in rows], np.float64
            ),
            "roof_share": np.array([row.share if row.peak else np.nan for row in rows], np.float64),
            "roof": np.array([_roof(row) for row in rows], object),
            "event": np.array([row.event for row in rows], np.int64),
        }
    )


def _a_second(row: OperatorRoof, amount: float) -> float:
    return amount * row.calls / max(row.ns, 1) * 1e9


def _roof(row: OperatorRoof) -> str:
    if not row.is_beyond:
        return row.roof
    return "memory, and a cache" if row.roof == MEMORY_ROOF else f"{row.roof}, fewer operations"
