"""Every step of both recordings as a dot on one axis, with the mean as a line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from parsers.model.arrays import F64
from parsers.model.late.dataclass import dataclass
from parsers.model.units import duration
from rules.comparison.step_times import StepTimes
from viewer.appearance import theme
from viewer.appearance.painted_chart import PaintedChart

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
        """The pixel of each time."""
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
