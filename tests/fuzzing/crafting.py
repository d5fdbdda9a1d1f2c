"""Inputs in which one thing of a sound recording comes thousands of times, alike or each different: nothing is damaged.

What may be repeated is found in the recording itself: rows of a table, lines and cells of a text, elements and keys of
JSON and of a pickle, fields of protocol buffers, files of an archive.
"""

from __future__ import annotations

import contextlib
import copy
import json
import pickle  # noqa: TID251 - of our own seeds, to write what is read as data
import random
import re
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from tests import growing_recordings, unusual_recordings
from tests.fuzzing.seeds import SQLITE, is_text
from tests.parsers.protobuf_messages import varint

MAX_BYTES = 4 << 20  # bytes of a crafted input
MAX_MADE = 30_000
MAKERS = {**growing_recordings.MAKERS, **unusual_recordings.MAKERS}
_NUMBER = re.compile(rb"\d+")
_LETTERS = b' ",;\t|#-_:(<[{\\\x01\n=0a'
Chance = random.Random


def how_many(chance: Chance) -> int:
    """From ten to 100,000; each order of magnitude is as likely as the others."""
    return int(10 ** chance.uniform(1, 5))


def made(_: bytes, chance: Chance) -> bytes:
    """One of the recordings whose amount of one thing can be chosen."""
    return chance.choice(list(MAKERS.values()))(min(how_many(chance), MAX_MADE))


def crafted(data: bytes, chance: Chance) -> bytes:
    """A recording in which something is repeated."""
    craft: Callable[[bytes, Chance], bytes]
    if data.startswith(SQLITE):
        craft = _rows
    elif data.startswith(b"\x80\x04"):
        craft = _in_pickle
    elif data.lstrip().startswith((b"{", b"[")) and chance.random() < 0.8:
        craft = _in_json
    elif is_text(data):
        craft = _lines
    else:
        craft = _fields
    with contextlib.suppress(ValueError, sqlite3.Error, RecursionError, pickle.UnpicklingError):
        return craft(data, chance)
    return _stretch(data, chance)


def _room(size: int, chance: Chance) -> int:
    return max(min(how_many(chance), MAX_BYTES // max(size, 1)), 2)


# --- what any file has


def _stretch(data: bytes, chance: Chance) -> bytes:
    """A stretch of the bytes again and again."""
    at = chance.randrange(len(data) + 1)
    piece = data[at : at + int(10 ** chance.uniform(0, 3))] or b"\x00"
    return data[:at] + piece * _room(len(piece), chance) + data[at:]


# --- text


def _lines(data: bytes, chance: Chance) -> bytes:
    """Some lines, a cell, or a letter many times."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    how = chance.random()
    if how < 0.2:
        letter = bytes([chance.choice(_LETTERS)])
        place = chance.randrange(len(lines[at]) + 1)
        lines[at] = lines[at][:place] + letter * _room(1, chance) + lines[at][place:]
    elif how < 0.4:
        separator = chance.choice((b",", b" ", b"|", b"\t"))
        cells = lines[at].split(separator)
        cell = chance.randrange(len(cells))
        cells[cell : cell + 1] = _varied(cells[cell], _room(len(cells[cell]) + 1, chance), chance)
        lines[at] = separator.join(cells)
    else:
        until = at + int(10 ** chance.uniform(0, 1.5))
        block = b"\n".join(lines[at:until])
        lines[at:until] = _varied(block, _room(len(block) + 1, chance), chance)
    return b"\n".join(lines)


def _varied(text: bytes, count: int, chance: Chance) -> list[bytes]:
    """The same text ``count`` times, with one of its numbers counting on, or a word of its own, or neither."""
    numbers = list(_NUMBER.finditer(text))
    how = chance.random()
    if numbers and how < 0.6:
        found = chance.choice(numbers)
        first = int(found[0][:15])
        return [text[: found.start()] + b"%d" % (first + n) + text[found.end() :] for n in range(count)]
    if how < 0.8 and (words := list(re.finditer(rb"[A-Za-z_]+", text))):
        end = chance.choice(words).end()
        return [text[:end] + b"%d" % n + text[end:] for n in range(count)]
    return [text] * count


# --- trees: JSON and pickles


def _in_json(data: bytes, chance: Chance) -> bytes:
    tree = json.loads(data)
    if chance.random() < 0.1:
        return _nested(data, chance)
    return json.dumps(_repeated(tree, len(data), chance)).encode()[: 4 * MAX_BYTES]


def _nested(data: bytes, chance: Chance) -> bytes:
    """A value inside very many brackets."""
    colon = chance.choice([found.end() for found in re.finditer(rb":", data)] or [0])
    count = _room(2, chance)
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return data[:colon] + opening * count + b"1" + closing * count + b"," * bool(colon) + data[colon:]


def _in_pickle(data: bytes, chance: Chance) -> bytes:
    return pickle.dumps(_repeated(pickle.loads(data), len(data), chance), 4)


def _repeated(tree: Any, size: int, chance: Chance) -> Any:
    """The tree with an element of a list, a key or a text in it many times."""
    places = list(_places(tree))
    if not places:
        raise ValueError("there is nothing to repeat")
    for _ in range(chance.choice((1, 1, 2))):
        holder = chance.choice(places)
        count = _room(max(size // 20, 30), chance) if chance.random() < 0.7 else _room(40, chance)
        place = chance.randrange(len(holder)) if isinstance(holder, list) else chance.choice(list(holder))
        inside = {id(each) for each in _places(holder[place])}  # as often there as what it lies in
        places = [each for each in places if id(each) not in inside]
        if isinstance(holder, list):
            count = min(count, _most(holder[place]))
            if chance.random() < 0.2:
                holder[place : place + 1] = [holder[place]] * count
            else:
                paths = list(_leaves(holder[place]))
                chosen = chance.sample(paths, min(len(paths), chance.choice((0, 1, 1, 2, 3))))
                holder[place : place + 1] = [_numbered(holder[place], chosen, n) for n in range(count)]
        else:
            if isinstance(holder[place], str) and chance.random() < 0.7:
                holder[place] = (
                    holder[place] + chance.choice(("<", "(", "::", " ", "a_", "9", "\n", "é")) * count
                )
            else:
                count = min(count, _most(holder[place]))
                holder.update({f"{place}{n}": holder[place] for n in range(count)})
    return tree


def _most(value: Any) -> int:
    """How often a value may come, in which something may have been repeated before."""
    return max(MAX_BYTES // len(repr(value)), 2)


def _places(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (list, dict)) and tree:
        yield tree
        for each in tree.values() if isinstance(tree, dict) else tree[:50]:
            yield from _places(each)


def _leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(tree, dict):
        for key, each in tree.items():
            yield from _leaves(each, (*path, key))
    elif isinstance(tree, list):
        for place, each in enumerate(tree[:5]):
            yield from _leaves(each, (*path, place))
    elif path and isinstance(tree, (int, float, str)) and not isinstance(tree, bool):
        yield path


def _numbered(tree: Any, paths: list[tuple[Any, ...]], number: int) -> Any:
    tree = copy.deepcopy(tree) if paths else tree
    for *way, last in paths:
        holder = tree
        for step in way:
            holder = holder[step]
        value = holder[last]
        holder[last] = f"{value}{number}" if isinstance(value, str) else value + number
    return tree


# --- databases


def _rows(data: bytes, chance: Chance) -> bytes:
    """A row of one or two tables many times, with some of its columns counting on."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(data)
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        ]
        count = _room(40, chance)
        for table in chance.sample(tables, min(len(tables), chance.choice((1, 2, 2, 3)))):
            info = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
            names = [name for _, name, *_ in info]
            counting = set(chance.sample(names, min(len(names), chance.choice((0, 1, 2, 3)))))
            counting |= {name for _, name, *_, key in info if key} | ({"start", "end"} & set(names))
            values = ", ".join(
                f'CASE typeof("{name}") WHEN \'text\' THEN "{name}" || n ELSE "{name}" + n END'
                if name in counting
                else f'"{name}"'
                for name in names
            )
            connection.execute(
                f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) "
                f'INSERT OR IGNORE INTO "{table}" SELECT {values} FROM numbers, '
                f'(SELECT * FROM "{table}" ORDER BY random() LIMIT 1)'
            )
        connection.commit()
        return connection.serialize()


# --- protocol buffers

_Field = tuple[int, int, Any]


def _fields(data: bytes, chance: Chance) -> bytes:
    """A field at some depth many times, with a number or a text inside of it counting on."""
    first = data.find(b"\n") if chance.random() < 0.2 else 0
    message = _decoded(data[max(first, 0) :])
    holders = list(_messages(message))
    fields = chance.choice(holders)
    at = chance.randrange(len(fields))
    count = _room(len(_encoded([fields[at]])), chance)
    numbers = [place for place in _numbers(fields[at]) if chance.random() < 0.4]
    fields[at : at + 1] = [_counted(fields[at], numbers, n) for n in range(count)]
    return data[: max(first, 0)] + _encoded(message)


def _decoded(data: bytes) -> list[_Field]:
    """The fields of a message, with those inside of it; raises ``ValueError`` where it is none."""
    fields: list[_Field] = []
    value: Any
    at = 0
    while at < len(data):
        key, at = _one_varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _one_varint(data, at)
        elif wire == 2:
            size, at = _one_varint(data, at)
            value, at = data[at : at + size], at + size
            with contextlib.suppress(ValueError):
                value = _decoded(value) if (value and not value.isascii()) or size > 3 else value
        elif wire in (1, 5):
            width = 8 if wire == 1 else 4
            value, at = data[at : at + width], at + width
        else:
            raise ValueError("no field")
        if at > len(data) or not key >> 3:
            raise ValueError("it is cut")
        fields.append((key >> 3, wire, value))
    return fields


def _one_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at
    raise ValueError("no number")


def _encoded(fields: list[_Field]) -> bytes:
    parts = []
    for number, wire, value in fields:
        content = _encoded(value) if isinstance(value, list) else value
        parts.append(varint(number << 3 | wire))
        if wire == 0:
            parts.append(varint(content))
        else:
            parts += [varint(len(content)), content] if wire == 2 else [content]
    return b"".join(parts)


def _messages(fields: list[_Field]) -> Iterator[list[_Field]]:
    if fields:
        yield fields
    for _, _, value in fields[:50]:
        if isinstance(value, list):
            yield from _messages(value)


def _numbers(field: _Field, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if isinstance(field[2], list):
        for place, each in enumerate(field[2][:10]):
            yield from _numbers(each, (*path, place))
    elif field[1] in (0, 2):
        yield path


def _counted(field: _Field, paths: list[tuple[int, ...]], count: int) -> _Field:
    number, wire, value = field
    if isinstance(value, list):
        inside = {path[0] for path in paths if path}
        value = [
            _counted(each, [path[1:] for path in paths if path and path[0] == place], count)
            if place in inside
            else each
            for place, each in enumerate(value)
        ]
    elif paths:
        value = value + count & (1 << 63) - 1 if wire == 0 else value + b"%d" % count
    return number, wire, value
