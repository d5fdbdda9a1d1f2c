"""Which tables a SQLite file has, asked before anybody reads them: they tell which program wrote it."""

from __future__ import annotations

import contextlib
import re
from functools import lru_cache
from pathlib import Path

from parsers.files.base import Source
from parsers.files.signatures import DATABASE
from parsers.model import TraceError
from parsers.model.late.regex import regex

_IN_SCHEMA = regex(rb"CREATE TABLE\s+(?:IF NOT EXISTS\s+)?[\"'`\[]?(\w{1,200})", re.IGNORECASE)
_MAX_S = 2.0


def tables_of(source: Source) -> frozenset[str]:
    """The names of all tables; what the first bytes tell where the file is packed or damaged.

    Empty for what is no SQLite file. Never raises.
    """
    if not source.head.startswith(DATABASE):
        return frozenset()
    in_head = frozenset(name.decode("utf-8", "replace") for name in _IN_SCHEMA.findall(source.head))
    if source.compression:
        return in_head
    try:
        state = source.path.stat()
    except OSError:
        return in_head
    return in_head | _listed(source.path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=8)
def _listed(path: Path, size: int, modified_ns: int) -> frozenset[str]:
    import sqlite3

    from parsers.sqlite.guarded import GuardedConnection, Watch
    from parsers.sqlite.read_only import read_only_uri

    try:
        watch = Watch(longest_s=_MAX_S, whole=True)
        with contextlib.closing(GuardedConnection(read_only_uri(path), watch, damaged=True)) as database:
            return frozenset(database.tables)
    except (sqlite3.Error, TraceError, OSError):
        return frozenset()
