"""The tabs below the timelines: steps, kernels and findings side by side, then one table each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QSplitter, QTabWidget, QWidget

from viewer.appearance.boxes import fill, horizontal, vertical
from viewer.appearance.labels import ElidedLabel, Label
from viewer.comparison import tables
from viewer.comparison.finding_list import FindingList
from viewer.comparison.step_dots import StepDots
from viewer.panels.tables.table_view import ROW_HEIGHT, TableView

if TYPE_CHECKING:
    from rules.comparison.compare import Comparison
    from rules.comparison.kernel_rows import KernelChange


ROOM_FOR_THREE = 1150  # pixels: for steps, kernels and findings beside one another


class Details(QTabWidget):
    """``row_chosen`` gets the place of a row of kernels, ``finding_chosen`` a FindingChange."""

    row_chosen = Signal(int)
    finding_chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setDocumentMode(True)
        self.tabBar().setAccessibleName("What changed")
        self.measures = TableView(tables.MEASURES, "Steps")
        self.dots = StepDots()
        self.kernels = TableView(tables.KERNELS, "Kernels")
        self.findings = FindingList()
        self.kernels.chosen.connect(self.row_chosen)
        self.findings.chosen.connect(self.finding_chosen)
        self._measured = Label("", pixels=13, weight=QFont.Weight.DemiBold)
        self._about_steps = ElidedLabel("", "secondary", pixels=12)
        self._about_findings = ElidedLabel("", "secondary", pixels=12)
        self._further: list[QWidget] = []
        self.wanted = ""  # the full name of a kernel of the first recording whose row is to be marked
        self.addTab(self._side_by_side(), "Side by side")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_findings()

    def _place_findings(self) -> None:
        """Beside the kernels, or where their names would be cut for it, in a tab of their own."""
        apart = self.width() < ROOM_FOR_THREE
        if apart == (self.indexOf(self._found) >= 0):
            return
        if apart:
            self.insertTab(1, self._found, "Findings")
        else:
            self.removeTab(self.indexOf(self._found))
            self._split.addWidget(self._found)
            self._found.show()

    def _side_by_side(self) -> QWidget:
        split = self._split = QSplitter(Qt.Orientation.Horizontal)
        steps = self._titled(self._measured, self._about_steps, self.measures, self.dots)
        said = ElidedLabel(
            "by name, or failing that by operator, shapes and place in the step", "secondary", pixels=12
        )
        middle, third = (
            Label(title, pixels=13, weight=QFont.Weight.DemiBold)
            for title in ("Kernels matched across", "Findings")
        )
        self._matched = self._titled(middle, said, self.kernels)
        self._found = self._titled(third, self._about_findings, self.findings)
        for index, (widget, least) in enumerate(((steps, 350), (self._matched, 405), (self._found, 195))):
            split.addWidget(widget)
            widget.setMinimumWidth(least)
            split.setStretchFactor(index, 3 if widget is self._matched else 1)
        split.setSizes([445, 625, 310])
        split.setChildrenCollapsible(False)
        return split

    @staticmethod
    def _titled(title: QWidget, about: QWidget, *widgets: QWidget) -> QWidget:
        box = QWidget()
        column = vertical(box, (0, 6, 0, 0), 4)
        line = fill(horizontal(margins=(12, 0, 10, 0), spacing=10), title, (about, 1))
        column.addLayout(line)
        for widget in widgets:
            column.addWidget(widget, 100 if widget is widgets[0] else 0)
        column.addStretch(1)
        return box

    def show_result(self, result: Comparison, rows: Sequence[KernelChange], prepared: tables.Tables) -> None:
        self._measured.setText("Memory" if result.of_memory else "Steps")
        without_gpu = result.sides is not None and not any(side.gpus for side in result.sides)
        self._matched.setVisible(not result.of_memory and not without_gpu)
        self._fill_measures(result, prepared)
        self.show_kernels(rows)
        self.findings.show_findings(result.findings, tables.finding_costs(result), result.cautions)
        self._about_findings.setText(_counted([each.change.value for each in result.findings]))
        for widget in self._further:
            self.removeTab(self.indexOf(widget))
            widget.deleteLater()
        self._further = []
        for title, columns, frame in prepared.further:
            table = TableView(columns, title)
            table.set_frame(frame)
            self.addTab(table, title)
            self._further.append(table)

    def show_kernels(self, rows: Sequence[KernelChange]) -> None:
        self.kernels.set_frame(tables.kernels(rows))
        marked = [row for row, each in enumerate(rows) if self.wanted in (each.name, *each.before)]
        if self.wanted and marked:
            self.kernels.select_frame_row(marked[0])

    def _fill_measures(self, result: Comparison, prepared: tables.Tables) -> None:
        self.measures.set_frame(prepared.measures)
        header = self.measures.horizontalHeader().sizeHint().height()
        self.measures.setMaximumHeight(header + ROW_HEIGHT * len(prepared.measures) + 2)
        ratio = result.judgement.ratio
        self.dots.setVisible(ratio is not None)
        if ratio is not None:
            self.dots.show_times(ratio.before, ratio.after)
            self._about_steps.setText("each step a dot, the mean a line; 95 % intervals")
        else:
            self._about_steps.setText("" if result.of_memory else result.judgement.reason)


def _counted(words: Sequence[str]) -> str:
    return ", ".join(f"{words.count(each)} {each}" for each in dict.fromkeys(words)) or "nothing significant"
