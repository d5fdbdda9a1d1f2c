"""Kernels of a Proton trace on their streams, under the scopes that launched them; scopes of the CPU on its threads."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from parsers.model import I32, I64, Device, EventKind, Lane, LaneKind
from parsers.model.arrays import rows_by
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import judged
from parsers.model.names.steps import step_number
from parsers.proton.records import ProtonEvents
from parsers.stacks.timeline import shared_calls

_KERNEL = "kernel"
_SCOPES = ("scope", "metric")  # the latter with numbers that the program gave
_ROOT = "ROOT"
_STREAM = regex(r"^(?:GPU|Graph:)(?: Device (\d{1,4}))? Stream (\d{1,9})$")
_THREAD = regex(r"^CPU Thread (\d{1,18})$")
_MAX_DEPTH = 64  # of scopes around a kernel
_MAX_FRAMES = 16_000_000  # of the stacks of all kernels
_NO_STEP = -1


@dataclass(frozen=True, slots=True)
class _Stream:
    device: int
    number: int


def add_kernels(builder: TraceBuilder, events: ProtonEvents) -> I64:
    """Add them, and return which of the events were: kernels, and scopes of threads and graphs."""
    kernels, scopes = _of_categories(events, _KERNEL), _of_categories(events, *_SCOPES)
    names = np.array([builder.string(name) for name in events.names], np.int32)
    stacks = _Stacks.of(builder, events, len(kernels))
    regions = _Regions()
    for track, rows in rows_by(events.track[kernels]):
        stream = _stream_of(events, track)
        mine = kernels[rows]
        mine = mine[np.argsort(events.start[mine], kind="stable")]
        builder.quality.read(len(mine))
        lane = builder.lane(_lane(builder, LaneKind.GPU_STREAM, stream))
        builder.add(events.start[mine], events.end[mine], names[events.name[mine]], lane, EventKind.KERNEL)
        first, last, name = stacks.shared(events.stack[mine])
        start, end = events.start[mine][first], np.maximum.accumulate(events.end[mine])[last]
        builder.quality.read(len(start))
        above = builder.lane(_lane(builder, LaneKind.GPU_REGION, stream))
        builder.add(start, end, name, above, EventKind.GPU_REGION)
        regions.add(start, end, name)
    for track, rows in rows_by(events.track[scopes]):
        mine = scopes[rows]
        builder.quality.read(len(mine))
        on, kind = _lane_of_scopes(builder, events, track)
        builder.add(events.start[mine], events.end[mine], names[events.name[mine]], builder.lane(on), kind)
    regions.add_steps(builder)
    return np.concatenate((kernels, scopes))


@dataclass(slots=True)
class _Regions:
    """The scopes as they are on streams, of which those that count up are the steps."""

    start: list[I64] = field(default_factory=list)
    end: list[I64] = field(default_factory=list)
    name: list[I32] = field(default_factory=list)

    def add(self, start: I64, end: I64, name: I32) -> None:
        self.start.append(start)
        self.end.append(end)
        self.name.append(name)

    def add_steps(self, builder: TraceBuilder) -> None:
        """Add each step from its first kernel until that of the next one, where they follow one another."""
        if not self.name:
            return
        name = np.concatenate(self.name)
        number = judged(name, builder.strings, _number_of_step)
        told = np.flatnonzero(number != _NO_STEP)
        numbers, first, which = np.unique(number[told], return_index=True, return_inverse=True)
        start, end = np.full(len(numbers), np.iinfo(np.int64).max), np.zeros(len(numbers), np.int64)
        np.minimum.at(start, which, np.concatenate(self.start)[told])
        np.maximum.at(end, which, np.concatenate(self.end)[told])
        if len(numbers) < 2 or (np.diff(start) <= 0).any():
            return
        end[:-1] = start[1:]
        builder.quality.read(len(start))
        lane = builder.lane(Lane(LaneKind.STEPS, "Steps"))
        builder.add(start, end, name[told[first]], lane, EventKind.STEP)


@dataclass(frozen=True, slots=True, eq=False)
class _Stacks:
    """The scopes around events as strings of a builder; those of stack ``n`` are ``length[n]`` from ``first[n]`` on."""

    first: I64
    length: I64
    frame: I32

    @staticmethod
    def of(builder: TraceBuilder, events: ProtonEvents, kernels: int) -> _Stacks:
        depth = min(_MAX_DEPTH, max(_MAX_FRAMES // max(kernels, 1), 1))
        around = [_around(stack)[:depth] for stack in events.stacks]
        length = np.array([len(each) for each in around], np.int64)
        frame = np.array([builder.string(name) for each in around for name in each], np.int32)
        return _Stacks(np.cumsum(length) - length, length, frame)

    def shared(self, stack: I32) -> tuple[I64, I64, I32]:
        """Which of a row of events each scope begins and ends with, and its name."""
        length = self.length[stack]
        offset = np.concatenate(([0], np.cumsum(length)))
        place = np.arange(int(offset[-1])) - np.repeat(offset[:-1] - self.first[stack], length)
        return shared_calls(offset, self.frame[place], np.ones(max(len(stack) - 1, 0), bool))


def _around(stack: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes of a stack without the root and the event itself."""
    return stack[1:-1] if stack[:1] == (_ROOT,) else stack[:-1]


def _number_of_step(name: str) -> int:
    number = step_number(name)
    return _NO_STEP if number is None else number


def _of_categories(events: ProtonEvents, *wanted: str) -> I64:
    known = np.array([category in wanted for category in events.categories], bool)
    return np.flatnonzero(known[events.category])


def _stream_of(events: ProtonEvents, track: int) -> _Stream:
    """By what metadata calls its thread, else by the number of the thread."""
    process, thread = events.tracks[track]
    named = _STREAM.match(events.threads.get((process, thread), ""))
    if named is not None:
        return _Stream(int(named[1] or 0), int(named[2]))
    return _Stream(0, thread if isinstance(thread, int) and 0 <= thread < 1 << 31 else track)


def _lane_of_scopes(builder: TraceBuilder, events: ProtonEvents, track: int) -> tuple[Lane, EventKind]:
    named = events.threads.get(events.tracks[track], "")
    if _STREAM.match(named) is not None:
        return _lane(builder, LaneKind.GPU_REGION, _stream_of(events, track)), EventKind.GPU_REGION
    thread = _THREAD.match(named)
    number = int(thread[1]) if thread is not None else track
    return Lane(LaneKind.REGION, f"Thread {number}", thread=number), EventKind.REGION


def _lane(builder: TraceBuilder, kind: LaneKind, stream: _Stream) -> Lane:
    suffix = " regions" if kind is LaneKind.GPU_REGION else ""
    device = builder.device(Device(stream.device))
    return Lane(
        kind, f"GPU {stream.device} stream {stream.number}{suffix}", device=device, stream=stream.number
    )
