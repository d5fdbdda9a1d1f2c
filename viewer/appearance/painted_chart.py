"""What is painted by hand: charts with a name, a size and margins, and captions elided to the room there is."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QFont,
    QFontMetricsF,
    QMouseEvent,
    QPaintDevice,
    QPainter,
    QPaintEvent,
    QPen,
    QStaticText,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QSizePolicy,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from parsers.model.late import regex
from viewer.appearance import theme
from viewer.appearance.tab_order import CHART
from viewer.appearance.widgets import elided_inside

Index = QModelIndex | QPersistentModelIndex


class RowDelegate(QStyledItemDelegate):
    """The delegate of one view, whose mouse it follows."""

    def __init__(self, view: QAbstractItemView) -> None:
        super().__init__(view)
        self._hovered = QPersistentModelIndex()
        self._view, self._viewport = view, view.viewport()
        self._viewport.setMouseTracking(True)
        self._viewport.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is not self._viewport:
            return super().eventFilter(watched, event)  # an editor's keys
        row: Index = self._hovered
        if isinstance(event, QMouseEvent) and event.type() is QEvent.Type.MouseMove:
            row = self._view.indexAt(event.position().toPoint()).siblingAtColumn(0)
        elif event.type() in (QEvent.Type.Leave, QEvent.Type.Wheel):
            row = QModelIndex()
        if row != self._hovered:
            self._hovered = QPersistentModelIndex(row)
            self._viewport.update()
        return False

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        self.tint(option, index)
        super().paint(painter, option, index)

    def tint(self, option: QStyleOptionViewItem, index: Index) -> None:
        """Say that the mouse is over every cell of the row that it is over."""
        over = QStyle.StateFlag.State_MouseOver
        hovered = index.sibling(index.row(), 0) == self._hovered
        option.state = option.state | over if hovered else option.state & ~over


MIN_WIDTH = 26.0  # px, of what is elided; a short name is shown wherever it fits
MIN_NAME_WIDTH = 14.0  # px: less holds no name
_BETWEEN_WORDS = " (<[·"
_WHAT_FOLLOWS_A_NAME = "(<[·"  # a name is whole without it
STEP = 6.0  # widths are rounded down to this, so that a zoom reuses texts
KEPT = 6000
_NAMESPACE = regex(r"\b[a-z]\w*::(?=\w)")
MIN_LETTERS = 5  # of an elided name, with its ellipsis: fewer say nothing


@contextmanager
def painting(device: QPaintDevice) -> Iterator[QPainter]:
    """A smooth painter that ends in any case: one that is left active when something fails brings Qt down."""
    painter = QPainter(device)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    try:
        yield painter
    finally:
        painter.end()


class TextCache:
    """Static texts by (text, room); with ``inside``, what does not fit keeps both of its ends."""

    def __init__(self, font: QFont, *, inside: bool = False) -> None:
        self.font = font
        self._inside = inside
        self.metrics = QFontMetricsF(font)
        self.height = self.metrics.height()
        self._fitted: OrderedDict[tuple[str, int], QStaticText | None] = OrderedDict()
        self._width: dict[str, float] = {}

    def width(self, text: str) -> float:
        found = self._width.get(text)
        if found is None:
            if len(self._width) > 4 * KEPT:
                self._width.clear()
            found = self._width[text] = self.metrics.horizontalAdvance(text)
        return found

    def fitted(self, text: str, room: float) -> QStaticText | None:
        """``text``, elided to ``room``; None where not even a few letters fit."""
        if not text:
            return None
        width = self._width.get(text)
        whole = (self.width(text) if width is None else width) <= room
        if not whole and room < MIN_WIDTH:
            return None
        key = (text, -1 if whole else int(room / STEP))
        if key in self._fitted:
            self._fitted.move_to_end(key)
            return self._fitted[key]
        shown = text if whole else self._elided(text, key[1] * STEP)
        too_few = shown.endswith("…") and len(shown) < MIN_LETTERS
        made = None if too_few else _static(shown, self.font)
        self._fitted[key] = made
        if len(self._fitted) > KEPT:
            self._fitted.popitem(last=False)
        return made

    def _elided(self, text: str, room: float) -> str:
        if self._inside:
            return elided_inside(text, self.metrics, room)
        text = _NAMESPACE.sub("", text)  # what it is called says more than where it belongs to
        if self.width(text) <= room:
            return text
        cut = self.metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
        words = cut.removesuffix("…").rstrip(_BETWEEN_WORDS)
        is_a_name = text[len(words) :].lstrip().startswith(tuple(_WHAT_FOLLOWS_A_NAME))
        return cut if not words else words if is_a_name else f"{words}…"

    def draw(self, painter: QPainter, text: str, x: float, y: float, room: float) -> bool:
        """Draw ``text`` with its top at ``y``, elided; whether anything was drawn."""
        fitted = self.fitted(text, room)
        if fitted is None:
            return False
        painter.drawStaticText(QPointF(x, y), fitted)
        return True


def _static(text: str, font: QFont) -> QStaticText:
    made = QStaticText(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setPerformanceHint(QStaticText.PerformanceHint.AggressiveCaching)
    made.prepare(font=font)
    return made


_LEFT, _RIGHT = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight
_RIGHT_MIDDLE = _RIGHT | Qt.AlignmentFlag.AlignVCenter
TEXT_HEIGHT = 16


class PaintedChart(QWidget):
    """``draw`` paints it, in the small font, unless there is nothing to show.

    ``margins`` (left, top, right, foot) and ``wanted`` (width, height) are pixels.
    """

    accessible_role = CHART
    margins = (0, 0, 0, 0)
    wanted: ClassVar[tuple[int, int]]
    is_low = False  # never higher than it wants to be
    is_smooth = True  # bars have sharp edges instead

    def __init__(self, name: str) -> None:
        super().__init__()
        vertical = QSizePolicy.Policy.Fixed if self.is_low else QSizePolicy.Policy.Expanding
        self.setSizePolicy(QSizePolicy.Policy.Expanding, vertical)
        self.setAccessibleName(name)

    def is_empty(self) -> bool:
        return False

    def draw(self, painter: QPainter) -> None:
        raise NotImplementedError

    def sizeHint(self) -> QSize:
        return QSize(*self.wanted)

    @property
    def room(self) -> QRectF:
        """Where values are drawn; never empty."""
        left, top, right, foot = self.margins
        return QRectF(left, top, max(self.width() - left - right, 1), max(self.height() - top - foot, 1))

    def at(self, across: float, up: float) -> QPointF:
        """The point at these parts of the room, from its left and from its foot."""
        room = self.room
        return QPointF(room.left() + room.width() * across, room.bottom() - room.height() * up)

    def paintEvent(self, _: QPaintEvent) -> None:
        if not self.is_empty():
            with painting(self) as painter:
                painter.setRenderHint(QPainter.RenderHint.Antialiasing, self.is_smooth)
                painter.setFont(theme.font(theme.SECONDARY_PX, tabular=True))
                self.draw(painter)

    def draw_levels(self, painter: QPainter, levels: Iterable[tuple[float, str]]) -> None:
        """Lines across the room, each at a part of its height, and what they stand for at the left."""
        colors, room = theme.current(), self.room
        for up, text in levels:
            y = self.at(0, up).y()
            painter.setPen(QPen(colors.line, 1))
            painter.drawLine(QPointF(room.left(), y), QPointF(room.right(), y))
            painter.setPen(colors.text_secondary)
            beside = QRectF(0, y - TEXT_HEIGHT / 2, room.left() - 8, TEXT_HEIGHT)
            painter.drawText(beside, _RIGHT_MIDDLE, text)

    def draw_ends(self, painter: QPainter, first: str, last: str) -> None:
        """What the left and the right end of the room stand for, below it."""
        room = self.room
        painter.setPen(theme.current().text_secondary)
        below = QRectF(room.left(), room.bottom() + 3, room.width(), TEXT_HEIGHT)
        painter.drawText(below, _LEFT, first)
        painter.drawText(below, _RIGHT, last)
