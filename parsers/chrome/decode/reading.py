"""Reads the chunks of a trace file into columns, all of them or a share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import msgspec

from parsers.chrome.decode.collect import Columns, Series, take_counters
from parsers.chrome.decode.records import EVENTS, RAW_EVENTS
from parsers.chrome.decode.recovery import REPAIRED_TEXT, mended, recover
from parsers.chrome.decode.stream import Chunk, EventStream
from parsers.chrome.decode.usual_records import UsualEvents
from parsers.collecting import without_garbage_collection
from parsers.files.base import Source
from parsers.files.decoders import UNREADABLE
from parsers.files.source import open_bytes
from parsers.model import QualityRecorder
from parsers.model.late import dataclass

ROW_BITS = 22  # a chunk holds fewer events than 2**22
Text = msgspec.Raw | bytes
_READ_ERRORS = (OSError, EOFError, ValueError, RecursionError, msgspec.DecodeError)


@dataclass(slots=True)
class ChromeArguments:
    """Finds an event again by its chunk and its place in it; empty once the file has changed or is gone."""

    path: Path
    compression: str
    state: tuple[int, int] = (0, 0)  # size and modification time when it was read
    _chunk: tuple[int, Sequence[Text]] = field(default=(-1, ()), init=False, repr=False)

    def __post_init__(self) -> None:
        self.state = self._state()

    def arguments(self, source_row: int) -> Mapping[str, Any]:
        number, index = source_row >> ROW_BITS, source_row & ((1 << ROW_BITS) - 1)
        try:
            if self._state() != self.state:
                return {}
            texts = self._events(number)
            event = msgspec.json.decode(texts[index]) if index < len(texts) else {}
        except _READ_ERRORS:
            return {}
        arguments = event.get("args") if isinstance(event, dict) else None
        return arguments if isinstance(arguments, dict) else {}

    def _state(self) -> tuple[int, int]:
        try:
            state = self.path.stat()
        except OSError:
            return (-1, -1)
        return state.st_size, state.st_mtime_ns

    def _events(self, number: int) -> Sequence[Text]:
        if self._chunk[0] != number:
            with open_bytes(Source(self.path, b"", self.compression)) as file:
                stream = EventStream(file, passed_over=None if self.compression else number.__ne__)
                chunk = next((each for each in stream if each.number == number), None)
            self._chunk = (number, _texts(chunk) if chunk else ())
        return self._chunk[1]


def _texts(chunk: Chunk) -> Sequence[Text]:
    for mend in (False, True) if not chunk.last else ():
        try:
            return RAW_EVENTS.decode(b"[" + mended(chunk)[0] + b"]" if mend else chunk.as_list)
        except UNREADABLE:
            continue
    return recover(chunk, QualityRecorder()).texts


MAX_TRAILER_BYTES = 64 << 20
MAX_EVENTS_OF_UNKNOWN_MEMORY = 60_000_000
BYTES_OF_EVENT = 160  # at the peak of opening, measured
Share = Callable[[Chunk], bool]  # whether we take a chunk


class TooManyEvents(Exception):
    """The file holds more events than a file of its size does, or than the memory of this machine can."""

    def __init__(self, most: int, for_its_size: bool) -> None:
        super().__init__(most)
        self.most, self.for_its_size = most, for_its_size


def most_events() -> int:
    """How many events fit into half of this machine's memory."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return MAX_EVENTS_OF_UNKNOWN_MEMORY
    return memory // 2 // BYTES_OF_EVENT


@dataclass(slots=True)
class Reading:
    """What was gathered; ``trailer`` is what follows the event list, once its end was seen."""

    columns: Columns = field(default_factory=lambda: Columns(QualityRecorder()))
    series: Series = field(default_factory=Series)
    usual: UsualEvents = field(default_factory=UsualEvents)
    allowed: int = 1 << 62  # events that a file of its size may hold
    trailer: bytes = b""
    ended_early: bool = False  # the list ended before the last chunk

    def read(self, stream: EventStream, is_ours: Share, step: Callable[[EventStream], None]) -> None:
        """Take over our share of the stream; ``step`` is called before each chunk."""
        most = min(most_events(), self.allowed)
        with without_garbage_collection():  # millions of short-lived objects and no cycle: half the time
            chunks = iter(stream)
            for chunk in chunks:
                step(stream)
                if self.columns.count > most:
                    raise TooManyEvents(most, most == self.allowed)
                if not is_ours(chunk):
                    continue
                rest = self._take(chunk)
                if rest is not None:
                    self.ended_early = not chunk.last
                    self.trailer = rest if chunk.last else _with_what_follows(rest, chunks)
                    break

    def _take(self, chunk: Chunk) -> bytes | None:
        """Add a chunk's events; returns what follows the list once its end was seen."""
        if not chunk.last:
            if self._take_whole(chunk, chunk.as_list):
                return None
            text, repaired = mended(chunk)
            if repaired and self._take_whole(chunk, b"[" + text + b"]"):
                self.columns.quality.note(*REPAIRED_TEXT, f"byte {chunk.offset} or later", repaired)
                return None
        found = recover(chunk, self.columns.quality)
        if found.events:
            first_row = chunk.number << ROW_BITS
            self.columns.add(found.events, first_row)
            take_counters(self.columns, self.series, found.texts, first_row)
        return found.rest

    def _take_whole(self, chunk: Chunk, text: bytes) -> bool:
        """Add all events of a chunk, a JSON list, at once; False when they are not what the decoder expects."""
        first_row = chunk.number << ROW_BITS
        usual = self.usual.decode(text)
        if usual is not None:
            self.columns.add_usual(usual, first_row)
            return True
        try:
            events = EVENTS.decode(text)
        except UNREADABLE:
            return False
        self.columns.add(events, first_row)
        if self.columns.counter_rows:
            texts = [bytes(each) for each in RAW_EVENTS.decode(text)]
            take_counters(self.columns, self.series, texts, first_row)
        return True


def _with_what_follows(rest: bytes, stream: Iterator[Chunk]) -> bytes:
    """The trailer of a file whose list ended before its last chunk, which the stream took for events."""
    parts, total = [rest], len(rest)
    for chunk in stream:
        parts.append(chunk.data)
        total += len(chunk.data)
        if total > MAX_TRAILER_BYTES:
            break
    return b",".join(parts)
