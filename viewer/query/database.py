"""A recording as a database: read-only, without access to any file, its columns not copied, its queries cancellable."""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import chdir, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from parsers.model import Progress, derived
from parsers.model.late import dataclass, regex
from rules.analysis.analysis import Analysis
from viewer.query.errors import MemoryReached, NoDatabase, QueryError, explained
from viewer.query.limits import limit_of_this_process
from viewer.query.result import ColumnSums, Result, is_quantity, sums_of
from viewer.query.views import FUNCTIONS, VIEWS
from viewer.tables.table import described, row_tables, rows_of, summaries, summary_of

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: its text, and where that stands in the question, in characters."""

    text: str
    begin: int
    end: int

    def without(self, sql: str) -> str:
        """The question with this condition always met."""
        return f"{sql[: self.begin]} true {sql[self.end :]}"


def conditions_of(connection: duckdb.DuckDBPyConnection, sql: str) -> list[Condition]:
    """The conditions of the outermost WHERE; none where there are fewer than two joined by AND."""
    told = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0]
    tree = json.loads(told)
    if tree.get("error"):
        return []
    where = tree["statements"][0]["node"].get("where_clause") or {}
    if where.get("type") != "CONJUNCTION_AND":
        return []
    found = [_condition(sql, each) for each in where["children"]]
    return [each for each in found if each is not None]


def _condition(sql: str, node: dict[str, Any]) -> Condition | None:
    written = sql.encode()
    begin, length = node.get("query_location"), node.get("query_location_length")
    if begin is None or not length:
        return None
    before, text = (
        written[:begin].decode(errors="ignore"),
        written[begin : begin + length].decode(errors="ignore"),
    )
    return Condition(text, len(before), len(before) + len(text))


MAX_ROWS = 10_000
MEMORY = 2_000_000_000  # bytes by DuckDB's own count, where nothing else bounds it
_POLL_S, _PATIENCE_S = 0.02, 2.0
_WHOLE = ("tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger", "ubigint")
_WIDEST = 1 << 63  # what 64 bits hold
_WIDER = ("hugeint", "uhugeint", "bignum")
_NESTED = ("list", "array", "struct", "map", "union", "tuple", "variant", "json")
_AS_TEXT = "CAST({} AS VARCHAR)"
_READ_AS = (
    dict.fromkeys((*_WHOLE, "boolean", "float", "double", "varchar", "enum"), "{}")
    | dict.fromkeys(_WIDER, "CAST({} AS BIGINT)")
    | dict.fromkeys(_NESTED, "CAST(to_json({}) AS VARCHAR)")
    | {"decimal": "CAST({} AS DOUBLE)"}
)
_WORD = regex(r"[a-z_]\w*")
_SAFE = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # no variable of this program is a table
    "temp_directory": "",
    "secret_directory": "none",  # by default it names the home
    "allow_persistent_secrets": "false",
}
_THEN = (
    "SET enable_progress_bar = false",  # it would be written between the lines of an answer
    "SET TimeZone = 'UTC'",  # wherever somebody asks, the answer is the same
    "SET lock_configuration = true",
)
T = TypeVar("T")
_OPEN: weakref.WeakSet[Database] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """DuckDB complains of what is still open when the interpreter ends."""
    for database in list(_OPEN):
        database.close()


class Database:
    """Tables are handed to DuckDB when a query names them; one query runs at a time."""

    def __init__(self, analysis: Analysis) -> None:
        self._of = weakref.ref(analysis)  # which owns this database
        self._limited = limit_of_this_process()
        self._turn = threading.Lock()
        self._known: set[str] = set()
        try:
            import duckdb
        except ImportError:
            raise NoDatabase from None
        self._duckdb = duckdb
        memory = MEMORY if self._limited is None else self._limited.limit
        with nullcontext() if self._limited is None else chdir(os.sep):  # DuckDB's settings name the folder
            self._connection: duckdb.DuckDBPyConnection = duckdb.connect(
                ":memory:", config={**_SAFE, "memory_limit": f"{memory}B"}
            )
        _OPEN.add(self)
        for statement in _THEN:
            self._execute(statement)

    @property
    def _analysis(self) -> Analysis:
        analysis = self._of()
        assert analysis is not None, "a database does not outlive its analysis"
        return analysis

    def close(self) -> None:
        """Give everything back, and end what is being answered."""
        self._connection.interrupt()
        if self._turn.acquire(timeout=_PATIENCE_S):
            self._connection.close()
            del self._connection

    def run(self, sql: str, most: int | None = MAX_ROWS, progress: Progress | None = None) -> Result:
        """Answer one SELECT; at most ``most`` rows of it, with sums over all.

        Raises ``QueryError`` with one sentence, ``Cancelled`` when the progress is cancelled.
        """
        with self._turn:
            begun = time.perf_counter()
            self._provide(sql)

            def answer() -> tuple[pd.DataFrame, int, dict[str, ColumnSums]]:
                text = self._one_select(sql)
                frame = self._frame(text, most)
                if most is None or len(frame) <= most:
                    return frame, len(frame), sums_of(frame)
                return frame.iloc[:most], *self._sums_of_all(text, frame)

            frame, rows, sums = self._interruptible(answer, sql, progress or Progress())
            return Result(frame, rows, time.perf_counter() - begun, sums)

    def count(self, sql: str, progress: Progress | None = None) -> int:
        """How many rows one SELECT gives; raises like ``run``."""
        with self._turn:
            self._provide(sql)
            return self._interruptible(
                lambda: self._count(self._one_select(sql)), sql, progress or Progress()
            )

    def _count(self, text: str) -> int:
        found = self._connection.execute(f"SELECT count(*) FROM (\n{text}\n)").fetchall()
        return int(found[0][0])

    def costliest_condition(self, sql: str, progress: Progress | None = None) -> tuple[str, int] | None:
        """Of a query without rows, the condition without which most rows would be left, and how many.

        None where it has fewer than two conditions joined by AND, or where no single one is to blame.
        """

        def conditions() -> tuple[str, list[Condition]]:
            text = self._one_select(sql)
            return text, conditions_of(self._connection, text)

        with self._turn:
            text, found = self._interruptible(conditions, sql, progress or Progress())
        counts = {condition.text: self.count(condition.without(text), progress) for condition in found}
        worst = max(counts, key=lambda each: counts[each], default="")
        return (worst, counts[worst]) if counts.get(worst) else None

    def _one_select(self, sql: str) -> str:
        """The text of the only statement, which must be a SELECT."""
        try:
            statements = self._connection.extract_statements(sql)
        except self._duckdb.Error as error:
            raise explained(str(error), sql, self.names()) from None
        if len(statements) != 1:
            what = "This contains no question." if not statements else "One question at a time."
            raise QueryError(what, "Write one SELECT.")
        if statements[0].type != self._duckdb.StatementType.SELECT:
            raise QueryError(
                "Only SELECT is answered: nothing is ever written.", "Begin with SELECT or WITH."
            )
        return str(statements[0].query).strip().rstrip(";")

    def _sums_of_all(self, text: str, frame: pd.DataFrame) -> tuple[int, dict[str, ColumnSums]]:
        names = [name for name in frame.columns if is_quantity(frame[name])]
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
        parts = [
            f"sum({each}), quantile_disc({each}, 0.5), quantile_disc({each}, 0.99)"
            for each in quoted.values()
        ]
        row = self._connection.execute(
            f"SELECT {', '.join(['count(*)', *parts])} FROM (\n{text}\n)"
        ).fetchall()[0]
        sums = {}
        for index, name in enumerate(names):
            values = [float(each or 0) for each in row[1 + 3 * index : 4 + 3 * index]]
            sums[name] = ColumnSums(*values)
        return int(row[0]), sums

    def _provide(self, text: str) -> None:
        """Make known to DuckDB what a query may name; views and functions bring along what they stand on."""
        for name in sorted(set(_WORD.findall(text.lower()))):
            self._define(name)

    def _define(self, name: str) -> None:
        if name in self._known:
            return
        self._known.add(name)
        if name in VIEWS or name in FUNCTIONS:
            view = VIEWS.get(name) or FUNCTIONS[name]
            self._provide(view.sql)
            is_view = name in VIEWS
            self._execute(f'CREATE TEMP VIEW "{name}" AS {view.sql}' if is_view else view.sql)
        elif name in row_tables():
            self._connection.register(f"_{name}", rows_of(self._analysis, name))
            columns = ", ".join(
                "end_ns - start_ns AS duration_ns" if each.name == "duration_ns" else each.name
                for each in described(name)
            )
            self._execute(f'CREATE TEMP VIEW "{name}" AS SELECT {columns} FROM _{name}')
        elif name in summaries():
            self._connection.register(f"_{name}", summary_of(self._analysis, name))
            self._execute(f'CREATE TEMP VIEW "{name}" AS SELECT * FROM _{name}')

    def _frame(self, text: str, most: int | None) -> pd.DataFrame:
        """The first rows, and one more where there are more.

        Whole numbers stay such however wide or missing they are, lists and structures are what they are in JSON, and
        whatever else is no number is text: pandas knows only some of DuckDB's types.
        """
        found = self._connection.sql(f"SELECT * FROM (\n{text}\n)")
        names, kinds = found.columns, [_kind(each) for each in found.types]
        limit = "" if most is None else f" LIMIT {most + 1}"

        def read(ways: Sequence[str]) -> pd.DataFrame:
            inside = ", ".join(f"c{index}" for index in range(len(names)))
            told = ", ".join(way.format(f"c{index}") + f" AS c{index}" for index, way in enumerate(ways))
            return self._connection.execute(
                f"SELECT {told} FROM (\n{text}\n) AS answer({inside}){limit}"
            ).df()

        ways = [_READ_AS.get(kind, _AS_TEXT) for kind in kinds]
        try:
            frame = read(ways)
        except (self._duckdb.ConversionException, self._duckdb.OutOfRangeException):
            if not any(kind in _WIDER for kind in kinds):
                raise
            frame = read([_AS_TEXT if kind in _WIDER else way for kind, way in zip(kinds, ways, strict=True)])
        for index, kind in enumerate(kinds):
            column = frame.iloc[:, index]
            if kind in _NESTED:
                frame.isetitem(index, _each(_from_json, column).array)
            elif kind in _WIDER and not pd.api.types.is_numeric_dtype(column):
                whole = _each(int, column)
                fits = all(value is None or abs(value) < _WIDEST for value in whole)
                frame.isetitem(index, whole.astype("Int64").array if fits else whole.array)
            elif kind in (*_WIDER, *_WHOLE) and column.dtype == np.float64:
                frame.isetitem(index, column.astype("Int64").array)
        frame.columns = pd.Index(names)
        return frame

    def _execute(self, statement: str) -> None:
        self._connection.execute(statement).fetchall()

    def names(self) -> tuple[str, ...]:
        return (*row_tables(), *summaries(), *VIEWS)

    def columns(self, name: str) -> tuple[str, ...]:
        if name not in VIEWS:
            return tuple(column.name for column in described(name))
        with self._turn:
            self._provide(name)
            found = self._connection.execute(f'SELECT * FROM "{name}" LIMIT 0').df()
            return tuple(found.columns)

    def _interruptible(self, work: Callable[[], T], sql: str, progress: Progress) -> T:
        """Do it in a thread, and interrupt it once the progress is cancelled."""
        result: list[T] = []
        failed: list[BaseException] = []
        done = threading.Event()  # a thread whose join was interrupted is taken for one that has ended

        def run() -> None:
            try:
                with self._limited.held() if self._limited is not None else nullcontext():
                    result.append(work())
            except BaseException as error:
                failed.append(error)
            finally:
                done.set()

        threading.Thread(target=run, name="query", daemon=True).start()
        try:
            while not done.wait(_POLL_S):
                progress.step(0.5, "asking")
        finally:  # cancelled, or interrupted by Ctrl+C
            while not done.wait(_POLL_S):
                self._connection.interrupt()
        if failed:
            if isinstance(failed[0], self._duckdb.Error):
                raise explained(str(failed[0]), sql, self.names()) from None
            if isinstance(failed[0], MemoryError):
                raise MemoryReached from None
            raise failed[0]
        return result[0]


def _kind(type_of_column: Any) -> str:
    """What DuckDB calls a type, without its parts."""
    kind = str(type_of_column.id)
    return "json" if kind == "varchar" and str(type_of_column) == "JSON" else kind


def _each(read: Callable[[str], Any], column: pd.Series[Any]) -> pd.Series[Any]:
    """What each text of a column says, as Python's own values."""
    return pd.Series([None if pd.isna(text) else read(text) for text in column.tolist()], dtype=object)


def _from_json(text: str) -> Any:
    """A value as JSON says it; the text itself where it is nested too deeply to be read."""
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except RecursionError:
        return text


@derived
def database_of(analysis: Analysis) -> Database:
    """The database of a recording, made when somebody asks the first question. Raises ``NoDatabase``."""
    return Database(analysis)
