"""The memory tab: sampled memory over time, its peak, and the view of the timeline as a band."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QVBoxLayout

from parsers.model import Counter
from parsers.model.units import base_unit, percent, size
from viewer.look import theme
from viewer.look.boxes import horizontal
from viewer.look.labels import ElidedLabel
from viewer.panels.panel import Panel, tab
from viewer.timeline.kinds.base import counter_style_of

MAX_POINTS = 4000
MAX_CURVES = 10
MAX_NAMED = 5
LONG_NS = 10_000_000_000


def memory_counters(counters: tuple[Counter, ...]) -> list[Counter]:
    """Counters that measure an amount of memory."""
    return [
        counter
        for counter in counters
        if base_unit(counter.unit)[1] == "byte"
        and any(word in counter.name.lower() for word in ("memory", "allocated", "reserved", "used"))
        and len(counter.time)
    ]


def outline(counter: Counter, points: int = MAX_POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Times (ns) and bytes with at most about ``points`` corners; minima and maxima survive."""
    value = counter.value * base_unit(counter.unit)[0]
    if len(value) <= points:
        return counter.time, value
    edges = np.linspace(0, len(value), points // 2 + 1).astype(np.int64)[:-1]
    low, high = np.minimum.reduceat(value, edges), np.maximum.reduceat(value, edges)
    time = np.repeat(counter.time[edges], 2)
    return time, np.column_stack((low, high)).ravel()


@tab
class MemoryPanel(Panel):
    """A step curve for each counter; pyqtgraph is imported when the tab is first shown."""

    title: ClassVar[str] = "Memory"
    lacks: ClassVar[str] = (
        "Memory was not recorded. Open a snapshot of PyTorch's allocator, or record with profile_memory=True."
    )
    order: ClassVar[int] = 80

    def build(self) -> None:
        self._legend = horizontal(margins=(14, 6, 14, 0), spacing=20)
        self._room = QVBoxLayout()
        self._hint = ElidedLabel(
            "To see what it is, take a snapshot and open it too: torch.cuda.memory._dump_snapshot(), or record with "
            "stallscope capture torch --memory.",
            "secondary",
            pixels=12,
        )
        self._hint.setContentsMargins(14, 0, 14, 0)
        self.column.addLayout(self._legend)
        self.column.addWidget(self._hint)
        self.column.addLayout(self._room, 1)
        self.plot: Any = None
        theme.changed.connect(self.invalidate)

    def has_data(self) -> bool:
        trace = self.document.trace
        return trace is not None and bool(memory_counters(trace.counters))

    def _make_plot(self) -> None:
        from viewer.panels.charts.plot import Plot

        self.plot = Plot()
        self.plot.setMouseEnabled(x=True, y=False)
        self._room.addWidget(self.plot)

    def refresh(self) -> None:
        import pyqtgraph as pg

        trace = self.document.trace
        if trace is None:
            return
        if self.plot is None:
            self._make_plot()
        unit, scale = ("s", 1e9) if trace.duration > LONG_NS else ("ms", 1e6)
        self.plot.clear()
        self.plot.label_axes(f"time ({unit})", "GB")
        counters = sorted(memory_counters(trace.counters), key=lambda each: -float(each.value.max()))[
            :MAX_CURVES
        ]
        for counter in counters:
            time, value = outline(counter)
            pen = pg.mkPen(self._color(counter), width=1.6)
            edge = np.append(time, max(trace.duration, int(time[-1]) + 1)) / scale
            self.plot.plot(edge, value / 1e9, stepMode="center", pen=pen)
        self.plot.enableAutoRange()
        self._fill_legend(counters)
        by_allocator = any(each.name.endswith("allocated memory") for each in counters)
        self._hint.setVisible(by_allocator and not any(each.tells_use for each in trace.memory))

    def _fill_legend(self, counters: list[Counter]) -> None:
        while self._legend.count():
            item = self._legend.takeAt(0)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.deleteLater()
        named = counters[:MAX_NAMED]
        for counter, text in zip(named, self._peaks(named), strict=True):
            entry = ElidedLabel(text, "secondary", pixels=12)
            entry.set_swatch(self._color(counter))
            self._legend.addWidget(entry)
        self._legend.addStretch(1)

    def _color(self, counter: Counter) -> QColor:
        trace = self.document.trace
        number = next(
            (
                index
                for index, each in enumerate(trace.counters if trace is not None else ())
                if each is counter
            ),
            0,
        )
        return counter_style_of(counter.unit).color(number, theme.current())

    def _peaks(self, counters: list[Counter]) -> list[str]:
        trace = self.document.trace
        parts = []
        for counter in counters:
            peak = float(counter.value.max()) * base_unit(counter.unit)[0]
            device = (
                trace.devices[counter.device] if trace is not None and counter.device is not None else None
            )
            of = ""
            if device is not None and device.memory_bytes:
                of = f" ({percent(peak / device.memory_bytes)} of {size(device.memory_bytes)})"
            parts.append(f"{_named(counter)}: peak {size(peak)}{of}")
        return parts


def _named(counter: Counter) -> str:
    return counter.name if counter.rank is None else f"rank {counter.rank} {counter.name}"
