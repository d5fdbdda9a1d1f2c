"""Two histograms of what requests waited for: their first token, and each further one; with the allowed times."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from viewer.look.labels import Label
from viewer.panels.charts.histogram import Histogram


class LatencyCharts(QWidget):
    """A click on a bar hands over the rows of its requests."""

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.ttft, self.tpot = Histogram(things="requests"), Histogram(things="requests")
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 6, 8, 4)
        for title, chart in (
            ("Time to first token (TTFT)", self.ttft),
            ("Time per output token (TPOT)", self.tpot),
        ):
            column = QVBoxLayout()
            column.setSpacing(2)
            column.addWidget(Label(title, "secondary", pixels=12))
            column.addWidget(chart, 1)
            row.addLayout(column)
            chart.chosen.connect(self.chosen)

    def show_latencies(
        self, ttft: npt.NDArray[np.float64], tpot: npt.NDArray[np.float64], allowed: tuple[float | None, ...]
    ) -> None:
        """ns of each request, NaN where it is not known; ``allowed`` for the first and for the further tokens."""
        for chart, values, limit in zip((self.ttft, self.tpot), (ttft, tpot), allowed, strict=True):
            known = np.flatnonzero(np.isfinite(values))
            chart.show_durations(known, np.round(values[known]).astype(np.int64), -1)
            chart.show_limit(limit)
