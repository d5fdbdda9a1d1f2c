"""A histogram of durations on a logarithmic axis; a click on a bar hands over the events in it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter

from parsers.model.arrays import BOOL, F64, I64
from parsers.model.units import duration
from viewer.appearance import theme
from viewer.appearance.painted_chart import PaintedChart
from viewer.appearance.widgets import tooltip

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


BINS = 28
TICK = 4  # pixels


def logarithmic_bins(values: I64) -> tuple[F64, I64]:
    """Edges (BINS + 1, ascending) and the bin of each value; values below 1 ns count as 1 ns."""
    positive = np.maximum(values, 1).astype(np.float64)
    low, high = float(positive.min()), float(positive.max())
    if high / low < 1.0001:
        high = low * 1.05
        low = low / 1.05
    edges = np.geomspace(low, high, BINS + 1)
    where = np.searchsorted(edges, positive, side="right") - 1
    return edges, np.clip(where, 0, BINS - 1).astype(np.int64)


class Histogram(Bars):
    """Durations of all events of one name, or of other ``things``; the bin of the selected one is marked."""

    def __init__(self, *, things: str = "events") -> None:
        super().__init__()
        self._called = things
        self.limit: float | None = None
        self.marks: Mapping[str, float] = {}
        self._durations: I64 = np.empty(0, np.int64)
        self._edges = np.ones(BINS + 1)
        self.counts = np.zeros(BINS, np.int64)

    def show_durations(self, events: I64, durations: I64, selected: int) -> None:
        """Show these events; ``selected`` is the one whose bin is marked."""
        bins = np.empty(0, np.int64)
        if len(events):
            self._edges, bins = logarithmic_bins(durations)
            span = f"from {duration(self._edges[0])} to {duration(self._edges[-1])}"
            self.setAccessibleName(f"Durations of {len(events):,} {self._called}, {span}")
        self._durations = durations
        self._set_bars(events, bins, BINS)
        found = np.flatnonzero(events == selected)
        self._marked = int(bins[found[0]]) if len(found) else -1
        self.show_limit(self.limit)

    def show_limit(self, limit: float | None) -> None:
        """Draw a line at a duration (ns), and what lies beyond it in the colour of errors."""
        self.limit = limit
        self._set_late(self._durations > (np.inf if limit is None else limit))

    def show_marks(self, marks: Mapping[str, float]) -> None:
        """Name these durations (ns) below the axis, the last one surely, instead of its ends."""
        self.marks = marks
        self.update()

    def told(self, index: int) -> str:
        low, high = self._edges[index], self._edges[index + 1]
        return f"{super().told(index)} {self._called} of {duration(low)} to {duration(high)}"

    def _x(self, ns: float) -> float:
        """Where a duration is on the axis; may lie outside."""
        low, high = self._edges[0], self._edges[-1]
        return float(SIDE + (self.width() - 2 * SIDE) * np.log(max(ns, 1.0) / low) / np.log(high / low))

    def draw(self, painter: QPainter) -> None:
        colors = theme.current()
        self._draw_bars(painter, colors.family("elementwise"))
        if not len(self.things):
            return
        if self.limit is not None and SIDE <= (at := self._x(self.limit)) <= self.width() - SIDE:
            painter.fillRect(QRectF(at - 1, 2, 2, self.height() - FOOT - 2), colors.warning)
        if self.marks:
            self._draw_marks(painter)
        else:
            self.draw_ends(painter, duration(self._edges[0]), duration(self._edges[-1]))

    def _draw_marks(self, painter: QPainter) -> None:
        """From the last one on; those that would touch it have no name."""
        colors, right = theme.current(), float(self.width())
        for name, ns in reversed(list(self.marks.items())):
            at = min(max(self._x(ns), SIDE), self.width() - SIDE)
            late = self.limit is not None and ns > self.limit
            color = colors.error if late else colors.text_secondary
            painter.fillRect(QRectF(at - 0.5, self.height() - FOOT, 1, TICK), color)
            text = f"{name} {duration(round(ns))}"
            width = painter.fontMetrics().horizontalAdvance(text)
            left = min(max(at - width / 2, 0.0), right - width - SIDE)
            if left >= 0:
                painter.setPen(color)
                painter.drawText(
                    QRectF(left, self.height() - FOOT + TICK, width + 1, FOOT - TICK),
                    Qt.AlignmentFlag.AlignLeft,
                    text,
                )
                right = left
