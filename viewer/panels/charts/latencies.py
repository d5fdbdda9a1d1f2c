"""What requests waited for, and who of them was served in time: two histograms and a strip by their arrival."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from parsers.model.units import duration
from rules.analysis.inference.requests import AllowedTimes, Requests
from rules.analysis.inference.serving import percentiles
from viewer.look.labels import Label
from viewer.panels.charts.histogram import Histogram
from viewer.panels.charts.requests_in_time import RequestsInTime

HIGHEST = 300  # pixels


class LatencyCharts(QWidget):
    """A click on a bar hands over the rows of its requests."""

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.ttft, self.tpot = Histogram(things="requests"), Histogram(things="requests")
        self.in_time = RequestsInTime()
        self.by_arrival = Label("", "secondary", pixels=12)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 6, 8, 4)
        for title, chart in (
            (Label("Time to first token", "secondary", pixels=12), self.ttft),
            (Label("Time per output token", "secondary", pixels=12), self.tpot),
            (self.by_arrival, self.in_time),
        ):
            column = QVBoxLayout()
            column.setSpacing(2)
            column.addWidget(title)
            chart.setMaximumHeight(HIGHEST)
            column.addWidget(chart, 1)
            column.addStretch()
            row.addLayout(column, 1)
            chart.chosen.connect(self.chosen)

    def show_latencies(self, requests: Requests, allowed: AllowedTimes) -> None:
        """Of all requests whose times are known, against what is allowed."""
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
