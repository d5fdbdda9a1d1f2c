"""Reads the chunks of a trace file into columns, all of them or a share."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from parsers.chrome.arguments import ROW_BITS
from parsers.chrome.collect import Columns
from parsers.chrome.counters import Series, take_counters
from parsers.chrome.records import EVENTS, RAW_EVENTS
from parsers.chrome.recovery import recover
from parsers.chrome.stream import Chunk, EventStream
from parsers.model import QualityRecorder

Share = Callable[[Chunk], bool]  # whether we take a chunk


@dataclass(slots=True)
class Reading:
    """What was gathered; ``trailer`` is what follows the event list, once its end was seen."""

    columns: Columns = field(default_factory=lambda: Columns(QualityRecorder()))
    series: Series = field(default_factory=Series)
    trailer: bytes = b""
    ended_early: bool = False  # the list ended before the last chunk

    def read(self, stream: EventStream, is_ours: Share, step: Callable[[EventStream], None]) -> None:
        """Take over our share of the stream; ``step`` is called before each chunk."""
        with without_garbage_collection():
            for chunk in stream:
                step(stream)
                if not is_ours(chunk):
                    continue
                rest = self._take(chunk)
                if rest is not None:
                    self.trailer = rest
                    self.ended_early = not chunk.last
                    break

    def _take(self, chunk: Chunk) -> bytes | None:
        """Add a chunk's events; returns what follows the list once its end was seen."""
        first_row = chunk.number << ROW_BITS
        columns = self.columns
        if not chunk.last:
            text = b"[" + chunk.data + b"]"
            try:
                columns.add(EVENTS.decode(text), first_row)
                if columns.counter_rows:
                    texts = [bytes(each) for each in RAW_EVENTS.decode(text)]
                    take_counters(columns, self.series, texts, first_row)
                return None
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass
        found = recover(chunk.data, chunk.offset, chunk.last, columns.quality)
        if found.events:
            columns.add(found.events, first_row)
            take_counters(columns, self.series, found.texts, first_row)
        return found.rest


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Decoding makes millions of short-lived objects and no cycle; collecting them in between doubles the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
