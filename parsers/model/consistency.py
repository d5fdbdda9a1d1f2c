"""Whether the parts of a trace fit together: columns of the right type, and every index leads somewhere."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum

import numpy as np
import numpy.typing as npt

from parsers.model.attributes import (
    TEXT_ATTRIBUTES,
    Attribute,
    AttributeColumn,
    CopyKind,
    MemoryKind,
    SyncKind,
)
from parsers.model.events import COLUMNS
from parsers.model.lanes import EventKind
from parsers.model.memory import ACTIVE, INACTIVE, PENDING_FREE, Memory
from parsers.model.trace import Trace

_OF_MEMORY: dict[str, type[np.integer]] = {
    "state": np.uint8,
    "device": np.int32,
    "stack": np.int32,
}  # all else: int64
_VOCABULARIES: dict[Attribute, type[Enum]] = {
    Attribute.COPY_KIND: CopyKind,
    Attribute.SOURCE_MEMORY: MemoryKind,
    Attribute.TARGET_MEMORY: MemoryKind,
    Attribute.SYNC_KIND: SyncKind,
}


def require_consistent(trace: Trace) -> None:
    """Raise ``ValueError`` that names the first part of a trace that does not fit the rest.

    What ``EventTable`` promises by itself is checked there.
    """
    events = trace.events
    for name, wanted in COLUMNS.items():
        _require_type(f"the column {name}", getattr(events, name), wanted)
    _require_index("the name of an event", events.name, len(trace.strings))
    _require_index("the lane of an event", events.lane, len(trace.lanes))
    _require_known("the kind of an event", events.kind, EventKind)
    if len(events) and (int(events.depth.min()) < 0 or int(events.start.min()) < 0):
        raise ValueError("an event lies before the first moment, or above the first row")
    _require_links(trace)
    for which, column in trace.attributes.items():
        _require_attribute(which, column, trace)
    for counter in trace.counters:
        what = f"the counter {counter.name}"
        _require_type(what, counter.time, np.int64)
        _require_type(what, counter.value, np.float64)
        if len(counter.time) != len(counter.value) or np.any(np.diff(counter.time) < 0):
            raise ValueError(f"{what} has no value for each of its times, or these are not in order")
    for memory in trace.memory:
        _require_memory(memory, len(trace.devices))
    for lane in trace.lanes:
        _require_device(f"the lane {lane.name}", lane.device, trace)
    for counter in trace.counters:
        _require_device(f"the counter {counter.name}", counter.device, trace)


def _require_links(trace: Trace) -> None:
    links, count = trace.links, len(trace.events)
    for what, column in (("an operation", links.operation), ("a launch", links.launch)):
        _require_type(f"links of {what}", column, np.int64)
        _require_index(f"links of {what}", column, count)
    if len(links.operation) != len(links.launch) or np.any(np.diff(links.operation) < 0):
        raise ValueError("links of operations are not in order, or lack launches")


def _require_attribute(which: Attribute, column: AttributeColumn, trace: Trace) -> None:
    what = f"the attribute {which.value}"
    _require_type(what, column.event, np.int64)
    _require_type(what, column.value, np.int64)
    _require_index(what, column.event, len(trace.events))
    if len(column.event) != len(column.value) or np.any(np.diff(column.event) <= 0):
        raise ValueError(f"{what} has no value for each of its events, or these are not in order")
    if which in TEXT_ATTRIBUTES:
        _require_index(what, column.value, len(trace.strings))
    elif which in _VOCABULARIES:
        _require_known(what, column.value, _VOCABULARIES[which])


def _require_memory(memory: Memory, devices: int) -> None:
    stacks = len(memory.stack_offset) - 1
    for part in (memory.allocations, memory.blocks):
        columns = {each.name: getattr(part, each.name) for each in fields(part)}
        for name, column in columns.items():
            _require_type(f"the memory's column {name}", column, _OF_MEMORY.get(name, np.int64))
        if len({len(column) for column in columns.values()}) > 1:
            raise ValueError("the memory's columns differ in length")
        _require_index("the device of memory", columns["device"], devices)
        _require_index("the stack of memory", columns["stack"], stacks, least=-1)
    _require_type("stacks", memory.stack_offset, np.int64)
    _require_type("stacks", memory.stack_frame, np.int32)
    _require_index("a frame of a stack", memory.stack_frame, len(memory.frames))
    edges = memory.stack_offset
    if stacks < 0 or edges[0] != 0 or edges[-1] != len(memory.stack_frame) or np.any(np.diff(edges) < 0):
        raise ValueError("stacks do not follow one another")
    if np.any(memory.allocations.end < memory.allocations.start):
        raise ValueError("memory is freed before it is allocated")
    if not np.isin(memory.blocks.state, (INACTIVE, ACTIVE, PENDING_FREE)).all():
        raise ValueError("the state of a block is none that is known")
    for failure in memory.failures:
        if not (0 <= failure.device < devices and -1 <= failure.stack < stacks):
            raise ValueError("an allocation that failed leads nowhere")


def _require_device(what: str, device: int | None, trace: Trace) -> None:
    if device is not None and not 0 <= device < len(trace.devices):
        raise ValueError(f"{what} belongs to a device that there is not")


def _require_type(what: str, column: npt.NDArray[np.generic], wanted: type[np.generic]) -> None:
    if column.ndim != 1 or column.dtype != wanted:
        raise ValueError(f"{what} is not made of {wanted.__name__}")


def _require_index(what: str, column: npt.NDArray[np.integer], size: int, least: int = 0) -> None:
    if len(column) and not (int(column.min()) >= least and int(column.max()) < size):
        raise ValueError(f"{what} leads nowhere")


def _require_known(what: str, column: npt.NDArray[np.integer], vocabulary: type[Enum]) -> None:
    known = np.array([each.value for each in vocabulary])
    if not np.isin(column, known).all():
        raise ValueError(f"{what} is none that is known")
