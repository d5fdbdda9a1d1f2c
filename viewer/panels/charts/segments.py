"""The allocator's segments as bars: what lies in each of them, and the holes between."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QImage, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from parsers.model.arrays import BOOL, I64, U32
from parsers.model.units import percent, size
from rules.memory.kinds import KINDS, Kind
from viewer.appearance import theme
from viewer.appearance.painted_chart import TextCache, painting
from viewer.appearance.theme import Theme
from viewer.statistics.memory import Segments
from viewer.timeline.geometry.gaps import PERIOD, hatching
from viewer.timeline.memory.colors import color_of
from viewer.timeline.memory.painting import UNCERTAIN, UNUSED
from viewer.timeline.scene import rgb

ROW, BAR, LEFT, RIGHT = 20, 13, 74, 74
_DIMMED = 0.3  # of a colour is left beside what is marked


class SegmentBars(QWidget):
    """The largest segments; a click on a block chooses its allocation."""

    allocation_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._segments: Segments | None = None
        self._marked: BOOL | None = None
        self._text = TextCache(theme.font(theme.SECONDARY_PX, tabular=True))
        self.setAccessibleName("Segments of the allocator")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def sizeHint(self) -> QSize:
        return QSize(420, 7 * ROW)

    def minimumSizeHint(self) -> QSize:
        return QSize(240, 3 * ROW)

    def show_segments(self, segments: Segments | None) -> None:
        self._segments, self._marked = segments, None
        self.update()

    def mark(self, allocations: I64 | None) -> None:
        """Let the blocks of these allocations stand out; None: no longer."""
        segments = self._segments
        if segments is not None:
            held = segments.piece_allocation >= 0
            self._marked = (
                None if allocations is None else held & np.isin(segments.piece_allocation, allocations)
            )
        self.update()

    def _shown(self) -> int:
        segments = self._segments
        if segments is None:
            return 0
        rows = max(self.height() // ROW, 1)
        return len(segments.size) if len(segments.size) <= rows else max(rows - 1, 1)

    def _bar(self, row: int) -> QRectF:
        assert self._segments is not None
        room = max(self.width() - LEFT - RIGHT, 10)
        length = room * int(self._segments.size[row]) / max(int(self._segments.size[0]), 1)
        return QRectF(LEFT, row * ROW + (ROW - BAR) / 2, max(length, 2.0), BAR)

    def paintEvent(self, _: QPaintEvent) -> None:
        with painting(self) as painter:
            self._paint(painter)

    def _paint(self, painter: QPainter) -> None:
        colors, segments = theme.current(), self._segments
        painter.fillRect(self.rect(), colors.window)
        if segments is None:
            return
        painter.setFont(self._text.font)
        ratio = self.devicePixelRatioF()
        for row in range(self._shown()):
            bar, whole, used = self._bar(row), int(segments.size[row]), int(segments.used[row])
            painter.drawImage(bar, self._picture(row, round(bar.width() * ratio), ratio))
            painter.setPen(colors.line_strong)
            painter.drawRect(bar)
            painter.setPen(colors.text_secondary)
            y = round(bar.center().y() - self._text.height / 2)
            self._text.draw(painter, size(whole), 8, y, LEFT - 12)
            says = "empty" if not used else "full" if used == whole else f"{percent(used / whole)} used"
            self._text.draw(painter, says, self.width() - RIGHT + 8, y, RIGHT - 8)
        left = slice(self._shown(), None)
        if (smaller := int(segments.size[left].sum())) > 0:
            count, used = len(segments.size[left]), int(segments.used[left].sum())
            y = round(self._shown() * ROW + (ROW - self._text.height) / 2)
            told = f"and {count:,} smaller ones, {size(smaller)}, {percent(used / smaller)} used"
            self._text.draw(painter, told, 8, y, self.width() - 16)

    def _picture(self, row: int, width: int, ratio: float) -> QImage:
        """One segment in pixels: each shows the piece that lies in its middle."""
        assert self._segments is not None
        segments, height, line = self._segments, round(BAR * ratio), max(round(ratio), 1)
        width = max(width, 1)
        at = int(segments.address[row]) + (
            (np.arange(width) + 0.5) * (int(segments.size[row]) / width)
        ).astype(np.int64)
        piece = np.maximum(np.searchsorted(segments.piece_address, at, side="right") - 1, 0)
        plain, lined = _palette(theme.current())
        kind = segments.piece_kind[piece]
        faint = np.zeros(width, bool) if self._marked is None else ~self._marked[piece]
        place = kind + 1 + faint * (len(KINDS) + 1)
        period = PERIOD * line
        tile = np.tile(hatching(line)[UNCERTAIN], (height // period + 1, width // period + 1))[
            :height, :width
        ]
        pixels = np.ascontiguousarray(np.where(tile, lined[place], plain[place]))
        return QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_RGB32).copy()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            found = self.allocation_at(event.position())
            if found >= 0:
                self.allocation_chosen.emit(found)

    def allocation_at(self, at: QPointF) -> int:
        """The allocation that is drawn at a point; -1 for none."""
        segments, row = self._segments, int(at.y()) // ROW
        if segments is None or not 0 <= row < self._shown():
            return -1
        bar = self._bar(row)
        if not bar.left() <= at.x() < bar.right():
            return -1
        place = int(segments.address[row]) + int(
            (at.x() - bar.left()) / bar.width() * int(segments.size[row])
        )
        piece = int(np.searchsorted(segments.piece_address, place, side="right")) - 1
        return int(segments.piece_allocation[piece])


def _palette(colors: Theme) -> tuple[U32, U32]:
    """Colours of a hole and of each kind, then the same dimmed: plain, and on the lines of the hatching."""
    ground = colors.window
    hole = theme.mixed(colors.text, ground, UNUSED)
    kinds = [color_of(each, colors) for each in KINDS]
    uncertain = [theme.mixed(color, ground, _DIMMED) if kind is Kind.UNKNOWN else color
                 for kind, color in zip(KINDS, kinds, strict=True)]  # fmt: skip
    plain, lined = [ground, *uncertain], [hole, *kinds]
    plain += [ground, *(theme.mixed(each, ground, _DIMMED) for each in uncertain)]
    lined += [hole, *(theme.mixed(each, ground, _DIMMED) for each in kinds)]
    return np.array([rgb(each) for each in plain], np.uint32), np.array(
        [rgb(each) for each in lined], np.uint32
    )
