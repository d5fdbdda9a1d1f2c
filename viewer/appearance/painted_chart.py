"""What charts painted by hand have in common: a name, a size, the room between margins, and levels across it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from viewer.appearance import theme
from viewer.appearance.painted_text import painting
from viewer.appearance.tab_order import CHART

_LEFT, _RIGHT = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight
_RIGHT_MIDDLE = _RIGHT | Qt.AlignmentFlag.AlignVCenter
TEXT_HEIGHT = 16


class PaintedChart(QWidget):
    """``draw`` paints it, in the small font, unless there is nothing to show.

    ``margins`` (left, top, right, foot) and ``wanted`` (width, height) are pixels.
    """

    accessible_role = CHART
    margins: ClassVar[tuple[int, int, int, int]] = (0, 0, 0, 0)
    wanted: ClassVar[tuple[int, int]]
    is_low: ClassVar[bool] = False  # never higher than it wants to be
    is_smooth: ClassVar[bool] = True  # bars have sharp edges instead

    def __init__(self, name: str) -> None:
        super().__init__()
        vertical = QSizePolicy.Policy.Fixed if self.is_low else QSizePolicy.Policy.Expanding
        self.setSizePolicy(QSizePolicy.Policy.Expanding, vertical)
        self.setAccessibleName(name)

    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return False

    def draw(self, painter: QPainter) -> None:
        """Paint what there is."""
        raise NotImplementedError

    def sizeHint(self) -> QSize:
        return QSize(*self.wanted)

    @property
    def room(self) -> QRectF:
        """Where values are drawn; never empty."""
        left, top, right, foot = self.margins
        return QRectF(left, top, max(self.width() - left - right, 1), max(self.height() - top - foot, 1))

    def at(self, across: float, up: float) -> QPointF:
        """The point at these parts of the room, from its left and from its foot."""
        room = self.room
        return QPointF(room.left() + room.width() * across, room.bottom() - room.height() * up)

    def paintEvent(self, _: QPaintEvent) -> None:
        if not self.is_empty():
            with painting(self) as painter:
                painter.setRenderHint(QPainter.RenderHint.Antialiasing, self.is_smooth)
                painter.setFont(theme.font(theme.SECONDARY_PX, tabular=True))
                self.draw(painter)

    def draw_levels(self, painter: QPainter, levels: Iterable[tuple[float, str]]) -> None:
        """Lines across the room, each at a part of its height, and what they stand for at the left."""
        colors, room = theme.current(), self.room
        for up, text in levels:
            y = self.at(0, up).y()
            painter.setPen(QPen(colors.line, 1))
            painter.drawLine(QPointF(room.left(), y), QPointF(room.right(), y))
            painter.setPen(colors.text_secondary)
            beside = QRectF(0, y - TEXT_HEIGHT / 2, room.left() - 8, TEXT_HEIGHT)
            painter.drawText(beside, _RIGHT_MIDDLE, text)

    def draw_ends(self, painter: QPainter, first: str, last: str) -> None:
        """What the left and the right end of the room stand for, below it."""
        room = self.room
        painter.setPen(theme.current().text_secondary)
        below = QRectF(room.left(), room.bottom() + 3, room.width(), TEXT_HEIGHT)
        painter.drawText(below, _LEFT, first)
        painter.drawText(below, _RIGHT, last)
