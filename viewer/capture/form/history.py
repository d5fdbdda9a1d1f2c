"""The part of the capture dialog that lists earlier recordings: open them, use their settings, read their output."""

from __future__ import annotations

import time
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QPlainTextEdit,
    QSplitter,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from viewer.appearance.painted_chart import RowDelegate
from viewer.appearance.widgets import NO_MARGINS, SPRING, fill, push_button, vertical
from viewer.capture.storage import History, Run

COLUMNS = ("When", "Tool", "Program", "Result", "Took")
SHOWN_OUTPUT = 400_000


class HistoryView(QWidget):
    """Runs, newest first; ``open_wanted`` carries paths, ``reuse_wanted`` a request."""

    open_wanted = Signal(list)
    reuse_wanted = Signal(object)

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history
        self._runs: list[Run] = []
        self.table = QTableWidget(0, len(COLUMNS))
        self.table.setHorizontalHeaderLabels(COLUMNS)
        self.table.verticalHeader().hide()
        self.table.setShowGrid(False)
        self.table.setItemDelegate(RowDelegate(self.table))
        self.table.setAccessibleName("Earlier recordings")
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.table.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.table.horizontalHeader().setSectionResizeMode(3, QHeaderView.ResizeMode.Stretch)
        self.output = QPlainTextEdit()
        self.output.setReadOnly(True)
        self.output.setAccessibleName("Output of the selected run")
        self.output.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.output.setPlaceholderText("The output of the selected run")
        self.open = push_button("Open recording", self._open)
        self.reuse = push_button("Use these settings", self._reuse)
        self._lay_out()
        self.table.itemSelectionChanged.connect(self._selected)
        self.table.itemDoubleClicked.connect(lambda _: self._open())
        self._selected()

    def refresh(self) -> None:
        self._runs = self._history.runs()
        self.table.setRowCount(len(self._runs))
        for row, run in enumerate(self._runs):
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started))
            result = run.problem or ", ".join(path.name for path in run.recordings) or "did not end"
            took = f"{run.elapsed_s:.0f} s" if run.elapsed_s else ""
            for column, text in enumerate(
                (when, run.request.tool.title, run.request.target.name, result, took)
            ):
                self.table.setItem(row, column, QTableWidgetItem(text))
        self._selected()

    def _run(self) -> Run | None:
        row = self.table.currentRow()
        return self._runs[row] if self.table.selectedItems() and 0 <= row < len(self._runs) else None

    def _selected(self) -> None:
        run = self._run()
        self.reuse.setEnabled(run is not None)
        self.open.setEnabled(run is not None and any(path.exists() for path in run.recordings))
        self.output.setPlainText(_end_of(run.log) if run is not None else "")

    def _open(self) -> None:
        run = self._run()
        paths = [path for path in run.recordings if path.exists()] if run is not None else []
        if paths:
            self.open_wanted.emit(paths)

    def _reuse(self) -> None:
        run = self._run()
        if run is not None:
            self.reuse_wanted.emit(run.request)

    def _lay_out(self) -> None:
        split = QSplitter(Qt.Orientation.Vertical)
        split.addWidget(self.table)
        split.addWidget(self.output)
        split.setSizes([260, 180])
        row = fill(QHBoxLayout(), SPRING, self.reuse, self.open)
        fill(vertical(self, NO_MARGINS, 8), (split, 1), row)


def _end_of(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - SHOWN_OUTPUT))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
