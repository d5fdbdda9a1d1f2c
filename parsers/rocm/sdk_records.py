"""Records of rocprofiler-sdk as rocprofv3 writes them to JSON: decoded piece by piece, kept as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import msgspec
import numpy as np

from parsers.files.decoders import UNREADABLE
from parsers.json_lists import Piece
from parsers.json_records import R, Records
from parsers.model import I64, Device, Effect, EventKind, QualityRecorder
from parsers.model.arrays import ABSENT, place_in, rows_by
from parsers.model.late import dataclass
from parsers.rocm.timeline import (
    AMD_GPU,
    Calls,
    Operations,
    Timeline,
    direction_of,
    gpu_properties,
    is_marker,
    streams_or_queues,
    taken,
)

_GPU_AGENT = 2
_KERNELS, _COPIES = "kernel_dispatch", "memory_copy"
_CALLS = {
    "hip_api": "HIP calls",
    "hsa_api": "HSA calls",
    "rccl_api": "RCCL calls",
    "marker_api": "regions",
    "rocdecode_api": "decoder calls",
    "rocjpeg_api": "decoder calls",
}
_NAMED_BY_CORRELATION = "marker_api"
_THREAD = 2  # column of every record
_DESCRIPTIONS = ("agents", "kernel_symbols", "buffer_records")
_NOT_SHOWN = (
    "memory_allocation",
    "scratch_memory",
    "counter_collection",
    "pc_sample_host_trap",
    "pc_sample_stochastic",
)
WANTED = frozenset({_KERNELS, _COPIES, *_CALLS, *_DESCRIPTIONS, *_NOT_SHOWN})
DEEPEST, TOOL_DEPTH = 5, 3  # brackets around the records, and around what one process wrote


class _Handle(msgspec.Struct, gc=False):
    handle: int = 0


class _Correlation(msgspec.Struct, gc=False):
    internal: int = 0


class _Size(msgspec.Struct, gc=False):
    x: int = 0
    y: int = 0
    z: int = 0


class _Dispatch(msgspec.Struct, gc=False):
    agent_id: _Handle = msgspec.field(default_factory=_Handle)
    queue_id: _Handle = msgspec.field(default_factory=_Handle)
    kernel_id: int = 0
    workgroup_size: _Size = msgspec.field(default_factory=_Size)
    grid_size: _Size = msgspec.field(default_factory=_Size)


class _Timed(msgspec.Struct, gc=False):
    start_timestamp: int = ABSENT
    end_timestamp: int = ABSENT
    thread_id: int = 0
    correlation_id: _Correlation = msgspec.field(default_factory=_Correlation)
    kind: int = 0
    operation: int = 0
    stream_id: _Handle | None = None


class _Kernel(_Timed, gc=False):
    dispatch_info: _Dispatch = msgspec.field(default_factory=_Dispatch)


class _Copy(_Timed, gc=False):
    src_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    dst_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    bytes: int = ABSENT


class _Agent(msgspec.Struct, gc=False):
    id: _Handle = msgspec.field(default_factory=_Handle)
    type: int = 0
    name: str = ""
    product_name: str = ""
    logical_node_type_id: int = -1
    cu_count: int = 0


class _Symbol(msgspec.Struct, gc=False):
    kernel_id: int = 0
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    arch_vgpr_count: int = 0


class _Kind(msgspec.Struct, gc=False):
    kind: str = ""
    operations: list[str] = msgspec.field(default_factory=list)


class _Message(msgspec.Struct, gc=False):
    key: int
    value: str


_RAW, _MESSAGES = msgspec.json.Decoder(list[msgspec.Raw]), msgspec.json.Decoder(list[_Message])
_OF_KERNELS, _OF_COPIES, _OF_CALLS = Records(_Kernel), Records(_Copy), Records(_Timed)
_OF_AGENTS, _OF_SYMBOLS, _OF_KINDS = Records(_Agent), Records(_Symbol), Records(_Kind)


def _decoded(records: Records[R], text: bytes, quality: QualityRecorder | None) -> list[R]:
    """The records of a piece; those that are none are counted."""
    found, bad = records.decoded(text)
    if quality is not None:
        quality.read(bad)
        quality.note("unreadable", Effect.QUARANTINED, "a record that cannot be read", "", bad)
    return found


@dataclass(slots=True)
class ProcessRecords:
    """What one process wrote, in any order; ``add`` takes pieces, ``finish`` puts them on a timeline."""

    timeline: Timeline
    process: int = 0  # its first thread has its number
    _columns: dict[str, list[I64]] = field(default_factory=dict)
    _agents: dict[int, Device] = field(default_factory=dict)
    _symbols: dict[int, _Symbol] = field(default_factory=dict)
    _kinds: list[_Kind] = field(default_factory=list)
    _messages: dict[int, str] = field(default_factory=dict)

    def add(self, piece: Piece) -> None:
        quality = self.timeline.builder.quality
        if piece.key == "agents":
            self._add_agents(_decoded(_OF_AGENTS, piece.text, None))
        elif piece.key == "kernel_symbols":
            self._symbols |= {each.kernel_id: each for each in _decoded(_OF_SYMBOLS, piece.text, None)}
        elif piece.key == "buffer_records":
            self._kinds += _decoded(_OF_KINDS, piece.text, None)
        elif piece.key in _NOT_SHOWN:
            count = len(_decoded_raw(piece.text))
            quality.note("records-not-shown", Effect.NOTED, "records that are not shown", piece.key, count)
        elif piece.key == _KERNELS:
            self._keep(piece.key, _kernel_row, _decoded(_OF_KERNELS, piece.text, quality))
        elif piece.key == _COPIES:
            self._keep(piece.key, _copy_row, _decoded(_OF_COPIES, piece.text, quality))
        elif piece.key in _CALLS:
            if piece.key == _NAMED_BY_CORRELATION and (named := _decoded_messages(piece.text)):
                self._messages |= named
                return
            self._keep(piece.key, _timed_row, _decoded(_OF_CALLS, piece.text, quality))

    def _keep(self, key: str, row: Callable[[Any], tuple[int, ...]], records: Sequence[Any]) -> None:
        if not records:
            return
        rows = [row(each) for each in records]
        try:
            columns = np.array(rows, np.int64)
        except OverflowError:
            columns = np.array([[_fitting(number) for number in each] for each in rows], np.int64)
        self._columns.setdefault(key, []).append(columns)

    def _add_agents(self, agents: Sequence[_Agent]) -> None:
        for agent in agents:
            if agent.type == _GPU_AGENT:
                number = _fitting(agent.logical_node_type_id)
                self._agents[agent.id.handle] = Device(
                    number if number >= 0 else len(self._agents),
                    agent.product_name or agent.name or AMD_GPU,
                    self.timeline.rank,
                    **gpu_properties({"cu_count": agent.cu_count}),
                )

    def finish(self) -> None:
        threads = [int(columns[:, _THREAD].min()) for parts in self._columns.values() for columns in parts]
        self.process = min(threads, default=0)
        self._finish_kernels()
        self._finish_copies()
        for key, suffix in _CALLS.items():
            self._finish_calls(key, suffix)

    def _rows(self, key: str, width: int) -> list[I64]:
        table = np.concatenate([np.empty((0, width), np.int64), *self._columns.get(key, [])])
        return [np.ascontiguousarray(table[:, column]) for column in range(width)]

    def _devices(self, handles: I64) -> I64:
        found = np.zeros(len(handles), np.int64)
        for handle, mine in rows_by(handles):
            device = self._agents.get(handle, Device(0, AMD_GPU, self.timeline.rank))
            found[mine] = self.timeline.builder.device(device)
        return found

    def _finish_kernels(self) -> None:
        start, end, _, correlation, _, _, stream, agent, queue, kernel, *sizes = self._rows(_KERNELS, 16)
        ids, which = np.unique(kernel, return_inverse=True)
        symbols = [self._symbols.get(each, _Symbol()) for each in ids.tolist()]
        names = self.timeline.names(
            symbol.formatted_kernel_name or symbol.kernel_name or f"kernel {key}"
            for key, symbol in zip(ids.tolist(), symbols, strict=True)
        )
        registers = np.array([_fitting(symbol.arch_vgpr_count) or ABSENT for symbol in symbols], np.int64)
        device = self._devices(agent)
        self.timeline.operations(
            Operations(
                start,
                end,
                names[which],
                device,
                streams_or_queues(device, stream, queue),
                np.full(len(start), self.process, np.int64),
                correlation,
                np.full(len(start), -1, np.int64),
                grid=np.stack(sizes[:3], axis=1),
                block=np.stack(sizes[3:], axis=1),
                registers=registers[which],
            ),
            _KERNELS,
        )

    def _finish_copies(self) -> None:
        start, end, _, correlation, kind, operation, stream, source, target, size = self._rows(_COPIES, 10)
        keys, which = np.unique(np.stack([kind, operation], axis=1), axis=0, return_inverse=True)
        described = [direction_of(self._operation(*key)) for key in keys.tolist()]
        directions = np.array([direction.value for _, direction in described], np.int64)
        which = which.reshape(-1)
        gpu = np.where(np.isin(target, list(self._agents)), target, source)
        self.timeline.operations(
            Operations(
                start,
                end,
                self.timeline.names(name for name, _ in described)[which],
                self._devices(gpu),
                stream,
                np.full(len(start), self.process, np.int64),
                correlation,
                np.full(len(start), -1, np.int64),
                EventKind.MEMCPY,
                direction=directions[which],
                bytes=size,
            ),
            _COPIES,
        )

    def _finish_calls(self, key: str, suffix: str) -> None:
        start, end, thread, correlation, kind, operation, _ = self._rows(key, 7)
        keys, which = np.unique(np.stack([kind, operation], axis=1), axis=0, return_inverse=True)
        which = which.reshape(-1)
        names = self.timeline.names(self._operation(*each) for each in keys.tolist())[which]
        marked = np.array([is_marker(self._kind(each[0]).kind) for each in keys.tolist()], bool)
        is_range = marked[which] if len(keys) else np.zeros(0, bool)
        if key == _NAMED_BY_CORRELATION:
            is_range = np.ones(len(start), bool)
            numbers = np.array([_fitting(each) for each in self._messages], np.int64)
            texts = self.timeline.names(self._messages.values())
            told = taken(texts, place_in(numbers, correlation))
            names = np.where(told == ABSENT, names, told)
        self.timeline.calls(
            Calls(
                start,
                end,
                names,
                np.full(len(start), self.process, np.int64),
                thread,
                correlation,
                np.full(len(start), -1, np.int64),
                is_range,
            ),
            key,
            suffix,
        )

    def _kind(self, kind: int) -> _Kind:
        return self._kinds[kind] if 0 <= kind < len(self._kinds) else _Kind()

    def _operation(self, kind: int, operation: int) -> str:
        names = self._kind(kind).operations
        return names[operation] if 0 <= operation < len(names) else f"operation {operation}"


def _decoded_raw(text: bytes) -> list[msgspec.Raw]:
    try:
        return _RAW.decode(text)
    except UNREADABLE:
        return []


def _decoded_messages(text: bytes) -> dict[int, str]:
    """The texts of markers by correlation; a list of the same name holds the markers themselves: then nothing."""
    try:
        return {each.key: each.value for each in _MESSAGES.decode(text)}
    except UNREADABLE:
        return {}


def _fitting(number: int) -> int:
    return number if -(1 << 63) <= number < 1 << 63 else ABSENT


def _timed_row(each: _Timed) -> tuple[int, ...]:
    return (
        each.start_timestamp,
        each.end_timestamp,
        each.thread_id,
        each.correlation_id.internal,
        each.kind,
        each.operation,
        ABSENT if each.stream_id is None else each.stream_id.handle,
    )


def _kernel_row(each: _Kernel) -> tuple[int, ...]:
    info = each.dispatch_info
    grid, block = info.grid_size, info.workgroup_size
    return (
        *_timed_row(each),
        info.agent_id.handle,
        info.queue_id.handle,
        info.kernel_id,
        *(grid.x, grid.y, grid.z),
        *(block.x, block.y, block.z),
    )


def _copy_row(each: _Copy) -> tuple[int, ...]:
    return (*_timed_row(each), each.src_agent_id.handle, each.dst_agent_id.handle, each.bytes)
