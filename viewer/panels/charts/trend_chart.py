"""A chart of the mean step of runs in their order, with the bounds of each; the last may be the open recording."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from parsers.model.late.dataclass import dataclass
from parsers.model.units import duration
from viewer.look import theme
from viewer.look.labels import tooltip

LEFT, RIGHT, TOP, FOOT = 64, 16, 18, 34
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


class TrendChart(QWidget):
    """From left to right in time; the axis begins at nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.points: tuple[TrendPoint, ...] = ()
        self.setMinimumHeight(120)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMouseTracking(True)

    def show_points(self, points: Sequence[TrendPoint]) -> None:
        self.points = tuple(points)
        said = "; ".join(f"{each.label} {duration(each.step_ns)}" for each in points)
        self.setAccessibleName("Step time of each run")
        self.setAccessibleDescription(said)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(500, 200)

    def place(self, index: int, ns: float) -> QPointF:
        most = max((each.high_ns for each in self.points), default=1.0) or 1.0
        room = max(self.width() - LEFT - RIGHT, 1) / max(len(self.points), 1)
        height = max(self.height() - TOP - FOOT, 1)
        return QPointF(LEFT + (index + 0.5) * room, TOP + height * (1 - ns / most))

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(theme.font(theme.SECONDARY_PX, tabular=True))
        if not self.points:
            return
        most = max(each.high_ns for each in self.points)
        right_middle = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for part in (0.0, 0.5, 1.0):
            y = self.place(0, most * part).y()
            painter.setPen(QPen(colors.line, 1))
            painter.drawLine(QPointF(LEFT, y), QPointF(self.width() - RIGHT, y))
            painter.setPen(colors.text_secondary)
            painter.drawText(
                QRectF(0, y - 8, LEFT - 8, 16), right_middle, duration(most * part) if part else "0"
            )
        painter.setPen(QPen(colors.line_strong, 1, Qt.PenStyle.DashLine))
        places = [self.place(index, each.step_ns) for index, each in enumerate(self.points)]
        painter.drawPolyline(places)
        room = (self.width() - LEFT - RIGHT) / len(self.points)
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
                foot = QRectF(where.x() - width / 2, self.height() - FOOT + 6, width, 16)
                painter.drawText(foot, Qt.AlignmentFlag.AlignCenter, label)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        room = max(self.width() - LEFT - RIGHT, 1) / max(len(self.points), 1)
        index = int((event.position().x() - LEFT) // room)
        if not 0 <= index < len(self.points):
            self.setToolTip("")
            return
        each = self.points[index]
        lines = [
            each.label,
            f"{duration(each.step_ns)} ({duration(each.low_ns)} to {duration(each.high_ns)})",
        ]
        self.setToolTip(tooltip("\n".join([*lines, *([each.note] if each.note else [])])))
