"""Fetches one event's arguments from the file when somebody asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import msgspec

from parsers.chrome.decode.records import RAW_EVENTS
from parsers.chrome.decode.recovery import mended, recover
from parsers.chrome.decode.stream import Chunk, EventStream
from parsers.files.base import Source
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
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return recover(chunk, QualityRecorder()).texts
