"""Whole columns of the tables of a database."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from parsers.model import I64, Effect, Progress, QualityRecorder
from parsers.model.arrays import ABSENT
from parsers.model.late import dataclass
from parsers.sqlite.database import Database, Table, TableDamaged

Columns = Mapping[str, I64]
"""Columns of a table by their names, all of one length."""


@dataclass(slots=True)
class WholeColumns:
    """Reads tables by name and a suffix that all have; a missing column holds ``ABSENT``, a missing table no rows."""

    database: Database
    quality: QualityRecorder
    progress: Progress
    suffix: str = ""

    def table(self, name: str) -> Table | None:
        return self.database.table(name + self.suffix)

    def read(self, name: str, *columns: str) -> Columns:
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

    def number_of(self, name: str) -> int:
        """The number of a table for ``source_row``."""
        table = self.table(name)
        return self.database.number_of(table) if table else 0
