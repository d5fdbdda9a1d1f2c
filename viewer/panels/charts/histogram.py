"""A histogram of durations on a logarithmic axis; a click on a bar hands over the events in it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter

from parsers.model.arrays import F64, I64
from parsers.model.units import duration
from viewer.appearance import theme
from viewer.panels.charts.bars import FOOT, SIDE, Bars

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
