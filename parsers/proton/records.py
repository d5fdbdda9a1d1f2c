"""The events of a Proton trace, decoded piece by piece into columns.

The layout is that of ``proton/csrc/lib/Data/TraceData.cpp`` of Triton 3.4 and later: an object with ``traceEvents`` for
each stream, or one for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from typing import TypeVar

import msgspec
import numpy as np

from parsers.files.base import Source
from parsers.files.decoders import UNREADABLE
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream
from parsers.json_lists import Piece
from parsers.json_records import Records
from parsers.model import F64, I32, I64, Effect, Excessive, Malformed, Progress, QualityRecorder, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass, regex
from parsers.model.units import NS_PER_US

_START = regex(rb'\s*\{\s*"displayTimeUnit"\s*:\s*"\w{1,4}"\s*,\s*"traceEvents"\s*:\s*\[')
_LIST = "traceEvents"
_DEEPEST, _OWNER_DEPTH = 2, 1  # brackets around an event, and around what one stream wrote


def begins_like_proton(head: bytes) -> bool:
    """Whether a file begins with Proton's keys, in its order."""
    return _START.match(head) is not None


def trace_of(
    source: Source, format: str, add: Callable[[TraceBuilder, ProtonEvents], I64], progress: Progress
) -> Trace:
    """The trace of a file, of which ``add`` shows some events and says which; the others are counted."""
    builder = TraceBuilder()
    events = _events_of(source, builder, progress.part(0.0, 0.7))
    shown = add(builder, events)
    if not len(shown):
        hint = "Call proton.finalize() at the end of the program, and write the trace again."
        raise Malformed(source.path, "This trace of Proton holds no kernel and no scope.", hint)
    others = len(events.start) - len(shown)
    builder.quality.read(others)
    builder.quality.note("unknown", Effect.QUARANTINED, "events of a kind that is not known", "", others)
    builder.came_from(source.name, format, "Triton Proton")
    return builder.build(progress.part(0.8, 1.0))


def _events_of(source: Source, builder: TraceBuilder, progress: Progress) -> ProtonEvents:
    """All events of a file; what is damaged is noted."""
    from parsers.json_lists import JsonLists

    records = ProtonRecords(builder.quality)
    with open_bytes(source) as packed:
        stream = LimitedStream(packed, source, progress, "reading events")
        lists = JsonLists(stream, {_LIST}, _DEEPEST, _OWNER_DEPTH)
        for piece in lists.pieces():
            records.add(piece)
    builder.quality.cut(lists.damage, "; what comes before is shown")
    return records.events()


_LATEST_US = float(1 << 51)
_NO_STACK = b"[]"
_MAX_STACKS = 1_000_000  # different ones
_MAX_FRAMES = 8_000_000  # of all different stacks
KEY = TypeVar("KEY", bound=Hashable)


class _Arguments(msgspec.Struct, gc=False):
    call_stack: msgspec.Raw = msgspec.Raw(_NO_STACK)
    name: str = ""  # of a thread, in metadata
    frequency: float | None = msgspec.field(default=None, name="Frequency (MHz)")


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    cat: str = ""
    ts: float = -1.0
    dur: float = -1.0
    pid: str | int = 0
    tid: str | int = 0
    args: _Arguments | None = None


_EVENTS, _STACK = Records(_Event), msgspec.json.Decoder(list[str])


@dataclass(frozen=True, slots=True, eq=False)
class ProtonEvents:
    """Columns of equal length in the order of the file, times in ns; the others are indices into the lists."""

    start: I64
    end: I64
    name: I32
    category: I32
    track: I32
    stack: I32
    names: list[str]
    categories: list[str]
    tracks: list[tuple[str | int, str | int]]  # process and thread
    stacks: list[tuple[str, ...]]  # outermost first, with the event itself
    threads: dict[tuple[str | int, str | int], str]  # what metadata calls them
    in_cycles: bool  # times are clock cycles of which 1,000 are written as a microsecond


@dataclass(slots=True)
class ProtonRecords:
    """``add`` takes the pieces of the file in their order."""

    quality: QualityRecorder
    _names: dict[str, int] = field(default_factory=dict)
    _categories: dict[str, int] = field(default_factory=dict)
    _tracks: dict[tuple[str | int, str | int], int] = field(default_factory=dict)
    _stacks: dict[bytes, int] = field(default_factory=dict)
    _threads: dict[tuple[str | int, str | int], str] = field(default_factory=dict)
    _times: list[F64] = field(default_factory=list)
    _indices: list[I32] = field(default_factory=list)
    _in_cycles: bool = False

    def add(self, piece: Piece) -> None:
        times: list[tuple[float, float]] = []
        indices: list[tuple[int, int, int, int]] = []
        unused = 0
        events, bad = _EVENTS.decoded(piece.text)
        self._set_aside("an event that cannot be read", bad)
        for each in events:
            if each.ph == "M":
                if each.name == "thread_name" and each.args is not None:
                    self._threads[each.pid, each.tid] = each.args.name
                continue
            if each.ph in ("s", "f"):  # arrows from a scope to its kernels, which their stacks tell as well
                continue
            if each.ph != "X" or not 0 <= each.ts < _LATEST_US or not 0 <= each.dur < _LATEST_US:
                unused += 1
                continue
            times.append((each.ts, each.dur))
            stack = _NO_STACK if each.args is None else bytes(each.args.call_stack)
            if each.args is not None and each.args.frequency is not None:
                self._in_cycles = True
            indices.append(
                (
                    _number(self._names, each.name),
                    _number(self._categories, each.cat),
                    _number(self._tracks, (each.pid, each.tid)),
                    _number(self._stacks, stack),
                )
            )
        if len(self._stacks) > _MAX_STACKS:
            raise Excessive("call stacks", _MAX_STACKS)
        self._set_aside("an event without a usable time and duration", unused)
        self._times.append(np.array(times, np.float64).reshape(-1, 2))
        self._indices.append(np.array(indices, np.int32).reshape(-1, 4))

    def events(self) -> ProtonEvents:
        times = np.concatenate([np.empty((0, 2)), *self._times])
        start = np.rint(times[:, 0] * NS_PER_US).astype(np.int64)
        indices = np.concatenate([np.empty((0, 4), np.int32), *self._indices])
        name, category, track, stack = (np.ascontiguousarray(indices[:, column]) for column in range(4))
        return ProtonEvents(
            start=start,
            end=start + np.rint(times[:, 1] * NS_PER_US).astype(np.int64),
            name=name,
            category=category,
            track=track,
            stack=stack,
            names=list(self._names),
            categories=list(self._categories),
            tracks=list(self._tracks),
            stacks=self._decoded_stacks(),
            threads=self._threads,
            in_cycles=self._in_cycles,
        )

    def _decoded_stacks(self) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = []
        frames = bad = 0
        for text in self._stacks:
            try:
                stack = _STACK.decode(text)
            except UNREADABLE:
                stack, bad = [], bad + 1
            frames += len(stack)
            if frames > _MAX_FRAMES:
                raise Excessive("frames of call stacks", _MAX_FRAMES)
            found.append(tuple(stack))
        self.quality.note("damaged-stack", Effect.NOTED, "call stacks that cannot be read", "", bad)
        return found

    def _set_aside(self, what: str, count: int) -> None:
        self.quality.read(count)
        self.quality.note("unreadable", Effect.QUARANTINED, what, "", count)


def _number(known: dict[KEY, int], key: KEY) -> int:
    return known.setdefault(key, len(known))
