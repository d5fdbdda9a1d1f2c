"""Sparse typed columns beside the event table: what only some events have."""

from __future__ import annotations

from enum import Enum

import numpy as np

from parsers.model.arrays import I64, place_if_there
from parsers.model.late import dataclass


class Attribute(Enum):
    """The attributes that analyses read in bulk; everything else is fetched on demand by ``Trace.arguments``.

    ``TEXT`` attributes hold an index into ``Trace.strings``.
    """

    BYTES = "bytes"  # copies and memsets: byte count
    COPY_KIND = "copy_kind"  # CopyKind value
    SOURCE_MEMORY = "source_memory"  # MemoryKind value
    TARGET_MEMORY = "target_memory"  # MemoryKind value
    GRID = "grid"  # number of blocks, x*y*z
    BLOCK = "block"  # threads in a block, x*y*z
    GRID_SHAPE = "grid_shape"  # TEXT "x,y,z"
    BLOCK_SHAPE = "block_shape"  # TEXT "x,y,z"
    REGISTERS = "registers"  # per thread
    GRAPH_NODE = "graph_node"  # non-zero: the operation ran inside a CUDA graph
    CORRELATION = "correlation"
    LAUNCH_NUMBER = "launch_number"  # of a kernel, which the driver counts up in each process
    ERROR = "error"  # of a launch that failed: the code that it returned
    SYNC_KIND = "sync_kind"  # SyncKind value
    SEQUENCE = "sequence"  # autograd sequence number of an operator
    FORWARD_THREAD = "forward_thread"
    INPUT_DIMS = "input_dims"  # TEXT: JSON list of shapes
    INPUT_TYPES = "input_types"  # TEXT: JSON list of dtypes
    COLLECTIVE = "collective"  # TEXT: lower-case name, such as "allreduce"
    MESSAGE_BYTES = "message_bytes"  # bytes a rank contributes to a collective
    MESSAGE_DTYPE = "message_dtype"  # TEXT
    GROUP = "group"  # TEXT: process group name
    GROUP_SIZE = "group_size"
    COLLECTIVE_SEQUENCE = "collective_sequence"
    COLLECTIVE_STATE = "collective_state"  # CollectiveState value
    SENT_ELEMENTS = "sent_elements"  # of the tensors that a rank gives to a collective
    RECEIVED_ELEMENTS = "received_elements"  # of those that it gets
    PEERS = "peers"  # TEXT "0->1" of a message between two ranks of a group; empty for a collective
    CALLED_FROM = "called_from"  # TEXT "file:line" of the user's code
    NVTX_DOMAIN = "nvtx_domain"  # TEXT
    STEP_NUMBER = "step_number"  # of an annotation that says so
    IS_EAGER = "is_eager"  # of TensorFlow's operators, which alone say so


TEXT_ATTRIBUTES = frozenset(
    {
        Attribute.GRID_SHAPE, Attribute.BLOCK_SHAPE, Attribute.INPUT_DIMS, Attribute.INPUT_TYPES,
        Attribute.COLLECTIVE, Attribute.MESSAGE_DTYPE, Attribute.GROUP, Attribute.PEERS,
        Attribute.CALLED_FROM, Attribute.NVTX_DOMAIN,
    }
)  # fmt: skip


class CopyKind(Enum):
    """Direction of a copy."""

    UNKNOWN = 0
    H2D = 1
    D2H = 2
    D2D = 8
    H2H = 9
    P2P = 10

    @classmethod
    def between(cls, source: str, target: str) -> CopyKind:
        """By the first letters of its ends: host, device, peer, or array, which lies on a device."""
        ends = (end[0].upper().replace("A", "D") for end in (source, target))
        return cls.__members__.get("2".join(ends), cls.UNKNOWN)


class MemoryKind(Enum):
    """Where an end of a copy lives."""

    UNKNOWN = 0
    PAGEABLE = 1
    PINNED = 2
    DEVICE = 3
    MANAGED = 4
    ARRAY = 5


MEMORY_KINDS = {kind.name.lower(): kind for kind in MemoryKind if kind is not MemoryKind.UNKNOWN}


class CollectiveState(Enum):
    """How far a collective got on one rank, as its flight recorder says."""

    SCHEDULED = 0  # called, and nothing of it is known to have begun
    STARTED = 1
    COMPLETED = 2


class SyncKind(Enum):
    """What a synchronisation waited for."""

    UNKNOWN = 0
    EVENT = 1
    STREAM_WAIT_EVENT = 2
    STREAM = 3
    CONTEXT = 4


@dataclass(frozen=True, slots=True, eq=False)
class AttributeColumn:
    """``event`` (sorted, unique int64 indices into the event table) and one int64 value each."""

    event: I64
    value: I64

    def of(self, events: I64, default: int = 0) -> I64:
        """The values of ``events``; ``default`` where an event has none."""
        if not len(self.event):
            return np.full(len(events), default, np.int64)
        place = place_if_there(events, self.event)
        return np.where(self.event[place] == events, self.value[place], default)
