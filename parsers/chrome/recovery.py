"""Reads what a strict decoder refuses: event by event, repairing what can be repaired and counting the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from parsers.chrome.records import EVENT, Event
from parsers.chrome.stream import BOUNDARY
from parsers.model import Effect, QualityRecorder

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|[{}\[\]]', re.DOTALL)
_STRAY_BACKSLASH = re.compile(r'\\(?!["\\/bfnrtu]|$)|\\u(?![0-9a-fA-F]{4})')
_CONTROL = re.compile(r"[\x00-\x1f]")
_REPAIRABLE = re.compile(
    r'(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z))|(?P<number>[-+]?\b(?:nan|inf|infinity)\b)|(?P<comma>,)(?=\s*[}\]])',
    re.DOTALL | re.IGNORECASE,
)
_END_OF_LIST = re.compile(rb"\s*+(?:,\s*+)?+(?:\{\s*+\}\s*+(?:,\s*+)?+)*+\]")
MOST_PIECE_BYTES = 16 << 20


@dataclass(slots=True)
class Piece:
    """The bytes of one event, as far as its bounds could be told."""

    offset: int
    data: bytes


@dataclass(slots=True)
class Recovered:
    """The events of one chunk, each with its place; ``rest`` is what follows the end of the event list."""

    events: list[Event] = field(default_factory=list)
    texts: list[bytes] = field(
        default_factory=list
    )  # of the events, as valid JSON where they could be mended
    rest: bytes | None = None


def recover(data: bytes, offset: int, last: bool, quality: QualityRecorder) -> Recovered:
    """Events of a chunk that the strict decoder refused, or of the last chunk, which ends outside the list."""
    found = Recovered()
    for piece in _pieces(data):
        at = piece.offset + offset
        event, text, repaired = _event(piece.data)
        rest = None
        if event is None:
            end = _end_of_first_value(piece.data)
            if end is not None:
                event, text, repaired = _event(piece.data[:end])
                rest = piece.data[end:]
            elif last and (closing := _END_OF_LIST.match(piece.data)):
                found.rest = piece.data[closing.end() :] + data[piece.offset + len(piece.data) :]
                return found
        if event is not None:
            found.events.append(event)
            found.texts.append(text)
            if repaired:
                quality.note(
                    "repaired-text", Effect.REPAIRED, "an event held text that is no JSON", f"byte {at}"
                )
        elif piece.data.strip(b" \t\r\n,"):
            _lost(piece.data, at, last, quality)
        if rest is not None:
            closing = _END_OF_LIST.match(rest)
            if closing:
                found.rest = rest[closing.end() :] + data[piece.offset + len(piece.data) :]
                return found
            if rest.strip(b" \t\r\n,]"):
                _lost(rest, at, last, quality)
    return found


def _lost(data: bytes, at: int, last: bool, quality: QualityRecorder) -> None:
    example = f"byte {at}: {data[:80].decode('utf-8', 'replace').strip()}"
    quality.read(1)
    if last:
        quality.note("cut", Effect.QUARANTINED, "the file ends in the middle of an event", example)
    else:
        quality.note("unreadable", Effect.QUARANTINED, "an event could not be read as JSON", example)


def _pieces(data: bytes) -> Iterator[Piece]:
    start = 0
    for boundary in BOUNDARY.finditer(data):
        yield Piece(start, data[start : boundary.start(1)])
        start = boundary.end(1)
    yield Piece(start, data[start:])


def _event(data: bytes) -> tuple[Event | None, bytes, bool]:
    try:
        return EVENT.decode(data), data, False
    except msgspec.ValidationError:
        if (event := _coerced(data)) is not None:
            return event, data, True
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    if len(data) > MOST_PIECE_BYTES or not data.lstrip().startswith(b"{"):
        return None, data, False
    repaired = _REPAIRABLE.sub(_mend, data.decode("utf-8", "replace")).encode("utf-8", "replace")
    try:
        return EVENT.decode(repaired), repaired, True
    except msgspec.ValidationError:
        return _coerced(repaired), repaired, True
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, data, False


def _mend(found: re.Match[str]) -> str:
    if found["number"]:
        return "null"
    if found["comma"]:
        return ""
    text = found["text"]
    inner = _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", text[1:-1])
    return '"' + _STRAY_BACKSLASH.sub(lambda match: "\\" + match.group(), inner) + '"'


def _coerced(data: bytes) -> Event | None:
    """An event with fields of unexpected types: what can be used of it."""
    try:
        fields: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    usable: dict[str, Any] = {}
    for name in ("ph", "cat", "name"):
        if (value := fields.get(name)) is not None:
            usable[name] = value if isinstance(value, str) else json.dumps(value)
    for name in ("pid", "tid", "ts", "dur"):
        if isinstance(value := fields.get(name), (str, int, float)):
            usable[name] = value
        elif value is not None and name in ("pid", "tid"):
            usable[name] = json.dumps(value)
    if isinstance(arguments := fields.get("args"), dict):
        usable["args"] = arguments
    usable["id"] = fields.get("id")
    for attempt in (usable, {name: value for name, value in usable.items() if name != "args"}):
        try:
            return EVENT.decode(msgspec.json.encode(attempt))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            continue
    return None


def _end_of_first_value(data: bytes) -> int | None:
    """Where the first balanced object of ``data`` ends; None when it does not."""
    depth = 0
    for token in _TOKEN.finditer(data):
        mark = token.group()
        if mark in (b"{", b"["):
            depth += 1
        elif mark in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return token.end()
            if depth < 0:
                return None
    return None
