"""A heat map of times: one row a rank, one column a step; a click hands over the step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from parsers.model.arrays import I64
from parsers.model.units import duration
from rules.analysis.idle.causes import Cause
from viewer.look import theme
from viewer.look.labels import tooltip

LABEL_WIDTH, TOP, FOOT = 64, 22, 18
MOST_CELL_HEIGHT, LEAST_CELL_WIDTH_FOR_TEXT = 48, 54
LETTERS = 0.8  # of a line's height; the rest of it is air
LEAST_HEIGHT_FOR_GAPS = 6  # pixels: lower cells touch, or the lines between them are all one sees


class HeatMap(QWidget):
    """Cells get stronger with their value; where there is room the value is written in them, too."""

    step_chosen = Signal(int)

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = title
        self._columns: tuple[str, ...] = ()
        self._rows: tuple[str, ...] = ()
        self._values: I64 = np.empty((0, 0), np.int64)
        self.setMouseTracking(True)
        self.setMinimumSize(200, 90)
        self.setAccessibleName(title)

    def show_values(self, columns: Sequence[str], rows: Sequence[str], values: I64) -> None:
        """``values`` is (columns, rows), ns."""
        self._columns, self._rows, self._values = tuple(columns), tuple(rows), values
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(360, 150)

    def cell(self, column: int, row: int) -> QRectF:
        width = (self.width() - LABEL_WIDTH - 12) / max(len(self._columns), 1)
        height = min((self.height() - TOP - FOOT - 8) / max(len(self._rows), 1), MOST_CELL_HEIGHT)
        return QRectF(LABEL_WIDTH + column * width, TOP + 4 + row * height, width, height)

    def rows_a_name(self, line: int) -> int:
        """Every how many rows one is named, so that names of ``line`` pixels do not overlap; a round number."""
        height = max(self.cell(0, 0).height(), 0.1)
        return next(
            (every for every in (1, 2, 4, 8, 16, 32, 64, 128) if every * height >= LETTERS * line), 256
        )

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.setFont(theme.font(12))
        painter.setPen(colors.text_secondary)
        painter.drawText(QRectF(10, 4, self.width(), TOP), Qt.AlignmentFlag.AlignLeft, self._title)
        most = int(self._values.max()) if self._values.size else 0
        painter.setFont(theme.font(theme.SECONDARY_PX))
        line = painter.fontMetrics().height()
        named_every = self.rows_a_name(line)
        for row, name in enumerate(self._rows):
            place = self.cell(0, row)
            painter.setPen(colors.text)
            if row % named_every == 0:
                label = QRectF(10, place.center().y() - line / 2, LABEL_WIDTH - 12, line)
                painter.drawText(label, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, name)
            gap = 1 if place.height() >= LEAST_HEIGHT_FOR_GAPS else 0
            for column in range(len(self._columns)):
                value = int(self._values[column, row])
                strength = value / most if most else 0.0
                fill = theme.mixed(colors.cause(Cause.SYNCHRONIZATION), colors.strip, strength)
                box = self.cell(column, row).adjusted(1, gap, -1, -gap)
                painter.fillRect(box, fill)
                if box.width() >= LEAST_CELL_WIDTH_FOR_TEXT and place.height() >= LETTERS * line:
                    painter.setPen(theme.text_on(fill))
                    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, duration(value))
        if self._rows:
            self._paint_foot(painter)

    def _paint_foot(self, painter: QPainter) -> None:
        painter.setPen(theme.current().text_secondary)
        metrics = painter.fontMetrics()
        taken = -1.0
        for column, name in enumerate(self._columns):
            place = self.cell(column, len(self._rows) - 1)
            text = name.removeprefix("ProfilerStep#")
            wide = metrics.horizontalAdvance(text)
            left = place.center().x() - wide / 2
            if left > taken and wide <= max(place.width() * 3, 30):
                painter.drawText(
                    QRectF(left, place.bottom() + 2, wide + 2, FOOT), Qt.AlignmentFlag.AlignTop, text
                )
                taken = left + wide + 8

    def _at(self, x: float, y: float) -> tuple[int, int] | None:
        for row in range(len(self._rows)):
            for column in range(len(self._columns)):
                if self.cell(column, row).contains(x, y):
                    return column, row
        return None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        found = self._at(event.position().x(), event.position().y())
        text = ""
        if found is not None:
            column, row = found
            text = f"{self._rows[row]} waited {duration(int(self._values[column, row]))} in {self._columns[column]}"
        self.setToolTip(tooltip(text))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        found = self._at(event.position().x(), event.position().y())
        if found is not None:
            self.step_chosen.emit(found[0])
