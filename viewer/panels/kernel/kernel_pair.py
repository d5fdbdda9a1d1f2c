"""Two profiled launches side by side: what limits each, the counters that differ, and both under the roofline."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QSplitter, QWidget

from parsers.model import KernelProfile
from parsers.model.names.kernels import kernel_name
from parsers.model.units import three_digits
from rules.comparison.kernels import KernelComparison, Row, compare_kernels
from rules.kernels.checks.speed_of_light import VERDICTS, speed_of_light
from viewer.appearance import theme
from viewer.appearance.widgets import NO_MARGINS, ElidedLabel, Label, fill, vertical
from viewer.panels.charts.roofline import RooflinePlot
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import TableView

HEAD_WIDTH = 250  # beside the table
COLUMNS = (
    Column("label", "Counter"),
    Column("before", "First", Show.FIGURE),
    Column("after", "Second", Show.FIGURE),
    Column("told", "Change", Show.FIGURE, tone="tone", order="change"),
)


class SideBySide(QWidget):
    """Shows nothing until ``show_rows``."""

    def __init__(self, *, low: bool = False) -> None:
        """``low``: for a place that is wide and low, with the names beside the table and not above it."""
        super().__init__()
        self.headings = tuple(
            ElidedLabel("", weight=QFont.Weight.DemiBold, mode=Qt.TextElideMode.ElideMiddle) for _ in range(2)
        )
        self.limits = (Label("", "secondary", wrap=True), Label("", "secondary", wrap=True))
        self.why = Label("", "secondary", wrap=True)
        self.table = TableView(COLUMNS, "Counters side by side")
        head = QWidget()
        lines = vertical(head, (12, 8 if low else 0, 12, 4), 3)
        for name, heading, limit in zip(("First", "Second"), self.headings, self.limits, strict=True):
            line = fill(QHBoxLayout(), Label(name, "secondary"), (heading, 1))
            fill(lines, line, limit)
        lines.addWidget(self.why)
        direction = QBoxLayout.Direction.LeftToRight if low else QBoxLayout.Direction.TopToBottom
        layout = QBoxLayout(direction, self)
        layout.setContentsMargins(0, 0 if low else 8, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(head)
        layout.addWidget(self.table, 1)
        if low:
            lines.addStretch(1)
            head.setFixedWidth(HEAD_WIDTH)
        theme.changed.connect(self.table.viewport().update)

    def show_rows(self, names: Sequence[str], limits: Sequence[str], why: str, rows: Sequence[Row]) -> None:
        """Two names, what limits each (may be empty), and the rows: those that differ first."""
        for heading, name, told, limit in zip(self.headings, names, self.limits, limits, strict=True):
            heading.setText(name)
            told.setText(limit)
            told.setVisible(bool(limit))
        self.why.setText(why)
        shown = [
            (row.label, row.before_text, row.after_text, *_told(row), row.change)
            for row in sorted(rows, key=lambda row: not row.is_noticeable)
        ]
        self.table.set_frame(
            pd.DataFrame(shown, columns=["label", "before", "after", "told", "tone", "change"])
        )


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


MIN_SIDES = 420  # px: every column of the table can be seen


class KernelPair(QWidget):
    """Shows nothing until ``show_pair``."""

    def __init__(self) -> None:
        super().__init__()
        self.comparison: KernelComparison | None = None
        self.sides = SideBySide()
        self.sides.setMinimumWidth(MIN_SIDES)
        self.roofline = RooflinePlot()
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(self.sides)
        split.addWidget(self.roofline)
        split.setStretchFactor(0, 3)
        split.setStretchFactor(1, 2)
        split.setChildrenCollapsible(False)
        fill(vertical(self, NO_MARGINS), split)

    def show_pair(self, before: KernelProfile, after: KernelProfile) -> None:
        self.comparison = compare_kernels(before, after)
        limits = [speed_of_light(kernel) for kernel in (before, after)]
        self.sides.show_rows(
            [kernel_name(kernel.name) for kernel in (before, after)],
            [VERDICTS[limit.bound] if limit is not None else "" for limit in limits],
            self.comparison.why,
            self.comparison.rows,
        )
        self.roofline.show_kernels([before, after])
        self.roofline.mark(1)
