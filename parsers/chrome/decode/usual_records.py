"""A type for each category that PyTorch's profiler writes: half the work of the general ``Event``.

A chunk that holds anything else is not decoded here.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, Union

import msgspec
from msgspec import Raw

from parsers.chrome.decode.records import (
    NO_TEXT,
    CollectiveArguments,
    NoArguments,
    Number,
    OperatorArguments,
    Placed,
)
from parsers.files.decoders import UNREADABLE
from parsers.model.late import dataclass

MAX_FAILURES = 8  # more of chunks than successes: the file is of another kind, and trying only costs time


class CallArguments(NoArguments, gc=False):
    """What a call of the runtime or the driver states."""

    correlation: Number = None
    size: Any = None


class OperationArguments(CollectiveArguments, gc=False):
    """What an operation of the GPU states."""

    device: Number = None
    stream: Number = None
    correlation: Number = None
    registers: Number = msgspec.field(name="registers per thread", default=None)
    grid: Raw = NO_TEXT
    block: Raw = NO_TEXT
    graph_node: Number = msgspec.field(name="graph node id", default=None)
    bytes: Any = None
    sync_kind: Any = msgspec.field(name="cuda_sync_kind", default=None)
    memcpy_details: Any = None


class MemoryArguments(NoArguments, gc=False):
    """What an allocator states about itself."""

    allocated: Number = msgspec.field(name="Total Allocated", default=None)
    reserved: Number = msgspec.field(name="Total Reserved", default=None)
    memory_device: Number = msgspec.field(name="Device Id", default=None)
    memory_device_type: Number = msgspec.field(name="Device Type", default=None)
    changed_bytes: Number = msgspec.field(name="Bytes", default=None)
    address: Number = msgspec.field(name="Addr", default=None)


class Complete(Placed, gc=False, kw_only=True):
    """An event with a start and a duration."""

    ph: Literal["X"]
    args: NoArguments | None = None


class OperatorEvent(Complete, gc=False, kw_only=True):
    """An operator or an annotation."""

    args: OperatorArguments | None = None


class CallEvent(Complete, gc=False, kw_only=True):
    """A call of the runtime or the driver."""

    args: CallArguments | None = None


class OperationEvent(Complete, gc=False, kw_only=True):
    """An operation of the GPU."""

    args: OperationArguments | None = None


class MemoryEvent(Placed, gc=False, kw_only=True):
    """A change of an allocator's state."""

    ph: Literal["i"]
    args: MemoryArguments | None = None
    id: Any = None


class FlowEvent(msgspec.Struct, gc=False):
    """One end of an arrow."""

    ph: Literal["s", "t", "f"]


_TYPES: dict[str, type[msgspec.Struct]] = {
    "cpu_op": OperatorEvent,
    "user_annotation": OperatorEvent,
    "python_function": Complete,
    "overhead": Complete,
    "cuda_runtime": CallEvent,
    "cuda_driver": CallEvent,
    "kernel": OperationEvent,
    "gpu_memcpy": OperationEvent,
    "gpu_memset": OperationEvent,
    "gpu_user_annotation": OperationEvent,
    "cuda_sync": OperationEvent,
    "cpu_instant_event": MemoryEvent,
    "ac2g": FlowEvent,
    "fwdbwd": FlowEvent,
}
_PHASES: dict[type[msgspec.Struct], str] = {Complete: "X", MemoryEvent: "i", FlowEvent: "f"}
CATEGORIES = {
    msgspec.defstruct(f"_{category}", [], bases=(base,), gc=False, tag_field="cat", tag=category): category
    for category, base in _TYPES.items()
}
_EVENTS = msgspec.json.Decoder(list[Union[tuple(CATEGORIES)]])  # type: ignore[misc]  # noqa: UP007


@cache
def phase_of(event_type: type[msgspec.Struct]) -> str:
    """The phase of all events of one of these types; of arrows any of theirs."""
    return next(phase for base, phase in _PHASES.items() if issubclass(event_type, base))


@dataclass(slots=True)
class UsualEvents:
    """Decodes chunks as long as they are likely to hold usual events only."""

    failures: int = 0

    def decode(self, text: bytes) -> list[Placed] | None:
        """The events of a JSON list; None where it holds others, or is no such list."""
        if self.failures >= MAX_FAILURES:
            return None
        try:
            events: list[Placed] = _EVENTS.decode(text)
        except UNREADABLE:
            self.failures += 1
            return None
        self.failures = max(self.failures - 1, 0)
        return events
