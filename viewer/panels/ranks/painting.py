"""What a map of ranks is painted with: its colours, and callouts, two lines in a box that covers no worst cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen

from parsers.model.arrays import F64, I64
from parsers.model.late import dataclass
from viewer.appearance import theme

MARGIN, AWAY = 10, 22
TALL = 44


@dataclass(frozen=True, slots=True, eq=False)
class Callout:
    """What stands out, and why; ``rows`` and ``steps`` (indices) are the cells it speaks of."""

    title: str
    reason: str
    rows: I64
    steps: I64


def placed(
    callouts: Sequence[Callout], boxes: Sequence[QRectF | None], plot: QRectF, widths: Sequence[float]
) -> list[tuple[Callout, QRectF, QRectF]]:
    """Each callout that is in view and has room, the box it speaks of, and where its text, as wide as it is, stands."""
    found: list[tuple[Callout, QRectF, QRectF]] = []
    taken = [box for box in boxes if box is not None and box.height() < plot.height() / 2]
    listed = [
        (box, callout, wide)
        for box, callout, wide in zip(boxes, callouts, widths, strict=True)
        if box is not None
    ]
    for box, callout, wide in sorted(listed, key=lambda each: each[0].height()):  # low ones have least room
        for place in _places(box, plot, min(wide + 2 * MARGIN + 4, plot.width() - 8)):
            if not any(place.intersects(other) for other in taken):
                found.append((callout, box, place))
                taken.append(place)
                break
    return found


def _places(box: QRectF, plot: QRectF, wide: float) -> Iterator[QRectF]:
    """Above and below the box, then further away, each at some places along it, the middle first."""
    for away in range(AWAY, round(plot.height()), AWAY // 2):
        for top in (box.top() - away - TALL, box.bottom() + away):
            for share in (0.5, 0.25, 0.75, 0.0, 1.0, -0.3, 1.3):
                left = box.left() + share * box.width() - wide / 2
                left = min(max(left, plot.left() + 4), plot.right() - wide - 4)
                place = QRectF(left, top, wide, TALL)
                if plot.contains(place):
                    yield place


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
