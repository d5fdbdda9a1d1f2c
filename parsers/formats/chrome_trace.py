"""Chrome trace JSON: PyTorch's profiler, and every other tool that writes ``traceEvents``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import ClassVar

from parsers.chrome.build.assemble import assemble
from parsers.chrome.decode import second_process
from parsers.chrome.decode.header import parse_header
from parsers.chrome.decode.pairs import add_instants
from parsers.chrome.decode.reading import ChromeArguments, Reading, TooManyEvents
from parsers.chrome.decode.second_process import SecondProcess
from parsers.chrome.decode.stream import EventStream, holds_a_list
from parsers.files.base import HEAD_BYTES, Parser, Source, parser
from parsers.files.signatures import NSYS_AS_JSON, USUAL_GROWTH
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import ALWAYS_ALLOWED, MAX_RATIO
from parsers.model import ArgumentSource, Effect, Malformed, Progress, Trace, TraceError, UnknownFormat
from parsers.model.late import regex

_OF_NSYS = regex(NSYS_AS_JSON)
_JSON_START = regex(rb"^(?:\xef\xbb\xbf)?\s*(?:\{|\[\s*(?:\{|\]|$))")

_OTHER_LIST = regex(
    rb"(?:\xef\xbb\xbf)?\s*\[\s*\{"
)  # objects that are no events, where none states its phase

MIN_BYTES_OF_EVENT, FREE_EVENTS = 2, 2_000_000
_BYTES_OF_EVENT = 1000  # more than usual: where a preview stops looking for events


def _is_other_list(head: bytes) -> bool:
    return b'"ph"' not in head and _OTHER_LIST.match(head) is not None


class _EnoughRead(Exception):
    """A preview needs no more."""


@parser
class ChromeTrace(Parser):
    """Reads ``traceEvents`` in chunks, straight into columns."""

    format = "chrome"
    title = "PyTorch profiler"
    files = "Kineto and any other Chrome trace as JSON, several ranks as one run"
    suffixes = (".json",)
    media_types: ClassVar[Mapping[str, str]] = {
        ".pt.trace.json": "application/x-pytorch-trace",
        ".pt.trace.json.gz": "application/x-pytorch-trace-gzip",
    }
    priority = 80
    version = 26

    def recognises(self, source: Source) -> bool:
        return _JSON_START.match(source.head) is not None and not _OF_NSYS.match(source.head)

    def is_certain(self, source: Source) -> bool:
        """By the keys of events; before those of a large object there may be much else."""
        head = source.head
        is_long_object = len(head) == HEAD_BYTES and head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
        return is_long_object or b'"traceEvents"' in head or b'"ph"' in head

    def argument_source(self, source: Source) -> ArgumentSource:
        return ChromeArguments(source.path, source.compression)

    def read(self, source: Source, progress: Progress) -> Trace:
        packed = max(source.path.stat().st_size, 1)
        most_bytes, allowed = _most_bytes(source, packed), _allowed_events(source, packed)
        arguments = ChromeArguments(source.path, source.compression)
        second = second_process.start(source, most_bytes)
        try:
            reading, stream = _read(source, most_bytes, allowed, second, progress.part(0.0, 0.7))
        except TooManyEvents as error:
            known = (
                "far more than a recording of its size would"
                if error.for_its_size
                else "more than fit into this machine's memory"
            )
            raise TraceError(
                source.path,
                f"This trace holds more than {error.most:,} events, {known}.",
                "Record fewer steps, or without Python stacks.",
            ) from error
        finally:
            if second is not None:
                second.stop()
        quality = reading.columns.quality
        if stream.damage:
            quality.note("cut", Effect.NOTED, f"{stream.damage}; everything before that point was read")
        if holds_a_list(reading.trailer):
            reason = "the file holds another list of events after the first, which is not shown: split it into files"
            quality.note("second-list", Effect.NOTED, reason)
        because = f" ({stream.damage})" if stream.damage else ""
        add_instants(reading.columns)
        is_empty = not reading.columns.count and not reading.columns.memory and not reading.series.samples
        if not stream.has_list or (is_empty and _is_other_list(source.head)):
            raise UnknownFormat(
                source.path,
                f"This JSON file holds no list of trace events{because}.",
                "A PyTorch trace has a key traceEvents. If a profiler wrote this file, its format is not supported.",
            )
        if is_empty:
            raise Malformed(
                source.path,
                f"This trace holds no events that can be shown{because}.",
                "Record again, and run the profiled code between the profiler's start and stop.",
            )
        header = parse_header(stream.header, reading.trailer)
        return assemble(reading.columns, reading.series, header, source, arguments, progress.part(0.7, 1.0))

    def preview(self, source: Source, most_events: int, progress: Progress) -> Trace | None:
        """What the first chunks hold."""
        arguments = ChromeArguments(source.path, source.compression)
        reading = Reading()
        with open_bytes(source) as file:
            stream = EventStream(file, most_bytes=most_events * _BYTES_OF_EVENT)

            def step(_: EventStream) -> None:
                progress.step(0.5, "reading the first events")
                if reading.columns.count >= most_events:
                    raise _EnoughRead

            with contextlib.suppress(_EnoughRead):
                reading.read(stream, lambda _: True, step)
        if not stream.has_list or not reading.columns.count:
            return None
        add_instants(reading.columns)
        header = parse_header(stream.header, reading.trailer)
        return assemble(reading.columns, reading.series, header, source, arguments, progress.part(0.7, 1.0))


def _read(
    source: Source, most_bytes: int, allowed: int, second: SecondProcess | None, progress: Progress
) -> tuple[Reading, EventStream]:
    """Read the file, with the help of the second process; without it, should that fail."""
    expected = max(source.path.stat().st_size * (USUAL_GROWTH if source.compression else 1), 1)

    def step(stream: EventStream) -> None:
        progress.step(min(stream.consumed / expected, 1.0), "reading events")

    reading = Reading(allowed=allowed)
    with open_bytes(source) as file:
        if second is None:
            stream = EventStream(file, most_bytes=most_bytes)
            reading.read(stream, lambda _: True, step)
        else:
            share = second.share
            stream = share.stream(file, is_helper=False)
            reading.read(stream, lambda chunk: not share.holds(chunk), step)
    if second is None:
        return reading, stream
    answer = None if reading.ended_early else second.result(progress, 1.0)
    if answer is None:
        return _read(source, most_bytes, allowed, None, progress)
    from parsers.chrome.decode.exchange import unpack_into

    unpack_into(answer, reading.columns, reading.series)
    return reading, stream


def _allowed_events(source: Source, packed: int) -> int:
    """Events beyond which a packed file is no recording: the fewest bytes that one has are ten."""
    return max(packed // MIN_BYTES_OF_EVENT, FREE_EVENTS) if source.compression else 1 << 62


def _most_bytes(source: Source, packed: int) -> int:
    """Unpacked bytes beyond which a packed file is no recording; events pack to a tenth or a twentieth."""
    return max(packed * MAX_RATIO, ALWAYS_ALLOWED) if source.compression else 1 << 62
