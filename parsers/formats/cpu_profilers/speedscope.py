"""Speedscope's JSON, as py-spy and other profilers of the CPU write it, and py-spy's own Chrome traces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
import numpy as np

from parsers.files.base import Parser, Source, parser
from parsers.files.decoders import UNREADABLE, from_json
from parsers.model import I32, Effect, Lane, LaneKind, Malformed, Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.model.quality import WITHOUT_TIMES
from parsers.model.units import NS_PER_US
from parsers.stacks.json_profile import decoded_profile
from parsers.stacks.timeline import (
    COUNTED,
    COUNTED_NS,
    WEIGHED,
    WEIGHED_NS,
    SampledThread,
    add_calls,
    add_thread,
    allow_threads,
    frame_name,
    is_counted,
    set_aside,
    stacks_of,
)

_PY_SPY_START = regex(rb'\s*\[\s*\{[^[\]]{0,4096}?"cat"\s*:\s*"py-spy"')
_BYTES_OF_MARK = 250  # of memory
_LATEST_US = float(1 << 50)
_PY_SPY_HINT = "Write it again: py-spy record."
PY_SPY_UNUSABLE = "starts and ends of calls that do not match"


_Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class _Place(msgspec.Struct):
    filename: str = ""
    line: int = 0


class _Mark(msgspec.Struct):
    name: str
    ph: str
    ts: float
    pid: _Number = 0
    tid: _Number = 0
    args: _Place | None = None


@parser
class PySpyTrace(Parser):
    """Recognised by the category of its first event."""

    format = "py-spy-trace"
    title = "CPU profilers"
    files = "Chrome traces of py-spy"
    suffixes = (".json",)
    priority = 60  # before other Chrome traces

    def recognises(self, source: Source) -> bool:
        return _PY_SPY_START.match(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        marks = decoded_profile(
            source, list[_Mark], b"{", _BYTES_OF_MARK, "These samples", _PY_SPY_HINT, progress.part(0.0, 0.3)
        )
        builder = TraceBuilder()
        builder.came_from(source.name, self.format, "py-spy")
        threads: dict[tuple[int, int], list[_Mark]] = {}
        for each in marks:
            threads.setdefault((each.pid, each.tid), []).append(each)
        allow_threads(len(threads))
        wrong = 0
        for number, ((process, thread), mine) in enumerate(threads.items()):
            progress.step(0.3 + 0.5 * number / len(threads), "reading samples")
            usable = [each for each in mine if each.ph in ("B", "E") and abs(each.ts) < _LATEST_US]
            name = next((each.name for each in usable if each.name.startswith("thread ")), f"thread {thread}")
            lane = Lane(LaneKind.SAMPLED_STACKS, name, process=process, thread=thread)
            wrong += len(mine) - len(usable) + add_calls(builder, lane, _calls(builder, usable))
        set_aside(builder, PY_SPY_UNUSABLE, wrong)
        return builder.build(progress.part(0.8, 1.0))


def _calls(builder: TraceBuilder, marks: list[_Mark]) -> Iterator[tuple[bool, int, int]]:
    for each in marks:
        place = each.args or _Place()
        name = frame_name(each.name, place.filename, max(place.line, 0))
        yield each.ph == "B", builder.string(name), round(each.ts * NS_PER_US)


_START = regex(rb"\s*\{")
_SCHEMA = b"speedscope.app/file-format-schema"
_PROFILES = regex(rb'"profiles"\s*:\s*\[\s*\{[^{}\[\]]*"type"\s*:\s*"(?:sampled|evented)"')
_BYTES_OF_SAMPLE = 200  # of memory: a list with its frames
_UNITS = {"nanoseconds": 1.0, "microseconds": 1e3, "milliseconds": 1e6, "seconds": 1e9}  # ns
_LATEST = 1 << 60  # ns
UNUSABLE = "samples without a usable time, or with missing frames"
UNREADABLE_PROFILE = "profiles whose samples are not lists of frames"
_WHAT = "These samples"
_HINT = "Write it again: py-spy record --format speedscope."


_Index = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]


class _Frame(msgspec.Struct):
    name: str
    file: str | None = None
    line: int | None = None


class _Shared(msgspec.Struct):
    frames: list[_Frame]


class _Event(msgspec.Struct):
    type: str
    frame: _Index
    at: float


class _Profile(msgspec.Struct):
    type: str
    name: str = ""
    unit: str = "none"
    startValue: float = 0.0  # noqa: N815 - as the file calls it
    samples: list[list[_Index]] = []
    weights: list[float] = []
    events: list[_Event] = []


class _File(msgspec.Struct):
    shared: _Shared
    profiles: list[msgspec.Raw]
    exporter: str | None = None


@parser
class Speedscope(Parser):
    """Recognised by the name of its schema, or by its profiles."""

    format = "speedscope"
    title = "CPU profilers"
    files = "speedscope JSON (py-spy record -f speedscope)"
    suffixes = (".json", ".speedscope")
    priority = 47
    version = 5

    def recognises(self, source: Source) -> bool:
        head = source.head
        return _START.match(head) is not None and (
            _SCHEMA in head or (b'"profiles"' in head and _PROFILES.search(head) is not None)
        )

    def read(self, source: Source, progress: Progress) -> Trace:
        stated = decoded_profile(source, _File, b"[", _BYTES_OF_SAMPLE, _WHAT, _HINT, progress.part(0.0, 0.6))
        builder = TraceBuilder()
        profiles = _readable(source, stated.profiles, builder)
        if unknown := {each.unit for each in profiles} - {*_UNITS, "none"}:
            raise Malformed(
                source.path,
                f"These profiles measure {min(unknown)[:40]}, not time.",
                "Record samples of the CPU.",
            )
        exporter = (stated.exporter or "speedscope").partition("@")[0]
        builder.came_from(source.name, self.format, exporter[:40])
        names = np.array(
            [
                builder.string(frame_name(each.name, each.file or "", max(each.line or 0, 0)))
                for each in stated.shared.frames
            ],
            np.int32,
        )
        counted = is_counted(
            weight
            for each in profiles
            if each.unit == "none"
            for weight in each.weights
            if 0 <= weight < _LATEST
        )
        unit = COUNTED_NS if counted else WEIGHED_NS
        for number, each in enumerate(profiles):
            progress.step(0.6 + 0.3 * number / len(profiles), "reading samples")
            if each.type == "sampled":
                _add_samples(builder, each, names, unit)
            elif each.type == "evented":
                _add_calls(builder, each, names)
        if any(each.unit == "none" and each.samples for each in profiles):
            builder.quality.note(WITHOUT_TIMES, Effect.NOTED, COUNTED if counted else WEIGHED)
        return builder.build(progress.part(0.9, 1.0))


def _readable(source: Source, stated: list[msgspec.Raw], builder: TraceBuilder) -> list[_Profile]:
    """The profiles that are laid out as they should be; the others are counted, and Malformed raised for none."""
    profiles: list[_Profile] = []
    wrong = ""
    for each in stated:
        try:
            profiles.append(from_json(each, _Profile))
        except UNREADABLE as error:
            wrong = wrong or str(error)
            builder.quality.read(1)
            builder.quality.note("profile", Effect.QUARANTINED, UNREADABLE_PROFILE, wrong)
    if stated and not profiles:
        raise Malformed(source.path, f"{_WHAT} cannot be read ({wrong}).", _HINT)
    return profiles


def _add_samples(builder: TraceBuilder, profile: _Profile, names: I32, unit_ns: int) -> None:
    """The calls of a profile whose samples each have a weight; those that cannot be used are counted.

    ``unit_ns`` is for how long a weight of 1 stands where the profile states no unit.
    """
    count = len(profile.samples)
    weight = np.ones(count) if not profile.weights else np.full(count, np.nan)
    weight[: len(profile.weights)] = profile.weights[:count]
    with np.errstate(over="ignore"):  # what becomes infinite cannot be used
        weight *= _UNITS.get(profile.unit, unit_ns)
    offset, frame = stacks_of(profile.samples)
    known = (frame >= 0) & (frame < len(names))
    good = np.isfinite(weight) & (weight >= 0) & (weight < _LATEST / max(count, 1))
    good[np.searchsorted(offset, np.flatnonzero(~known), side="right") - 1] = False
    set_aside(builder, UNUSABLE, count - int(good.sum()))
    begin = profile.startValue * _UNITS.get(profile.unit, 0.0)
    edges = np.cumsum(np.append(begin if abs(begin) < _LATEST else 0.0, np.where(good, weight, 0.0)))
    edges = edges.round().astype(np.int64)
    kept = np.repeat(good, np.diff(offset))
    add_thread(
        builder,
        SampledThread(
            profile.name or "samples",
            edges[:-1],
            edges[1:],
            np.append(0, np.cumsum(np.where(good, np.diff(offset), 0))),
            names[frame[kept]],
        ),
    )


def _add_calls(builder: TraceBuilder, profile: _Profile, names: I32) -> None:
    """The calls of a profile that states their beginnings and ends."""
    unit = _UNITS.get(profile.unit, COUNTED_NS)
    usable = [
        each for each in profile.events if 0 <= each.frame < len(names) and abs(each.at * unit) < _LATEST
    ]
    marks = ((each.type == "O", int(names[each.frame]), round(each.at * unit)) for each in usable)
    wrong = add_calls(builder, Lane(LaneKind.SAMPLED_STACKS, profile.name or "calls"), marks)
    set_aside(builder, UNUSABLE, wrong + len(profile.events) - len(usable))
