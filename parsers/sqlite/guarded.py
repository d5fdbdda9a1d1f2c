"""The one way to open a SQLite file that comes from a stranger: only its tables are read, and no query lasts for ever.

Views, triggers, virtual tables and generated columns are programs that their author wrote; SQLite runs them for whoever
reads the file. An authorizer lets only stored columns of tables through, limits bound every value and expression, and a
handler that SQLite calls all the time ends a query that the user stopped, or that takes longer than reading ever does.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from parsers.model import Progress
from parsers.model.late import dataclass

MAX_QUERY_S = 30.0
MAX_TABLES = 5_000  # with indexes and views; an export has one or two hundred
BELIEVE_DAMAGED = "PRAGMA writable_schema = ON"  # SQLite then reads what is left of a cut file
_PAUSE_FOR_LOCK_S = 2.0
_STEPS_AT_ONCE = 20_000  # of SQLite's virtual machine, well below a millisecond
_ROWS_AT_ONCE = 256
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 16 << 20,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 500,  # of views, which are parsed and never run: rocprofv3's join five
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_FUNCTIONS = frozenset({"coalesce", "count", "length", "like", "max", "min", "substr"})
_PRAGMAS = frozenset({"table_info", "table_list"})


class Watch:
    """Ends a query at its deadline, and when the user stops the reading; called by SQLite itself."""

    def __init__(
        self, progress: Progress | None = None, longest_s: float = MAX_QUERY_S, *, whole: bool = False
    ) -> None:
        """``longest_s`` is what the first or the next rows may take; with ``whole``, what all of them may."""
        self._progress = progress or Progress()
        self._longest = longest_s
        self._whole = whole
        self._deadline = 0.0
        self._raised: BaseException | None = None

    def begin(self) -> None:
        """The time of the next query starts now."""
        self._deadline = time.monotonic() + self._longest

    def go_on(self) -> None:
        """Rows were handed out."""
        if not self._whole:
            self.begin()

    def __call__(self) -> bool:
        try:
            self._progress.stop_if_wanted()
        except BaseException as stopped:  # SQLite would swallow it, and a KeyboardInterrupt as well
            self._raised = stopped
            return True
        return time.monotonic() > self._deadline

    def raise_what_stopped(self) -> None:
        """Raise what ended a query from outside; nothing when SQLite had a reason of its own."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table that holds rows of its own; ``columns`` maps what is stored in them to whether it may be NULL."""

    columns: Mapping[str, bool]
    has_rowid: bool


class GuardedConnection:
    """A connection that only reads ``tables``; every method raises ``sqlite3.Error``, and ``Cancelled`` when stopped.

    A file with more tables than any recording has is a ``sqlite3.DataError``.
    """

    def __init__(self, uri: str, watch: Watch | None = None, *, damaged: bool = False) -> None:
        """With ``damaged``, what is left of a file that is cut is read."""
        self._watch = watch or Watch()
        self._connection = sqlite3.connect(
            uri, uri=True, timeout=_PAUSE_FOR_LOCK_S, check_same_thread=False, cached_statements=16
        )
        self._connection.text_factory = lambda data: data.decode("utf-8", "replace")
        for limit, most in _LIMITS.items():
            self._connection.setlimit(limit, most)
        self._connection.set_progress_handler(self._watch, _STEPS_AT_ONCE)
        self.tables: dict[str, StoredTable] = {}
        try:
            for setting in ("PRAGMA query_only = ON", "PRAGMA trusted_schema = OFF"):
                self._connection.execute(setting)
            if damaged:
                self._connection.execute(BELIEVE_DAMAGED)
            self._connection.set_authorizer(self._judge)
            self._find_tables()
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a small query."""
        return list(self.stream(sql, parameters))

    def stream(
        self, sql: str, parameters: Sequence[Any] = (), most: int | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a large query one by one, at most ``most``."""
        with self._telling():
            self._watch.begin()
            for number, row in enumerate(islice(self._connection.execute(sql, parameters), most)):
                if number % _ROWS_AT_ONCE == 0:
                    self._watch.go_on()
                yield row

    def named(self, sql: str, parameters: Sequence[Any] = ()) -> dict[str, Any]:
        """The first row by the names of its columns; empty without one."""
        with self._telling():
            self._watch.begin()
            cursor = self._connection.execute(sql, parameters)
            row = cursor.fetchone()
        return {} if row is None else dict(zip((each[0] for each in cursor.description), row, strict=True))

    def _find_tables(self) -> None:
        ((count,),) = self.rows("SELECT count(*) FROM sqlite_master")
        if count > MAX_TABLES:
            raise sqlite3.DataError(
                f"it holds {count:,} tables, views and indexes, far more than any recording would"
            )
        for schema, name, kind, _, without_rowid, *_ in self.rows("PRAGMA table_list"):
            if schema == "main" and kind == "table" and not name.startswith("sqlite_"):
                try:
                    listed = self.rows(f"PRAGMA table_info({quote(name)})")
                except sqlite3.Error:
                    continue
                self.tables[name] = StoredTable(
                    {str(row[1]): not row[3] for row in listed}, not without_rowid
                )

    def _judge(
        self, action: int, first: str | None, second: str | None, _: str | None, inside: str | None
    ) -> int:
        """SQLite's question whether a statement may do this; ``inside`` names the view or trigger that wants it."""
        if inside is not None:
            allowed = False
        elif action == sqlite3.SQLITE_READ:
            table = self.tables.get(first or "")
            allowed = first == "sqlite_master" or (
                table is not None and (second in table.columns or (second or "ROWID") == "ROWID")
            )
        elif action == sqlite3.SQLITE_FUNCTION:
            allowed = (second or "").lower() in _FUNCTIONS
        elif action == sqlite3.SQLITE_PRAGMA:
            allowed = first in _PRAGMAS
        else:
            allowed = action == sqlite3.SQLITE_SELECT
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            raise sqlite3.DatabaseError("a name in it is not text") from error
        except sqlite3.Error as error:
            self._watch.raise_what_stopped()
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise sqlite3.OperationalError("a query took too long") from error
            raise


def quote(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
