"""The injuries that the fuzzing deals out: to bytes, to lines and numbers of a text, and to rows of a database."""

from __future__ import annotations

import contextlib
import gzip
import random
import re
import sqlite3
from typing import Any

import zstandard

from tests.fuzzing.seeds import SQLITE, is_text

TOKENS = (
    b"NaN", b"-Infinity", b"null", b"{}", b"[]", b"]", b"}", b'"', b"\\", b"\x00", b"\xff", b"1e999", b"-1",
    b"99999999999999999999", b'{"ph":"X"}', b",", b"\n", b"==ERROR== x", b"n/a", b"(!) nan", b"\xef\xbb\xbf",
    b"\\ud83d", b"\xe2\x80\xae", b"[" * 2000, b"\r\n", b"- ", b"N/A", b"1,234", b"1.234,5", b"true",
)  # fmt: skip
NUMBERS = (
    b"0", b"-1", b"NaN", b"null", b'"7"', b'"0x1f"', b"1e308", b"-1e308", b"9223372036854775807", b"1e-320", b"0.0001",
    b"-9223372036854775808", b"18446744073709551616", b"1712345678901234.567", b"2147483648", b"[]", b"{}", b'""',
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, 0, -1, 1, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63), 0.5, 1e308, float("inf"), "", "text", "12",
    b"\xff\xfe", b"", "\ud7ff", "[[2, 3], []]", "aten::mm, op_id = 7, sizes = [[2, 3]]", "step_7", "ncclAllReduce",
)  # fmt: skip
_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?")


def damaged_bytes(data: bytes, chance: random.Random) -> bytes:
    """The same bytes after one to eight random injuries, which are as small as the data."""
    text = bytearray(data)
    longest = len(data) // 16 + 1
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        where = chance.randrange(len(text) + 1)
        until = min(where + min(chance.choice((1, 2, 8, 64, 4096)), longest), len(text))
        injury = chance.randrange(6)
        if injury == 0:
            text[where:until] = chance.randbytes(until - where)
        elif injury == 1:
            del text[where:until]
        elif injury == 2:
            text[where:where] = chance.choice(TOKENS)
        elif injury == 3:
            text[where:where] = text[where:until]
        elif injury == 4 and where < len(text):
            text[where] ^= 1 << chance.randrange(8)
        elif injury == 5 and chance.random() < 0.1:
            del text[where:]
    return bytes(text)


def damaged_text(data: bytes, chance: random.Random) -> bytes:
    """The same text with some numbers replaced, and some lines lost, doubled or in another order."""
    parts = []
    last = 0
    share = max(chance.choice((0.0001, 0.001, 0.01)), chance.choice((20, 100)) / (len(data) + 1))
    for found in _NUMBER.finditer(data):
        if chance.random() < share:
            parts += [data[last : found.start()], chance.choice(NUMBERS)]
            last = found.end()
    lines = (b"".join(parts) + data[last:]).split(b"\n")
    for _ in range(chance.randint(0, 4)):
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        injury = chance.randrange(4)
        if injury == 0:
            lines[at] = lines[other]
        elif injury == 1:
            lines[at], lines[other] = lines[other], lines[at]
        elif injury == 2 and len(lines) > 1:
            del lines[at]
        else:
            lines.insert(at, lines[other][: len(lines[other]) // 2])
    return b"\n".join(lines)


def damage_rows(connection: sqlite3.Connection, chance: random.Random) -> None:
    """Change, remove and rename what is in a database."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for _ in range(chance.randint(1, 6)):
        if not tables:
            break
        table = chance.choice(tables)
        columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
        if not columns:
            continue
        column, other = chance.choice(columns), chance.choice(columns)
        few = chance.choice(("rowid % 7 = 3", "rowid < 3", "1", "rowid % 1000 = 5"))
        with contextlib.suppress(sqlite3.Error):
            injury = chance.randrange(8)
            if injury < 4:
                connection.execute(
                    f'UPDATE "{table}" SET "{column}" = ? WHERE {few}', (chance.choice(VALUES),)
                )
            elif injury == 4:
                connection.execute(f'UPDATE "{table}" SET "{column}" = "{other}" WHERE {few}')
            elif injury == 5:
                connection.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
            elif injury == 6:
                connection.execute(f'DELETE FROM "{table}" WHERE {few}')
            elif chance.random() < 0.5:
                connection.execute(f'DROP TABLE "{table}"')
                tables.remove(table)
            else:
                connection.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_V2"')
                tables.remove(table)
    connection.commit()


def injured(data: bytes, chance: random.Random) -> bytes:
    """A recording with injuries of the sorts that such data can have, sometimes packed afterwards."""
    if data.startswith(SQLITE) and chance.random() < 0.6:
        with (
            contextlib.closing(sqlite3.connect(":memory:")) as rows,
            contextlib.suppress(sqlite3.Error, UnicodeError),
        ):
            rows.deserialize(data)
            damage_rows(rows, chance)
            data = rows.serialize()
        return data if chance.random() < 0.8 else damaged_bytes(data, chance)
    if is_text(data) and chance.random() < 0.5:
        data = damaged_text(data, chance)
        data = data if chance.random() < 0.7 else damaged_bytes(data, chance)
    else:
        data = damaged_bytes(data, chance)
    return data if chance.random() < 0.9 else _packed(data, chance)


def _packed(data: bytes, chance: random.Random) -> bytes:
    data = gzip.compress(data, 1) if chance.random() < 0.5 else zstandard.compress(data)
    return data if chance.random() < 0.6 else damaged_bytes(data, chance)
