"""Whole columns of the tables of a ROCm database, and the strings they point to."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from parsers.model import I64, Effect, Progress, QualityRecorder
from parsers.sqlite.database import ABSENT, Database, Table, TableDamaged
from parsers.sqlite.guarded import GuardedConnection, quote

_NAMES_IN_ONE_QUERY = 500
_OF_ONE_PROCESS = re.compile(r"rocpd_(?:kernel_dispatch|memory_copy|region|sample)(_\w+)")


@dataclass(slots=True)
class DatabaseColumns:
    """Reads tables by name and a suffix that all have; a missing column holds ``ABSENT``, a missing table no rows."""

    database: Database
    quality: QualityRecorder
    progress: Progress
    suffix: str = ""
    _strings: dict[int, str] = field(default_factory=dict)

    def table(self, name: str) -> Table | None:
        return self.database.table(name + self.suffix)

    def read(self, name: str, *columns: str) -> Mapping[str, I64]:
        """The columns of every row, and its rowid as "row"."""
        table = self.table(name)
        parts: dict[str, list[I64]] = {column: [np.empty(0, np.int64)] for column in ("row", *columns)}
        if table is None:
            return {column: values[0] for column, values in parts.items()}
        wanted = {"row": table.rowid, **{column: table.expression(column, ABSENT) for column in columns}}
        try:
            for batch in self.database.batches(table, wanted):
                self.progress.step(0.4, f"reading {name}")
                for column, values in parts.items():
                    values.append(batch[column].copy())
        except TableDamaged as damage:
            self.quality.note(
                "damaged table", Effect.NOTED, "A table could not be read to its end.", f"{name}: {damage}"
            )
        return {column: np.concatenate(values) for column, values in parts.items()}

    def strings(self, ids: Iterable[int]) -> Mapping[int, str]:
        """The texts of these ids of rocpd_string; empty where there is none."""
        missing = sorted(set(ids) - self._strings.keys())
        if (table := self.table("rocpd_string")) is not None:
            for first in range(0, len(missing), _NAMES_IN_ONE_QUERY):
                some = missing[first : first + _NAMES_IN_ONE_QUERY]
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

    def number_of(self, name: str) -> int:
        """The number of a table for ``source_row``."""
        table = self.table(name)
        return self.database.number_of(table) if table else 0


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
