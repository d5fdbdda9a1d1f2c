"""The timeline of a ROCm recording: operations on streams, calls and ranges of threads, joined by correlation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from parsers.model import BOOL, I32, I64, U8, Attribute, CopyKind, EventKind, Lane, LaneKind
from parsers.model.arrays import ABSENT, distinct_values, per_value, place_in, rows_by
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass
from parsers.statements import state_capture, state_shape

FARTHEST_NS = -ABSENT // 2
# of one device; a program that makes more goes through them in turn, and its queues tell more
MAX_STREAMS = 64
AMD_GPU = "AMD GPU"  # whose model the recording does not state
_MARKERS = ("MARKER", "ROCTX")
FILLED = "Memset (Device)"
_DIRECTIONS = (
    (("FILL",), CopyKind.UNKNOWN, FILLED),
    (("HOST_TO_DEVICE", "HOSTTODEVICE", "HTOD"), CopyKind.H2D, "Memcpy HtoD"),
    (("DEVICE_TO_HOST", "DEVICETOHOST", "DTOH"), CopyKind.D2H, "Memcpy DtoH"),
    (("DEVICE_TO_DEVICE", "DEVICETODEVICE", "DTOD"), CopyKind.D2D, "Memcpy DtoD"),
    (("HOST_TO_HOST", "HOSTTOHOST", "HTOH"), CopyKind.H2H, "Memcpy HtoH"),
)


@dataclass(slots=True)
class Operations:
    """Kernels or copies as equal int64 columns; times in ns, ``ABSENT`` where a number is missing.

    ``name`` holds strings of the builder, ``device`` indices into its devices. ``grid`` and ``block`` are (n, 3),
    the grid in work-items, as ROCm counts it.
    """

    start: I64
    end: I64
    name: I64
    device: I64
    stream: I64
    process: I64
    correlation: I64
    row: I64
    kind: EventKind | U8 = EventKind.KERNEL
    direction: I64 | None = None
    bytes: I64 | None = None
    grid: I64 | None = None
    block: I64 | None = None
    registers: I64 | None = None
    number: I64 | None = None  # of the dispatch


@dataclass(slots=True)
class Calls:
    """API calls and ranges of threads as equal int64 columns; ``is_range`` tells them apart."""

    start: I64
    end: I64
    name: I64
    process: I64
    thread: I64
    correlation: I64
    row: I64
    is_range: BOOL


def direction_of(name: str) -> tuple[str, CopyKind]:
    """The usual name and the direction of a copy that ROCm calls "MEMORY_COPY_HOST_TO_DEVICE" or the like."""
    known = name.upper()
    for words, direction, short in _DIRECTIONS:
        if any(word in known for word in words):
            return short, direction
    return name or "Memcpy", CopyKind.UNKNOWN


def is_marker(category: str) -> bool:
    """Whether calls of a domain such as "MARKER_CORE_RANGE_API" are ranges that the program marked itself."""
    return any(word in category.upper() for word in _MARKERS)


@dataclass(slots=True)
class Timeline:
    """Adds operations and calls to a builder; ``finish`` joins them by process and correlation number."""

    builder: TraceBuilder
    rank: int | None = None  # of the process whose events are being added
    _launches: list[tuple[I64, I64, I64]] = field(default_factory=list)
    _launched: list[tuple[I64, I64, I64]] = field(default_factory=list)

    def usable(self, start: I64, end: I64, rows: str) -> BOOL:
        """Which rows have times, all of them counted; ``rows`` says where they stand."""
        good: BOOL = (start > -FARTHEST_NS) & (end >= start) & (end < FARTHEST_NS)
        self.builder.quality.read_times(good, lambda index: f"{rows}, row {index + 1}")
        return good

    def names(self, texts: Iterable[str]) -> I64:
        return np.array([self.builder.string(text or "(no name)") for text in texts], np.int64)

    def operations(self, each: Operations, rows: str) -> None:
        """Add kernels or copies; ``rows`` says where they stand, for the quality account."""
        good = self.usable(each.start, each.end, rows)
        numbers = self.builder.add(
            each.start[good],
            each.end[good],
            each.name[good],
            self._stream_lanes(each.device[good], each.stream[good]),
            each.kind if isinstance(each.kind, EventKind) else each.kind[good],
            each.row[good],
        )
        self._launched.append((numbers, each.process[good], each.correlation[good]))
        for which, column in (
            (Attribute.COPY_KIND, each.direction),
            (Attribute.BYTES, each.bytes),
            (Attribute.REGISTERS, each.registers),
            (Attribute.LAUNCH_NUMBER, each.number),
        ):
            if column is not None:
                stated = column[good] != ABSENT
                self.builder.attribute(which, numbers[stated], column[good][stated])
        if each.grid is not None and each.block is not None:
            self._shapes(numbers, each.grid[good], each.block[good])

    def _stream_lanes(self, device: I64, stream: I64) -> I32:
        return per_value(np.stack([device, stream], axis=1), self._stream_lane, np.int32)

    def _stream_lane(self, place: list[int]) -> int:
        device, stream = place
        number = self.builder.devices[device].id
        shown = 0 if stream == ABSENT else stream
        return self.builder.lane(
            Lane(LaneKind.GPU_STREAM, f"GPU {number} stream {shown}", self.rank, device=device, stream=shown)
        )

    def _shapes(self, numbers: I64, grid: I64, block: I64) -> None:
        stated = (grid[:, 0] > 0) & (block[:, 0] > 0)
        numbers, block = numbers[stated], np.maximum(block[stated], 1)
        grid = -(-np.maximum(grid[stated], 1) // block)
        state_shape(self.builder, Attribute.GRID, numbers, grid)
        state_shape(self.builder, Attribute.BLOCK, numbers, block)

    def calls(self, each: Calls, rows: str, suffix: str = "HIP calls") -> None:
        good = self.usable(each.start, each.end, rows)
        for chosen, lane_kind, kind, words in (
            (good & ~each.is_range, LaneKind.CUDA_API, EventKind.API, suffix),
            (good & each.is_range, LaneKind.REGION, EventKind.REGION, "regions"),
        ):
            numbers = self.builder.add(
                each.start[chosen],
                each.end[chosen],
                each.name[chosen],
                self.thread_lanes(each.process[chosen], each.thread[chosen], lane_kind, words),
                np.where(
                    (each.end == each.start)[chosen] & (kind == EventKind.REGION), EventKind.MARK, kind
                ).astype(np.uint8),
                each.row[chosen],
            )
            if kind is EventKind.API:
                self._launches.append((numbers, each.process[chosen], each.correlation[chosen]))

    def thread_lanes(self, process: I64, thread: I64, kind: LaneKind, words: str) -> I32:
        """The lane of each thread, of which the one with its process' number is the main one."""

        def lane_of(place: list[int]) -> int:
            its, number = place
            name = ("Main thread" if its == number else f"Thread {number}") + f" {words}"
            return self.builder.lane(Lane(kind, name, self.rank, process=its, thread=number))

        return per_value(np.stack([process, thread], axis=1), lane_of, np.int32)

    def finish(self) -> None:
        """Join operations to their calls, and state what the recording holds."""
        operation, process, correlation = _joined(self._launched)
        call, of_process, number = _joined(self._launches)
        if not process.any() or not of_process.any() or _each_of_another(process, of_process):
            process, of_process = np.zeros_like(process), np.zeros_like(of_process)
        place = _places_of_pairs(of_process, number, process, correlation)
        found = (place >= 0) & (correlation > 0)
        self.builder.link(operation[found], call[place[found]])
        state_capture(self.builder)


def streams_or_queues(device: I64, stream: I64, queue: I64) -> I64:
    """The stream of each operation, or its hardware queue where none is stated or a device has very many streams."""
    chosen = np.where(stream == ABSENT, queue, stream)
    for _, mine in rows_by(device):
        if len(distinct_values(chosen[mine])) > MAX_STREAMS and not np.any(queue[mine] == ABSENT):
            chosen[mine] = queue[mine]
    return chosen


def _each_of_another(process: I64, of_process: I64) -> bool:
    """Whether all are of one process, which one of the two calls by another number, as rocprof does."""
    return bool((process == process[0]).all() and (of_process == of_process[0]).all())


def _joined(parts: Sequence[tuple[I64, I64, I64]]) -> tuple[I64, I64, I64]:
    empty = np.empty(0, np.int64)
    first, second, third = (np.concatenate([empty, *(part[column] for part in parts)]) for column in range(3))
    return first, second, third


def _places_of_pairs(process: I64, number: I64, wanted_process: I64, wanted: I64) -> I64:
    """For each wanted (process, number) the first place that holds it; -1 without one."""
    place = np.full(len(wanted), -1, np.int64)
    known = dict(rows_by(process))
    for each, asked in rows_by(wanted_process):
        if (mine := known.get(each)) is not None:
            place[asked] = _mapped(mine, place_in(number[mine], wanted[asked]))
    return place


def _mapped(to: I64, places: I64) -> I64:
    return np.where(places >= 0, to[np.maximum(places, 0)], -1) if len(to) else np.full(len(places), -1)


def taken(column: I64, places: I64) -> I64:
    """The values at these places; ``ABSENT`` where the place is -1."""
    if not len(column):
        return np.full(len(places), ABSENT, np.int64)
    return np.where(places >= 0, column[np.maximum(places, 0)], ABSENT)


def gpu_properties(described: Mapping[str, Any]) -> dict[str, Any]:
    """What an agent's description says about a GPU, as fields of ``Device``."""
    units = described.get("cu_count")
    return {"sm_count": units} if isinstance(units, int) and 0 < units < 1 << 16 else {}
