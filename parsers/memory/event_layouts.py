"""Pickled events of a known layout, decoded many at a time: the same keys in the same order, and plain values.

The instructions are those of ``data_pickle``. Whatever does not follow the layout to its last byte is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from parsers.model.arrays import BOOL, I64, U8, U64, Array, distinct_values
from parsers.model.late import dataclass, regex

OPENING = b"}\x94("  # EMPTY_DICT, MEMOIZE, MARK
EVENT_BYTES_AT_ONCE = 1 << 14  # that are looked at: an event that has more is read alone
NUMBERS = ("addr", "address", "size", "time_us", "device_free")

_NEW_LIST = b"]\x94"  # EMPTY_LIST, MEMOIZE
_REFERENCE = rb"(?:h.|j.{4})"  # to what was memoised before
# memoised
_SHORT_TEXT = rb"\x8c(?:%s)" % rb"|".join(re.escape(bytes((n,))) + rb".{%d}\x94" % n for n in range(256))
_STATED = rb"(?:h.|j.{4}|K.|M..|J.{4}|" + _SHORT_TEXT + rb")"
ENTRY = regex(rb"(" + _REFERENCE + rb")(" + _STATED + rb")", re.DOTALL)
_FRAME = rb"\}\x94\((?:" + _REFERENCE + _STATED + rb")*+u"  # a dict of entries, memoised
ITEM = regex(_FRAME + rb"|" + _REFERENCE, re.DOTALL)
_ITEMS = rb"(?:" + ITEM.pattern + rb")"
_FILLING = regex(rb"(?:\(" + _ITEMS + rb"*+e|" + _ITEMS + rb"a)?+", re.DOTALL)
_MEMOIZE, _SETITEMS = 0x94, 0x75
_GET, _LONG_GET, _LIST, _TEXT, _LONG, _INT, _BYTE, _PAIR = 0x68, 0x6A, 0x5D, 0x8C, 0x8A, 0x4A, 0x4B, 0x4D
_WORD = 8  # bytes


def _lengths() -> I64:
    """Bytes of a value by its instruction, where they are always the same; 0 for all others."""
    table = np.zeros(256, np.int64)
    for code, length in {_BYTE: 2, _PAIR: 3, _INT: 5, _GET: 2, _LONG_GET: 5, 0x47: 9}.items():
        table[code] = length
    table[[0x4E, 0x88, 0x89]] = 1  # None, True, False
    return table


_LENGTH = _lengths()
_IS_NUMBER = np.isin(np.arange(256), (_BYTE, _PAIR, _INT, _LONG))
_KEPT = np.array([(1 << 8 * min(max(length - 1, 0), 4)) - 1 for length in _LENGTH.tolist()], np.uint64)


@dataclass(frozen=True, slots=True)
class Layout:
    """The keys of an event, and for each the instruction that names it."""

    keys: tuple[str, ...]
    references: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Bytes:
    """A pickle, its bytes as an array, and the little-endian word that begins at each byte."""

    data: bytes
    each: U8
    word: U64

    @staticmethod
    def of(data: bytes) -> Bytes:
        """Views of the same memory."""
        words = max(len(data) - _WORD, 0)
        return Bytes(data, np.frombuffer(data, np.uint8), np.ndarray((words,), "<u8", data, 0, (1,)))


@dataclass(slots=True, eq=False)
class Objects:
    """Texts, and lists by the instructions that fill them, each once: what events leave in the memo.

    The items of a list are what ``ITEM`` finds in its instructions, and the entries of a dict among them what ``ENTRY``
    finds in those; dicts and their texts follow the list in the memo.
    """

    written: list[bytes] = field(default_factory=lambda: [b""])
    is_text: list[bool] = field(default_factory=lambda: [False])
    lists: dict[bytes, int] = field(default_factory=dict)
    _texts: dict[bytes, int] = field(default_factory=dict)

    def number(self, written: bytes, is_text: bool) -> int:
        known = self._texts if is_text else self.lists
        found = known.get(written)
        if found is None:
            found = known[written] = len(self.written)
            self.written.append(written)
            self.is_text.append(is_text)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Decoded events in the order of the file.

    ``number`` holds the columns of ``NUMBERS`` (-1 where a key is missing), ``action`` and ``frames`` what they refer
    to in the memo; where frames are stated in place, ``frames`` is -1 and ``stack`` the number of the list among the
    objects. ``memo`` has a row for each event: the objects that it memoises, in order, -1 for none.
    """

    start: I64
    end: I64
    number: dict[str, I64]
    action: I64
    frames: I64
    stack: I64
    memo: I64

    def chosen(self, which: Array | slice) -> Events:
        return Events(
            self.start[which],
            self.end[which],
            {name: column[which] for name, column in self.number.items()},
            self.action[which],
            self.frames[which],
            self.stack[which],
            self.memo[which],
        )

    @staticmethod
    def joined(parts: list[Events]) -> Events:
        """All of them by their places in the file."""
        if len(parts) == 1:
            return parts[0]
        width = max(part.memo.shape[1] for part in parts)
        wide = [
            np.pad(part.memo, ((0, 0), (0, width - part.memo.shape[1])), constant_values=-1) for part in parts
        ]
        together = Events(
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.end for part in parts]),
            {name: np.concatenate([part.number[name] for part in parts]) for name in NUMBERS},
            np.concatenate([part.action for part in parts]),
            np.concatenate([part.frames for part in parts]),
            np.concatenate([part.stack for part in parts]),
            np.concatenate(wide),
        )
        return together.chosen(np.argsort(together.start))


def decoded(source: Bytes, starts: I64, until: I64, layout: Layout, objects: Objects) -> tuple[Events, BOOL]:
    """The events of a layout that begin at some of ``starts``, and at which of them; most end at ``until``."""
    count = len(starts)
    number = {name: np.full(count, -1, np.int64) for name in NUMBERS}
    action, frames, stack = (np.full(count, -1, np.int64) for _ in range(3))
    memo = np.full((count, 1 + len(layout.keys)), -1, np.int64)
    memo[:, 0] = 0  # any object stands for an event, to which nothing refers again
    which = np.flatnonzero(starts + EVENT_BYTES_AT_ONCE < len(source.data))
    at = starts[which] + len(OPENING)
    for index, (key, reference) in enumerate(zip(layout.keys, layout.references, strict=True), 1):
        good = _begins(source.word[at], reference) & (at < starts[which] + EVENT_BYTES_AT_ONCE // 2)
        which, at = _chosen(good, which, at)
        at = at + len(reference)
        value = _values(source, at, until[which] - 1, objects, key in (*NUMBERS, "action", "frames"))
        good = value.length > 0
        if key in NUMBERS:
            good &= value.is_number
            number[key][which] = value.number
        elif key == "action":
            good &= value.is_reference
            action[which] = value.number
        elif key == "frames":
            good &= value.is_reference | value.is_list
            frames[which] = np.where(value.is_reference, value.number, -1)
            stack[which] = np.where(value.is_list, value.memoised, -1)
        memo[which, index] = value.memoised
        which, at = _chosen(good, which, at + value.length)
    which, at = _chosen(source.each[at] == _SETITEMS, which, at)
    whole = np.zeros(count, bool)
    whole[which] = True
    end = np.zeros(count, np.int64)
    end[which] = at + 1
    return Events(starts, end, number, action, frames, stack, memo).chosen(which), whole


def _chosen(good: BOOL, which: I64, at: I64) -> tuple[I64, I64]:
    return (which, at) if good.all() else (which[good], at[good])


def openings(source: Bytes, layouts: Sequence[Layout], first: int, until: int) -> I64:
    """Where events of these layouts may begin between two places, ascending."""
    places = np.flatnonzero(source.each[first : min(until, len(source.word))] == OPENING[0]) + first
    word = source.word[places]
    found = np.zeros(len(word), bool)
    for opening in {(OPENING + layout.references[0])[:_WORD] for layout in layouts}:
        found |= _begins(word, opening)
    return places[found]


def _begins(word: U64, wanted: bytes) -> BOOL:
    """Which words begin with at most eight bytes."""
    kept = np.uint64((1 << 8 * len(wanted)) - 1)
    begins: BOOL = (word if len(wanted) == _WORD else word & kept) == np.uint64(
        int.from_bytes(wanted, "little")
    )
    return begins


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """Values at some places: bytes that each takes (0: none that is known), and what it states."""

    length: I64
    is_number: BOOL
    is_reference: BOOL
    is_list: BOOL
    number: I64  # or the memo's number
    memoised: I64  # the number of the object that goes to the memo, -1: none


def _values(source: Bytes, at: I64, until: I64, objects: Objects, wanted: bool) -> _Values:
    """What stands at some places; numbers are told where they are ``wanted``, most lists end at ``until``."""
    code = source.each[at]
    length = _LENGTH[code]
    long = np.flatnonzero(code == _LONG)
    width = source.each[at[long] + 1].astype(np.int64)
    length[long] = np.where((width > 0) & (width <= _WORD), 2 + width, 0)
    number = _integers(source, at, code, length) if wanted else length
    memoised = np.full(len(at), -1, np.int64)
    texts, lists = np.flatnonzero(code == _TEXT), np.flatnonzero(code == _LIST)
    if len(texts):
        length[texts], memoised[texts] = _texts(source, at[texts], objects)
    if len(lists):
        length[lists], memoised[lists] = _lists(source, at[lists], until[lists], objects)
    return _Values(
        length,
        _IS_NUMBER[code] & (length > 0),
        (code == _GET) | (code == _LONG_GET),
        (code == _LIST) & (length > 0),
        number,
        memoised,
    )


def _integers(source: Bytes, at: I64, code: U8, length: I64) -> I64:
    """What numbers and references of known length state."""
    number = (source.word[at + 1] & _KEPT[code]).view(np.int64)
    signed = np.flatnonzero(code == _INT)
    number[signed] = number[signed] << 32 >> 32
    long = np.flatnonzero((code == _LONG) & (length > 0))
    unused = 64 - 8 * (length[long] - 2)
    number[long] = source.word[at[long] + 2].view(np.int64) << unused >> unused
    return number


def _texts(source: Bytes, at: I64, objects: Objects) -> tuple[I64, I64]:
    """Lengths, 0 where a text is not memoised, and the texts' numbers."""
    size = source.each[at + 1].astype(np.int64)
    number = np.full(len(at), -1, np.int64)
    for each in distinct_values(size).tolist():
        mine = np.flatnonzero(size == each)
        if each <= _WORD:
            kept = np.uint64((1 << 8 * each) - 1)
            _, first, place = np.unique(
                source.word[at[mine] + 2] & kept, return_index=True, return_inverse=True
            )
        else:
            first = place = np.arange(len(mine))
        begins = at[mine[first]] + 2
        held = [objects.number(source.data[begin : begin + each], True) for begin in begins.tolist()]
        number[mine] = np.array(held, np.int64)[place]
    return np.where(source.each[at + 2 + size] == _MEMOIZE, size + 3, 0), number


def _lists(source: Bytes, at: I64, until: I64, objects: Objects) -> tuple[I64, I64]:
    """Lengths, 0 where a list is not memoised, and the lists' numbers; ``until``: where most of them end."""
    begin = at + len(_NEW_LIST)
    until = np.minimum(until, begin + EVENT_BYTES_AT_ONCE)
    known = objects.lists.get
    number = np.array(
        [known(source.data[low:high], -1) for low, high in zip(begin.tolist(), until.tolist(), strict=True)],
        np.int64,
    )
    end = until.copy()
    for each in np.flatnonzero(number < 0).tolist():
        filled = _FILLING.match(source.data, begin[each], until[each] + EVENT_BYTES_AT_ONCE)
        written = filled[0] if filled else b""
        number[each], end[each] = objects.number(written, False), begin[each] + len(written)
    return np.where(source.each[at + 1] == _MEMOIZE, end - at, 0), number
