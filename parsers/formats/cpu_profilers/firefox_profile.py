"""Profiles of Firefox Profiler: Python's own sampling profiler (``--gecko``), samply, and others that write for it."""

from __future__ import annotations

import msgspec
import numpy as np

from parsers.files.base import Parser, Source, parser
from parsers.model import I64, Effect, Malformed, Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass, regex
from parsers.model.names.mangled import readable_symbol
from parsers.model.names.source_files import NO_FOLDERS
from parsers.model.units import NS_PER_MS
from parsers.stacks.firefox import Frame, Tables, Thread, depth_shown, samples_of, stacks_of_samples
from parsers.stacks.json_profile import decoded_profile
from parsers.stacks.timeline import (
    SampledThread,
    add_thread,
    allow_threads,
    frame_name,
    sample_ends,
    set_aside,
    tell_few,
    usual_distance,
)

_START = regex(rb"\s*\{")
_LITERALS = b'"preprocessedProfileVersion"', b'"stackTable"', b'"stackwalk"', b'"gcpoison"'
_KEYS = regex(
    rb'"preprocessedProfileVersion"\s*:\s*\d|"stackTable"\s*:\s*\{|"meta"\s*:\s*\{[^{}]*"(?:stackwalk|gcpoison)"\s*:'
)
_BYTES_OF_NUMBER = 40  # of memory: an element of a list, and its place in a column
_LOCATION = regex(r"(?P<function>.+) \((?P<file>[^()]+?)(?::(?P<line>\d{1,9}))?(?::\d{1,9})?\)")
_WALL_CLOCK_MS = 1e12  # since 1970 in 2001; what is less counts from somewhere else
_LATEST_MS = 4e12
_PYTHON = "Python"
_WITHOUT_FOLDERS = (
    "Python's profiler states files without their folders, "
    "so only functions of the script itself are taken as yours."
)
_MAX_NAME = 200  # characters
_HINT = "Write it again: python -m profiling.sampling run --gecko -o profile.json train.py"


class _Meta(msgspec.Struct):
    startTime: float | None = None  # noqa: N815 - as the file calls it
    product: str | None = None
    importedFrom: str | None = None  # noqa: N815


class _Profile(msgspec.Struct):
    meta: _Meta = msgspec.field(default_factory=_Meta)
    threads: list[Thread] = []
    processes: list[_Profile] = []
    shared: Tables = msgspec.field(default_factory=Tables)


@parser
class FirefoxProfile(Parser):
    """Recognised by what its description says, or by its tables."""

    format = "firefox-profile"
    title = "CPU profilers"
    files = "Firefox Profiler's JSON (python -m profiling.sampling --gecko, samply)"
    suffixes = (".json",)
    priority = 48
    version = 4

    def recognises(self, source: Source) -> bool:
        head = source.head
        if _START.match(head) is None or not any(each in head for each in _LITERALS):
            return False
        return _KEYS.search(head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        profile = decoded_profile(
            source, _Profile, b",", _BYTES_OF_NUMBER, "This profile", _HINT, progress.part(0.0, 0.5)
        )
        threads = [(thread, each.shared) for each in (profile, *profile.processes) for thread in each.threads]
        allow_threads(len(threads))
        builder = TraceBuilder()
        start_ms = profile.meta.startTime or 0.0
        if _WALL_CLOCK_MS <= start_ms < _LATEST_MS:
            whole, part = divmod(start_ms, 1.0)
            builder.epoch_ns = round(whole) * NS_PER_MS + round(part * NS_PER_MS)
        by = profile.meta.importedFrom or profile.meta.product or "Firefox Profiler"
        builder.came_from(source.name, self.format, by[:40])
        samples = [samples_of(thread) for thread, _ in threads]
        times = [np.rint(each.time * NS_PER_MS).astype(np.int64) for each in samples]
        usual = usual_distance(times)
        stretches = [_stretches(time, each.stack, usual) for time, each in zip(times, samples, strict=True)]
        most = depth_shown(sum(len(each.stack) for each in stretches))
        cut = 0
        for number, ((thread, shared), each) in enumerate(zip(threads, stretches, strict=True)):
            progress.step(0.5 + 0.4 * number / len(threads), "reading samples")
            set_aside(builder, "samples without a usable time", samples[number].bad)
            offset, frame, shortened = stacks_of_samples(
                thread, shared, each.stack, most, lambda frame: builder.string(_named(frame))
            )
            cut += shortened
            if len(frame):
                process, identity = _identity(thread.pid), _identity(thread.tid)
                name = (thread.name or f"thread {thread.tid}")[:_MAX_NAME]
                sampled = SampledThread(name, each.start, each.end, offset, frame, process, identity)
                add_thread(builder, sampled)
        tell_few(builder, sum(len(each.time) for each in samples))
        if profile.meta.product == _PYTHON:
            builder.quality.note(NO_FOLDERS, Effect.NOTED, _WITHOUT_FOLDERS)
        if cut:
            builder.quality.note(
                "deep", Effect.NOTED, "stacks are shown without their innermost frames", "", cut
            )
        if not any(len(each.stack) for each in samples):
            raise Malformed(source.path, "This profile holds no samples with a time.", _HINT)
        return builder.build(progress.part(0.9, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class _Stretches:
    """Times in ns in which a thread had one stack."""

    start: I64
    end: I64
    stack: I64


def _stretches(time: I64, stack: I64, usual: int) -> _Stretches:
    """Neighbouring samples with one stack are one stretch, unless the thread did not run in between."""
    if not len(time):
        return _Stretches(time, time, stack)
    end = sample_ends(time, usual)
    goes_on = (stack[1:] == stack[:-1]) & (time[1:] == end[:-1])
    first = np.flatnonzero(np.concatenate(([True], ~goes_on)))
    return _Stretches(time[first], end[np.append(first[1:], len(stack)) - 1], stack[first])


def _named(frame: Frame) -> str:
    if not frame.function and (found := _LOCATION.fullmatch(frame.location)) is not None:
        return frame_name(found["function"], found["file"], int(found["line"] or 0))
    function = readable_symbol(frame.function or frame.location or "unknown")
    if not frame.file and frame.library and frame.library != function:
        return f"{function} ({frame.library})"
    return frame_name(function, frame.file, frame.line)


def _identity(value: str | int | None) -> int | None:
    text = str(value).split(".")[0]  # a second process with one number is "123.1"
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
