"""Columns of the tables of a ROCm database, and the strings they point to."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import field

import numpy as np

from parsers.csv_tables import plain
from parsers.model import F64, I64, Effect, Progress, QualityRecorder
from parsers.model.arrays import ABSENT
from parsers.model.late import dataclass, regex
from parsers.sqlite.database import Database, Table, TableDamaged
from parsers.sqlite.guarded import GuardedConnection, quote
from parsers.sqlite.whole_columns import WholeColumns


@dataclass(slots=True)
class DatabaseRows:
    """``integers`` and ``texts`` of a table by the plain names of its columns, in the order of its rows."""

    database: Database
    table: Table
    quality: QualityRecorder
    progress: Progress
    length: int = 0
    header: tuple[str, ...] = ()
    _titles: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.header = tuple(self.table.columns)
        self._titles = {plain(title): title for title in reversed(self.header)}
        self.length = sum(len(part) for part in self._columns("1", "row"))

    def __contains__(self, name: str) -> bool:
        return name in self._titles

    def _columns(self, sql: str, name: str) -> list[I64]:
        parts: list[I64] = []
        try:
            for batch in self.database.batches(self.table, {name: sql}):
                self.progress.step(0.5, f"reading {self.table.name}")
                parts.append(batch[name].copy())
        except TableDamaged as damage:
            self.quality.note(
                "damaged table",
                Effect.NOTED,
                "A table could not be read to its end.",
                f"{self.table.name}: {damage}",
            )
        return parts

    def _fitted(self, column: I64, missing: int) -> I64:
        """The column with as many rows as the table, where damage cost one some."""
        if len(column) >= self.length:
            return column[: self.length]
        return np.concatenate((column, np.full(self.length - len(column), missing, np.int64)))

    def integers(self, *names: str) -> I64:
        name = next((name for name in names if name in self._titles), "")
        if not name:
            return np.full(self.length, ABSENT, np.int64)
        parts = self._columns(self.table.expression(self._titles[name], ABSENT), "value")
        return self._fitted(np.concatenate([np.empty(0, np.int64), *parts]), ABSENT)

    def numbers(self, name: str) -> F64:
        """A column as float64, as far as it holds integers."""
        values = self.integers(name)
        return np.where(values == ABSENT, np.nan, values)

    def texts(self, *names: str) -> tuple[list[str], I64]:
        name = next((name for name in names if name in self._titles), "")
        if not name:
            return [""], np.zeros(self.length, np.int64)
        cells: dict[str, int] = {}
        parts: list[I64] = []
        sql = f"CAST({quote(self._titles[name])} AS TEXT)"
        try:
            for batch in self.database.batches(self.table, {"text": f"coalesce({sql}, '')"}):
                self.progress.step(0.5, f"reading {self.table.name}")
                coded = batch.text("text").dictionary_encode()
                places = [
                    cells.setdefault(bytes(cell).decode("utf-8", "replace"), len(cells))
                    for cell in coded.dictionary.cast("binary").to_pylist()
                ]
                parts.append(np.array(places, np.int64)[coded.indices.to_numpy()])
        except TableDamaged:
            cells.setdefault("", len(cells))
        which = np.concatenate([np.empty(0, np.int64), *parts])
        return list(cells) or [""], self._fitted(which, cells.get("", 0))


_COPIED = regex(r"\bsizeBytes[(=](\d{1,18})\b")


def bytes_of_copies(database: Database, correlation: I64) -> I64:
    """By the calls of rocprof's HIP table that asked for them, how much copies move; absent where that is not known.

    hipprof has a number as the name of a call, and its name before the arguments.
    """
    sizes: dict[int, int] = {}
    table = database.table("HIP")
    index = next((name for name in ("Index", "_Index") if table is not None and name in table), "")
    if table is not None and index and all(name in table for name in ("Name", "args")):
        columns, calls = f"{quote(index)}, {quote('args')}", quote(table.name)
        with contextlib.suppress(sqlite3.Error):
            for number, said in database.stream(
                f"SELECT {columns} FROM {calls} WHERE {quote('Name')} LIKE 'hipMemcpy%' OR args LIKE 'hipMemcpy%'"
            ):
                if isinstance(number, int) and (found := _COPIED.search(str(said))) is not None:
                    sizes[number] = int(found[1])
    return np.array([sizes.get(number, ABSENT) for number in correlation.tolist()], np.int64)


_NAMES_AT_ONCE = 500
_OF_ONE_PROCESS = regex(r"rocpd_(?:kernel_dispatch|memory_copy|region|sample)(_\w+)")


@dataclass(slots=True)
class DatabaseColumns(WholeColumns):
    """The same, and the texts that rows of a ROCm database point to."""

    _strings: dict[int, str] = field(default_factory=dict)

    def strings(self, ids: Iterable[int]) -> Mapping[int, str]:
        """The texts of these ids of rocpd_string; empty where there is none."""
        missing = sorted(set(ids) - self._strings.keys())
        if (table := self.table("rocpd_string")) is not None:
            for first in range(0, len(missing), _NAMES_AT_ONCE):
                some = missing[first : first + _NAMES_AT_ONCE]
                marks = ",".join("?" * len(some))
                try:
                    rows = self.database.rows(
                        f"SELECT id, string FROM {quote(table.name)} WHERE id IN ({marks})", some
                    )
                except sqlite3.Error:
                    break
                self._strings.update((key, str(text)) for key, text in rows)
        return {each: self._strings.get(each, "") for each in ids}

    def texts(self, name: str, *columns: str) -> list[tuple[object, ...]]:
        """The columns of a small table as they are."""
        return self.database.few(name + self.suffix, *columns)


def arguments_of(database: GuardedConnection, table: str, row: Mapping[str, object]) -> dict[str, object]:
    """One row with the strings that its ``..._id`` columns point to."""
    suffix = match[1] if (match := _OF_ONE_PROCESS.fullmatch(table)) else ""
    strings = quote(f"rocpd_string{suffix}")
    shown: dict[str, object] = {}
    for column, value in row.items():
        if column.endswith("_id") and isinstance(value, int):
            text = database.named(f"SELECT string FROM {strings} WHERE id = ?", (value,))
            if text.get("string"):
                shown[column.removesuffix("_id")] = text["string"]
        else:
            shown[column] = value
    return shown
