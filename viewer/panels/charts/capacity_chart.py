"""A chart of decode steps: batch size against tokens a second, measured, and a band for what was not tried."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPen

from parsers.model.late import dataclass
from parsers.model.units import duration, how_many, three_digits
from rules.analysis.inference.capacity import Capacity
from viewer.appearance import theme
from viewer.appearance.painted_chart import TEXT_HEIGHT, PaintedChart
from viewer.appearance.widgets import tooltip

BEYOND = 1.2  # times the largest batch: the axis goes on to where nothing was tried
FEW = 3  # steps: dots of fewer are hollow
DOT = 4.0
NEAR = 12.0  # pixels
LINES = 3  # of the grid, about
CORNERS = 24  # of each edge of the band
BAND_ALPHA = 44  # of 255


@dataclass(frozen=True, slots=True)
class Batch:
    """Decode steps of one batch size: how many, and their median time in ns."""

    size: int
    ns: float
    count: int

    @property
    def rate(self) -> float:
        return self.size / self.ns * 1e9


class CapacityChart(PaintedChart):
    """Dots are measured; the line through the allowed time tells which of them are too slow.

    Beyond them the dashed line goes on as they rise, inside of a band that begins at no gain at all.
    """

    margins = (64, 24, 14, 36)
    wanted = (520, 200)

    def __init__(self) -> None:
        super().__init__("Tokens a second by batch size")
        self.batches: tuple[Batch, ...] = ()
        self.plateau: int | None = None
        self.allowed_ns: float | None = None
        self.capacity: Capacity | None = None
        self.setMinimumHeight(120)
        self.setMouseTracking(True)

    def show_batches(
        self,
        batches: Sequence[Batch],
        plateau: int | None,
        allowed_ns: float | None,
        capacity: Capacity | None,
    ) -> None:
        """Replace all dots; ``allowed_ns`` is the longest time for a token that was agreed on."""
        self.batches = tuple(each for each in batches if each.ns > 0)
        self.plateau, self.allowed_ns, self.capacity = plateau, allowed_ns, capacity
        told = [f"{each.size} requests: {three_digits(each.rate)} tokens/s" for each in self.batches]
        self.setAccessibleDescription("; ".join([*told, self.beyond] if self.beyond else told))
        self.update()

    def is_empty(self) -> bool:
        return not self.batches

    @property
    def beyond(self) -> str:
        """What the band says of the largest batch that it reaches; empty without a band."""
        if self.capacity is None:
            return ""
        low, high = (three_digits(rate) for rate in self.capacity.band(self.capacity.furthest))
        return f"{self.capacity.furthest} requests, not tried: {low} to {high} tokens/s"

    def is_late(self, batch: Batch) -> bool:
        """Whether a token of this batch takes longer than allowed."""
        return self.allowed_ns is not None and batch.ns > self.allowed_ns

    def place(self, size: float, rate: float) -> QPointF:
        most, highest = self._ends()
        return self.at(size / most, rate / highest)

    def _ends(self) -> tuple[float, float]:
        largest = max((each.size for each in self.batches), default=1)
        rates = [each.rate for each in self.batches]
        if self.capacity is not None:
            largest, rates = self.capacity.furthest, [*rates, self.capacity.band(self.capacity.furthest)[1]]
        return largest * (1.02 if self.capacity else BEYOND), max(rates, default=1.0) * 1.05

    def draw(self, painter: QPainter) -> None:
        colors = theme.current()
        most, highest = self._ends()
        largest = self.batches[-1].size
        untried = QRectF(self.place(largest, highest), self.place(most, 0))
        painter.fillRect(untried, colors.strip)
        if self.capacity is not None:
            self._draw_band(painter, self.capacity)
        painter.setPen(colors.text_faint)
        painter.drawText(untried.adjusted(4, 0, -4, -4), Qt.AlignmentFlag.AlignBottom, "not tried")
        self._draw_axes(painter, highest, largest)
        if self.allowed_ns is not None:
            self._draw_allowed(painter, self.allowed_ns, most, highest)
        if self.plateau is not None:
            top, foot = self.place(self.plateau, highest), self.place(self.plateau, 0)
            painter.setPen(QPen(colors.text_secondary, 1, Qt.PenStyle.DashLine))
            painter.drawLine(top, foot)
            painter.drawText(QPointF(top.x() + 5, top.y() + 12), "plateau begins")
        often = [self.place(each.size, each.rate) for each in self.batches if each.count >= FEW]
        painter.setPen(QPen(colors.accent, 1.4))
        painter.drawPolyline(often)
        for each in self.batches:
            color = colors.error if self.is_late(each) else colors.accent
            painter.setPen(QPen(color, 1.4))
            painter.setBrush(color if each.count >= FEW else colors.panel)
            painter.drawEllipse(self.place(each.size, each.rate), DOT, DOT)

    def _draw_band(self, painter: QPainter, capacity: Capacity) -> None:
        accent = theme.current().accent
        sizes = [
            capacity.largest + (capacity.furthest - capacity.largest) * part / CORNERS
            for part in range(CORNERS + 1)
        ]
        low, high = zip(*map(capacity.band, sizes), strict=True)
        edge = [self.place(*each) for each in zip(sizes, low, strict=True)]
        edge += [self.place(*each) for each in zip(reversed(sizes), reversed(high), strict=True)]
        fill = QColor(accent)
        fill.setAlpha(BAND_ALPHA)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(fill)
        painter.drawPolygon(edge)
        painter.setPen(QPen(accent, 1.4, Qt.PenStyle.DashLine))
        painter.drawPolyline([self.place(size, capacity.rate(size)) for size in sizes])
        painter.setPen(theme.current().text_secondary)
        painter.drawText(
            QRectF(8, 2, self.room.right() - 8, TEXT_HEIGHT), Qt.AlignmentFlag.AlignRight, self.beyond
        )

    def _draw_axes(self, painter: QPainter, highest: float, largest: int) -> None:
        step = _round_step(highest / LINES)
        rates = [line * step for line in range(int(highest / step) + 1)]
        self.draw_levels(painter, [(each / highest, f"{each:,.10g}") for each in rates])
        painter.drawText(QRectF(8, 2, self.width() - 16, TEXT_HEIGHT), Qt.AlignmentFlag.AlignLeft, "tokens/s")
        room = self.room
        y = room.bottom() + 4
        beyond = {self.capacity.furthest} if self.capacity is not None else set[int]()
        for size in sorted({1, max(largest // 2, 1), largest} | beyond):
            x = self.place(size, 0).x()
            painter.drawText(QRectF(x - 30, y, 60, TEXT_HEIGHT), Qt.AlignmentFlag.AlignHCenter, f"{size:,}")
        foot = QRectF(room.left(), y + 14, room.width(), TEXT_HEIGHT)
        painter.drawText(foot, Qt.AlignmentFlag.AlignRight, "requests in a decode step")

    def _draw_allowed(self, painter: QPainter, allowed_ns: float, most: float, highest: float) -> None:
        """From nothing on: below this line a token takes longer than allowed."""
        color = QColor(theme.current().warning)
        size = min(most, highest * allowed_ns / 1e9)
        end = self.place(size, size / allowed_ns * 1e9)
        painter.setPen(QPen(color, 1.4, Qt.PenStyle.DashLine))
        painter.drawLine(self.place(0, 0), end)
        text = f"{duration(round(allowed_ns))} allowed"
        width = painter.fontMetrics().horizontalAdvance(text)
        x = min(end.x() + 5, self.room.right() - width)
        painter.drawText(QPointF(x, end.y() + 16), text)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        at = event.position()

        def distance(each: Batch) -> float:
            apart = self.place(each.size, each.rate) - at
            return float(abs(apart.x()) + abs(apart.y()))

        nearest = min(self.batches, key=distance, default=None)
        if nearest is None or distance(nearest) > NEAR:
            self.setToolTip("")
            return
        steps = how_many(nearest.count, "decode step")
        self.setToolTip(
            tooltip(
                f"{how_many(nearest.size, 'request')}: {three_digits(nearest.rate)} tokens/s\n"
                f"{duration(round(nearest.ns))}, the median of {steps}"
            )
        )


def _round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is at least this."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= least)
