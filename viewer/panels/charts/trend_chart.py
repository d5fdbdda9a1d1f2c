"""A chart of the mean step of runs in their order, with the bounds of each; the last may be the open recording."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QMouseEvent, QPainter, QPen

from parsers.model.late import dataclass
from parsers.model.units import duration
from viewer.appearance import theme
from viewer.appearance.painted_chart import TEXT_HEIGHT, PaintedChart
from viewer.appearance.widgets import tooltip

ROOM_OF_LABEL = 70  # pixels that a name needs at least


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """ns; ``note`` is why a slower run was accepted, ``is_open`` marks the recording that is open."""

    label: str
    step_ns: float
    low_ns: float
    high_ns: float
    note: str = ""
    is_open: bool = False


class TrendChart(PaintedChart):
    """From left to right in time; the axis begins at nothing."""

    margins = (64, 18, 16, 34)
    wanted = (500, 200)

    def __init__(self) -> None:
        super().__init__("Step time of each run")
        self.points: tuple[TrendPoint, ...] = ()
        self.setMinimumHeight(120)
        self.setMouseTracking(True)

    def show_points(self, points: Sequence[TrendPoint]) -> None:
        self.points = tuple(points)
        said = "; ".join(f"{each.label} {duration(each.step_ns)}" for each in points)
        self.setAccessibleDescription(said)
        self.update()

    def is_empty(self) -> bool:
        return not self.points

    def place(self, index: int, ns: float) -> QPointF:
        most = max((each.high_ns for each in self.points), default=1.0) or 1.0
        return self.at((index + 0.5) / max(len(self.points), 1), ns / most)

    def draw(self, painter: QPainter) -> None:
        colors = theme.current()
        most = max(each.high_ns for each in self.points)
        self.draw_levels(
            painter, [(part, duration(most * part) if part else "0") for part in (0.0, 0.5, 1.0)]
        )
        painter.setPen(QPen(colors.line_strong, 1, Qt.PenStyle.DashLine))
        places = [self.place(index, each.step_ns) for index, each in enumerate(self.points)]
        painter.drawPolyline(places)
        room = self.room.width() / len(self.points)
        every = max(int(ROOM_OF_LABEL // max(room, 1)) + 1, 1)
        for index, (each, where) in enumerate(zip(self.points, places, strict=True)):
            color = colors.good if each.is_open else colors.error if each.note else colors.accent
            painter.setPen(QPen(color, 1.6))
            painter.drawLine(self.place(index, each.low_ns), self.place(index, each.high_ns))
            painter.setBrush(color)
            painter.drawEllipse(where, 4.0, 4.0)
            painter.setPen(colors.text_secondary)
            if index % every == 0 or index == len(self.points) - 1:
                width = room * every
                label = painter.fontMetrics().elidedText(
                    each.label, Qt.TextElideMode.ElideLeft, int(width) - 6
                )
                foot = QRectF(where.x() - width / 2, self.room.bottom() + 6, width, TEXT_HEIGHT)
                painter.drawText(foot, Qt.AlignmentFlag.AlignCenter, label)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        room = self.room
        index = floor((event.position().x() - room.left()) / room.width() * len(self.points))
        if not 0 <= index < len(self.points):
            self.setToolTip("")
            return
        each = self.points[index]
        lines = [
            each.label,
            f"{duration(each.step_ns)} ({duration(each.low_ns)} to {duration(each.high_ns)})",
        ]
        self.setToolTip(tooltip("\n".join([*lines, *([each.note] if each.note else [])])))
