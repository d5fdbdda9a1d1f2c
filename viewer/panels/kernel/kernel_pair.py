"""Two profiled launches side by side: what limits each, the counters that differ, and both under the roofline."""

from __future__ import annotations

import pandas as pd
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QVBoxLayout, QWidget

from parsers.model import KernelProfile
from parsers.model.names.kernels import kernel_name
from parsers.model.units import three_digits
from rules.comparison.kernels import KernelComparison, Row, compare_kernels
from rules.kernels.checks.speed_of_light import speed_of_light
from viewer.look import theme
from viewer.look.labels import ElidedLabel, Label
from viewer.panels.charts.roofline import RooflinePlot
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView

COLUMNS = (
    Column("label", "Counter"),
    Column("before", "First", Show.FIGURE, width=110),
    Column("after", "Second", Show.FIGURE, width=110),
    Column("told", "Change", Show.FIGURE, width=110, tone="tone"),
)


class KernelPair(QWidget):
    """Shows nothing until ``show_pair``."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.comparison: KernelComparison | None = None
        self.headings = (
            ElidedLabel("", weight=QFont.Weight.DemiBold),
            ElidedLabel("", weight=QFont.Weight.DemiBold),
        )
        self.why = Label("", "secondary", wrap=True)
        self.table = TableView(COLUMNS, "Counters side by side")
        self.roofline = RooflinePlot()
        left = QWidget()
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 8, 0, 0)
        column.setSpacing(4)
        head = QVBoxLayout()
        head.setContentsMargins(12, 0, 12, 4)
        head.setSpacing(3)
        for name, heading in zip(("First", "Second"), self.headings, strict=True):
            line = QHBoxLayout()
            line.addWidget(Label(name, "secondary"))
            line.addWidget(heading, 1)
            head.addLayout(line)
        head.addWidget(self.why)
        column.addLayout(head)
        column.addWidget(self.table, 1)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(left)
        split.addWidget(self.roofline)
        split.setStretchFactor(0, 3)
        split.setStretchFactor(1, 2)
        split.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(split)
        theme.changed.connect(self.table.viewport().update)

    def show_pair(self, before: KernelProfile, after: KernelProfile) -> None:
        """Set these two beside each other."""
        self.comparison = compare_kernels(before, after)
        for heading, kernel in zip(self.headings, (before, after), strict=True):
            limit = speed_of_light(kernel)
            bound = f": {limit.bound.value}" if limit is not None else ""
            heading.setText(f"{kernel_name(kernel.name)}{bound}")
        self.why.setText(self.comparison.why)
        rows = [
            (row.label, row.before_text, row.after_text, *_told(row))
            for row in sorted(self.comparison.rows, key=lambda row: not row.is_noticeable)
        ]
        self.table.set_frame(pd.DataFrame(rows, columns=["label", "before", "after", "told", "tone"]))
        self.roofline.show_kernels([before, after])
        self.roofline.mark(1)


def _told(row: Row) -> tuple[str, int]:
    """The change with sign and arrow; 0 where it is small, or neither direction is better."""
    if row.change is None:
        return "", 0
    unit = " points" if row.unit == "%" else " %"
    amount = abs(row.change) * (1 if row.unit == "%" else 100)
    sign = "−" if row.change < 0 else "+"
    if not row.is_noticeable:
        return "same", 0
    tone = 0 if row.lower_is_better is None else -1 if (row.change < 0) == row.lower_is_better else 1
    arrow = "" if not tone else "▼ " if row.change < 0 else "▲ "
    return f"{arrow}{sign}{three_digits(amount)}{unit}", tone
