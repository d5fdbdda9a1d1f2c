"""How much memory is held after each step, as stairs."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from parsers.model.units import size
from viewer.appearance import theme
from viewer.appearance.painted_text import TextCache

HEIGHT, TEXT = 84, 15
MAX_STEPS = 12  # the last steps; more are too narrow to read
_GAP = 6


class Stairs(QWidget):
    """Bytes after each step; of many steps the first and the last ones."""

    def __init__(self, after_steps: Sequence[int], color: QColor) -> None:
        super().__init__()
        self._levels, self._color = tuple(after_steps), color
        self._first = max(len(self._levels) - MAX_STEPS, 0)
        self._text = TextCache(theme.font(theme.SECONDARY_PX, tabular=True))
        self.setFixedHeight(HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(
            "After the steps: " + ", ".join(size(each) for each in self._levels[self._first :])
        )

    def sizeHint(self) -> QSize:
        return QSize(300, HEIGHT)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter = QPainter(self)
        colors, shown = theme.current(), self._levels[self._first :]
        most, base = max(*shown, 1), min(shown)
        width = self.width() / len(shown)
        room = HEIGHT - 2 * TEXT - 2
        painter.setPen(Qt.PenStyle.NoPen)
        for index, level in enumerate(shown):
            left, high = index * width, room * level / most
            low = room * min(base, level) / most
            painter.fillRect(QRectF(left, TEXT + room - low, width - _GAP, low), colors.line_strong)
            painter.fillRect(QRectF(left, TEXT + room - high, width - _GAP, high - low), self._color)
        painter.setFont(self._text.font)
        painter.setPen(colors.text_secondary)
        for index, level in enumerate(shown):
            top = TEXT + room - room * level / most - TEXT
            self._text.draw(painter, size(level), index * width, round(top), width)
            step = f"step {self._first + index + 1}"
            self._text.draw(painter, step, index * width, HEIGHT - TEXT, width)
