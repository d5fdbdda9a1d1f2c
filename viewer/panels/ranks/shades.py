"""The colours of a map of ranks: from sound to worst, of what is not known, and of the ranks that are compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen

from parsers.model.arrays import F64
from viewer.appearance import theme

MIN_WIDTH_FOR_TEXT = 54  # pixels of a cell
UNKNOWN = 255  # the number of the colour of cells of which nothing is known


def shades(colors: theme.Theme) -> list[QColor]:
    """256 colours from sound to worst; the last one is for what is not known."""
    hot, middle = QColor("#ffe9b0" if colors.dark else "#7a1408"), QColor("#e4572e")
    low = theme.mixed(middle, colors.strip, 0.35)
    stops = [(0.0, colors.strip), (0.3, low), (0.65, middle), (1.0, hot)]
    found = []
    for number in range(UNKNOWN):
        share = number / (UNKNOWN - 1)
        upper = next(index for index, stop in enumerate(stops) if index and share <= stop[0])
        (low_at, one), (high_at, other) = stops[upper - 1], stops[upper]
        found.append(theme.mixed(other, one, (share - low_at) / (high_at - low_at)))
    return [*found, colors.line_strong]


def compared_color(number: int) -> QColor:
    """What marks the slowest, the typical and the selected rank, here and beside their timelines."""
    colors = theme.current()
    return (colors.error, colors.grey, colors.accent)[number] if number < 3 else colors.named(number)


def picture(shade: F64) -> QImage:
    """A pixel for each cell of ``shade`` (rows, columns; 0 to 1, not a number where nothing is known)."""
    number = np.where(np.isnan(shade), UNKNOWN, np.nan_to_num(shade) * (UNKNOWN - 1)).astype(np.uint8)
    tall, wide = number.shape
    padded = np.zeros((tall, -(-wide // 4) * 4), np.uint8)  # QImage wants rows of whole words
    padded[:, :wide] = number
    image = QImage(padded.tobytes(), wide, tall, padded.shape[1], QImage.Format.Format_Indexed8).copy()
    image.setColorTable([color.rgb() for color in shades(theme.current())])
    return image


def write_values(
    painter: QPainter, plot: QRectF, values: F64, shade: F64, said: Callable[[float], str]
) -> None:
    """Each cell's value in it, where there is room for all of them."""
    tall, wide = plot.height() / max(values.shape[0], 1), plot.width() / max(values.shape[1], 1)
    painter.setFont(theme.font(theme.SECONDARY_PX))
    if wide < MIN_WIDTH_FOR_TEXT or tall < painter.fontMetrics().height():
        return
    colors = shades(theme.current())
    for row, column in np.argwhere(np.isfinite(shade)).tolist():
        painter.setPen(theme.text_on(colors[int(shade[row, column] * (UNKNOWN - 1))]))
        box = QRectF(plot.left() + column * wide, plot.top() + row * tall, wide, tall)
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, said(float(values[row, column])))


def mark_cell(painter: QPainter, plot: QRectF, box: QRectF) -> None:
    """A mark on a cell, and lines to it along its row and its step; around them where figures stand in the cells."""
    accent, wide = theme.current().accent, box.width() >= MIN_WIDTH_FOR_TEXT
    painter.setPen(QPen(accent, 1, Qt.PenStyle.DashLine))
    for y in (box.top() - 1, box.bottom() + 1):
        painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
    for x in (box.left(), box.right()) if wide else (box.center().x(),):
        painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()))
    painter.setPen(QPen(accent, 2.4 if wide else 1.6))
    painter.setBrush(Qt.BrushStyle.NoBrush if wide else theme.current().window)
    painter.drawRect(box if wide else QRectF(box.center().x() - 4, box.center().y() - 4, 8, 8))
