"""The roofline: arithmetic per second against arithmetic per byte, for all launches and the roofs above them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt, Signal
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QSizePolicy, QWidget

from parsers.model import KernelProfile
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, operations, three_digits
from rules.kernels.roofline import Point, Roof, Roofline, distance, roofline
from viewer.appearance import theme
from viewer.appearance.widgets import Label, breakable, fill, horizontal, unbroken, vertical
from viewer.panels.charts.plot import Axis, Plot

DOT = 12.0  # pixels
BLANK = 3.0  # pixels above and below the letters of a name
MIN_SIZE = QSizeF(240.0, 140.0)  # of a plot that was not laid out yet


class NamePlaces:
    """Free places of one plot. Positions are what the axes show (powers of ten), sizes are pixels."""

    def __init__(self, shown: QRectF, size: QSizeF, dots: Iterable[tuple[float, float]]) -> None:
        size = size.expandedTo(MIN_SIZE)
        self._per_x = size.width() / max(shown.width(), 1e-9)
        self._per_y = size.height() / max(shown.height(), 1e-9)
        centres = [self._pixels(QPointF(x, y)) for x, y in dots]
        half = QPointF(DOT / 2, DOT / 2)
        self._taken = [QRectF(centre - half, QSizeF(DOT, DOT)) for centre in centres]

    def step(self, pixels: float) -> float:
        """So many pixels along the horizontal axis."""
        return pixels / self._per_x

    def take(self, wanted: Iterable[QPointF], name: QSizeF, anchor: tuple[float, float]) -> QPointF:
        """The first of the wanted places where a name covers nothing, else the one where it covers least.

        ``anchor`` is the part of the name, from its left and its top, that stands at the place.
        """
        best, least = QPointF(), float("inf")
        for place in wanted:
            box = self._box(place, name, anchor)
            covered = sum(_area(box.intersected(other)) for other in self._taken)
            if covered < least:
                best, least = place, covered
            if not covered:
                break
        self._taken.append(self._box(best, name, anchor))
        return best

    def _box(self, place: QPointF, name: QSizeF, anchor: tuple[float, float]) -> QRectF:
        shift = QPointF(anchor[0] * name.width(), anchor[1] * name.height())
        return QRectF(self._pixels(place) - shift, name).adjusted(0, BLANK, 0, -BLANK)

    def _pixels(self, place: QPointF) -> QPointF:
        return QPointF(place.x() * self._per_x, -place.y() * self._per_y)


def _area(box: QRectF) -> float:
    return max(box.width(), 0.0) * max(box.height(), 0.0)


MIN_DOT, MAX_DOT = 7.0, 17.0
MAX_KERNELS = 4000
MARGIN_PX, STEP_PX = 8.0, 6.0  # the name of a roof from the right edge, and between the places it may have
TICK_PX = 24.0  # from one tick to the next, at least
LOW_TEXT_WIDTH = 260
FIRST_SLOPE_PX = 60.0  # the name of a level of memory from where its line begins
_LEVEL_SYMBOL = {"DRAM": "o", "L2": "s", "L1": "t"}
NOT_MEASURED = "This report does not say how many operations its kernels did: record with ncu --set full."


class PowersOfTen(Axis):
    """A logarithmic axis with ticks at powers of ten, as many as have room; at others where none is in view."""

    def tickValues(self, low: float, high: float, size: float) -> list[tuple[float, list[float]]]:
        powers = np.arange(np.ceil(low), np.floor(high) + 1)
        if not len(powers):
            return list(super().tickValues(low, high, size))
        apart = max(1, int(np.ceil(len(powers) * TICK_PX / max(size, 1.0))))
        return [(float(apart), powers[::apart].tolist())]


class RooflinePlot(QWidget):
    """One dot a launch (its DRAM traffic, as large as its time); the chosen one at every level of memory."""

    chosen = Signal(int)

    def __init__(self, *, low: bool = False) -> None:
        """``low``: for a place that is wide and low, with what it says at the side and without a heading."""
        super().__init__()
        self._low = low
        self._names: list[str] = []
        self._lines: list[Roofline] = []
        self._marked = -1
        self.is_measured = True  # whether it has a roof or a dot
        self.setAccessibleName("Roofline")
        self._text = Label("", "secondary", pixels=12, wrap=True)
        self._text.setContentsMargins(12, 0, 12, 8)
        self.plot = Plot(bottom=PowersOfTen("bottom"), left=PowersOfTen("left"))
        self.plot.setMinimumWidth(260)
        self.plot.setLogMode(x=True, y=True)
        self._roofs: list[Any] = []
        self._dots = pg.ScatterPlotItem(hoverable=True, tip=None)
        self._dots.sigClicked.connect(self._on_click)
        self._chosen_dots = pg.ScatterPlotItem()
        self._dots.setZValue(1)  # above the names of the roofs
        self._chosen_dots.setZValue(2)
        self.plot.addItem(self._dots)
        self.plot.addItem(self._chosen_dots)
        if low:
            side = horizontal(self, (0, 2, 4, 0))
            self._text.setFixedWidth(LOW_TEXT_WIDTH)
            side.addWidget(self.plot, 1)
            self._text.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Minimum)
            self._text.setAlignment(Qt.AlignmentFlag.AlignTop)
            side.addWidget(self._text)
        else:
            layout = vertical(self, (0, 8, 4, 0), 2)
            title = Label("Roofline", weight=QFont.Weight.DemiBold)
            title.setContentsMargins(12, 0, 0, 0)
            fill(layout, title, (self.plot, 1), self._text, 0)
        theme.changed.connect(self._restyle)
        self.plot.getViewBox().sigResized.connect(lambda _: self._draw_roofs())
        self._restyle()

    @property
    def points(self) -> list[tuple[int, Point]]:
        """(number, DRAM point) of all launches, or operators, that have one."""
        found = []
        for index, line in enumerate(self._lines):
            point = next((each for each in line.points if each.level == "DRAM"), None)
            point = point or next(iter(line.points), None)
            if point is not None:
                found.append((index, point))
        return found

    def show_kernels(self, kernels: Sequence[KernelProfile]) -> None:
        shown = kernels[:MAX_KERNELS]
        self._show([kernel_name(kernel.name) for kernel in shown], [roofline(kernel) for kernel in shown])

    def show_estimates(self, estimated: Roofline) -> None:
        """Show operators, one dot for each of their shapes; all have the same roofs."""
        points = estimated.points[:MAX_KERNELS]
        self._show(
            [point.name.removeprefix("aten::") for point in points],
            [Roofline((point,), estimated.roofs) for point in points],
        )

    def _show(self, names: list[str], lines: list[Roofline]) -> None:
        self._names, self._lines = names, lines
        self._marked = -1
        self._draw()
        self.is_measured = any(line.points or line.roofs for line in lines)
        self.plot.setVisible(self.is_measured)
        self.mark(self.points[0][0] if self.points else -1)

    def mark(self, index: int) -> None:
        """Show the roofs and levels of one launch."""
        self._marked = index
        self._draw_roofs()
        self._draw_marked()

    def _restyle(self, _: object = None) -> None:
        self.plot.label_axes("operations per byte", "operations/s" if self._low else "operations per second")
        if self._lines:
            self._draw()
            self.mark(self._marked)

    def _draw(self) -> None:
        colors = theme.current()
        longest = max((point.duration_ns for _, point in self.points), default=1.0) or 1.0
        fill = QColor(colors.accent)
        fill.setAlpha(150)
        self._dots.setData(
            [
                {
                    "pos": (np.log10(point.intensity), np.log10(point.rate)),
                    "size": MIN_DOT + (MAX_DOT - MIN_DOT) * (point.duration_ns / longest) ** 0.5,
                    "data": index,
                    "brush": pg.mkBrush(fill),
                    "pen": pg.mkPen(colors.panel, width=1),
                }
                for index, point in self.points
            ]
        )
        self._fit()

    def _fit(self) -> None:
        points = [point for _, point in self.points]
        if not points:
            self._text.setText("No measured or estimated floating-point work in this selection.")
        flat = [roof.peak for line in self._lines for roof in line.roofs if not roof.is_memory]
        x = np.log10([point.intensity for point in points] or [1.0])
        y = np.log10([point.rate for point in points] or flat or [1.0])
        top = np.log10(max(flat)) if flat else y.max()
        self.plot.setXRange(min(x.min(), -1.0) - 0.3, max(x.max(), 2.5) + 0.3, padding=0)
        self.plot.setYRange(min(y.min(), top - 4) - 0.2, top + 1.1, padding=0)

    def _draw_roofs(self) -> None:
        for item in self._roofs:
            self.plot.removeItem(item)
        self._roofs = []
        source = self._marked if 0 <= self._marked < len(self._lines) else 0
        line = self._lines[source] if self._lines else None
        if line is None or not line.roofs:
            return
        colors = theme.current()
        shown = self._worth_drawing(line.roofs)
        highest = max((roof.peak for roof in shown if not roof.is_memory), default=None)
        steepest = max((roof.peak for roof in shown if roof.is_memory), default=None)
        names: list[Callable[[NamePlaces], None]] = []
        for number, roof in enumerate(shown):
            if roof.is_memory:
                x = np.array([1e-4, highest / roof.peak if highest else 1e4])
                y = x * roof.peak
            else:
                x = np.array([roof.peak / steepest if steepest else 1e-4, 1e7])
                y = np.array([roof.peak, roof.peak])
            style = Qt.PenStyle.DashLine if roof.from_table else Qt.PenStyle.SolidLine
            color = colors.named(number + 1)
            self._roofs.append(self.plot.plot(x, y, pen=pg.mkPen(color, width=1.4, style=style)))
            if roof.is_memory:
                end, first = float(np.log10(x[-1])), roof.peak == steepest
                names.append(partial(self._label_slope, roof, first, end, color=color))
            else:
                begin = float(np.log10(x[0]))
                names.append(partial(self._label_flat, roof, roof.peak == highest, begin, color=color))
        places = self._places()
        for write in names:
            write(places)

    def _places(self) -> NamePlaces:
        (left, right), (bottom, top) = self.plot.viewRange()
        dots = [(np.log10(point.intensity), np.log10(point.rate)) for _, point in self.points]
        if 0 <= self._marked < len(self._lines):
            marked = self._lines[self._marked].points
            dots += [(np.log10(point.intensity), np.log10(point.rate)) for point in marked]
        shown = QRectF(left, bottom, right - left, top - bottom)
        return NamePlaces(shown, self.plot.getViewBox().size(), dots)

    def _worth_drawing(self, roofs: Sequence[Roof]) -> list[Roof]:
        """Memory levels, plain FP32 and FP64, what the kernels use, and the highest roof."""
        used = {point.precision for line in self._lines for point in line.points}
        top = max((roof.peak for roof in roofs if not roof.is_memory), default=0.0)
        keep = {"FP32", "FP64"} | used
        shown = [roof for roof in roofs if roof.is_memory or roof.name in keep or roof.peak == top]
        flat: dict[float, list[str]] = {}
        for roof in shown:
            if not roof.is_memory:
                flat.setdefault(roof.peak, []).append(roof.name)
        first = [roof for roof in shown if roof.is_memory or flat[roof.peak][0] == roof.name]
        return [roof if roof.is_memory else replace(roof, name=", ".join(flat[roof.peak])) for roof in first]

    def _label_flat(self, roof: Roof, highest: bool, begin: float, places: NamePlaces, color: QColor) -> None:
        """Write a name on its line, as on a map (above the highest), as far to the right as it covers nothing."""
        (left, right), _ = self.plot.viewRange()
        y = float(np.log10(roof.peak))
        first, step = right - places.step(MARGIN_PX), places.step(STEP_PX)
        wanted = (QPointF(x, y) for x in np.arange(first, max(begin, left) + step, -step).tolist())
        self._label(roof.name, places, wanted, (1.0, 1.0 if highest else 0.5), color)

    def _label_slope(self, roof: Roof, highest: bool, end: float, places: NamePlaces, color: QColor) -> None:
        """Write a name above the highest slope, or below another."""
        (left, right), (bottom, top) = self.plot.viewRange()
        height, step = float(np.log10(roof.peak)), places.step(STEP_PX)
        first = max(left, bottom - height) + places.step(FIRST_SLOPE_PX)
        wanted = (
            QPointF(x, height + x) for x in np.arange(first, min(end, right, top - height), step).tolist()
        )
        self._label(roof.name, places, wanted, (1.0, 1.0) if highest else (0.0, 0.0), color)

    def _label(
        self,
        name: str,
        places: NamePlaces,
        wanted: Iterable[QPointF],
        anchor: tuple[float, float],
        color: QColor,
    ) -> None:
        item = pg.TextItem(name, color=color, anchor=anchor, fill=pg.mkBrush(theme.current().panel))
        item.setFont(theme.font(theme.SECONDARY_PX))
        place = places.take(wanted, item.boundingRect().size(), anchor)
        item.setPos(place.x(), place.y())
        self.plot.addItem(item, ignoreBounds=True)
        self._roofs.append(item)

    def _draw_marked(self) -> None:
        if not 0 <= self._marked < len(self._lines):
            self._chosen_dots.setData([])
            return
        line, colors = self._lines[self._marked], theme.current()
        self._chosen_dots.setData(
            [
                {
                    "pos": (np.log10(point.intensity), np.log10(point.rate)),
                    "size": 12,
                    "symbol": _LEVEL_SYMBOL.get(point.level, "d"),
                    "brush": pg.mkBrush(colors.severities[next(iter(colors.severities))]),
                    "pen": pg.mkPen(colors.text, width=1.4),
                }
                for point in line.points
            ]
        )
        self._text.setText(breakable(self._describe(line)))

    def _describe(self, line: Roofline) -> str:
        name = self._names[self._marked]
        if not self.is_measured:
            return NOT_MEASURED
        if not line.points:
            return f"No floating-point arithmetic was measured in {name}."
        point = line.points[0]
        near = distance(point, line.roofs)
        where = f", {near.text}" if near is not None else ""
        if point.estimate:
            return unbroken(
                f"{name}: {operations(point.rate)} at {three_digits(point.intensity)} operations per byte{where}. "
                f"{duration(point.duration_ns)} in all. Estimated from the shapes of its inputs, each counted once: "
                "memory is read at least that much."
            )
        return unbroken(
            f"{name}: {operations(point.rate)} at {three_digits(point.intensity)} operations per byte of "
            f"{point.level}{where}. Circle: DRAM, square: L2, triangle: L1. {duration(point.duration_ns)}."
        )

    def _on_click(self, _: object, dots: Sequence[Any], *__: object) -> None:
        if len(dots):
            self.chosen.emit(int(dots[0].data()))
