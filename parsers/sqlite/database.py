"""A SQLite file opened read-only: its tables as they are, and their columns as numpy batches."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillReading
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Any

from parsers.model import I64, Effect, Malformed, Progress, QualityRecorder, TraceError
from parsers.model.arrays import ABSENT
from parsers.model.late import dataclass, regex
from parsers.model.threads import threads
from parsers.sqlite.guarded import BELIEVE_DAMAGED, MAX_QUERY_S, GuardedConnection, Watch, quote
from parsers.sqlite.read_only import read_only_uri

ROWS_AT_ONCE = 1 << 16
READERS_AT_ONCE = 2
_SALVAGE_ROWS = 1024
_DAMAGE = regex(r"malformed|not a database|I/O error|disk image|out of memory|unable to open|corrupt")
_PREVIEW_S = 0.3  # what each query of a preview may take
_POLL_S = 0.05
_MIN_ROW_BYTES = 4  # what a row takes in a file at least: its place, its length and its number
_TEXT_GROWTH = 2  # UTF-16 in the file, UTF-8 here
# with fewer bytes of the file for each number between the rowids, most numbers have no row
_BYTES_OF_A_NUMBER = 4
_MAX_SMALL_ROWS = 1 << 20
_NUMBERED = regex(r"(.+)_V(\d{1,9})")


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
    progress: Progress = field(default_factory=Progress)
    _newest: dict[str, Table] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _small: GuardedConnection | None = None

    @staticmethod
    def open(
        path: Path,
        quality: QualityRecorder | None = None,
        most_rows: int | None = None,
        progress: Progress | None = None,
    ) -> Database:
        """Raises ``Malformed`` when the list of tables cannot be read, in spite of all damage."""
        database = Database(
            path, read_only_uri(path, quality), most_rows=most_rows, progress=progress or Progress()
        )
        try:
            try:
                database._connect()
            except sqlite3.DataError:
                raise
            except sqlite3.DatabaseError:
                database.close()
                database.damaged = True
                database._connect()
        except sqlite3.Error as error:
            database.close()
            raise Malformed(
                path, f"The SQLite database cannot be read ({error}).", "Export or copy it again."
            ) from error
        if quality is not None and (database.damaged or _lacks_pages(path)):
            words = "The file is damaged or cut off; what is left of it is shown."
            quality.note("cut-off database", Effect.NOTED, words)
        return database

    def _connect(self) -> None:
        preview = self.most_rows is not None
        watch = Watch(self.progress, _PREVIEW_S if preview else MAX_QUERY_S, whole=preview)
        self._small = GuardedConnection(self.uri, watch, damaged=self.damaged)
        versions: dict[str, int] = {}
        for name, stored in sorted(self._small.tables.items()):
            table = self.tables[name] = Table(name, stored.columns, stored.has_rowid)
            self._numbers[name] = len(self._numbers)
            if (numbered := _NUMBERED.fullmatch(name)) and int(numbered[2]) > versions.get(numbered[1], -1):
                versions[numbered[1]] = int(numbered[2])
                self._newest[numbered[1]] = table

    def close(self) -> None:
        if self._small is not None:
            self._small.close()
            self._small = None

    def table(self, name: str) -> Table | None:
        """The table of that name, or its newest numbered version (``NAME_V3``); None when it is absent."""
        return self.tables.get(name) or self._newest.get(name)

    def number_of(self, table: Table) -> int:
        """The number that ``source_row`` holds for a table: its place among all names in order."""
        return self._numbers[table.name]

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a small query; raises ``sqlite3.Error``."""
        return list(self.stream(sql, parameters))

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a large query, one by one; raises ``sqlite3.Error``."""
        if self._small is None:
            raise sqlite3.ProgrammingError("the database is closed")
        yield from self._small.stream(sql, parameters, self.most_rows)

    def few(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """The columns of a small table, None where a column is missing; empty when the table is absent or damaged."""
        table = self.table(name)
        if table is None:
            return []
        chosen = ", ".join(quote(column) if column in table else "NULL" for column in columns)
        try:
            return self.rows(f"SELECT {chosen} FROM {quote(table.name)} LIMIT {_MAX_SMALL_ROWS}")
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
        stated = int(counted[0][0] or 0) if counted else 0
        return min(stated, self.path.stat().st_size // _MIN_ROW_BYTES)  # rowids may be far apart

    def batches(self, table: Table, columns: Mapping[str, str], where: str = "") -> Iterator[Batch]:
        """The expressions in ``columns`` for every row, in row order, read ahead by two threads.

        Values that are not integers where integers are expected are converted as SQLite converts them. Raises
        ``TableDamaged`` at the end, when a stretch of the table could not be read.
        """
        query = _Query(self, table, columns, where)
        damage: TableDamaged | None = None
        readers = threads(READERS_AT_ONCE, "nsys-table")
        try:
            stretches = self._stretches(table)
            if self.most_rows is not None:
                stretches = (each for each in islice(stretches, -(-self.most_rows // ROWS_AT_ONCE)) if each)
            ahead = deque(
                readers.submit(query.fetch, each) for each in islice(stretches, READERS_AT_ONCE + 1)
            )
            while ahead:
                fetched = self._awaited(ahead.popleft())
                ahead.extend(readers.submit(query.fetch, each) for each in islice(stretches, 1))
                yield from fetched.batches
                damage = damage or fetched.damage
        finally:
            query.stop()
            readers.shutdown(wait=True, cancel_futures=True)
            query.close()
        if damage is not None:
            raise damage

    def _awaited(self, reading: Future[_Fetched]) -> _Fetched:
        """What a reader fetched; raises ``Cancelled`` when the user stops it meanwhile."""
        while True:
            try:
                return reading.result(_POLL_S)
            except StillReading:
                self.progress.stop_if_wanted()

    def _stretches(self, table: Table) -> Iterator[tuple[int, int] | None]:
        """Ranges of rowids, last included, that cover a table; each begins at a row. None for all of it at once.

        Where rowids are so far apart that equal ranges would hold next to nothing, the rows themselves are counted out.
        """
        edge = f"SELECT {{}}(rowid) FROM {quote(table.name)}"
        try:
            low, high = (self.rows(edge.format(which))[0][0] for which in ("min", "max"))
        except sqlite3.Error:
            low = high = None
        if not table.has_rowid or not isinstance(low, int) or not isinstance(high, int):
            yield None
            return
        sparse = high - low > max(self.path.stat().st_size // _BYTES_OF_A_NUMBER, ROWS_AT_ONCE)
        place = f"SELECT rowid FROM {quote(table.name)} WHERE rowid >= ? ORDER BY rowid LIMIT 1 OFFSET ?"
        first: int | None = low
        while isinstance(first, int):
            last = min(first + ROWS_AT_ONCE - 1, high)
            try:
                if sparse:
                    ends = self.rows(place, (first, ROWS_AT_ONCE - 1))
                    last = int(ends[0][0]) if ends else high
                yield first, last
                after = (
                    self.rows(f"{edge.format('min')} WHERE rowid > ?", (last,)) if last < high else [(None,)]
                )
                first = after[0][0]
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
        self._file_bytes = database.path.stat().st_size
        self._stopped = False
        self._of_thread = threading.local()
        self._connections: list[Any] = []

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        """Close the connections; no thread may still be reading."""
        for connection in self._connections:
            connection.close()

    def fetch(self, stretch: tuple[int, int] | None) -> _Fetched:
        """The rows of a stretch; those before the damage where there is any."""
        fetched = _Fetched()
        try:
            fetched.batches = list(self._read(stretch, False, ROWS_AT_ONCE))
        except _NotIntegers:
            try:
                fetched.batches = list(self._read(stretch, True, ROWS_AT_ONCE))
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

        room = _Room.of(self._file_bytes, stretch)
        try:
            with self._connection().cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": batch_rows})
                cursor.execute(self._statement(stretch, convert))
                with contextlib.closing(cursor.fetch_record_batch()) as reader:
                    while not self._stopped:
                        try:
                            part = reader.read_next_batch()
                        except StopIteration:
                            return
                        room.take(part)
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


@dataclass(slots=True)
class _Room:
    """What a stretch of a sound table can hold at most: pages that are used twice make more of a file than is in it."""

    rows: int
    text_bytes: int

    @staticmethod
    def of(file_bytes: int, stretch: tuple[int, int] | None) -> _Room:
        rows = file_bytes // _MIN_ROW_BYTES
        if stretch is not None:
            rows = min(rows, stretch[1] - stretch[0] + 1)
        return _Room(rows, file_bytes * _TEXT_GROWTH)

    def take(self, part: Any) -> None:
        """Count an Arrow record batch; raises ``TableDamaged`` when there is more than can be."""
        self.rows -= part.num_rows
        self.text_bytes -= sum(
            column.nbytes - 4 * (part.num_rows + 1)
            for name, column in zip(part.schema.names, part.columns, strict=True)
            if name.startswith("text")
        )
        if self.rows < 0 or self.text_bytes < 0:
            raise TableDamaged("its pages contain more than the file holds")


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
        return self.columns[name]


def connect(path: Path, uri: str) -> Any:
    """A connection to the database at ``uri``; raises ``TraceError`` about ``path`` when there is no driver.

    Raises the driver's own errors when it works and the database is the problem.
    """
    try:
        from adbc_driver_manager import Error
        from adbc_driver_sqlite import dbapi
    except (ImportError, OSError) as error:
        raise _without_driver(path, error) from error
    try:
        return dbapi.connect(uri, autocommit=True)
    except (Error, OSError) as error:
        try:
            dbapi.connect(":memory:").close()
        except (Error, OSError):
            raise _without_driver(path, error) from error
        raise


def _without_driver(path: Path, error: Exception) -> TraceError:
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return TraceError(
        path,
        f"This installation cannot read SQLite files, because its driver does not load ({reason}).",
        "The file is fine. Install Stallscope again; from source: pip install --force-reinstall adbc-driver-sqlite.",
    )


def _lacks_pages(path: Path) -> bool:
    """Whether the file is shorter than its own header says (https://www.sqlite.org/fileformat2.html, 1.3.7)."""
    with path.open("rb") as file:
        head = file.read(100)
    page_bytes, pages = int.from_bytes(head[16:18], "big"), int.from_bytes(head[28:32], "big")
    is_stated = head[24:28] == head[92:96]
    return is_stated and path.stat().st_size < pages * (1 << 16 if page_bytes == 1 else page_bytes)
