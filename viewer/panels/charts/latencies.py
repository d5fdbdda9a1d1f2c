"""What requests waited for, and who of them was served in time: two histograms and a strip by their arrival."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Signal
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QWidget

from parsers.model.arrays import F64
from parsers.model.units import duration
from rules.analysis.inference.requests import AllowedTimes, Lateness, Requests
from rules.analysis.inference.serving import percentiles
from viewer.appearance import theme
from viewer.appearance.widgets import Label, fill, horizontal, vertical
from viewer.panels.charts.histogram import Bars, Histogram

MAX_SECONDS, MAX_BARS = 60, 30
WIDTHS_NS = [times * 10.0**power for power in range(6, 16) for times in (1, 2, 5)]
SECOND_NS = 1e9
MIN_SECONDS = 8  # a run of fewer is parted further


class RequestsInTime(Bars):
    """A bar is a second where the run is long enough for that, less or more than one otherwise."""

    def __init__(self) -> None:
        super().__init__("Requests in time by when they arrived")
        self.width_ns = SECOND_NS
        self._last_ns = 0.0
        self._judged = False

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

    def draw(self, painter: QPainter) -> None:
        colors = theme.current()
        self._draw_bars(painter, colors.good if self._judged else colors.family("elementwise"))
        if len(self.things):
            self.draw_ends(painter, "0 s", duration(round(self.width_ns * len(self.counts))))


def _width_of(last_ns: float) -> float:
    """A second, unless that gives too few bars or too many."""
    if MIN_SECONDS <= last_ns / SECOND_NS < MAX_SECONDS:
        return SECOND_NS
    return next((width for width in WIDTHS_NS if last_ns / width < MAX_BARS), WIDTHS_NS[-1])


MAX_HEIGHT = 300  # pixels


class LatencyCharts(QWidget):
    """A click on a bar hands over the rows of its requests."""

    chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.ttft, self.tpot = Histogram(things="requests"), Histogram(things="requests")
        self.in_time = RequestsInTime()
        self.by_arrival = Label("", "secondary", pixels=12)
        row = horizontal(self, (8, 6, 8, 4))
        for title, chart in (
            (Label("Time to first token", "secondary", pixels=12), self.ttft),
            (Label("Time per output token", "secondary", pixels=12), self.tpot),
            (self.by_arrival, self.in_time),
        ):
            column = vertical(spacing=2)
            column.addWidget(title)
            chart.setMaximumHeight(MAX_HEIGHT)
            fill(column, (chart, 1), 0)
            row.addLayout(column, 1)
            chart.chosen.connect(self.chosen)

    def show_latencies(self, requests: Requests, allowed: AllowedTimes) -> None:
        for chart, values, limit in (
            (self.ttft, requests.ttft_ns, allowed.ttft_ns),
            (self.tpot, requests.tpot_ns, allowed.tpot_ns),
        ):
            known = np.flatnonzero(np.isfinite(values))
            chart.show_durations(known, np.round(values[known]).astype(np.int64), -1)
            chart.show_limit(limit)
            told = percentiles(values)
            chart.show_marks({"p50": told.p50, "p90": told.p90, "p99": told.p99} if told else {})
        lateness = requests.lateness(allowed)
        self.in_time.show_requests(requests.arrival, lateness)
        what = "In time" if lateness.judged.any() else "Requests"
        self.by_arrival.setText(f"{what} by arrival, each {duration(round(self.in_time.width_ns))}")
