"""A tab that is one table."""

from __future__ import annotations

from viewer.panels.panel import Panel
from viewer.panels.tables.table_model import Column
from viewer.panels.tables.table_view import TableView


class TablePanel(Panel):
    """Shows ``columns`` under its own title; one with more around the table puts it there itself."""

    columns: tuple[Column, ...]

    def build(self) -> None:
        self.table = TableView(self.columns, self.title)
        self.tables = (self.table,)
        self.column.addWidget(self.table)
