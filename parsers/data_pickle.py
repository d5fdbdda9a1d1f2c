"""Pickles of data alone: dicts, lists, tuples, text, numbers; what would name, make or call anything is refused.

The opcodes are those of https://github.com/python/cpython/blob/main/Lib/pickletools.py, protocols 2 to 5. Nothing is
imported and nothing is called: a pickle is a list of instructions, and only those that state data are carried out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Protocol

from parsers.model import Progress
from parsers.model.late import regex

MAX_CONTAINERS = 12_000_000  # an empty dict takes 64 bytes: at most about 0.8 GB
_FREE_CONTAINERS, _MIN_BYTES = 200_000, 8  # of the file for each further container
_LARGE_TABLE = 64  # entries: more of them take as much as a table each
MAX_VALUES = 60_000_000  # in all containers together
MAX_NUMBER_LENGTH = 16  # bytes
_STEPS_AT_ONCE = 1 << 16  # instructions between two looks at the progress, and at what was made so far


class NotData(ValueError):
    """The pickle holds an instruction that is no data, or is cut or damaged; says which."""


class TooMuch(NotData):
    """The pickle would take more memory than any recording needs."""


_NAMES_CODE = {
    b"c": "GLOBAL", b"\x93": "STACK_GLOBAL", b"i": "INST", b"o": "OBJ", b"\x81": "NEWOBJ", b"\x92": "NEWOBJ_EX",
    b"R": "REDUCE", b"b": "BUILD", b"\x82": "EXT1", b"\x83": "EXT2", b"\x84": "EXT4", b"P": "PERSID", b"Q": "BINPERSID",
    b"\x97": "NEXT_BUFFER", b"\x98": "READONLY_BUFFER",
}  # fmt: skip

_unsigned2 = struct.Struct("<H").unpack_from
_signed4 = struct.Struct("<i").unpack_from
_unsigned4 = struct.Struct("<I").unpack_from
_double = struct.Struct(">d").unpack_from


class Rows(Protocol):
    """Takes over dicts that are rows of a table, so that they need not be kept."""

    def begin(self, data: bytes, memo: list[Any], progress: Progress) -> None:
        """Called before anything is read; ``memo`` grows while it is."""

    def made(self, whole: dict[Any, Any]) -> Any:
        """What stands in the place of a dict that was filled: itself, or something smaller."""

    def run(self, at: int) -> tuple[int, Sequence[Any]] | None:
        """Take over several dicts at once, the first of which begins at ``at``, and fill the memo as they would.

        Gives where they end and what stands in their places; None where they must be read one by one.
        """


class _AsTheyAre:
    """Nothing is taken over."""

    def begin(self, data: bytes, memo: list[Any], progress: Progress) -> None:
        pass

    def made(self, whole: dict[Any, Any]) -> Any:
        return whole

    def run(self, at: int) -> tuple[int, Sequence[Any]] | None:
        return None


def read_data(data: bytes, progress: Progress | None = None, rows: Rows | None = None) -> Any:
    """The value of a pickle. Raises ``NotData`` when it is more than data, damaged, or too large."""
    try:
        return _run(data, progress or Progress(), rows or _AsTheyAre())
    except (IndexError, struct.error) as error:
        raise NotData("it ends in the middle") from error
    except (KeyError, TypeError) as error:
        raise NotData("it is damaged") from error


def _run(data: bytes, progress: Progress, rows: Rows) -> Any:
    at, containers, values, watch = 0, 0, 0, _STEPS_AT_ONCE
    most_containers = min(MAX_CONTAINERS, _FREE_CONTAINERS + len(data) // _MIN_BYTES)
    stack: list[Any] = []
    below: list[list[Any]] = []  # the stacks that the open marks cover
    memo: list[Any] = []  # picklers number what they memoise from 0
    rows.begin(data, memo, progress)
    made = rows.made

    while True:
        watch -= 1
        if not watch:
            watch = _STEPS_AT_ONCE
            progress.step(at / len(data), "reading the snapshot")
            _require_room(memo, stack)
        code = data[at]
        at += 1
        # The most frequent first: a snapshot repeats the same keys and frames.
        if code == 0x68:  # BINGET
            stack.append(memo[data[at]])
            at += 1
        elif code == 0x6A:  # LONG_BINGET
            stack.append(memo[_unsigned4(data, at)[0]])
            at += 4
        elif code == 0x94:  # MEMOIZE
            memo.append(stack[-1])
        elif code == 0x8A:  # LONG1
            length = data[at]
            if length > MAX_NUMBER_LENGTH:
                raise NotData(f"it holds a number of {length} bytes")
            stack.append(int.from_bytes(_piece(data, at + 1, length), "little", signed=True))
            at += 1 + length
        elif code == 0x28:  # MARK
            below.append(stack)
            if (run := _REFERENCES.match(data, at)) is None:
                stack = []
            else:
                stack, at = _referred(run[0], memo), run.end()
            if len(below) > MAX_CONTAINERS:
                raise TooMuch("it nests endlessly")
        elif code == 0x4B:  # BININT1
            stack.append(data[at])
            at += 1
        elif code == 0x7D or code == 0x5D:  # EMPTY_DICT, EMPTY_LIST
            if code == 0x7D and (taken := rows.run(at - 1)) is not None:
                at, places = taken
                stack.extend(places)
                continue
            containers += 1
            stack.append({} if code == 0x7D else [])
        elif code == 0x75 or code == 0x65:  # SETITEMS, APPENDS
            items, stack = stack, below.pop()
            values += len(items)
            if values > MAX_VALUES:
                raise TooMuch(f"it holds more than {MAX_VALUES:,} values")
            if code == 0x65:
                _as_list(stack[-1]).extend(items)
            elif len(items) % 2:
                raise NotData("it is damaged")
            else:
                target = _as_dict(stack[-1])
                if not _KEYS.issuperset(map(type, items[::2])):
                    raise NotData("it is damaged")
                target.update(zip(items[::2], items[1::2], strict=True))
                containers += 0 if len(target) < _LARGE_TABLE else len(items) // 2
                stack[-1] = made(target)
        elif code == 0x8C:  # SHORT_BINUNICODE
            length = data[at]
            stack.append(_text(_piece(data, at + 1, length)))
            at += 1 + length
        elif code == 0x4A:  # BININT
            stack.append(_signed4(data, at)[0])
            at += 4
        elif code == 0x4D:  # BININT2
            stack.append(_unsigned2(data, at)[0])
            at += 2
        elif code == 0x61 or code == 0x73:  # APPEND, SETITEM
            value = stack.pop()
            values += 1
            if code == 0x61:
                _as_list(stack[-1]).append(value)
            else:
                key = stack.pop()
                target = _as_dict(stack[-1])
                if type(key) not in _KEYS:
                    raise NotData("it is damaged")
                target[key] = value
                containers += len(target) >= _LARGE_TABLE
                stack[-1] = made(target)
        elif code in (0x71, 0x72):  # BINPUT, LONG_BINPUT
            size = 1 if code == 0x71 else 4
            number = int.from_bytes(_piece(data, at, size), "little")
            memo[number : number + 1] = [stack[-1]]
            if number >= len(memo):
                raise NotData("it is damaged")
            at += size
        elif code in (0x29, 0x85, 0x86, 0x87):  # EMPTY_TUPLE, TUPLE1, TUPLE2, TUPLE3
            length = 0 if code == 0x29 else code - 0x84
            if length > len(stack):
                raise NotData("it is damaged")
            containers += 1
            stack[len(stack) - length :] = [tuple(stack[len(stack) - length :])]
        elif code == 0x74:  # TUPLE
            items, stack = stack, below.pop()
            containers += 1
            stack.append(tuple(items))
        elif code in (0x88, 0x89, 0x4E):  # NEWTRUE, NEWFALSE, NONE
            stack.append({0x88: True, 0x89: False, 0x4E: None}[code])
        elif code == 0x47:  # BINFLOAT
            stack.append(_double(data, at)[0])
            at += 8
        elif code in _SIZED:  # BINUNICODE, BINUNICODE8, SHORT_BINBYTES, BINBYTES, BINBYTES8
            width, is_text = _SIZED[code]
            length = int.from_bytes(_piece(data, at, width), "little")
            held = _piece(data, at + width, length)
            stack.append(_text(held) if is_text else held)
            at += width + length
        elif code == 0x95:  # FRAME
            at += 8
        elif code == 0x80:  # PROTO
            if data[at] > 5:
                raise NotData(f"it uses protocol {data[at]}; the newest supported is 5")
            at += 1
        elif code == 0x2E:  # STOP
            if below or len(stack) != 1:
                raise NotData("it is damaged")
            _require_room(memo)
            return stack[0]
        else:
            name = _NAMES_CODE.get(bytes((code,)))
            raise NotData(
                f"its instruction {name} would run code"
                if name
                else f"it has an unknown instruction {code:#x}"
            )
        if containers > most_containers:
            raise TooMuch(f"it holds more than {most_containers:,} tables")


def _require_room(*lists: list[Any]) -> None:
    if max(map(len, lists)) > MAX_VALUES:
        raise TooMuch(f"it holds more than {MAX_VALUES:,} values")


def _referred(run: bytes, memo: list[Any]) -> list[Any]:
    count = len(run) // 5
    if run[::5] == b"j" * count and len(run) == 5 * count:
        numbers = struct.unpack("<" + "xI" * count, run)
    else:
        numbers = tuple([int.from_bytes(each[1:], "little") for each in _REFERENCE.findall(run)])
    return list(itemgetter(*numbers)(memo))


# BINGET and LONG_BINGET, one after the other, as a list of frames that were met before begins
_REFERENCE = regex(rb"h.|j.{4}", re.DOTALL)
_REFERENCES = regex(rb"(?:h.|j.{4}){4,256}+", re.DOTALL)
_KEYS = {str, int}  # hashing a tuple of tuples of tuples ... would overflow the stack
_SIZED = {0x58: (4, True), 0x8D: (8, True), 0x43: (1, False), 0x42: (4, False), 0x8E: (8, False)}


def _piece(data: bytes, at: int, length: int) -> bytes:
    piece = data[at : at + length]
    if len(piece) != length:
        raise NotData("it ends in the middle")
    return piece


def _text(held: bytes) -> str:
    return held.decode("utf-8", "replace")


def _as_list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise NotData("it is damaged")
    return value


def _as_dict(value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise NotData("it is damaged")
    return value
