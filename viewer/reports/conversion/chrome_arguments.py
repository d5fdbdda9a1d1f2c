"""The arguments of events in the words of PyTorch's profiler: what analyses read, and what else the file says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from parsers.chrome.build.copies import memory_kinds
from parsers.chrome.decode.messages import element_bytes
from parsers.chrome.decode.records import Arguments as Known
from parsers.model import I64, Attribute, EventKind, MemoryKind, SyncKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.attributes import TEXT_ATTRIBUTES
from rules.kernels.operator_roofs import NUMBERS, calls_asked

_KNOWN = frozenset(field.encode_name for field in msgspec.structs.fields(Known))
_SHAPES = {Attribute.GRID_SHAPE: "grid", Attribute.BLOCK_SHAPE: "block"}
_JSON = {Attribute.INPUT_DIMS: "Input Dims", Attribute.INPUT_TYPES: "Input type"}
_MESSAGES = frozenset({Attribute.MESSAGE_BYTES, Attribute.MESSAGE_DTYPE})
_NAMES = {
    **_SHAPES,
    **_JSON,
    **{which: which.value for which in _MESSAGES},
    Attribute.SYNC_KIND: "cuda_sync_kind",
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
_ENDS = {Attribute.SOURCE_MEMORY: "kind_src", Attribute.TARGET_MEMORY: "kind_dst"}  # as XProf writes them
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
        self._asked = np.array(sorted(calls_asked(trace).values()), np.int64)

    def of(self, events: I64) -> Mapping[int, dict[str, Any]]:
        """The arguments of those of these events (sorted indices) that have any."""
        trace, found = self._trace, self._rest(events)
        for index, number in zip(events.tolist(), self._correlation[events].tolist(), strict=True):
            if number:
                found[index]["correlation"] = number
        for which, column in trace.attributes.items():
            if (name := _NAMES.get(which)) is None:
                continue
            inside = (
                slice(*np.searchsorted(column.event, [events[0], events[-1] + 1]))
                if len(events)
                else slice(0)
            )
            stated = column.event[inside]
            mine = np.isin(stated, events)
            values = column.value[inside][mine].tolist()
            texts = trace.strings if which in TEXT_ATTRIBUTES else None
            written = {each: _written(which, texts[each] if texts else each) for each in set(values)}
            for index, value in zip(stated[mine].tolist(), values, strict=True):
                if written[value] is not None:
                    found[index][name] = written[value]
        for index, ends in self._ends_of_copies(events).items():
            found[index]["memcpy_details"] = ends
        if not _MESSAGES.isdisjoint(trace.attributes):
            for arguments in found.values():
                _finish_message(arguments)
        return found

    def _ends_of_copies(self, events: I64) -> Mapping[int, str]:
        """The kinds of memory that a copy is between, where its name does not say them."""
        trace = self._trace
        copies = trace.events.only(events, EventKind.MEMCPY)
        kinds = {which: trace.attribute(which, copies).tolist() for which in _ENDS}
        found = {}
        for place, index in enumerate(copies.tolist()):
            ends = {which: MemoryKind(max(values[place], 0)) for which, values in kinds.items()}
            stated = [
                f"{_ENDS[which]}:{end.name.lower()}"
                for which, end in ends.items()
                if end is not MemoryKind.UNKNOWN
            ]
            if stated and tuple(ends.values()) != memory_kinds(trace.name(index)):
                found[index] = " ".join(stated)
        return found

    def _rest(self, events: I64) -> defaultdict[int, dict[str, Any]]:
        """What the file says besides, in the order in which it lies in the file."""
        found: defaultdict[int, dict[str, Any]] = defaultdict(dict)
        if not self._with_rest:
            events = events[np.isin(events, self._asked)]
        for index in events[np.argsort(self._trace.events.source_row[events], kind="stable")].tolist():
            rest = {
                key: value
                for key, value in self._trace.arguments(index).items()
                if (key not in _KNOWN if self._with_rest else key == NUMBERS)
                and isinstance(value, str | int | float | bool | list | dict)
            }
            if rest:
                found[index] = rest
        return found


def _written(which: Attribute, value: Any) -> Any:
    if which in _SHAPES:
        return [int(side) for side in value.split(",")]
    if which in _JSON:
        return msgspec.Raw(value.encode())
    return _SYNCHRONISATIONS.get(SyncKind(value)) if which is Attribute.SYNC_KIND else value


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
        and len(distinct_values(numbers[first])) == len(launches)
    )
    if told:
        return recorded
    found = np.where(recorded != 0, recorded + len(recorded) + 1, 0)
    found[launch] = launch + 1
    found[operation] = launch + 1
    return np.asarray(found, np.int64)
