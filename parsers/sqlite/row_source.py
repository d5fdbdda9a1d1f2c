"""Fetches one row of a database when somebody clicks on its event."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parsers.model import I64, TraceError
from parsers.model.late import dataclass
from parsers.sqlite.guarded import GuardedConnection, Watch, quote
from parsers.sqlite.read_only import read_only_uri

_MAX_S = 1.0  # somebody waits for it
Show = Callable[[GuardedConnection, str, Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows of the file as it was when it was read; ``show`` turns a table's name and a row into what a person reads."""

    path: Path
    show: Show
    size: int
    modified_ns: int

    @staticmethod
    def of(path: Path, show: Show) -> RowSource:
        state = path.stat()
        return RowSource(path, show, state.st_size, state.st_mtime_ns)

    def arguments(self, source_row: int) -> Mapping[str, Any]:
        """Empty when the file is gone, changed or damaged there."""
        number, rowid = place_of(source_row)
        try:
            state = self.path.stat()
            if (state.st_size, state.st_mtime_ns) != (self.size, self.modified_ns):
                return {}
            watch = Watch(longest_s=_MAX_S, whole=True)
            with contextlib.closing(
                GuardedConnection(read_only_uri(self.path), watch, damaged=True)
            ) as database:
                names = sorted(database.tables)
                if not 0 <= number < len(names):
                    return {}
                return self.show(database, names[number], _row(database, names[number], rowid))
        except (sqlite3.Error, OSError, TraceError):
            return {}


def _row(database: GuardedConnection, table: str, rowid: int) -> dict[str, Any]:
    """What is stored in a row and can be shown; empty without it."""
    columns = ", ".join(map(quote, database.tables[table].columns))
    row = database.named(f"SELECT {columns} FROM {quote(table)} WHERE rowid = ?", (rowid,)) if columns else {}
    return {
        column: value for column, value in row.items() if value is not None and not isinstance(value, bytes)
    }


ROWID_BITS = 40


def source_rows(table: int, rowids: I64) -> I64:
    """Table number and rowid packed for ``EventTable.source_row``; -1 where the rowid does not fit."""
    fits = (rowids >= 0) & (rowids < 1 << ROWID_BITS)
    return np.where(fits, rowids | table << ROWID_BITS, -1)


def place_of(source_row: int) -> tuple[int, int]:
    """Table number and rowid of a packed row."""
    return source_row >> ROWID_BITS, source_row & ((1 << ROWID_BITS) - 1)
