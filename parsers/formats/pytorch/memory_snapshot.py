"""Memory snapshots of PyTorch, as pickle or JSON: what its caching allocator held, when, and who asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from parsers.collecting import without_garbage_collection
from parsers.files.base import Accompanying, Source, parser
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import MAX_RATIO, LimitedStream, UnpackingLimit
from parsers.model import Counter, Device, Effect, Progress, Trace, TraceInput, UnknownFormat
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.model.memory import BEFORE, UNTIMED

if TYPE_CHECKING:
    from parsers.memory.history import History
    from parsers.memory.snapshot import DeviceHistory

_PICKLE = regex(rb"\x80[\x02-\x05][}\]\x95cq(]")
_JSON = regex(rb'\s*\{\s*"(segments|device_traces)"\s*:\s*\[')
_HINT = "Save it again with torch.cuda.memory._dump_snapshot, and copy the whole file."

_FREE, _MIN_BYTES = 100_000, 16  # blocks or events, and what each takes where it is stated
_MAX_BYTES = 4 << 30  # bytes; a million events take 60 MB
_EMPTY = "Save it in the process that trains, while the tensors are alive."


@parser
class MemorySnapshot(Accompanying):
    """Recognised by the first bytes of a pickle of protocol 2 or later, or by a snapshot's keys in JSON."""

    format = "memory-snapshot"
    title = "PyTorch memory"
    files = "snapshots of the caching allocator (_dump_snapshot)"
    suffixes = (".pickle", ".pkl")
    priority = 30
    version = 7

    def recognises(self, source: Source) -> bool:
        return _PICKLE.match(source.head) is not None or _JSON.match(source.head) is not None

    @without_garbage_collection()  # of millions of tables, none of which is garbage
    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.memory.history import History
        from parsers.memory.snapshot import DeviceHistory, memory_of

        history = History()
        snapshot = _decoded(source, history, progress)
        if not isinstance(snapshot, Mapping) or not isinstance(segments := snapshot.get("segments"), list):
            raise UnknownFormat(source.path, "This pickle is not a PyTorch memory snapshot.", _HINT)
        builder = TraceBuilder()
        builder.inputs.append(TraceInput(source.name, self.format, "PyTorch memory snapshot"))
        stated = snapshot.get("device_traces")
        traces = stated if isinstance(stated, list) else []
        annotations = snapshot.get("external_annotations")
        devices = {number: builder.device(Device(number)) for number in _devices(segments, traces)}
        if not devices:
            raise UnknownFormat(source.path, "This memory snapshot holds no GPU memory.", _EMPTY)
        _allow_no_more_than_is_written(source, segments, traces)
        histories = [
            DeviceHistory.of(history, devices[number], rows)
            for number, rows in enumerate(traces)
            if number in devices and isinstance(rows, list)
        ]
        tell_when = any(each.tells_when for each in histories)
        if not tell_when:
            histories = [each.as_a_moment() for each in histories]
        memory = memory_of(
            segments, annotations if isinstance(annotations, list) else [], history, histories, devices
        )
        builder.memory.append(memory)
        timed = all(each.timed for each in histories)
        builder.epoch_ns = 0 if timed and tell_when else None
        if not timed:
            builder.quality.note(
                UNTIMED,
                Effect.NOTED,
                "This version of torch recorded the order of the allocator's events, but not their times.",
            )
        builder.quality.read(len(history.action))
        builder.quality.keep(len(history.action))
        if (unseen := int((memory.allocations.start == BEFORE).sum())) and len(history.action):
            builder.quality.note(
                "older allocations",
                Effect.NOTED,
                "allocations older than the recorded history: their size is known, but not when they were made",
                "",
                unseen,
            )
        numbers = {device: number for number, device in devices.items()}
        for each in histories:
            name = f"GPU {numbers[each.device]}"
            builder.counters += _counters(name, each, memory.held(each.device), memory.blocks)
        return builder.build(progress)


def _allow_no_more_than_is_written(source: Source, segments: list[Any], traces: list[Any]) -> None:
    """Raise ``TraceError`` where the same lists are named over and over, and unfold to more than the file can state."""
    limit = UnpackingLimit(source)
    listed = [each.get("blocks") for each in segments if isinstance(each, Mapping)]
    for what, lists in (("blocks", listed), ("events", traces)):
        count = sum(len(each) for each in lists if isinstance(each, list))
        limit.make(what, count, _FREE, _MIN_BYTES / (MAX_RATIO if source.compression else 1), 1 << 40)


def _counters(name: str, history: DeviceHistory, held: tuple[Any, Any], blocks: Any) -> list[Counter]:
    mine = blocks.device == history.device
    segments = np.unique(np.stack([blocks.segment[mine], blocks.segment_size[mine]]), axis=1)
    reserved = history.reserved(int(segments[1].sum()) if segments.size else 0)
    time, allocated = held
    counters = [
        Counter(f"{name} {what} memory", "B", at, value.astype(np.float64), device=history.device)
        for what, at, value in (("allocated", time, allocated), ("reserved", *reserved))
    ]
    return [each for each in counters if len(each.time)]


def _devices(segments: list[Any], traces: list[Any]) -> list[int]:
    stated = (each.get("device") for each in segments if isinstance(each, Mapping))
    used = {number for number in stated if isinstance(number, int) and 0 <= number < 4096}
    return sorted(
        used | {number for number, rows in enumerate(traces[:4096]) if isinstance(rows, list) and rows}
    )


def _decoded(source: Source, history: History, progress: Progress) -> Any:
    from parsers.data_pickle import NotData, read_data
    from parsers.memory.event_runs import EventRuns

    parts = []
    if source.path.stat().st_size > _MAX_BYTES:
        raise UnknownFormat(
            source.path, f"It is larger than {_MAX_BYTES >> 30} GB, too large for a memory snapshot.", _HINT
        )
    with open_bytes(source) as packed:
        stream = LimitedStream(packed, source, progress, "reading the snapshot")
        while part := stream.read():
            parts.append(part)
    data = b"".join(parts)
    if _PICKLE.match(data):
        try:
            return read_data(data, progress, EventRuns(history))
        except NotData as error:
            raise UnknownFormat(
                source.path, f"This pickle cannot be opened safely: {error}.", _HINT
            ) from error
    try:
        return _taken_in(msgspec.json.decode(data), history)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnknownFormat(source.path, "This memory snapshot is damaged.", _HINT) from error


def _taken_in(snapshot: Any, history: History) -> Any:
    """A snapshot from JSON with its events in the history, as reading a pickle puts them there."""
    if isinstance(snapshot, dict) and isinstance(traces := snapshot.get("device_traces"), list):
        snapshot["device_traces"] = [
            [history.taken(each) if isinstance(each, dict) else each for each in rows]
            if isinstance(rows, list)
            else rows
            for rows in traces
        ]
    return snapshot
