"""Paints what fills a GPU's memory: kinds on one another, what is reserved and unused hatched above them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QPainter, QPen

from parsers.model.arrays import BOOL, F64, I64, U32
from parsers.model.units import duration, size
from rules.memory.kinds import Kind
from viewer.appearance import theme
from viewer.appearance.painted_chart import TextCache
from viewer.appearance.theme import Theme
from viewer.timeline.geometry.gaps import PERIOD, hatching
from viewer.timeline.geometry.scale import Scale
from viewer.timeline.memory.colors import color_of
from viewer.timeline.memory.stack import MemoryStack, StackColumns
from viewer.timeline.scene import rgb

MIN_LABELLED = 15  # pixels: in a lower band there is no room for its name
UNCERTAIN = 6  # the hatching of what is not known
_FAINT = 0.35  # of a hatched kind's colour between its lines
UNUSED = 0.16  # of the text's colour on lines through what is reserved and unused


def beside_line(x: float, width: float, height: float, area: QRectF, taken: Sequence[QRectF]) -> QRectF:
    """Where a label of a vertical line at ``x`` stands: as high up as none of the ``taken`` places is covered."""
    left = x - width - 4 if x - width - 4 > area.left() else x + 8
    box = QRectF(left, area.top() + 1, width, height)
    for other in sorted(taken, key=QRectF.top):
        if box.intersects(other):
            box.moveTop(other.bottom() + 2)
    return box


def paint_memory(
    block: U32,
    stack: MemoryStack,
    shown: StackColumns,
    line: int,
    phase: tuple[int, int],
    height: int,
    cut: int,
) -> None:
    """Paint into ``block`` (rows x columns) what of a lane of ``height`` rows is visible, but the last ``cut`` ones.

    ``line`` is the width of a fine line; ``phase`` (columns, rows) moves the hatching with the picture.
    """
    rows, width = block.shape
    colors, kinds = theme.current(), len(stack.kinds)
    row = np.arange(height - cut - rows, height - cut)[:, None]
    tops = height - np.rint(np.cumsum(shown.held, axis=0) * ((height - line) / stack.top)).astype(np.int64)
    place = np.zeros((rows, width), np.uint8)
    for top in tops:
        place += row < top[None, :]
    reserved = None
    if shown.reserved is not None:
        # Where the snapshot reaches further back than the counter of what is reserved, that is not known.
        least = np.maximum(shown.reserved, shown.held.sum(axis=0))
        reserved = height - np.rint(least * ((height - line) / stack.top)).astype(np.int64)
        place += row < reserved[None, :]
    table, lined = _tables(stack.kinds, colors, reserved is not None)
    on_line = _tile(line, rows, width, phase).view(np.uint8) * np.uint8(len(table))
    found = np.concatenate((table, lined)).take(place + on_line)
    np.copyto(block, found, where=place <= kinds - (reserved is None))
    if reserved is not None:
        edge = (row >= reserved[None, :] - line) & (row < reserved[None, :])
        steps = np.minimum(reserved, np.append(reserved[:1], reserved[:-1]))
        edge |= (row >= steps[None, :] - line) & (row < reserved[None, :])
        np.copyto(block, np.uint32(rgb(colors.text_secondary)), where=edge)
    for when, _ in stack.failures:
        _mark_failure(block, shown, when, rgb(colors.error), 2 * line)


def _mark_failure(block: U32, shown: StackColumns, when: int, color: int, line: int) -> None:
    at = int(np.searchsorted(shown.moment, when))
    if 0 < at < len(shown.moment) or (at == 0 and len(shown.moment) and int(shown.moment[0]) == when):
        block[:, max(at - line, 0) : at + line] = color


def _tables(kinds: tuple[Kind, ...], colors: Theme, with_reserved: bool) -> tuple[U32, U32]:
    """Colours from below: of each kind, of what is unused; plain, and on the lines of the hatching."""
    plain, lined = [], []
    for kind in kinds:
        color = color_of(kind, colors)
        lined.append(rgb(color))
        plain.append(rgb(theme.mixed(color, colors.window, _FAINT)) if kind is Kind.UNKNOWN else rgb(color))
    plain += [rgb(colors.window)] * 2
    unused = rgb(theme.mixed(colors.text, colors.window, UNUSED)) if with_reserved else rgb(colors.window)
    lined += [unused, rgb(colors.window)]
    return np.array(plain, np.uint32), np.array(lined, np.uint32)


@lru_cache(maxsize=4)
def _tiled(line: int, height: int, width: int) -> BOOL:
    period = PERIOD * line
    return np.tile(hatching(line)[UNCERTAIN], (height // period + 2, width // period + 2))


def _tile(line: int, height: int, width: int, phase: tuple[int, int]) -> BOOL:
    period = PERIOD * line
    columns, rows = phase[0] % period, phase[1] % period
    return _tiled(line, height, width)[rows : rows + height, columns : columns + width]


class MemoryLabels:
    """Names of the bands that have room for them, and the peak of what is visible."""

    def __init__(self) -> None:
        self._bold = TextCache(theme.font(theme.SECONDARY_PX, QFont.Weight.DemiBold))
        self._small = TextCache(theme.font(theme.SECONDARY_PX, tabular=True))

    def draw(
        self, painter: QPainter, stack: MemoryStack, shown: StackColumns, scale: Scale, area: QRectF
    ) -> None:
        """Draw over a lane; ``shown`` has a column for each pixel of ``scale``."""
        if not len(shown.moment) or area.height() < 3 * MIN_LABELLED:
            return
        per_byte = area.height() / stack.top
        below = np.zeros(len(shown.moment))
        painter.setFont(self._bold.font)
        at, peak, text = self._peak(stack, shown, scale, area)
        for kind, held in zip(stack.kinds, shown.held, strict=True):
            self._name(painter, kind, below * per_byte, held * per_byte, held, area, peak)
            below = below + held
        self._draw_peak(painter, at, peak, text)
        taken = [peak]
        painter.setPen(theme.current().error)
        for when, asked in stack.failures:
            if scale.t0 <= when <= scale.t1:
                text = f"{size(asked)} requested, none given"
                room = self._bold.width(text) + 8
                taken.append(beside_line(area.left() + scale.x(when), room, self._bold.height, area, taken))
                box = taken[-1]
                self._bold.draw(painter, text, box.left(), round(box.top()), room)

    def _name(
        self, painter: QPainter, kind: Kind, below: F64, high: F64, held: I64, area: QRectF, taken: QRectF
    ) -> None:
        """One band's name where it is highest, in the middle of the stretch that has room around there.

        Behind what is ``taken`` if it would cover that; none where there is no place.
        """
        roomy = high >= MIN_LABELLED
        if not roomy.any():
            return
        best = int(np.argmax(high))
        closed = np.flatnonzero(~roomy)
        at = int(np.searchsorted(closed, best))
        low = int(closed[at - 1]) + 1 if at else 0
        end = int(closed[at]) if at < len(closed) else len(roomy)
        text = f"{kind.value} {size(int(held[best]))}"
        room = self._bold.width(text) + 12
        if end - low < room:
            return
        left = min(max(best - room / 2, low), end - room)
        if self._room_at(left, room, below, high, area).intersects(taken):
            left = taken.right() - area.left() + 4
            if left + room > end or self._room_at(left, room, below, high, area).intersects(taken):
                return
        box = self._room_at(left, room, below, high, area)
        if box.height() < MIN_LABELLED - 2:
            return
        colors = theme.current()
        painter.setPen(colors.text if kind is Kind.UNKNOWN else theme.text_on(color_of(kind, colors)))
        y = round(box.center().y() - self._bold.height / 2)
        self._bold.draw(painter, text, box.left() + 6, y, room)

    @staticmethod
    def _room_at(left: float, room: float, below: F64, high: F64, area: QRectF) -> QRectF:
        """What of a band is ``room`` pixels wide from ``left`` on without leaving it."""
        inside = slice(round(left), max(round(left + room), round(left) + 1))
        floor, ceiling = float(below[inside].max()), float((below + high)[inside].min())
        return QRectF(area.left() + left, area.bottom() - ceiling, room, ceiling - floor)

    def _peak(
        self, stack: MemoryStack, shown: StackColumns, scale: Scale, area: QRectF
    ) -> tuple[QPointF, QRectF, str]:
        """The highest moment in view, where its label stands and what that says."""
        total = shown.held.sum(axis=0)
        best = int(np.argmax(total))
        held, when = int(total[best]), int(shown.moment[best])
        at = QPointF(area.left() + scale.x(when), area.bottom() - held * area.height() / stack.top)
        word = "peak" if held == stack.peak else "highest here"
        text = f"{word} {size(held)} at {duration(when)}"
        width = self._bold.width(text) + 12
        left = at.x() + 9 if at.x() + 9 + width <= area.right() else at.x() - 9 - width
        return at, QRectF(max(left, area.left() + 2), max(at.y() - 9, area.top() + 1), width, 18), text

    def _draw_peak(self, painter: QPainter, at: QPointF, box: QRectF, text: str) -> None:
        colors = theme.current()
        painter.setBrush(colors.window)
        painter.setPen(QPen(colors.text, 1.6))
        painter.drawEllipse(at, 4, 4)
        painter.setPen(QPen(colors.line_strong, 1))
        painter.setBrush(colors.panel)
        painter.drawRoundedRect(box, 3, 3)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(colors.text)
        painter.setFont(self._bold.font)
        y = round(box.center().y() - self._bold.height / 2)
        self._bold.draw(painter, text, box.left() + 6, y, box.width())
