"""GPU operations by device, sorted by start: one pass over the trace, kept with it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.model import Trace

I64 = npt.NDArray[np.int64]

_KEPT_AS = "_operations_by_device"
_NONE = np.empty(0, np.int64)


def operations_of_device(trace: Trace, device: int) -> I64:
    """GPU operations of one device (index into ``Trace.devices``), sorted by start."""
    kept: list[I64] | None = vars(trace).get(_KEPT_AS)
    if kept is None:
        operations = trace.gpu_operations
        owner = trace.lane_device[trace.events.lane[operations]]
        order = np.lexsort((trace.events.start[operations], owner))
        edges = np.searchsorted(owner[order], np.arange(len(trace.devices) + 1))
        kept = [operations[order[edges[each] : edges[each + 1]]] for each in range(len(trace.devices))]
        vars(trace)[_KEPT_AS] = kept
    return kept[device] if 0 <= device < len(kept) else _NONE


def keep_operations(trace: Trace, by_device: list[I64]) -> None:
    """State what ``operations_of_device`` is to answer, where it is known already."""
    vars(trace)[_KEPT_AS] = by_device
