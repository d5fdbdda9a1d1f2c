"""Bars of requests by when they arrived, with those on top that took longer than allowed."""

from __future__ import annotations

import numpy as np
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from parsers.model.arrays import F64
from parsers.model.units import duration
from rules.analysis.inference.requests import Lateness
from viewer.look import theme
from viewer.panels.charts.bars import Bars

MOST_SECONDS, MOST_BARS = 60, 30
WIDTHS_NS = [times * 10.0**power for power in range(6, 16) for times in (1, 2, 5)]
SECOND_NS = 1e9
FEWEST_SECONDS = 8  # a run of fewer is parted further


class RequestsInTime(Bars):
    """A bar is a second where the run is long enough for that, less or more than one otherwise."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.width_ns = SECOND_NS
        self._last_ns = 0.0
        self._judged = False
        self.setAccessibleName("Requests in time by when they arrived")

    def show_requests(self, arrival: F64, lateness: Lateness) -> None:
        """``arrival`` in ns, NaN where it is not known."""
        known = np.flatnonzero(np.isfinite(arrival))
        since = arrival[known] - arrival[known].min() if len(known) else np.empty(0)
        self._last_ns = float(since.max(initial=0.0))
        self.width_ns = _width_of(self._last_ns)
        bar_of = (since // self.width_ns).astype(np.int64)
        self._set_bars(known, bar_of, int(self._last_ns // self.width_ns) + 1)
        self._set_late(lateness.late[known])
        self._judged = bool(lateness.judged.any())
        share = lateness.share_in_time
        self.setAccessibleDescription("" if share is None else f"{share:.1%} in time")

    def told(self, index: int) -> str:
        late = f", {int(self.late[index]):,} of them late" if self._judged else ""
        begin, end = (duration(round(edge * self.width_ns)) for edge in (index, index + 1))
        plural = "s" if self.counts[index] != 1 else ""
        return f"{super().told(index)} request{plural} that arrived from {begin} to {end}{late}"

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        self._draw_bars(painter, colors.good if self._judged else colors.family("elementwise"))
        if len(self.things):
            self._draw_ends(painter, "0 s", duration(round(self.width_ns * len(self.counts))))


def _width_of(last_ns: float) -> float:
    """A second, unless that gives too few bars or too many."""
    if FEWEST_SECONDS <= last_ns / SECOND_NS < MOST_SECONDS:
        return SECOND_NS
    return next((width for width in WIDTHS_NS if last_ns / width < MOST_BARS), WIDTHS_NS[-1])
