"""GPU operations by device, sorted by start: one pass over the trace, kept with it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.model import Trace

I64 = npt.NDArray[np.int64]

_KEPT_AS = "_operations_by_device"
_LAUNCHES_KEPT_AS = "_launches_by_device"
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


def launches_of_device(trace: Trace, device: int) -> I64:
    """The launch of each operation that ``operations_of_device`` gives; -1 where none was recorded."""
    kept: dict[int, I64] = vars(trace).setdefault(_LAUNCHES_KEPT_AS, {})
    if device not in kept:
        kept[device] = trace.links.launch_of(operations_of_device(trace, device))
    return kept[device]


def keep_operations(trace: Trace, by_device: list[I64]) -> None:
    """State what ``operations_of_device`` is to answer, where it is known already."""
    vars(trace)[_KEPT_AS] = by_device
