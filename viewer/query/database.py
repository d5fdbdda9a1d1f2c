"""A recording as a database: read-only, without access to any file, its columns not copied, its queries cancellable."""

from __future__ import annotations

import atexit
import json
import re
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from parsers.model import Progress, derived
from rules.analysis.analysis import Analysis
from viewer.query.errors import NoDatabase, QueryError, explained
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


MOST_ROWS = 10_000
MEMORY = "2GB"
_POLL_S, _PATIENCE_S = 0.02, 2.0
_WIDE = ("HUGEINT", "NUMBER", "UHUGEINT")
_EXACT = 2.0**53
_WORD = re.compile(r"[a-z_]\w*")
_SAFE = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # no variable of this program is a table
    "temp_directory": "",
    "memory_limit": MEMORY,
}
_THEN = (
    "SET enable_progress_bar = false",  # it would be written between the lines of an answer
    "SET lock_configuration = true",
)
T = TypeVar("T")
_OPEN: weakref.WeakSet[Database] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """DuckDB complains of what is still open when the interpreter ends."""
    for database in list(_OPEN):
        database.close()


@dataclass(frozen=True, slots=True)
class ColumnSums:
    """Over all rows of a result, also those that were left out; in the unit of the column."""

    total: float
    median: float
    p99: float


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The first rows, how many there are in all, and sums of the columns of numbers."""

    frame: pd.DataFrame
    rows: int
    seconds: float
    sums: Mapping[str, ColumnSums] = field(default_factory=dict)

    @property
    def cut(self) -> bool:
        """Whether there are more rows than ``frame`` holds."""
        return self.rows > len(self.frame)


class Database:
    """Tables are handed to DuckDB when a query names them; one query runs at a time."""

    def __init__(self, analysis: Analysis) -> None:
        self._of = weakref.ref(analysis)  # which owns this database
        self._turn = threading.Lock()
        self._known: set[str] = set()
        try:
            import duckdb
        except ImportError:
            raise NoDatabase from None
        self._duckdb = duckdb
        self._connection: duckdb.DuckDBPyConnection = duckdb.connect(":memory:", config=dict(_SAFE))
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

    def run(self, sql: str, most: int | None = MOST_ROWS, progress: Progress | None = None) -> Result:
        """Answer one SELECT; at most ``most`` rows of it, with sums over all.

        Raises ``QueryError`` with one sentence, ``Cancelled`` when the progress is cancelled.
        """
        with self._turn:
            begun = time.perf_counter()
            text = self._one_select(sql)
            self._provide(text)
            limit = "" if most is None else f" LIMIT {most + 1}"

            def answer() -> tuple[pd.DataFrame, int, dict[str, ColumnSums]]:
                frame = self._frame(f"SELECT * FROM (\n{text}\n){limit}")
                if most is None or len(frame) <= most:
                    return frame, len(frame), _sums(frame)
                return frame.iloc[:most], *self._sums_of_all(text, frame)

            frame, rows, sums = self._interruptible(answer, sql, progress or Progress())
            return Result(frame, rows, time.perf_counter() - begun, sums)

    def count(self, sql: str, progress: Progress | None = None) -> int:
        """How many rows one SELECT gives; raises like ``run``."""
        with self._turn:
            text = self._one_select(sql)
            self._provide(text)
            return self._interruptible(lambda: self._count(text), sql, progress or Progress())

    def _count(self, text: str) -> int:
        found = self._connection.execute(f"SELECT count(*) FROM (\n{text}\n)").fetchall()
        return int(found[0][0])

    def costliest_condition(self, sql: str, progress: Progress | None = None) -> tuple[str, int] | None:
        """Of a query without rows, the condition without which most rows would be left, and how many.

        None where it has fewer than two conditions joined by AND, or where no single one is to blame.
        """

        with self._turn:
            text = self._one_select(sql)
            found = conditions_of(self._connection, text)
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
            what = "There is no question in this." if not statements else "One question at a time."
            raise QueryError(what, "Write one SELECT.")
        if statements[0].type != self._duckdb.StatementType.SELECT:
            raise QueryError(
                "Only SELECT is answered: nothing is ever written.", "Begin with SELECT or WITH."
            )
        return str(statements[0].query).strip().rstrip(";")

    def _sums_of_all(self, text: str, frame: pd.DataFrame) -> tuple[int, dict[str, ColumnSums]]:
        names = [name for name in frame.columns if _is_quantity(frame[name])]
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
        parts = [
            f"sum({each}), quantile_disc({each}, 0.5), quantile_disc({each}, 0.99)"
            for each in quoted.values()
        ]
        row = self._connection.execute(
            f"SELECT {', '.join(['count(*)', *parts])} FROM (\n{text}\n)"
        ).fetchall()[0]
        sums = {}
        for place, name in enumerate(names):
            values = [float(each or 0) for each in row[1 + 3 * place : 4 + 3 * place]]
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

    def _frame(self, query: str) -> pd.DataFrame:
        """The answer with whole numbers as such: sums of them are wider than pandas knows."""
        pending = self._connection.execute(query)
        types = [str(column[1]) for column in pending.description or ()]
        frame = pending.df()
        for place, kind in enumerate(types):
            column = frame.iloc[:, place]
            if kind in _WIDE and column.dtype == np.float64 and column.abs().max() < _EXACT:
                frame.isetitem(place, column.astype("Int64" if column.hasnans else "int64").array)
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
            raise failed[0]
        return result[0]


def _is_quantity(column: pd.Series[Any]) -> bool:
    """Whether it makes sense to add a column up: numbers that are no ids."""
    return (
        pd.api.types.is_numeric_dtype(column)
        and not pd.api.types.is_bool_dtype(column)
        and str(column.name) not in _IDS
    )


_IDS = frozenset(
    (
        *(
            "event",
            "lane",
            "rank",
            "device",
            "stream",
            "process",
            "thread",
            "launch",
            "operation",
            "next_event",
        ),
        *("depth", "step", "gap", "instance", "start_ns", "end_ns"),
        *("id", "ts", "track_id", "utid", "upid", "tid", "pid", "arg_set_id", "parent_id"),
        *("slice_id", "slice_in", "slice_out"),
    )
)


def _sums(frame: pd.DataFrame) -> dict[str, ColumnSums]:
    """The same from rows that are all there; percentiles are values that occur, as DuckDB's quantile_disc."""
    found = {}
    for name in frame.columns:
        column = frame.loc[:, name]
        if column.ndim > 1 or not _is_quantity(column):  # a name that two columns have
            continue
        values = np.sort(column.dropna().to_numpy(np.float64))
        if len(values):
            at = [int(np.ceil(share * len(values))) - 1 for share in (0.5, 0.99)]
            found[name] = ColumnSums(float(values.sum()), *(float(values[max(each, 0)]) for each in at))
    return found


@derived
def database_of(analysis: Analysis) -> Database:
    """The database of a recording, made when somebody asks the first question. Raises ``NoDatabase``."""
    return Database(analysis)
