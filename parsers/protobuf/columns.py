"""Many messages at once: their fields as numpy columns, all messages decoded in step, a field of each at a time."""

from __future__ import annotations

from array import array
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from parsers.model import BOOL, I64, U8, U64, Progress
from parsers.model.late import dataclass
from parsers.protobuf.wire import BYTES, FIXED32, FIXED64, MAX_VARINT_LENGTH, VARINT

MAX_FIELDS = 4096  # of one small message; more are taken for damage, because each costs a pass
_SCANNED_AT_ONCE = 20_000
_DECODED_AT_ONCE = 100_000  # messages; what is only needed while decoding is no larger
_COLUMNS = (np.int64, np.int64, np.uint8, np.uint64, np.int64, np.int64)  # of Fields


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Byte ranges of a buffer, [begin, end), as int64 columns; ``data`` is the buffer with some zeros behind it."""

    data: U8
    begin: I64
    end: I64

    def __len__(self) -> int:
        return len(self.begin)

    def take(self, which: I64 | BOOL) -> Spans:
        return Spans(self.data, self.begin[which], self.end[which])

    def text(self, place: int) -> str:
        """The bytes of one as text; what is no UTF-8 becomes U+FFFD."""
        return self.raw(place).decode("utf-8", "replace")

    def raw(self, place: int) -> bytes:
        return self.data[int(self.begin[place]) : int(self.end[place])].tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """Every field of some messages, in the order of fields inside each message, then of messages.

    ``message`` is the index of its message; ``value`` holds a varint's or fixed number's bits; length-delimited fields
    lie at ``begin`` to ``end``.
    """

    data: U8
    message: I64
    number: I64
    wire: U8
    value: U64
    begin: I64
    end: I64
    damaged: int  # messages that are cut or garbled: their fields before that place are there

    def of(self, number: int, wire: int) -> Fields:
        """Those fields of this number that were written in this form."""
        return self._taken((self.number == number) & (self.wire == wire))

    def numbers(self, number: int, count: int, default: int = 0) -> I64:
        """A varint field of each of ``count`` messages as signed 64-bit numbers; the last one where it repeats."""
        mine = self.of(number, VARINT)
        column = np.full(count, default, np.int64)
        column[mine.message] = mine.value.view(np.int64)
        return column

    def spans(self, number: int) -> tuple[I64, Spans]:
        """The message of each length-delimited field of this number, and where the field lies."""
        mine = self.of(number, BYTES)
        return mine.message, Spans(self.data, mine.begin, mine.end)

    def _taken(self, which: BOOL) -> Fields:
        return Fields(
            self.data,
            self.message[which],
            self.number[which],
            self.wire[which],
            self.value[which],
            self.begin[which],
            self.end[which],
            self.damaged,
        )


def buffer_of(content: bytes) -> U8:
    """A buffer to decode, so long that no number at its end is read beyond it."""
    data = np.zeros(len(content) + MAX_VARINT_LENGTH, np.uint8)
    data[: len(content)] = np.frombuffer(content, np.uint8)
    return data


def decode(messages: Spans, progress: Progress, wanted: Collection[int] | None = None) -> Fields:
    """All fields of small messages, or those with ``wanted`` numbers; nothing inside a message is decoded further."""
    numbers = None if wanted is None else np.array(sorted(wanted), np.int64)
    columns: list[list[npt.NDArray[Any]]] = [[] for _ in _COLUMNS]
    damaged = 0
    for first in range(0, max(len(messages), 1), _DECODED_AT_ONCE):
        progress.step(first / max(len(messages), 1), "decoding")
        some = messages.take(np.arange(first, min(first + _DECODED_AT_ONCE, len(messages))))
        found, bad = _decoded(some, progress, numbers)
        found[0] += first
        for whole, column in zip(columns, found, strict=True):
            whole.append(column)
        damaged += bad
    message, number, wire, value, begin, end = (np.concatenate(columns.pop(0)) for _ in _COLUMNS)
    return Fields(messages.data, message, number, wire, value, begin, end, damaged)


def _decoded(messages: Spans, progress: Progress, numbers: I64 | None) -> tuple[list[npt.NDArray[Any]], int]:
    """The columns of ``Fields``, and how many messages are damaged."""
    data = messages.data
    at, end = messages.begin.copy(), messages.end
    which = np.flatnonzero(at < end)
    parts: list[tuple[npt.NDArray[np.generic], ...]] = []
    damaged = 0
    for turn in range(MAX_FIELDS + 1):
        if not len(which):
            break
        if turn % 8 == 0:
            progress.stop_if_wanted()
        if turn == MAX_FIELDS:
            damaged += len(which)
            break
        place, last = at[which], end[which]
        key, place, good = _varints(data, place, last)
        wire = (key & np.uint64(7)).astype(np.uint8)
        number = (key >> np.uint64(3)).astype(np.int64)
        value = np.zeros(len(which), np.uint64)
        begin, finish = place.copy(), place.copy()
        varint = wire == VARINT
        if varint.any():
            value[varint], finish[varint], fine = _varints(data, place[varint], last[varint])
            good[varint] &= fine
        delimited = wire == BYTES
        if delimited.any():
            size, start, fine = _varints(data, place[delimited], last[delimited])
            fits = fine & (size <= (last[delimited] - start).astype(np.uint64))
            begin[delimited] = start
            finish[delimited] = start + np.where(fits, size, 0).astype(np.int64)
            good[delimited] &= fits
        for form, width, kind in ((FIXED64, 8, np.uint64), (FIXED32, 4, np.uint32)):
            fixed = (wire == form) & (place + width <= last)
            if fixed.any():
                value[fixed] = _fixed(data, place[fixed], width, kind)
                finish[fixed] = place[fixed] + width
        good &= (
            varint
            | delimited
            | ((wire == FIXED64) & (finish == place + 8))
            | ((wire == FIXED32) & (finish == place + 4))
        )
        good &= number > 0
        damaged += int((~good).sum())
        kept = good if numbers is None else good & np.isin(number, numbers)
        parts.append((which[kept], number[kept], wire[kept], value[kept], begin[kept], finish[kept]))
        at[which] = finish
        which = which[good & (finish < last)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else []
    if not columns:
        return [np.empty(0, kind) for kind in _COLUMNS], damaged
    order = np.argsort(columns[0], kind="stable")
    return [
        column[order].astype(kind, copy=False) for column, kind in zip(columns, _COLUMNS, strict=True)
    ], damaged


def _varints(data: U8, at: I64, end: I64) -> tuple[U64, I64, BOOL]:
    """The numbers at these places, where each ends, and whether it ends inside its message."""
    value = np.zeros(len(at), np.uint64)
    place = at.copy()
    going = place < end
    good = going.copy()
    for shift in range(MAX_VARINT_LENGTH):
        if not going.any():
            break
        byte = data[place[going]].astype(np.uint64)
        value[going] |= (byte & np.uint64(0x7F)) << np.uint64(7 * shift)
        place[going] += 1
        more = byte >= 0x80
        index = np.flatnonzero(going)
        going[index[~more]] = False
        cut = index[more & (place[index] >= end[index])]
        good[cut] = False
        going[cut] = False
    good[going] = False
    return value, place, good


def _fixed(data: U8, at: I64, width: int, kind: type[np.generic]) -> npt.NDArray[np.generic]:
    columns = data[at[:, None] + np.arange(width)]
    return np.ascontiguousarray(columns).view(np.dtype(kind).newbyteorder("<")).reshape(-1)


@dataclass(slots=True)
class Parts:
    """The fields of one message with very many of them, such as a line with all its events.

    ``spans`` has where the length-delimited fields lie, by field number; ``numbers`` the last varint of each.
    """

    spans: dict[int, tuple[array[int], array[int]]]
    numbers: dict[int, int]
    first: int  # place of the message in its buffer
    whole: bool = True

    def of(self, number: int, data: U8) -> Spans:
        """The length-delimited fields of a number."""
        begins, ends = self.spans.get(number, (array("q"), array("q")))
        return Spans(data, np.array(begins, np.int64) + self.first, np.array(ends, np.int64) + self.first)

    def last(self, number: int) -> tuple[int, int] | None:
        """Where the last length-delimited field of a number lies; None without any."""
        if number not in self.spans:
            return None
        begins, ends = self.spans[number]
        return begins[-1] + self.first, ends[-1] + self.first


def parts_of(message: memoryview, first: int, progress: Progress) -> Parts:
    """Looks where the fields of a message lie; ``first`` is its place in its buffer. Never raises."""
    parts = Parts({}, {}, first)
    at, end, count = 0, len(message), 0
    while at < end:
        count += 1
        if count % _SCANNED_AT_ONCE == 0:
            progress.step(at / end, "looking for events")
        key, at = _one_varint(message, at, end)
        wire = key & 7
        if wire == BYTES and at >= 0:
            size, at = _one_varint(message, at, end)
            if at < 0 or at + size > end:
                parts.whole = False
                return parts
            begins, ends = parts.spans.setdefault(key >> 3, (array("q"), array("q")))
            begins.append(at)
            at += size
            ends.append(at)
        elif wire == VARINT and at >= 0:
            parts.numbers[key >> 3], at = _one_varint(message, at, end)
        elif wire in (FIXED32, FIXED64) and at >= 0:
            at += 4 if wire == FIXED32 else 8
        else:
            at = -1
        if at < 0 or at > end:
            parts.whole = False
            return parts
    return parts


def _one_varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number and the place behind it; the place is -1 where the number is cut."""
    if 0 <= at < end and view[at] < 0x80:
        return view[at], at + 1
    value = shift = 0
    while 0 <= at < end and shift < 7 * MAX_VARINT_LENGTH:
        byte = view[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, -1
