"""The arguments of events in the words of PyTorch's profiler: what analyses read, and what else the file says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from parsers.chrome.decode.messages import element_bytes
from parsers.chrome.decode.records import Arguments as Known
from parsers.model import Attribute, SyncKind, Trace
from parsers.model.attributes import TEXT_ATTRIBUTES

I64 = npt.NDArray[np.int64]

_KNOWN = frozenset(field.encode_name for field in msgspec.structs.fields(Known))
_WRITTEN = {
    Attribute.BYTES: "bytes",
    Attribute.REGISTERS: "registers per thread",
    Attribute.GRAPH_NODE: "graph node id",
    Attribute.SEQUENCE: "Sequence number",
    Attribute.FORWARD_THREAD: "Fwd thread id",
    Attribute.COLLECTIVE: "Collective name",
    Attribute.GROUP: "Process Group Name",
    Attribute.GROUP_SIZE: "Group size",
    Attribute.COLLECTIVE_SEQUENCE: "Seq",
    Attribute.NVTX_DOMAIN: "NVTX domain",
    Attribute.STEP_NUMBER: "step_num",
}
_SHAPES = {Attribute.GRID_SHAPE: "grid", Attribute.BLOCK_SHAPE: "block"}
_JSON = {Attribute.INPUT_DIMS: "Input Dims", Attribute.INPUT_TYPES: "Input type"}
_SYNCHRONISATIONS = {
    SyncKind.EVENT: "Event Sync",
    SyncKind.STREAM_WAIT_EVENT: "Stream Wait Event",
    SyncKind.STREAM: "Stream Sync",
    SyncKind.CONTEXT: "Context Sync",
}
_OF_BYTES = "Byte"  # the type of a message whose elements are not known


class Arguments:
    """Made once for a trace, asked for slices of its events."""

    def __init__(self, trace: Trace, everything: bool) -> None:
        """``everything``: also what no analysis reads, which is fetched from the file event by event."""
        self._trace = trace
        self._correlation = _correlations(trace)
        self._with_rest = everything

    def of(self, events: I64) -> Mapping[int, dict[str, Any]]:
        """The arguments of those of these events (sorted indices) that have any."""
        trace, found = self._trace, self._rest(events)
        for index, number in zip(events.tolist(), self._correlation[events].tolist(), strict=True):
            if number:
                found[index]["correlation"] = number
        for which, column in trace.attributes.items():
            inside = (
                slice(*np.searchsorted(column.event, [events[0], events[-1] + 1]))
                if len(events)
                else slice(0)
            )
            stated = column.event[inside]
            mine = np.isin(stated, events)
            values: list[Any] = column.value[inside][mine].tolist()
            if which in TEXT_ATTRIBUTES:
                values = [trace.strings[value] for value in values]
            for index, value in zip(stated[mine].tolist(), values, strict=True):
                _state(found[index], which, value)
        for arguments in found.values():
            _finish_message(arguments)
        return found

    def _rest(self, events: I64) -> defaultdict[int, dict[str, Any]]:
        """What the file says besides, in the order in which it lies in the file."""
        found: defaultdict[int, dict[str, Any]] = defaultdict(dict)
        if self._with_rest:
            for index in events[np.argsort(self._trace.events.source_row[events], kind="stable")].tolist():
                rest = {
                    key: value
                    for key, value in self._trace.arguments(index).items()
                    if key not in _KNOWN and isinstance(value, str | int | float | bool | list | dict)
                }
                if rest:
                    found[index] = rest
        return found


def _state(arguments: dict[str, Any], which: Attribute, value: Any) -> None:
    if which in _WRITTEN:
        arguments[_WRITTEN[which]] = value
    elif which in _SHAPES:
        arguments[_SHAPES[which]] = [int(side) for side in value.split(",")]
    elif which in _JSON:
        arguments[_JSON[which]] = msgspec.Raw(value.encode())
    elif which is Attribute.SYNC_KIND:
        if (kind := SyncKind(value)) in _SYNCHRONISATIONS:
            arguments["cuda_sync_kind"] = _SYNCHRONISATIONS[kind]
    elif which in (Attribute.MESSAGE_BYTES, Attribute.MESSAGE_DTYPE):
        arguments[which.value] = value


def _finish_message(arguments: dict[str, Any]) -> None:
    """The size of a message is written as its elements and their type."""
    size, dtype = arguments.pop("message_bytes", None), arguments.pop("message_dtype", None)
    each = element_bytes(dtype) if isinstance(dtype, str) else None
    if size is not None:
        whole = each is not None and size % each == 0
        arguments["In msg nelems"] = size // each if whole and each else size
        arguments["dtype"] = dtype if whole else _OF_BYTES
    elif dtype is not None:
        arguments["dtype"] = dtype


def _correlations(trace: Trace) -> I64:
    """A number for every event that shares one with its launch; the recorded one where that tells as much."""
    recorded = np.zeros(len(trace.events), np.int64)
    if (column := trace.attributes.get(Attribute.CORRELATION)) is not None:
        recorded[column.event] = column.value
    operation, launch = trace.links.operation, trace.links.launch
    if not len(operation):
        return recorded
    numbers = recorded[launch]
    launches, first = np.unique(launch, return_index=True)
    told = (
        bool(numbers.all())
        and np.array_equal(numbers, recorded[operation])
        and len(np.unique(numbers[first])) == len(launches)
    )
    if told:
        return recorded
    found = np.where(recorded != 0, recorded + len(recorded) + 1, 0)
    found[launch] = launch + 1
    found[operation] = launch + 1
    return np.asarray(found, np.int64)
