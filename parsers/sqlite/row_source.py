"""Fetches one row of a database when somebody clicks on its event."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsers.model import TraceError
from parsers.sqlite.database import BELIEVE_DAMAGED, LISTED_TABLES
from parsers.sqlite.read_only import read_only_uri
from parsers.sqlite.rows import place_of

Show = Callable[[sqlite3.Connection, str, int], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows of the file as it was when it was read; ``show`` turns (table, rowid) into what a person reads."""

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
            uri = read_only_uri(self.path)
            with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=1.0)) as connection:
                connection.text_factory = lambda data: data.decode("utf-8", "replace")
                connection.execute(BELIEVE_DAMAGED)
                names = sorted(name for (name,) in connection.execute(f"SELECT name {LISTED_TABLES}"))
                return self.show(connection, names[number], rowid) if 0 <= number < len(names) else {}
        except (sqlite3.Error, UnicodeDecodeError, OSError, TraceError):
            return {}
