"""A curve in steps: what would come of each value of one thing, and where the value of now lies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from parsers.model.arrays import F64
from viewer.look import theme
from viewer.look.roles import CHART

HEIGHT = 132
LEFT, RIGHT, TOP, BOTTOM = 34, 14, 26, 20  # pixels around the curve


class StepCurve(QWidget):
    """Shows ``title``, and below it values from 0 to ``full``."""

    accessible_role = CHART

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = title
        self._x: F64 = np.zeros(0)
        self._y: F64 = np.zeros(0)
        self._full = 1.0
        self.now: tuple[float, float] | None = None
        self.setAccessibleName(title)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        return QSize(260, HEIGHT)

    def show_curve(
        self, points: Sequence[tuple[float, float]], full: float, now: float | None, told: str
    ) -> None:
        """``points`` in the order of x; ``now`` is the x of today, ``told`` what that means in words."""
        self._x, self._y = (np.array([point[side] for point in points], float) for side in (0, 1))
        self._full = max(full, 1.0)
        place = (
            int(np.searchsorted(self._x, now, side="right")) - 1 if now is not None and len(points) else -1
        )
        self.now = (float(now), float(self._y[place])) if now is not None and place >= 0 else None
        self.setAccessibleDescription(told)
        self.setToolTip("")
        self.update()

    def paintEvent(self, _: QPaintEvent) -> None:
        if not len(self._x):
            return
        painter, colors = QPainter(self), theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area = QRectF(LEFT, TOP, self.width() - LEFT - RIGHT, self.height() - TOP - BOTTOM)
        span = max(float(self._x[-1] - self._x[0]), 1.0)
        x = area.left() + (self._x - self._x[0]) / span * area.width()
        y = area.bottom() - self._y / self._full * area.height()
        painter.setPen(colors.text)
        painter.setFont(theme.font(12, QFont.Weight.DemiBold))
        painter.drawText(QPointF(0, 14), self._title)
        painter.setPen(QPen(colors.line, 1))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        corners = [QPointF(area.left(), area.bottom())]
        for number in range(len(x)):
            corners += [QPointF(x[number], y[max(number - 1, 0)]), QPointF(x[number], y[number])]
        corners.append(QPointF(x[-1], area.bottom()))
        fill = QColor(colors.accent)
        fill.setAlpha(60)
        painter.setPen(QPen(colors.accent, 1.4))
        painter.setBrush(fill)
        painter.drawPolygon(QPolygonF(corners))
        painter.setPen(colors.text_secondary)
        painter.setFont(theme.font(theme.SECONDARY_PX, tabular=True))
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for value in (0.0, self._full):
            level = area.bottom() - value / self._full * area.height()
            painter.drawText(QRectF(0, level - 8, LEFT - 6, 16), right, f"{value:.0f}")
        painter.drawText(
            QRectF(area.left(), area.bottom() + 3, 80, 16), Qt.AlignmentFlag.AlignLeft, f"{self._x[0]:,.0f}"
        )
        painter.drawText(
            QRectF(area.right() - 80, area.bottom() + 3, 80, 16),
            Qt.AlignmentFlag.AlignRight,
            f"{self._x[-1]:,.0f}",
        )
        self._draw_now(painter, area, span)

    def _draw_now(self, painter: QPainter, area: QRectF, span: float) -> None:
        if self.now is None:
            return
        colors, (value, level) = theme.current(), self.now
        at = area.left() + (value - float(self._x[0])) / span * area.width()
        top = area.bottom() - level / self._full * area.height()
        painter.setPen(QPen(colors.text, 1, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(at, area.bottom()), QPointF(at, area.top()))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.text)
        painter.drawEllipse(QPointF(at, top), 4, 4)
        painter.setPen(colors.text)
        painter.drawText(
            QRectF(0, 2, self.width() - RIGHT, 16),
            Qt.AlignmentFlag.AlignRight,
            f"now {value:,.0f}: {level:.0f} warps",
        )
