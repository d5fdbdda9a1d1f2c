"""Reads what a strict decoder refuses: event by event, repairing what can be repaired and counting the rest."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import msgspec

from parsers.chrome.decode.records import EVENT, Event
from parsers.chrome.decode.stream import Chunk, is_event
from parsers.files.decoders import UNREADABLE
from parsers.model import Effect, QualityRecorder
from parsers.model.late import dataclass, regex
from parsers.model.units import size

# The next bracket outside of texts; to be matched, for a search would begin anew at each place behind the last one.
_TO_BRACKET = regex(rb'(?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z))*+([{}\[\]])', re.DOTALL)
_CONTROL = {code: f"\\u{code:04x}" for code in range(0x20)}
_REPAIRABLE = regex(
    r'(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z))|(?P<number>[-+]?\b(?:nan|inf|infinity)\b)|(?P<comma>,)(?=\s*[}\]])',
    re.DOTALL | re.IGNORECASE,
)
_MENDABLE = regex(rb"[\x00-\x1f\\\x80-\xff]|nan|inf|,\s*+[}\]]", re.IGNORECASE)
_END_OF_LIST = regex(rb"\s*+(?:,\s*+)?+(?:\{\s*+\}\s*+(?:,\s*+)?+)*+\]")
_BARE_NUMBER = regex(rb'((?<!\\)":\s*)[-+]?(?:nan|inf(?:inity)?)(?=\s*[,}])', re.IGNORECASE)
_BEYOND_ASCII = regex(rb"[\x80-\xff]+")
_ESCAPE = (  # group 1 is missing for a backslash that begins no escape, nor one half of a pair of surrogates
    r'\\(["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})?"
)
_BACKSLASH, _BACKSLASH_IN_TEXT = regex(_ESCAPE.encode()), regex(_ESCAPE)
_TEXT, _SOURCE_FILE = regex(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'), b".py("
_SEPARATOR = regex(rb'\\([\\"/])?')  # group 1 is missing where a folder's name follows
REPAIRED_TEXT = ("repaired-text", Effect.REPAIRED, "an event contained text that is not JSON")
MAX_JOINED = 8
MAX_FAILED_JOINS = 4  # in a row; then the text is damaged, and its events are not such
MAX_PIECE_BYTES = 1 << 20
A_STRETCH = 64 << 10  # bytes without the end of an event: more than an event has
MAX_DEPTH = 4_096  # brackets; the decoder refuses a quarter of it
MAX_VALUE_BYTES = 4 << 20


@dataclass(slots=True)
class Piece:
    """The bytes of one event, as far as its bounds could be told."""

    offset: int
    data: bytes


@dataclass(slots=True)
class Recovered:
    """The events of one chunk, each with its place; ``rest`` is what follows the end of the event list."""

    events: list[Event] = field(default_factory=list)
    # of the events, as valid JSON where they could be mended
    texts: list[bytes] = field(default_factory=list)
    rest: bytes | None = None


def mended(chunk: Chunk) -> tuple[bytes, int]:
    """A chunk without the mistakes that some writers make in every event, and how many events had them.

    These are bytes that are no text, bare ``nan`` and ``inf``, backslashes of file names that are not escaped, and
    halves of surrogate pairs, which Python writes for bytes of a file name that are no text.
    """
    original = data = chunk.data
    places = _undecodable(data)
    if places:
        data = data.decode("utf-8", "replace").encode()
    numbers = [found.start() for found in _BARE_NUMBER.finditer(original)]
    if numbers:
        data = _BARE_NUMBER.sub(rb"\1null", data)
        places += numbers
    if b"\\" in data:
        stray = [found.start() for found in _BACKSLASH.finditer(original) if found[1] is None]
        data = _BACKSLASH.sub(_doubled, _TEXT.sub(_as_file_name, data)) if stray else data
        places += stray
    if not places:
        return data, 0
    bounds = [found.start() for found in chunk.boundary.finditer(original)]
    return data, len({bisect_right(bounds, place) for place in places})


def _as_file_name(found: re.Match[bytes]) -> bytes:
    """A frame's text by a writer that escapes no backslashes: the n of torch\\nn is no line's end either."""
    return _SEPARATOR.sub(_doubled, found[0]) if _SOURCE_FILE in found[0] else found[0]


def _doubled(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] else b"\\\\"


def _undecodable(data: bytes) -> list[int]:
    """Where bytes are that are no UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return [found.start() for found in _BEYOND_ASCII.finditer(data) if not _is_text(found[0])]
    return []


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def recover(chunk: Chunk, quality: QualityRecorder) -> Recovered:
    """Events of a chunk that the strict decoder refused, or of the last chunk, which ends outside the list."""
    data, offset, last = chunk.data, chunk.offset, chunk.last
    found = Recovered()
    escapes = not any(each[1] is None for each in _BACKSLASH.finditer(data))
    for piece in _pieces(chunk):
        at = piece.offset + offset
        event, text, repaired = _event(piece.data, escapes)
        rest = None
        if event is None:
            end = _end_of_first_value(piece.data)
            if end is not None:
                event, text, repaired = _event(piece.data[:end], escapes)
                rest = piece.data[end:]
            elif last and (closing := _END_OF_LIST.match(piece.data)):
                found.rest = piece.data[closing.end() :] + data[piece.offset + len(piece.data) :]
                return found
        if event is not None:
            found.events.append(event)
            found.texts.append(text)
            if repaired:
                quality.note(*REPAIRED_TEXT, f"byte {at}")
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
    elif len(data) >= A_STRETCH:
        words = "part of the file, possibly with many events, could not be read"
        quality.note("damaged stretch", Effect.QUARANTINED, words, f"{size(len(data))} from {example}")
    else:
        quality.note("unreadable", Effect.QUARANTINED, "an event could not be read as JSON", example)


def _pieces(chunk: Chunk) -> Iterator[Piece]:
    """The chunk cut at its boundaries; parts of one event, whose arguments hold objects like events, are joined."""
    data = chunk.data
    places = [found.span(1) for found in chunk.boundary.finditer(data)]
    ends = [start for start, _ in places] + [len(data)]
    begins = [0] + [end for _, end in places]
    number = failures = 0
    while number < len(begins):
        begin, last = begins[number], number
        if failures < MAX_FAILED_JOINS and _end_of_first_value(data[begin : ends[number]]) is None:
            joined = range(number + 1, min(number + MAX_JOINED, len(ends)))
            last = next((each for each in joined if _begins_with_event(data[begin : ends[each]])), number)
            failures = 0 if last > number else failures + 1
        yield Piece(begin, data[begin : ends[last]])
        number = last + 1


def _begins_with_event(data: bytes) -> bool:
    end = _end_of_first_value(data)
    return end is not None and is_event(data[:end])


def _event(data: bytes, escapes: bool) -> tuple[Event | None, bytes, bool]:
    """An event, its text and whether that was mended; ``escapes``: whether its writer escapes backslashes."""
    written = data
    if not escapes:
        data = _TEXT.sub(_as_file_name, data)
    try:
        return EVENT.decode(data), data, data != written
    except msgspec.ValidationError:
        if (event := _coerced(data)) is not None:
            return event, data, True
    except UNREADABLE:
        pass
    if len(data) > MAX_PIECE_BYTES or not data.lstrip().startswith(b"{") or not _is_mendable(data):
        return None, data, False
    repaired = _REPAIRABLE.sub(_mend, data.decode("utf-8", "replace")).encode("utf-8", "replace")
    try:
        return EVENT.decode(repaired), repaired, True
    except msgspec.ValidationError:
        return _coerced(repaired), repaired, True
    except UNREADABLE:
        return None, data, False


def _is_mendable(data: bytes) -> bool:
    """Whether text that is no JSON has anything in it that mending would change."""
    return _MENDABLE.search(data) is not None or data.count(b'"') % 2 == 1


def _mend(found: re.Match[str]) -> str:
    if found["number"]:
        return "null"
    if found["comma"]:
        return ""
    text = found["text"]
    inner = text[1:-1].translate(_CONTROL)
    if "\\" in text:
        inner = _BACKSLASH_IN_TEXT.sub(lambda match: match[0] if match[1] else r"\\", inner)
    return f'"{inner}"'


def _coerced(data: bytes) -> Event | None:
    """An event with fields of unexpected types: what can be used of it."""
    try:
        fields: Any = msgspec.json.decode(data)
    except UNREADABLE:
        return None
    if not isinstance(fields, dict):
        return None
    usable: dict[str, Any] = {}
    for name in ("ph", "cat", "name"):
        if (value := fields.get(name)) is not None:
            usable[name] = value if isinstance(value, str) else json.dumps(value)
    for name in ("pid", "tid", "ts", "dur"):
        if isinstance(value := fields.get(name), (str, int, float)) and not isinstance(value, bool):
            usable[name] = value
        elif value is not None and name in ("pid", "tid"):
            usable[name] = json.dumps(value)
    if isinstance(arguments := fields.get("args"), dict):
        usable["args"] = arguments
    usable["id"] = fields.get("id")
    for attempt in (usable, {name: value for name, value in usable.items() if name != "args"}):
        try:
            return EVENT.decode(msgspec.json.encode(attempt))
        except UNREADABLE:
            continue
    return None


def _end_of_first_value(data: bytes) -> int | None:
    """Where the first balanced object of ``data`` ends; None when it does not within ``MAX_VALUE_BYTES``."""
    depth = at = 0
    while depth < MAX_DEPTH and (found := _TO_BRACKET.match(data, at, MAX_VALUE_BYTES)) is not None:
        at = found.end()
        depth += 1 if found[1] in b"{[" else -1
        if depth <= 0:
            return at if depth == 0 else None
    return None
