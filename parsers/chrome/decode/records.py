"""The shape of one trace event as it is decoded: only what the model keeps; the rest stays in the file."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

Number = int | float | str | None
Identity = int | float | str | None


NO_TEXT = Raw(b"")


class NoArguments(msgspec.Struct, gc=False):
    """Arguments of which none becomes a column."""


class CollectiveArguments(NoArguments, gc=False):
    """What an operator or a kernel states about a collective, under the names that Kineto gives it."""

    collective: Any = msgspec.field(name="Collective name", default=None)
    message_elements: Number = msgspec.field(name="In msg nelems", default=None)
    message_type: Any = msgspec.field(name="dtype", default=None)
    group: Any = msgspec.field(name="Process Group Name", default=None)
    group_size: Number = msgspec.field(name="Group size", default=None)
    collective_sequence: Number = msgspec.field(name="Seq", default=None)


class OperatorArguments(CollectiveArguments, gc=False):
    """What an operator or an annotation states."""

    sequence: Number = msgspec.field(name="Sequence number", default=None)
    forward_thread: Number = msgspec.field(name="Fwd thread id", default=None)
    input_types: Raw = msgspec.field(name="Input type", default=NO_TEXT)
    input_dims: Raw = msgspec.field(name="Input Dims", default=NO_TEXT)
    input_dims_of_2020: Raw = msgspec.field(name="Input dims", default=NO_TEXT)


class Arguments(OperatorArguments, gc=False):
    """All arguments of any event that become columns."""

    device: Number = None
    stream: Number = None
    correlation: Number = None
    registers: Number = msgspec.field(name="registers per thread", default=None)
    grid: Raw = NO_TEXT
    block: Raw = NO_TEXT
    graph_node: Number = msgspec.field(name="graph node id", default=None)
    bytes: Any = None
    size: Any = None
    sync_kind: Any = msgspec.field(name="cuda_sync_kind", default=None)
    allocated: Number = msgspec.field(name="Total Allocated", default=None)
    reserved: Number = msgspec.field(name="Total Reserved", default=None)
    memory_device: Number = msgspec.field(name="Device Id", default=None)
    memory_device_type: Number = msgspec.field(name="Device Type", default=None)
    changed_bytes: Number = msgspec.field(name="Bytes", default=None)
    address: Number = msgspec.field(name="Addr", default=None)
    correlation_id: Number = None
    correlation_of_nsys: Number = msgspec.field(name="correlationId", default=None)
    registers_of_nsys: Number = msgspec.field(name="registersPerThread", default=None)
    step_num: Number = None
    is_eager: Number = None
    kernel_details: Any = None
    memcpy_details: Any = None
    name: Any = None
    labels: Any = None


class Placed(msgspec.Struct, gc=False):
    """What every event has; ``ts`` stays text, because a double does not hold ns since the epoch."""

    name: str = ""
    pid: Identity = None
    tid: Identity = None
    ts: Raw = NO_TEXT
    dur: Number = None


class Event(Placed, gc=False):
    """One element of ``traceEvents``, whatever it is."""

    ph: str | None = None
    cat: str | None = None
    args: Arguments | None = None
    id: Any = None
    id2: Any = None


class Sample(msgspec.Struct, gc=False):
    """A counter event, whose arguments have any names, each with a number."""

    args: Any = None


EVENTS = msgspec.json.Decoder(list[Event])
EVENT = msgspec.json.Decoder(Event)
SAMPLE = msgspec.json.Decoder(Sample)
SAMPLES = msgspec.json.Decoder(list[Sample])
RAW_EVENTS = msgspec.json.Decoder(list[Raw])
