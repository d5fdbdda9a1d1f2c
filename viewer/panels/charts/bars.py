"""Bars that stand for some things each; a click on one, or the arrow keys, hand over what is in it."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter

from parsers.model.arrays import BOOL, I64
from viewer.appearance import theme
from viewer.appearance.labels import tooltip
from viewer.appearance.painted_chart import PaintedChart

SIDE, TOP, FOOT = 8, 6, 20  # pixels


class Bars(PaintedChart):
    """The part of a bar that is too ``late`` lies on top, in the colour of errors; one bar may be marked."""

    margins = (SIDE, TOP, SIDE, FOOT)
    wanted = (280, 130)
    is_smooth = False

    chosen = Signal(object)  # what is in the chosen bar

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self.setMinimumHeight(48)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.things: I64 = np.empty(0, np.int64)
        self._bar_of: I64 = np.empty(0, np.int64)
        self.counts: I64 = np.zeros(1, np.int64)
        self.late: I64 = np.zeros(1, np.int64)
        self._marked = -1
        self._under = -1

    def told(self, index: int) -> str:
        """What a card says of a bar: how many things it stands for, and what a kind of bars adds to that."""
        return f"{int(self.counts[index]):,}"

    def bar(self, index: int) -> QRectF:
        """Where one bar is, with a pixel of gap."""
        width = (self.width() - 2 * SIDE) / len(self.counts)
        room = self.height() - TOP - FOOT
        most = max(int(self.counts.max()), 1)
        high = 0.0 if not self.counts[index] else max(room * self.counts[index] / most, 2.0)
        gap = 1.5 if width > 4 else 0.5
        return QRectF(SIDE + index * width, TOP + room - high, max(width - gap, 1.0), high)

    def _set_bars(self, things: I64, bar_of: I64, bars: int) -> None:
        self.things, self._bar_of, self._under = things, bar_of, -1
        self.counts = np.bincount(bar_of, minlength=bars).astype(np.int64)
        self._set_late(np.zeros(len(things), bool))

    def _set_late(self, late: BOOL) -> None:
        """Which of the things are too late."""
        self.late = np.bincount(self._bar_of[late], minlength=len(self.counts)).astype(np.int64)
        self.update()

    def _draw_bars(self, painter: QPainter, color: QColor) -> None:
        colors = theme.current()
        painter.fillRect(QRectF(SIDE, self.height() - FOOT, self.width() - 2 * SIDE, 1), colors.line)
        for index in np.flatnonzero(self.counts).tolist():
            bar = self.bar(index)
            painter.fillRect(bar, colors.accent if index in (self._marked, self._under) else color)
            bar.setHeight(bar.height() * self.late[index] / self.counts[index])
            painter.fillRect(bar, colors.error)

    def _index_at(self, x: float) -> int:
        index = int((x - SIDE) * len(self.counts) / max(self.width() - 2 * SIDE, 1))
        return index if x >= SIDE and index < len(self.counts) and self.counts[index] else -1

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        under = self._index_at(event.position().x())
        if under != self._under:
            self._under = under
            self.setToolTip(tooltip(f"{self.told(under)}\nClick to go through them") if under >= 0 else "")
            self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        index = self._index_at(event.position().x())
        if index >= 0:
            self._choose(index)

    def _choose(self, index: int) -> None:
        self._marked = index
        self.chosen.emit(self.things[self._bar_of == index])
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        filled = np.flatnonzero(self.counts).tolist()
        if event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right) and filled:
            now = filled.index(self._marked) if self._marked in filled else 0
            self._choose(filled[(now + (1 if event.key() == Qt.Key.Key_Right else -1)) % len(filled)])
        else:
            super().keyPressEvent(event)
