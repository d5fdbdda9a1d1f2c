"""The boxes in wide gaps: what the GPU waits for, who is to blame, how long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFont, QPainter, QPen

from parsers.model.units import duration
from rules.analysis.causes import Cause, IdleTable
from viewer import theme
from viewer.timeline.geometry.columns import Columns
from viewer.timeline.geometry.naming import kernel_name
from viewer.timeline.geometry.row_index import Row
from viewer.timeline.labels import TextCache

MOST = 40
PADDING = 9.0
LONGEST_CULPRIT = 220.0


@dataclass(frozen=True, slots=True)
class _Label:
    area: QRectF  # the visible part of the gap
    cause: Cause
    culprit: str
    time: str


class GapLabels:
    """Collects the labels of one frame, then draws them over everything else."""

    def __init__(self, bold: QFont, regular: QFont) -> None:
        self._bold, self._regular = TextCache(bold), TextCache(regular)
        self._labels: list[_Label] = []

    def begin(self) -> None:
        """Forget the last frame's labels."""
        self._labels.clear()

    def collect(self, idle: IdleTable, row: Row, seen: Columns, area: QRectF, ratio: float) -> None:
        """Take the gaps of one lane that are wide enough to say something; ``area`` is the lane."""
        left = np.maximum(seen.left / ratio, 0.0)
        right = np.minimum(seen.right / ratio, area.width())
        roomy = np.flatnonzero(right - left >= 56)
        for place in roomy[np.argsort(-(right - left)[roomy])][:MOST].tolist():
            gap = row.first + int(seen.wide[place])
            rect = QRectF(left[place], area.top(), right[place] - left[place], area.height())
            taken = int(idle.end[gap] - idle.start[gap])
            self._labels.append(
                _Label(rect, Cause(int(idle.cause[gap])), idle.culprit_of(gap), duration(taken))
            )

    def draw(self, painter: QPainter) -> None:
        """Draw what fits: cause, culprit and time; else cause and time; else the time."""
        for label in self._labels:
            self._draw(painter, label)

    def _draw(self, painter: QPainter, label: _Label) -> None:
        culprit = kernel_name(label.culprit) if "<" in label.culprit else label.culprit
        culprit = "" if culprit == label.cause.label else culprit
        room = label.area.width() - 12 - 2 * PADDING
        culprit_width = min(self._regular.width(culprit), LONGEST_CULPRIT) if culprit else 0.0
        time_width = self._regular.width(label.time)
        second = culprit_width + (10 if culprit else 0) + time_width
        first = self._bold.width(label.cause.label)
        colors = theme.current()
        tall = label.area.height() >= 46
        if tall and max(first, second) <= room:
            box = _centred(label.area, max(first, second) + 2 * PADDING, 40)
            _frame(painter, box, colors.cause(label.cause))
            painter.setPen(colors.text)
            painter.setFont(self._bold.font)
            self._bold.draw(painter, label.cause.label, box.left() + PADDING, round(box.top() + 4), first + 1)
            self._second_line(
                painter, culprit, culprit_width, label.time, box.left() + PADDING, round(box.top() + 21)
            )
        elif tall and max(first, time_width) <= room:
            box = _centred(label.area, max(first, time_width) + 2 * PADDING, 40)
            _frame(painter, box, colors.cause(label.cause))
            painter.setPen(colors.text)
            painter.setFont(self._bold.font)
            self._bold.draw(painter, label.cause.label, box.left() + PADDING, round(box.top() + 4), first + 1)
            self._second_line(painter, "", 0, label.time, box.left() + PADDING, round(box.top() + 21))
        elif first + 10 + time_width <= room:
            box = _centred(label.area, first + 10 + time_width + 2 * PADDING, 22)
            _frame(painter, box, colors.cause(label.cause))
            painter.setPen(colors.text)
            painter.setFont(self._bold.font)
            self._bold.draw(painter, label.cause.label, box.left() + PADDING, round(box.top() + 3), first + 1)
            self._second_line(
                painter, "", 0, label.time, box.left() + PADDING + first + 10, round(box.top() + 4)
            )
        elif time_width <= room + 8:
            box = _centred(label.area, time_width + 2 * PADDING - 4, 20)
            _frame(painter, box, colors.cause(label.cause))
            self._second_line(painter, "", 0, label.time, box.left() + PADDING - 2, round(box.top() + 3))

    def _second_line(
        self, painter: QPainter, culprit: str, room: float, time: str, x: float, y: float
    ) -> None:
        colors = theme.current()
        painter.setFont(self._regular.font)
        if culprit:
            painter.setPen(colors.text_secondary)
            self._regular.draw(painter, culprit, x, y, room + 1)
            x += room + 10
        painter.setPen(colors.text)
        self._regular.draw(painter, time, x, y, 200)


def _centred(area: QRectF, width: float, height: float) -> QRectF:
    centre = area.center()
    return QRectF(
        QPointF(round(centre.x() - width / 2), round(centre.y() - height / 2)),
        QPointF(round(centre.x() + width / 2), round(centre.y() + height / 2)),
    )


def _frame(painter: QPainter, box: QRectF, color: QColor) -> None:
    painter.setPen(QPen(color, 1.2))
    painter.setBrush(theme.current().window)
    painter.drawRoundedRect(box, 4, 4)
