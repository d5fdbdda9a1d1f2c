"""The tabs below the timelines: steps, kernels and findings side by side, then one table each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFont, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import QSplitter, QTabWidget, QWidget

from parsers.model.arrays import F64
from parsers.model.late import dataclass
from parsers.model.units import duration
from rules.comparison.step_times import StepTimes
from viewer.appearance import theme
from viewer.appearance.painted_chart import PaintedChart
from viewer.appearance.widgets import ElidedLabel, Label, fill, horizontal, vertical
from viewer.comparison import tables
from viewer.comparison.finding_list import FindingList
from viewer.panels.tables.table_view import ROW_HEIGHT, TableView

if TYPE_CHECKING:
    from rules.comparison.compare import Comparison
    from rules.comparison.kernel_rows import KernelChange

ROW, AXIS = 25, 18
LABEL = 64
DOT = 6.0
MAX_DOTS = 400
LOGARITHMIC_FROM = 3.0  # slowest over fastest
TICK_ROOM = 52.0  # px from the middle of one time to the next
FEW_TICKS_BELOW = 10.0  # every multiple of a power of ten is a tick then


@dataclass(frozen=True, slots=True)
class DotAxis:
    """Times from ``low`` to ``high`` (ns) over ``width`` pixels, by ratios where they differ much."""

    low: float
    high: float
    width: float

    def x(self, ns: F64) -> F64:
        if self.high / max(self.low, 1.0) >= LOGARITHMIC_FROM:
            share = np.log(ns / self.low) / np.log(self.high / self.low)
        else:
            share = (ns - self.low) / max(self.high - self.low, 1.0)
        return np.asarray(share * self.width)

    def ticks(self) -> list[float]:
        """Round times inside it, ns."""
        span = self.high - self.low
        if self.high / max(self.low, 1.0) >= LOGARITHMIC_FROM:
            powers = 10.0 ** np.arange(np.floor(np.log10(self.low)), np.ceil(np.log10(self.high)) + 1)
            times = (1, 2, 5) if self.high / self.low >= FEW_TICKS_BELOW else range(1, 10)
            found = np.sort(np.outer(powers, times).ravel())
        else:
            rough = 10 ** np.floor(np.log10(max(span / 3, 1e-9)))
            step = rough * next(each for each in (1, 2, 5, 10) if rough * each >= span / 4)
            found = np.arange(np.ceil(self.low / step), np.floor(self.high / step) + 1) * step
        return [float(each) for each in found if self.low <= each <= self.high]

    def labelled(self, ticks: Sequence[float]) -> list[float]:
        """The ticks whose times are written: the rounder ones first, as many as have room beside each other."""
        kept: list[tuple[float, float]] = []
        places = self.x(np.array(ticks)).tolist()
        for tick, x in sorted(zip(ticks, places, strict=True), key=lambda each: _digits(each[0])):
            if all(abs(x - other) >= TICK_ROOM for _, other in kept):
                kept.append((tick, x))
        return sorted(tick for tick, _ in kept)


class StepDots(PaintedChart):
    """Two rows of dots."""

    wanted = (300, 2 * ROW + AXIS)
    is_low = True

    def __init__(self) -> None:
        super().__init__("Step times before and after")
        self._times: tuple[StepTimes, StepTimes] | None = None

    def is_empty(self) -> bool:
        return self._times is None

    def show_times(self, before: StepTimes, after: StepTimes) -> None:
        """Show the steady steps of two recordings; nothing where one has none."""
        self._times = (before, after) if len(before.ns) and len(after.ns) else None
        self.setVisible(self._times is not None)
        if self._times is not None:
            self.setAccessibleDescription(
                f"before {len(before.ns)} steps of {duration(before.mean)} on average, "
                f"after {len(after.ns)} of {duration(after.mean)}"
            )
        self.update()

    def axis(self, width: float) -> DotAxis:
        assert self._times is not None
        every = np.concatenate([each.ns for each in self._times])
        low, high = float(every.min()), float(every.max())
        air = (high / low) ** 0.06 if low else 1.0
        return DotAxis(low / max(air, 1.01), high * max(air, 1.01), width)

    def draw(self, painter: QPainter) -> None:
        assert self._times is not None
        colors, axis = theme.current(), self.axis(self.width() - LABEL - 24)
        ticks = axis.ticks()
        labelled = axis.labelled(ticks)
        for tick, x in zip(ticks, axis.x(np.array(ticks)).tolist(), strict=True):
            painter.setPen(QPen(colors.line, 1))
            painter.drawLine(QPointF(LABEL + x, 2), QPointF(LABEL + x, 2 * ROW))
            if tick in labelled:
                painter.setPen(colors.text_secondary)
                where = QRectF(LABEL + x - 30, 2 * ROW + 2, 60, AXIS - 4)
                painter.drawText(where, Qt.AlignmentFlag.AlignCenter, duration(tick))
        inks = colors.grey, colors.accent
        for number, (name, times, ink) in enumerate(zip(("before", "after"), self._times, inks, strict=True)):
            top = number * ROW
            painter.setPen(colors.text_secondary)
            painter.drawText(QRectF(12, top, LABEL - 16, ROW), Qt.AlignmentFlag.AlignVCenter, name)
            shown = times.ns[:: max(len(times.ns) // MAX_DOTS, 1)]
            painter.setPen(QPen(colors.window, 0.7))
            painter.setBrush(ink)
            for x, level in _stacked(axis.x(shown)):
                y = top + ROW / 2 + (level % 2 * 2 - 1) * ((level + 1) // 2) * 4
                painter.drawEllipse(QPointF(LABEL + x, min(max(y, top + 5), top + ROW - 5)), DOT / 2, DOT / 2)
            mean = LABEL + float(axis.x(np.array([times.mean]))[0])
            painter.setPen(QPen(colors.text, 2))
            painter.drawLine(QPointF(mean, top + 5), QPointF(mean, top + ROW - 5))


def _digits(time: float) -> tuple[int, int]:
    """How round a time is: fewer digits that differ from 0, and 1, 5 and 2 before the others."""
    digits = f"{round(time):d}".rstrip("0")
    return len(digits), "152".find(digits) if digits in ("1", "5", "2") else 3


def _stacked(x: F64) -> list[tuple[float, int]]:
    """Each place with how many dots lie under it already."""
    order = np.sort(x)
    cells = np.floor(order / DOT).astype(np.int64)
    first = np.concatenate(([True], cells[1:] != cells[:-1]))
    begins = np.flatnonzero(first)
    level = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    return list(zip(order.tolist(), level.tolist(), strict=True))


ROOM_FOR_THREE = 1150  # pixels: for steps, kernels and findings beside one another


class Details(QTabWidget):
    """``row_chosen`` gets the place of a row of kernels, ``finding_chosen`` a FindingChange."""

    row_chosen = Signal(int)
    finding_chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setDocumentMode(True)
        self.tabBar().setAccessibleName("What changed")
        self.measures = TableView(tables.MEASURES, "Steps")
        self.dots = StepDots()
        self.kernels = TableView(tables.KERNELS, "Kernels")
        self.findings = FindingList()
        self.kernels.chosen.connect(self.row_chosen)
        self.findings.chosen.connect(self.finding_chosen)
        self._measured = Label("", pixels=13, weight=QFont.Weight.DemiBold)
        self._about_steps = ElidedLabel("", "secondary", pixels=12)
        self._about_findings = ElidedLabel("", "secondary", pixels=12)
        self._further: list[QWidget] = []
        self.wanted = ""  # the full name of a kernel of the first recording whose row is to be marked
        self.addTab(self._side_by_side(), "Side by side")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_findings()

    def _place_findings(self) -> None:
        """Beside the kernels, or where their names would be cut for it, in a tab of their own."""
        apart = self.width() < ROOM_FOR_THREE
        if apart == (self.indexOf(self._found) >= 0):
            return
        if apart:
            self.insertTab(1, self._found, "Findings")
        else:
            self.removeTab(self.indexOf(self._found))
            self._split.addWidget(self._found)
            self._found.show()

    def _side_by_side(self) -> QWidget:
        split = self._split = QSplitter(Qt.Orientation.Horizontal)
        steps = self._titled(self._measured, self._about_steps, self.measures, self.dots)
        said = ElidedLabel(
            "by name, or failing that by operator, shapes and place in the step", "secondary", pixels=12
        )
        middle, third = (
            Label(title, pixels=13, weight=QFont.Weight.DemiBold)
            for title in ("Kernels matched across", "Findings")
        )
        self._matched = self._titled(middle, said, self.kernels)
        self._found = self._titled(third, self._about_findings, self.findings)
        for index, (widget, least) in enumerate(((steps, 350), (self._matched, 405), (self._found, 195))):
            split.addWidget(widget)
            widget.setMinimumWidth(least)
            split.setStretchFactor(index, 3 if widget is self._matched else 1)
        split.setSizes([445, 625, 310])
        split.setChildrenCollapsible(False)
        return split

    @staticmethod
    def _titled(title: QWidget, about: QWidget, *widgets: QWidget) -> QWidget:
        box = QWidget()
        column = vertical(box, (0, 6, 0, 0), 4)
        line = fill(horizontal(margins=(12, 0, 10, 0), spacing=10), title, (about, 1))
        column.addLayout(line)
        for widget in widgets:
            column.addWidget(widget, 100 if widget is widgets[0] else 0)
        column.addStretch(1)
        return box

    def show_result(self, result: Comparison, rows: Sequence[KernelChange], prepared: tables.Tables) -> None:
        self._measured.setText("Memory" if result.of_memory else "Steps")
        without_gpu = result.sides is not None and not any(side.gpus for side in result.sides)
        self._matched.setVisible(not result.of_memory and not without_gpu)
        self._fill_measures(result, prepared)
        self.show_kernels(rows)
        self.findings.show_findings(result.findings, tables.finding_costs(result), result.cautions)
        self._about_findings.setText(_counted([each.change.value for each in result.findings]))
        for widget in self._further:
            self.removeTab(self.indexOf(widget))
            widget.deleteLater()
        self._further = []
        for title, columns, frame in prepared.further:
            table = TableView(columns, title)
            table.set_frame(frame)
            self.addTab(table, title)
            self._further.append(table)

    def show_kernels(self, rows: Sequence[KernelChange]) -> None:
        self.kernels.set_frame(tables.kernels(rows))
        marked = [row for row, each in enumerate(rows) if self.wanted in (each.name, *each.before)]
        if self.wanted and marked:
            self.kernels.select_frame_row(marked[0])

    def _fill_measures(self, result: Comparison, prepared: tables.Tables) -> None:
        self.measures.set_frame(prepared.measures)
        header = self.measures.horizontalHeader().sizeHint().height()
        self.measures.setMaximumHeight(header + ROW_HEIGHT * len(prepared.measures) + 2)
        ratio = result.judgement.ratio
        self.dots.setVisible(ratio is not None)
        if ratio is not None:
            self.dots.show_times(ratio.before, ratio.after)
            self._about_steps.setText("each step a dot, the mean a line; 95 % intervals")
        else:
            self._about_steps.setText("" if result.of_memory else result.judgement.reason)


def _counted(words: Sequence[str]) -> str:
    return ", ".join(f"{words.count(each)} {each}" for each in dict.fromkeys(words)) or "nothing significant"
