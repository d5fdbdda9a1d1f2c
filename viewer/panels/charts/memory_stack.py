"""What a GPU's memory held, stacked by kind over time, with its peak and what could not be had."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QBrush, QColor

from parsers.model.units import size
from rules.memory.kinds import Kind
from viewer.look import theme
from viewer.look.theme import Theme
from viewer.panels.charts.plot import Plot
from viewer.statistics.memory import Stack

MS, GB = 1e6, 1e9
TEMPORARY = "#e9b44c"
HEADROOM = 1.25  # of the highest point: room for the name of the peak
_FAMILIES = {
    Kind.PARAMETERS: "gemm",
    Kind.OPTIMIZER: "optimizer",
    Kind.COMMUNICATION: "communication",
    Kind.GRADIENTS: "attention",
    Kind.ACTIVATIONS: "normalisation",
}


def color_of(kind: Kind, colors: Theme) -> QColor:
    """The colour of what memory is used for."""
    if kind is Kind.TEMPORARIES:
        return colors.plain(TEMPORARY)
    return colors.family(_FAMILIES.get(kind, "other"))


class MemoryStack(Plot):
    """A click chooses a moment (ns)."""

    moment_chosen = Signal(object)  # int

    def __init__(self) -> None:
        super().__init__()
        self.setMouseEnabled(x=True, y=False)
        self.setAccessibleName("Memory by kind")
        self._line = pg.InfiniteLine(angle=90)
        self.scene().sigMouseClicked.connect(self._on_click)

    def show_stack(
        self, stack: Stack, reserved: tuple[np.ndarray, np.ndarray] | None, failures: Sequence[int]
    ) -> None:
        """Show another stack; ``reserved`` are times (ns) and bytes, ``failures`` when an allocation failed (ns)."""
        colors = theme.current()
        self.clear()
        self.label_axes("time (ms)", "GB")
        edges = np.append(stack.time, stack.time[-1:] + 1) / MS
        below = np.zeros(len(stack.time))
        for kind, held in stack.held.items():
            above = below + held
            color = color_of(kind, colors)
            pattern = Qt.BrushStyle.BDiagPattern if kind is Kind.UNKNOWN else Qt.BrushStyle.SolidPattern
            self.addItem(
                pg.FillBetweenItem(
                    _corners(edges, below), _corners(edges, above), brush=QBrush(color, pattern)
                )
            )
            below = above
        if reserved is not None and len(reserved[0]):
            times = np.append(reserved[0], max(int(reserved[0][-1]), int(stack.time[-1])) + 1) / MS
            pen = pg.mkPen(colors.text_secondary, width=1.4)
            self.plot(times, reserved[1] / GB, stepMode="center", pen=pen, name="reserved")
        for when in failures:
            self.addItem(pg.InfiniteLine(when / MS, angle=90, pen=pg.mkPen(colors.error, width=2)))
        if len(below):
            late = 2 * int(stack.time[int(below.argmax())]) > int(stack.time[-1]) + int(stack.time[0])
            self._mark_peak(float(stack.time[int(below.argmax())]), float(below.max()), late)
        self.addItem(self._line)
        self.enableAutoRange()
        if len(below):
            top = max(float(below.max()), float(np.max(reserved[1])) if reserved is not None else 0.0)
            self.setYRange(0.0, HEADROOM * top / GB, padding=0)

    def _mark_peak(self, when: float, held: float, late: bool) -> None:
        colors = theme.current()
        dot = pg.ScatterPlotItem(
            [when / MS], [held / GB], size=9, pen=pg.mkPen(colors.text, width=1.6), brush=None
        )
        self.addItem(dot)
        text = pg.TextItem(
            f"peak {size(held)}", color=colors.text, anchor=(float(late), 1), fill=pg.mkBrush(colors.panel)
        )
        text.setFont(theme.font(theme.SECONDARY_PX))
        text.setPos(when / MS, held / GB)
        self.addItem(text, ignoreBounds=True)

    def mark(self, when: int) -> None:
        """Draw the line of the moment that the table speaks of."""
        self._line.setPen(pg.mkPen(theme.current().accent, width=1.4, style=Qt.PenStyle.DashLine))
        self._line.setPos(when / MS)

    def _on_click(self, event: object) -> None:
        place: QPointF = self.getViewBox().mapSceneToView(event.scenePos())  # type: ignore[attr-defined]
        self.moment_chosen.emit(round(place.x() * MS))


def _corners(edges: np.ndarray, held: np.ndarray) -> pg.PlotDataItem:
    """A curve of steps as a line through their corners."""
    return pg.PlotDataItem(np.repeat(edges, 2)[1:-1], np.repeat(held, 2) / GB)
