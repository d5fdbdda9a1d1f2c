"""The memory tab: sampled memory over time, its peak, and the view of the timeline as a band."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QVBoxLayout

from parsers.model import I64, Array, Counter, Trace
from parsers.model.late import dataclass
from parsers.model.units import base_unit, capital, percent, size
from viewer.appearance import theme
from viewer.appearance.widgets import ElidedLabel, Figure, empty_out, horizontal
from viewer.panels.panel import Panel, tab
from viewer.timeline.geometry.tracks import stacked_counters
from viewer.timeline.kinds.base import counter_style_of

if TYPE_CHECKING:
    from rules.memory.account import DeviceMemory
    from rules.memory.summary import MemorySummary

MAX_POINTS = 4000
MAX_CURVES = 10
MAX_NAMED = 5
LONG_NS = 10_000_000_000
ON_THE_HOST = ("pinned memory", "pageable memory")  # ends of the names of counters


def memory_counters(counters: tuple[Counter, ...]) -> list[Counter]:
    """Counters that measure an amount of memory."""
    return [
        counter
        for counter in counters
        if base_unit(counter.unit)[1] == "byte"
        and any(word in counter.name.lower() for word in ("memory", "allocated", "reserved", "used"))
        and len(counter.time)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """An amount of memory over time: ns and bytes. Where allocations are known, it is what they add up to."""

    counter: Counter
    time: I64
    held: Array
    account: DeviceMemory | None = None

    @property
    def peak(self) -> float:
        return float(self.held.max())

    def told(self, trace: Trace) -> str:
        """ "GPU 0 allocated memory: peak 3.27 GB (2.2 % of 150 GB)"."""
        counter = self.counter
        name = counter.name if counter.rank is None else f"rank {counter.rank} {counter.name}"
        if len(trace.devices) <= 1:  # there is nothing to tell it from
            name = capital(name.removeprefix("GPU 0 "))
        device = None if counter.name.endswith(ON_THE_HOST) else counter.device
        whole = trace.devices[device].memory_bytes if device is not None else None
        of = f" ({percent(self.peak / whole)} of {size(whole)})" if whole else ""
        return f"{name}: peak {size(self.peak)}{of}"


def curves_of(trace: Trace, summaries: Sequence[MemorySummary]) -> list[Curve]:
    """A curve for each counter of memory, the highest first."""
    accounts = {each.device: each.account for each in summaries if each.account is not None}
    stacked = [trace.counters[index] for index in stacked_counters(trace)]
    known = {id(each): accounts[each.device] for each in stacked if each.device in accounts}
    curves = []
    for counter in memory_counters(trace.counters):
        account = known.get(id(counter))
        if account is not None and len(account.held):
            curves.append(Curve(counter, account.time, account.held, account))
        else:
            curves.append(Curve(counter, counter.time, counter.value * base_unit(counter.unit)[0]))
    curves.sort(key=lambda each: -each.peak)
    return [each for each in curves if each.peak > 0] or curves[:1]


def outline(time: I64, value: Array, points: int = MAX_POINTS) -> tuple[Array, Array]:
    """Times (ns) and values with at most about ``points`` corners; minima and maxima survive."""
    if len(value) <= points:
        return time, value
    edges = np.linspace(0, len(value), points // 2 + 1).astype(np.int64)[:-1]
    low, high = np.minimum.reduceat(value, edges), np.maximum.reduceat(value, edges)
    return np.repeat(time[edges], 2), np.column_stack((low, high)).ravel()


@tab
class MemoryPanel(Panel):
    """A step curve for each counter; pyqtgraph is imported when the tab is first shown."""

    title = "Memory"
    lacks = (
        "Memory was not recorded. Open a snapshot of PyTorch's allocator, or record with profile_memory=True."
    )
    order = 80

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
        trace, analysis = self.document.trace, self.document.analysis
        if trace is None:
            return

        def work() -> list[Curve]:
            from rules.memory.summary import memory_of

            return curves_of(trace, memory_of(analysis) if analysis is not None else ())

        self.compute(work, lambda curves: self._show(trace, curves))

    def _show(self, trace: Trace, curves: list[Curve]) -> None:
        import pyqtgraph as pg

        if trace is not self.document.trace:
            return
        if self.plot is None:
            self._make_plot()
        unit, scale = ("s", 1e9) if trace.duration > LONG_NS else ("ms", 1e6)
        self.plot.clear()
        self.plot.label_axes(f"time ({unit})", "GB")
        for curve in curves[:MAX_CURVES]:
            time, value = outline(curve.time, curve.held)
            pen = pg.mkPen(self._color(curve.counter), width=1.6)
            edge = np.append(time, max(trace.duration, int(time[-1]) + 1)) / scale
            self.plot.plot(edge, value / 1e9, stepMode="center", pen=pen)
        self.plot.enableAutoRange()
        self._fill_legend(trace, curves[:MAX_NAMED])
        by_allocator = any(each.counter.name.endswith("allocated memory") for each in curves[:MAX_CURVES])
        self._hint.setVisible(by_allocator and not any(each.tells_use for each in trace.memory))

    def _fill_legend(self, trace: Trace, curves: list[Curve]) -> None:
        empty_out(self._legend)
        for curve in curves:
            entry = ElidedLabel(curve.told(trace), "secondary", pixels=12)
            entry.set_swatch(self._color(curve.counter))
            figure = Figure(entry)
            figure.explain()
            figure.clicked.connect(partial(self._explain_peak, trace, curve))
            self._legend.addWidget(entry)
        self._legend.addStretch(1)

    def _explain_peak(self, trace: Trace, curve: Curve) -> None:
        from viewer.query.explained import counter_behind, held_behind

        account = curve.account
        behind = (
            counter_behind(trace, curve.counter)
            if account is None
            else held_behind(trace, account, account.peak_at)
        )
        self.document.question_wanted.emit(behind.question)

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
