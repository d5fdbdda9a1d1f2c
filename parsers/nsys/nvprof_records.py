"""CUPTI's activity records as nvprof and the Visual Profiler keep them, one table for each kind.

The columns are the fields of the records in ``cupti_activity.h``; names are numbers of ``StringTable``.
"""

from __future__ import annotations

import struct
import tomllib
from collections.abc import Mapping
from functools import cache

import numpy as np

import resources
from parsers.device_clock import clock_shift, note_shift
from parsers.model import Attribute, CopyKind, Device, Effect, EventKind, Lane, LaneKind, MemoryKind, Progress
from parsers.model.arrays import ABSENT, BOOL, I32, I64, per_value, place_in, rows_by
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass
from parsers.model.names.kernels import PAGE_FAULTS
from parsers.model.quality import ONE_BY_ONE, RAN_ONE_BY_ONE
from parsers.nsys.enumerations import COPY_KINDS, copy_text
from parsers.sqlite.database import Database
from parsers.sqlite.guarded import GuardedConnection
from parsers.sqlite.row_source import source_rows
from parsers.sqlite.whole_columns import Columns, WholeColumns
from parsers.statements import state_capture, state_failed_launches, state_shape


@cache
def calls_of(interface: str) -> Mapping[int, str]:
    """The calls of "RUNTIME" or "DRIVER" by number; those that are not listed keep their number."""
    with resources.path("cupti_calls.toml").open("rb") as file:
        return {int(number): name for number, name in tomllib.load(file)[interface].items()}


_KIND = "CUPTI_ACTIVITY_KIND_"
_KERNELS = (_KIND + "CONCURRENT_KERNEL", _KIND + "KERNEL")
_WORK = (*_KERNELS, _KIND + "MEMCPY", _KIND + "MEMSET")
_MARKER = _KIND + "MARKER"
_COUNTERS = ("METRIC", "METRIC_INSTANCE", "EVENT", "EVENT_INSTANCE")
_NO_NAME = "(no name)"
_MEMORY = {
    1: MemoryKind.PAGEABLE,
    2: MemoryKind.PINNED,
    3: MemoryKind.DEVICE,
    4: MemoryKind.ARRAY,
    5: MemoryKind.MANAGED,
}
_TO_GPU, _FROM_GPU, _GPU_FAULTS = 1, 2, 4  # kinds of counters of unified memory: bytes moved, and page faults
_STARTS, _ENDS = 2, 4  # flags of markers
_THREAD = struct.Struct("<II")  # the process and the thread that a marker belongs to
_KILOBYTE = 1000
_OPERATION = ("start", "end", "deviceId", "streamId", "correlationId")
_AXES = tuple(f"{size}{axis}" for size in ("grid", "block") for axis in "XYZ")


def read_into(database: Database, builder: TraceBuilder, progress: Progress) -> None:
    """Put all that a database holds into a trace; raises ``TraceError`` where it cannot be used."""
    _Recording(WholeColumns(database, builder.quality, progress), builder).read()


def _threads(rows: Columns) -> I64:
    return np.stack([rows["processId"], rows["threadId"]], axis=1)


def _inside(calls: Columns, others: Columns) -> BOOL:
    """Which calls begin while another one of the same thread is under way."""
    inside = np.zeros(len(calls["start"]), bool)
    theirs = {tuple(thread): rows for thread, rows in rows_by(_threads(others))}
    for thread, mine in rows_by(_threads(calls)):
        if (rows := theirs.get(tuple(thread))) is None:
            continue
        order = np.argsort(others["start"][rows], kind="stable")
        starts, ends = others["start"][rows][order], np.maximum.accumulate(others["end"][rows][order])
        last = np.searchsorted(starts, calls["start"][mine], side="right") - 1
        inside[mine] = (last >= 0) & (ends[np.maximum(last, 0)] > calls["start"][mine])
    return inside


def as_stored(_: GuardedConnection, __: str, row: Mapping[str, object]) -> Mapping[str, object]:
    """What a row tells as the arguments of its event: all of it."""
    return row


@dataclass(slots=True)
class _Recording:
    tables: WholeColumns
    builder: TraceBuilder
    clock_shift: int = 0  # of the GPU's times

    def read(self) -> None:
        database = self.tables.database
        listed = database.few("StringTable", "_id_", "value")
        texts = {key: str(text) for key, text in listed if isinstance(key, int)}
        devices = self._devices(texts)
        runtime = self._rows_of_calls("RUNTIME")
        driver = self._rows_of_calls("DRIVER")
        own = ~_inside(driver, runtime)
        self.builder.quality.read(-int((~own).sum()))  # the runtime makes them: they count as its call
        calls = [
            self._calls("RUNTIME", runtime, calls_of("RUNTIME"), "CUDA call"),
            self._calls(
                "DRIVER",
                {key: values[own] for key, values in driver.items()},
                calls_of("DRIVER"),
                "driver call",
            ),
        ]
        self._move_clock(runtime, driver)
        launched = [
            *(self._kernels(table, texts, devices) for table in _KERNELS),
            self._copies(devices),
            self._fills(devices),
        ]
        self._unified_memory(devices)
        events, numbers = (np.concatenate(side) for side in zip(*launched, strict=True))
        for made, their_numbers in calls:
            self._link(events, numbers, made, their_numbers)
        self._markers(texts)
        if any(database.few(_KIND + each, "id") for each in _COUNTERS):
            self.builder.quality.note(ONE_BY_ONE, Effect.NOTED, RAN_ONE_BY_ONE)
        state_capture(self.builder)

    def _devices(self, texts: Mapping[int, str]) -> dict[int, int]:
        found = {}
        columns = (
            "id", "name", "globalMemorySize", "numMultiprocessors", "computeCapabilityMajor",
            "computeCapabilityMinor", "globalMemoryBandwidth",
        )  # fmt: skip
        for row in self.tables.database.few(_KIND + "DEVICE", *columns):
            if not all(isinstance(each, int) for each in row):
                continue
            number, name, memory, processors, major, minor, bandwidth = row
            found[number] = self.builder.device(
                Device(
                    number,
                    texts.get(name, ""),
                    memory_bytes=memory,
                    sm_count=processors,
                    compute_capability=(major, minor),
                    memory_bandwidth=float(bandwidth) * _KILOBYTE,
                )
            )
        return found

    def _usable(self, rows: Columns, table: str) -> BOOL:
        start, end = rows["start"], rows["end"]
        good = (start > 0) & (end >= start) & (end < -ABSENT // 2)
        self.builder.quality.read_times(good, lambda index: f"{table} row {int(rows['row'][index])}")
        return good

    def _rows_of_calls(self, kind: str) -> Columns:
        columns = ("cbid", "start", "end", "processId", "threadId", "correlationId", "returnValue")
        rows = self.tables.read(_KIND + kind, *columns)
        good = self._usable(rows, _KIND + kind)
        return {key: values[good] for key, values in rows.items()}

    def _move_clock(self, *calls: Columns) -> None:
        """Where the GPU's times are on another clock altogether, move them to the one of the calls."""
        work = [self.tables.read(table, "start", "correlationId") for table in _WORK]
        start, number = (np.concatenate([each[key] for each in work]) for key in ("start", "correlationId"))
        called, of_call = (
            np.concatenate([each[key] for each in calls]) for key in ("start", "correlationId")
        )
        if not len(called):
            return
        place = place_in(of_call, number)
        found = (place >= 0) & (start > 0)
        self.clock_shift = clock_shift(start[found] - called[place[found]])
        if self.clock_shift:
            note_shift(self.builder.quality, self.clock_shift, len(start))

    def _calls(self, kind: str, rows: Columns, names: Mapping[int, str], other: str) -> tuple[I64, I64]:
        """Events of calls, and their correlation numbers."""
        lane = np.empty(len(rows["cbid"]), np.int32)
        for (process, thread), mine in rows_by(_threads(rows)):
            lane[mine] = self._lane(LaneKind.CUDA_API, process, thread, "CUDA calls")
        name = per_value(
            rows["cbid"], lambda value: self.builder.string(names.get(value, f"{other} {value}")), np.int32
        )
        events = self.builder.add(
            rows["start"],
            rows["end"],
            name,
            lane,
            EventKind.API,
            source_rows(self.tables.number_of(_KIND + kind), rows["row"]),
        )
        error = rows["returnValue"]
        state_failed_launches(self.builder, events, name, np.where(error == ABSENT, 0, error))
        return events, rows["correlationId"]

    def _lane(self, kind: LaneKind, process: int, thread: int, words: str) -> int:
        thread &= 0xFFFFFFFF  # a pthread's number, stored with a sign
        return self.builder.lane(Lane(kind, f"Thread {thread} {words}", process=process, thread=thread))

    def _streams(self, rows: Columns, devices: Mapping[int, int]) -> I32:
        lane = np.empty(len(rows["row"]), np.int32)
        for (number, stream), mine in rows_by(np.stack([rows["deviceId"], rows["streamId"]], axis=1)):
            device = devices.get(number)
            device = self.builder.device(Device(number)) if device is None else device
            name = f"GPU {number} stream {stream}"
            lane[mine] = self.builder.lane(Lane(LaneKind.GPU_STREAM, name, device=device, stream=stream))
        return lane

    def _operations(
        self, table: str, rows: Columns, devices: Mapping[int, int], name: I32, kind: EventKind
    ) -> tuple[I64, BOOL]:
        """Events of the usable rows of a table of GPU work, and which rows these are."""
        good = self._usable(rows, table)
        events = self.builder.add(
            rows["start"][good] + self.clock_shift,
            rows["end"][good] + self.clock_shift,
            name[good],
            self._streams(rows, devices)[good],
            kind,
            source_rows(self.tables.number_of(table), rows["row"])[good],
        )
        return events, good

    def _kernels(self, table: str, texts: Mapping[int, str], devices: Mapping[int, int]) -> tuple[I64, I64]:
        rows = self.tables.read(table, *_OPERATION, "name", "registersPerThread", *_AXES)
        names = per_value(
            rows["name"], lambda value: self.builder.string(texts.get(value) or _NO_NAME), np.int32
        )
        events, good = self._operations(table, rows, devices, names, EventKind.KERNEL)
        for size, axes in ((Attribute.GRID, _AXES[:3]), (Attribute.BLOCK, _AXES[3:])):
            shape = np.maximum(np.stack([rows[axis][good] for axis in axes], axis=1), 1)
            state_shape(self.builder, size, events, shape)
        self.builder.attribute(Attribute.REGISTERS, events, np.maximum(rows["registersPerThread"][good], 0))
        return events, rows["correlationId"][good]

    def _copies(self, devices: Mapping[int, int]) -> tuple[I64, I64]:
        table = _KIND + "MEMCPY"
        rows = self.tables.read(table, *_OPERATION, "copyKind", "srcKind", "dstKind", "bytes")
        ends = np.stack([rows["copyKind"], rows["srcKind"], rows["dstKind"]], axis=1)
        distinct, codes = np.unique(ends, axis=0, return_inverse=True)
        codes = codes.reshape(-1)
        directions = [COPY_KINDS.get(kind, CopyKind.UNKNOWN) for kind, _, _ in distinct.tolist()]
        sides = [
            tuple(_MEMORY.get(side, MemoryKind.UNKNOWN) for side in row[1:]) for row in distinct.tolist()
        ]
        named = [
            self.builder.string(
                f"Memcpy {copy_text(kind)} ({source.name.capitalize()} -> {target.name.capitalize()})"
            )
            for (kind, _, _), (source, target) in zip(distinct.tolist(), sides, strict=True)
        ]
        name = np.array(named, np.int32)[codes] if named else np.empty(0, np.int32)
        events, good = self._operations(table, rows, devices, name, EventKind.MEMCPY)
        codes = codes[good]
        for attribute, of_kind in (
            (Attribute.COPY_KIND, [each.value for each in directions]),
            (Attribute.SOURCE_MEMORY, [source.value for source, _ in sides]),
            (Attribute.TARGET_MEMORY, [target.value for _, target in sides]),
        ):
            self.builder.attribute(attribute, events, np.array(of_kind, np.int64)[codes])
        self.builder.attribute(Attribute.BYTES, events, np.maximum(rows["bytes"][good], 0))
        return events, rows["correlationId"][good]

    def _fills(self, devices: Mapping[int, int]) -> tuple[I64, I64]:
        table = _KIND + "MEMSET"
        rows = self.tables.read(table, *_OPERATION, "bytes")
        name = np.full(len(rows["row"]), self.builder.string("Memset (Device)"), np.int32)
        events, good = self._operations(table, rows, devices, name, EventKind.MEMSET)
        self.builder.attribute(Attribute.BYTES, events, np.maximum(rows["bytes"][good], 0))
        return events, rows["correlationId"][good]

    def _unified_memory(self, devices: Mapping[int, int]) -> None:
        """Pages that move, as copies that no call makes, and groups of page faults, as the driver handles them."""
        table = _KIND + "UNIFIED_MEMORY_COUNTER"
        rows = self.tables.read(table, "counterKind", "value", "start", "end", "srcId", "dstId", "streamId")
        to_gpu = rows["counterKind"] == _TO_GPU
        rows = {**rows, "deviceId": np.where(to_gpu, rows["dstId"], rows["srcId"])}
        if len(devices) == 1:
            rows["deviceId"][:] = next(iter(devices))
        for counter, direction in ((_TO_GPU, CopyKind.H2D), (_FROM_GPU, CopyKind.D2H)):
            mine = {key: values[rows["counterKind"] == counter] for key, values in rows.items()}
            text = f"Memcpy {'HtoD' if direction is CopyKind.H2D else 'DtoH'}, unified memory"
            name = np.full(len(mine["row"]), self.builder.string(text), np.int32)
            events, good = self._operations(table, mine, devices, name, EventKind.MEMCPY)
            self.builder.attribute(Attribute.COPY_KIND, events, np.full(len(events), direction.value))
            self.builder.attribute(Attribute.BYTES, events, np.maximum(mine["value"][good], 0))
        faults = {key: values[rows["counterKind"] == _GPU_FAULTS] for key, values in rows.items()}
        good = self._usable(faults, table)
        for (number,), these in rows_by(faults["deviceId"][good][:, None]):
            device = devices.get(number, 0)
            lane = self.builder.lane(Lane(LaneKind.OTHER, f"GPU {number} page faults", device=device))
            self.builder.add(
                faults["start"][good][these] + self.clock_shift,
                faults["end"][good][these] + self.clock_shift,
                np.full(len(these), self.builder.string(PAGE_FAULTS), np.int32),
                np.full(len(these), lane, np.int32),
                EventKind.OTHER,
                source_rows(self.tables.number_of(table), faults["row"][good][these]),
            )

    def _link(self, events: I64, numbers: I64, calls: I64, of_calls: I64) -> None:
        """Each operation to the call with its number."""
        if not len(calls) or not len(events):
            return
        place = place_in(of_calls, numbers)
        self.builder.link(events[place >= 0], calls[place[place >= 0]])

    def _markers(self, texts: Mapping[int, str]) -> None:
        """Ranges of NVTX: a row where one begins, and one of the same number where it ends."""
        columns = ("id", "flags", "timestamp", "name", "objectId")
        open_ranges: dict[int, tuple[int, str, tuple[int, int]]] = {}
        ranges: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for number, flags, time, name, owner in self.tables.database.few(_MARKER, *columns):
            if not all(isinstance(each, int) for each in (number, flags, time)):
                continue
            if flags & _STARTS:
                whose = (
                    _THREAD.unpack(owner[: _THREAD.size])
                    if isinstance(owner, bytes) and len(owner) >= _THREAD.size
                    else (0, 0)
                )
                open_ranges[number] = (time, texts.get(name) or _NO_NAME, whose)
            elif flags & _ENDS and number in open_ranges:
                start, text, whose = open_ranges.pop(number)
                if 0 < start <= time < -ABSENT // 2:
                    ranges.setdefault(whose, []).append((start, time, self.builder.string(text)))
        for (process, thread), found in sorted(ranges.items()):
            self.builder.quality.read(len(found))
            start, end, name = np.array(found, np.int64).T
            lane = self._lane(LaneKind.REGION, process, thread, "ranges")
            self.builder.add(start, end, name, lane, EventKind.REGION)
