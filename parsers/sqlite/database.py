"""A SQLite file opened read-only: its tables as they are, and their columns as numpy batches."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from parsers.model import Malformed
from parsers.sqlite.driver import connect

I64 = npt.NDArray[np.int64]
BATCH_ROWS = 1 << 16
ABSENT = -(1 << 62)  # stands for a number that is not there
READERS = 2
_SALVAGE_ROWS = 1024
_DAMAGE = re.compile(r"malformed|not a database|I/O error|disk image|out of memory|unable to open|corrupt")
LISTED_TABLES = "FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
BELIEVE_DAMAGED = "PRAGMA writable_schema = ON"  # SQLite then reads what is left of a cut file
_PAUSE_FOR_LOCK_S = 2.0
_PREVIEW_S = 0.3  # what each query of a preview may take
_STEPS_BETWEEN_LOOKS = 20_000  # of SQLite's virtual machine, well below a millisecond


class TableDamaged(Exception):
    """A table could not be read to its end."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table as it is in the file; ``columns`` maps each column to whether it may hold NULL."""

    name: str
    columns: Mapping[str, bool]
    has_rowid: bool = True

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def expression(self, column: str, default: int | str) -> str:
        """SQL for a column, with ``default`` where it is missing or NULL."""
        literal = str(default) if isinstance(default, int) else "''"
        if column not in self.columns:
            return literal
        quoted = quote(column)
        return f"coalesce({quoted}, {literal})" if self.columns[column] else quoted

    @property
    def rowid(self) -> str:
        return "rowid" if self.has_rowid else "-1"


def quote(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(slots=True)
class Database:
    """``uri`` opens the file without ever writing to it or beside it.

    With ``most_rows``, about so many of each table are read, and queries that take long are given up: a preview.
    """

    path: Path
    uri: str
    tables: dict[str, Table] = field(default_factory=dict)
    damaged: bool = False  # shorter than its first page says, or the like
    most_rows: int | None = None
    _deadline: float = 0.0
    _small: sqlite3.Connection | None = None

    @staticmethod
    def open(path: Path, uri: str, most_rows: int | None = None) -> Database:
        """Raises ``Malformed`` when the list of tables cannot be read, in spite of all damage."""
        database = Database(path, uri, most_rows=most_rows)
        try:
            try:
                database._connect()
            except sqlite3.DatabaseError:
                database.close()
                database.damaged = True
                database._connect()
        except sqlite3.Error as error:
            database.close()
            raise Malformed(
                path, f"The SQLite database cannot be read ({error}).", "Export or copy it again."
            ) from error
        return database

    def _connect(self) -> None:
        self._small = sqlite3.connect(self.uri, uri=True, timeout=_PAUSE_FOR_LOCK_S, check_same_thread=False)
        self._small.text_factory = lambda data: data.decode("utf-8", "replace")
        self._small.execute("PRAGMA query_only = ON")
        self._small.execute("PRAGMA trusted_schema = OFF")
        if self.damaged:
            self._small.execute(BELIEVE_DAMAGED)
        if self.most_rows is not None:
            self._small.set_progress_handler(lambda: time.monotonic() > self._deadline, _STEPS_BETWEEN_LOOKS)
        self._read_schema()

    def _read_schema(self) -> None:
        for name, kind, sql in self.rows(f"SELECT name, type, sql {LISTED_TABLES}"):
            try:
                listed = self.rows(f"PRAGMA table_info({quote(name)})")
            except sqlite3.Error:
                continue
            columns = {str(row[1]): not row[3] for row in listed}
            without_rowid = kind == "view" or re.search(r"without\s+rowid\W*$", str(sql), re.IGNORECASE)
            self.tables[name] = Table(name, columns, not without_rowid)

    def close(self) -> None:
        if self._small is not None:
            self._small.close()
            self._small = None

    def table(self, name: str) -> Table | None:
        """The table of that name, or its newest numbered version (``NAME_V3``); None when it is absent."""
        if name in self.tables:
            return self.tables[name]
        versions = [
            (int(match[1]), table)
            for each, table in self.tables.items()
            if (match := re.fullmatch(re.escape(name) + r"_V(\d+)", each))
        ]
        return max(versions, key=lambda each: each[0])[1] if versions else None

    def number_of(self, table: Table) -> int:
        """The number that ``source_row`` holds for a table: its place among all names in order."""
        return sorted(self.tables).index(table.name)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a small query; raises ``sqlite3.Error``."""
        return list(self.stream(sql, parameters))

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a large query, one by one; raises ``sqlite3.Error``."""
        if self._small is None:
            raise sqlite3.ProgrammingError("the database is closed")
        self._deadline = time.monotonic() + _PREVIEW_S
        try:
            yield from islice(self._small.execute(sql, parameters), self.most_rows)
        except UnicodeDecodeError as error:
            raise sqlite3.DatabaseError("a name in it is not text") from error

    def few(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """The columns of a small table, None where a column is missing; empty when the table is absent or damaged."""
        table = self.table(name)
        if table is None:
            return []
        chosen = ", ".join(quote(column) if column in table else "NULL" for column in columns)
        try:
            return self.rows(f"SELECT {chosen} FROM {quote(table.name)}")
        except sqlite3.Error:
            return []

    def size(self, table: Table) -> int:
        """About how many rows a table has, without counting them."""
        try:
            counted = (
                self.rows(f"SELECT max({table.rowid}) FROM {quote(table.name)}") if table.has_rowid else []
            )
        except sqlite3.Error:
            return 0
        return int(counted[0][0] or 0) if counted else 0

    def batches(self, table: Table, columns: Mapping[str, str], where: str = "") -> Iterator[Batch]:
        """The expressions in ``columns`` for every row, in row order, read ahead by two threads.

        Values that are not integers where integers are expected are converted as SQLite converts them. Raises
        ``TableDamaged`` at the end, when a stretch of the table could not be read.
        """
        query = _Query(self, table, columns, where)
        damage: TableDamaged | None = None
        readers = ThreadPoolExecutor(READERS, thread_name_prefix="nsys-table")
        try:
            stretches = self._stretches(table)
            if self.most_rows is not None:
                stretches = (each for each in islice(stretches, -(-self.most_rows // BATCH_ROWS)) if each)
            ahead = deque(readers.submit(query.fetch, each) for each in islice(stretches, READERS + 1))
            while ahead:
                fetched = ahead.popleft().result()
                ahead.extend(readers.submit(query.fetch, each) for each in islice(stretches, 1))
                yield from fetched.batches
                damage = damage or fetched.damage
        finally:
            readers.shutdown(wait=True, cancel_futures=True)
            query.close()
        if damage is not None:
            raise damage

    def _stretches(self, table: Table) -> Iterator[tuple[int, int] | None]:
        """Ranges of rowids, last included, that cover a table; each begins at a row. None for all of it at once."""
        edge = f"SELECT {{}}(rowid) FROM {quote(table.name)}"
        try:
            low, high = (self.rows(edge.format(which))[0][0] for which in ("min", "max"))
        except sqlite3.Error:
            low = high = None
        if not isinstance(low, int) or not isinstance(high, int):
            yield None
            return
        first: int | None = low
        while isinstance(first, int):
            last = min(first + BATCH_ROWS - 1, high)
            yield first, last
            try:
                first = (
                    self.rows(f"{edge.format('min')} WHERE rowid > ?", (last,))[0][0] if last < high else None
                )
            except sqlite3.Error:
                yield last + 1, high
                return


class _NotIntegers(Exception):
    """A column that should hold integers does not."""


@dataclass(slots=True)
class _Fetched:
    """What one stretch of a table gave."""

    batches: list[Batch] = field(default_factory=list)
    damage: TableDamaged | None = None


class _Query:
    """One SELECT for stretches of a table; each thread has its own connection."""

    def __init__(self, database: Database, table: Table, columns: Mapping[str, str], where: str) -> None:
        self._path, self._uri = database.path, database.uri
        self._damaged = database.damaged
        self._table = table
        self._columns = columns
        self._where = where
        self._of_thread = threading.local()
        self._connections: list[Any] = []

    def close(self) -> None:
        """Close the connections; no thread may still be reading."""
        for connection in self._connections:
            connection.close()

    def fetch(self, stretch: tuple[int, int] | None) -> _Fetched:
        """The rows of a stretch; those before the damage where there is any."""
        fetched = _Fetched()
        try:
            fetched.batches = list(self._read(stretch, False, BATCH_ROWS))
        except _NotIntegers:
            try:
                fetched.batches = list(self._read(stretch, True, BATCH_ROWS))
            except TableDamaged as damage:
                fetched.damage = damage
        except TableDamaged as damage:
            fetched.damage = damage
        if fetched.damage is not None:
            with contextlib.suppress(TableDamaged):
                for batch in self._read(stretch, True, _SALVAGE_ROWS):
                    fetched.batches.append(batch)
        return fetched

    def _read(self, stretch: tuple[int, int] | None, convert: bool, batch_rows: int) -> Iterator[Batch]:
        import pyarrow as pa
        from adbc_driver_manager import Error

        try:
            with self._connection().cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": batch_rows})
                cursor.execute(self._statement(stretch, convert))
                with contextlib.closing(cursor.fetch_record_batch()) as reader:
                    while True:
                        try:
                            part = reader.read_next_batch()
                        except StopIteration:
                            return
                        yield Batch.of(part, convert)
        except (Error, pa.ArrowException, OSError) as error:
            if not convert and not _DAMAGE.search(str(error)):
                raise _NotIntegers from error
            raise TableDamaged(str(error)) from error

    def _statement(self, stretch: tuple[int, int] | None, convert: bool) -> str:
        chosen = ", ".join(
            f"CAST({sql} AS {'TEXT' if name.startswith('text') else 'INTEGER'}) AS {quote(name)}"
            if convert
            else f"{sql} AS {quote(name)}"
            for name, sql in self._columns.items()
        )
        conditions = [f"({self._where})"] if self._where else []
        if stretch is not None:
            conditions.append(f"rowid BETWEEN {stretch[0]} AND {stretch[1]}")
        condition = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        indexed = " NOT INDEXED" if self._table.has_rowid else ""
        return f"SELECT {chosen} FROM {quote(self._table.name)}{indexed}{condition}"

    def _connection(self) -> Any:
        connection = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = self._of_thread.connection = connect(self._path, self._uri)
            self._connections.append(connection)
            if self._damaged:
                with connection.cursor() as cursor:
                    cursor.executescript(BELIEVE_DAMAGED)
        return connection


@dataclass(frozen=True, slots=True)
class Batch:
    """Equal columns of one stretch of a table: int64 arrays, and Arrow arrays where the name begins with "text"."""

    columns: Mapping[str, Any]
    length: int

    @staticmethod
    def of(part: Any, converted: bool) -> Batch:
        """From an Arrow record batch; raises ``_NotIntegers``. Nothing in a converted one counts as ``ABSENT``."""
        import pyarrow as pa

        columns: dict[str, Any] = {}
        for name, column in zip(part.schema.names, part.columns, strict=True):
            expected = pa.string() if name.startswith("text") else pa.int64()
            if column.type != expected or column.null_count:
                if not converted:
                    raise _NotIntegers(name)
                empty = "" if expected == pa.string() else ABSENT
                column = column.cast(expected, safe=False).fill_null(empty)
            columns[name] = column if name.startswith("text") else column.to_numpy()
        return Batch(columns, part.num_rows)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, name: str) -> I64:
        column: I64 = self.columns[name]
        return column

    def text(self, name: str) -> Any:
        """An Arrow string array."""
        return self.columns[name]
