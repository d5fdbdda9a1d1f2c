"""Chrome trace JSON: PyTorch's profiler, and every other tool that writes ``traceEvents``."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import msgspec

from parsers.base import Source, parser
from parsers.chrome.arguments import ROW_BITS, ChromeArguments
from parsers.chrome.assemble import assemble
from parsers.chrome.collect import Columns
from parsers.chrome.counters import Series, take_counters
from parsers.chrome.header import parse_header
from parsers.chrome.pairs import add_instants
from parsers.chrome.records import EVENTS, RAW_EVENTS
from parsers.chrome.recovery import recover
from parsers.chrome.stream import Chunk, EventStream
from parsers.model import Effect, Malformed, Progress, QualityRecorder, Trace, UnknownFormat
from parsers.source import open_bytes

_JSON_START = re.compile(rb"^(?:\xef\xbb\xbf)?\s*(?:\{|\[\s*(?:\{|\]|$))")

_MOST_GROWTH = 300
_FREE_GROWTH_BYTES = 512 << 20


@parser
class ChromeTrace:
    """Reads ``traceEvents`` in chunks, straight into columns."""

    format: ClassVar[str] = "chrome"
    priority: ClassVar[int] = 80

    def recognises(self, source: Source) -> bool:
        return _JSON_START.match(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        quality = QualityRecorder()
        columns, series = Columns(quality), Series()
        arguments = ChromeArguments(source.path, source.compression)
        packed = max(source.path.stat().st_size, 1)
        trailer = b""
        with open_bytes(source) as file:
            stream = EventStream(file, most_bytes=_most_bytes(source, packed))
            with _no_garbage_collection():
                for chunk in stream:
                    progress.step(
                        min(stream.consumed / (packed * _growth(source)), 1.0) * 0.7, "reading events"
                    )
                    rest = _take(chunk, columns, series)
                    if rest is not None:
                        trailer = rest
                        break
        if stream.damage:
            quality.note("cut", Effect.NOTED, f"{stream.damage}; everything before that place was read")
        header = parse_header(stream.header, trailer)
        if not stream.has_list:
            because = f" ({stream.damage})" if stream.damage else ""
            raise UnknownFormat(
                source.path,
                f"This JSON file holds no list of trace events{because}.",
                "Open the file that the profiler wrote (a PyTorch trace has a key traceEvents).",
            )
        add_instants(columns)
        if not columns.count and not columns.memory and not series.samples:
            raise Malformed(
                source.path,
                f"This trace holds no events that can be shown{f' ({stream.damage})' if stream.damage else ''}.",
                "Record again, and run the profiled code between the profiler's start and stop.",
            )
        return assemble(columns, series, header, source, arguments, progress.part(0.7, 1.0))


def _take(chunk: Chunk, columns: Columns, series: Series) -> bytes | None:
    """Add a chunk's events; returns what follows the list once its end was seen."""
    first_row = chunk.number << ROW_BITS
    if not chunk.last:
        try:
            text = b"[" + chunk.data + b"]"
            columns.add(EVENTS.decode(text), first_row)
            if columns.counter_rows:
                take_counters(columns, series, [bytes(each) for each in RAW_EVENTS.decode(text)], first_row)
            return None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    found = recover(chunk.data, chunk.offset, chunk.last, columns.quality)
    if found.events:
        columns.add(found.events, first_row)
        take_counters(columns, series, found.texts, first_row)
    return found.rest


def _growth(source: Source) -> float:
    return 12.0 if source.compression else 1.0


def _most_bytes(source: Source, packed: int) -> int:
    """Unpacked bytes beyond which a packed file is no recording; events pack to a tenth or a twentieth."""
    return max(packed * _MOST_GROWTH, _FREE_GROWTH_BYTES) if source.compression else 1 << 62


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Decoding makes millions of short-lived objects and no cycle; collecting them in between doubles the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
