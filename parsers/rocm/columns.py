"""Columns of the tables of a ROCm database, and the strings they point to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import field

from parsers.model.late.dataclass import dataclass
from parsers.model.late.regex import regex
from parsers.sqlite.guarded import GuardedConnection, quote
from parsers.sqlite.whole_columns import WholeColumns

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
