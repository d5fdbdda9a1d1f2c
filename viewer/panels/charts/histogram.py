"""A histogram of durations on a logarithmic axis; a click on a bar hands over the events in it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from parsers.model.units import duration
from viewer.look import theme
from viewer.look.labels import tooltip
from viewer.look.roles import CHART

I64 = npt.NDArray[np.int64]
BINS = 28


def logarithmic_bins(values: I64, bins: int = BINS) -> tuple[npt.NDArray[np.float64], I64]:
    """Edges (bins + 1, ascending) and the bin of each value; values below 1 ns count as 1 ns."""
    positive = np.maximum(values, 1).astype(np.float64)
    low, high = float(positive.min()), float(positive.max())
    if high / low < 1.0001:
        high = low * 1.05
        low = low / 1.05
    edges = np.geomspace(low, high, bins + 1)
    where = np.searchsorted(edges, positive, side="right") - 1
    return edges, np.clip(where, 0, bins - 1).astype(np.int64)


class Histogram(QWidget):
    """Durations of all events of one name, or of other ``things``; the bin of the selected one is marked."""

    accessible_role = CHART

    chosen = Signal(object)  # events of the clicked bin

    def __init__(self, parent: QWidget | None = None, *, things: str = "events") -> None:
        super().__init__(parent)
        self._things = things
        self.limit: float | None = None
        self.setMinimumHeight(48)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._events: I64 = np.empty(0, np.int64)
        self._bin_of: I64 = np.empty(0, np.int64)
        self._edges = np.ones(BINS + 1)
        self.counts: I64 = np.zeros(BINS, np.int64)
        self._marked = -1
        self._under = -1

    def show_durations(self, events: I64, durations: I64, selected: int) -> None:
        """Show these events; ``selected`` is the one whose bin is marked."""
        self._events = events
        self._under = -1
        if len(events):
            self._edges, self._bin_of = logarithmic_bins(durations)
            self.counts = np.bincount(self._bin_of, minlength=BINS).astype(np.int64)
            found = np.flatnonzero(events == selected)
            self._marked = int(self._bin_of[found[0]]) if len(found) else -1
            span = f"from {duration(self._edges[0])} to {duration(self._edges[-1])}"
            self.setAccessibleName(f"Durations of {len(events):,} {self._things}, {span}")
        else:
            self.counts = np.zeros(BINS, np.int64)
        self.update()

    def show_limit(self, limit: float | None) -> None:
        """Draw a line at a duration (ns), and what lies beyond it in the colour of errors."""
        self.limit = limit
        self.update()

    def _x(self, ns: float) -> float:
        """Where a duration is on the axis; may lie outside."""
        low, high = self._edges[0], self._edges[-1]
        return float(8 + (self.width() - 16) * np.log(max(ns, 1.0) / low) / np.log(high / low))

    def sizeHint(self) -> QSize:
        return QSize(280, 130)

    def bar(self, index: int) -> QRectF:
        """Where one bar is, with a pixel of gap."""
        width = (self.width() - 16) / BINS
        room = self.height() - 26
        most = max(int(self.counts.max()), 1)
        high = 0.0 if not self.counts[index] else max(room * self.counts[index] / most, 2.0)
        return QRectF(8 + index * width, 6 + room - high, max(width - 1.5, 1.0), high)

    def _index_at(self, x: float) -> int:
        index = int((x - 8) * BINS / max(self.width() - 16, 1))
        return index if 0 <= index < BINS and self.counts[index] else -1

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.fillRect(QRectF(8, self.height() - 20, self.width() - 16, 1), colors.line)
        for index in np.flatnonzero(self.counts).tolist():
            late = self.limit is not None and self._edges[index + 1] > self.limit
            color = colors.accent if index in (self._marked, self._under) else colors.family("elementwise")
            painter.fillRect(self.bar(index), colors.error if late and color != colors.accent else color)
        if not len(self._events):
            return
        if self.limit is not None and 8 <= (at := self._x(self.limit)) <= self.width() - 8:
            painter.fillRect(QRectF(at - 1, 2, 2, self.height() - 22), colors.warning)
        painter.setFont(theme.font(theme.SECONDARY_PX))
        painter.setPen(colors.text_secondary)
        foot = QRectF(8, self.height() - 18, self.width() - 16, 16)
        painter.drawText(foot, Qt.AlignmentFlag.AlignLeft, duration(self._edges[0]))
        painter.drawText(foot, Qt.AlignmentFlag.AlignRight, duration(self._edges[-1]))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        under = self._index_at(event.position().x())
        if under != self._under:
            self._under = under
            low, high = self._edges[max(under, 0)], self._edges[max(under, 0) + 1]
            text = f"{int(self.counts[under]):,} {self._things} of {duration(low)} to {duration(high)}"
            self.setToolTip(tooltip(f"{text}\nClick to walk them") if under >= 0 else "")
            self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        index = self._index_at(event.position().x())
        if index >= 0:
            self._choose(index)

    def _choose(self, index: int) -> None:
        self._marked = index
        self.chosen.emit(self._events[self._bin_of == index])
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        filled = np.flatnonzero(self.counts).tolist()
        if event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right) and filled:
            now = filled.index(self._marked) if self._marked in filled else 0
            self._choose(filled[(now + (1 if event.key() == Qt.Key.Key_Right else -1)) % len(filled)])
        else:
            super().keyPressEvent(event)
