"""The results tab: what benchmarks and summaries state that were opened with the recording."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QComboBox

from parsers.model.results import Cell, ResultTable
from viewer.panels.panel import Panel, tab
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView

AS_STATED = "As the opened result states it"


@tab
class ResultsPanel(Panel):
    """One table at a time; where several were opened, a list says which."""

    title = "Results"
    lacks = "No results were opened. Open those of a benchmark together with the recording."
    order = 95

    def build(self) -> None:
        self.choice = QComboBox()
        self.choice.setAccessibleName("Table of results")
        self.choice.currentIndexChanged.connect(self._show_chosen)
        self.column.addWidget(self.choice)
        self.table: TableView | None = None

    def has_data(self) -> bool:
        trace = self.document.trace
        return trace is not None and bool(trace.tables)

    def refresh(self) -> None:
        trace = self.document.trace
        if trace is None:
            return
        self.choice.blockSignals(True)
        self.choice.clear()
        self.choice.addItems([table.title for table in trace.tables])
        self.choice.setVisible(len(trace.tables) > 1)
        self.choice.blockSignals(False)
        self._show_chosen(self.choice.currentIndex())

    def _show_chosen(self, index: int) -> None:
        trace = self.document.trace
        if trace is None or not 0 <= index < len(trace.tables):
            return
        if self.table is not None:
            self.column.removeWidget(self.table)
            self.table.deleteLater()
        self.table = _view_of(trace.tables[index])
        self.tables = (self.table,)
        self.column.addWidget(self.table)
        self.tables_shown.emit()


def _shown(cells: Sequence[Cell]) -> Show:
    if any(isinstance(cell, str) for cell in cells):
        return Show.TEXT
    whole = all(cell.is_integer() for cell in cells if isinstance(cell, float))
    return Show.COUNT if whole else Show.NUMBER


def _view_of(table: ResultTable) -> TableView:
    import pandas as pd

    cells = [[row[index] for row in table.rows] for index in range(len(table.columns))]
    columns = tuple(
        Column(str(index), column.title, _shown(cells[index]), AS_STATED)
        for index, column in enumerate(table.columns)
    )
    view = TableView(columns, table.title)
    view.set_frame(
        pd.DataFrame(
            {
                column.key: [cell or "" for cell in own] if column.show is Show.TEXT else own
                for column, own in zip(columns, cells, strict=True)
            }
        )
    )
    return view
