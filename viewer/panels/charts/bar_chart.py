"""Labelled horizontal bars with their values; one of them can be chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QHelpEvent, QKeyEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import QToolTip

from parsers.model.late import dataclass
from viewer.appearance import theme
from viewer.appearance.painted_chart import PaintedChart
from viewer.appearance.widgets import tooltip

ROW_HEIGHT = 22
MIN_LABEL_SHARE, MAX_LABEL_SHARE = 0.36, 0.6


@dataclass(frozen=True, slots=True)
class Bar:
    """``share`` of the whole width, 0 to 1; ``mark``: where a limit lies, -1 for none; no ``color``: the accent."""

    key: str
    label: str
    share: float
    text: str
    tip: str = ""
    color: Callable[[theme.Theme], QColor] | None = None
    mark: float = -1.0


def shortest_whole(label: str, metrics: QFontMetrics, room: int) -> str:
    """A label as it fits: without what stands in brackets behind it, which its tooltip says, before it is cut."""
    if metrics.horizontalAdvance(label) <= room:
        return label
    return metrics.elidedText(label.partition(" (")[0], Qt.TextElideMode.ElideRight, room)


class BarChart(PaintedChart):
    """Rows of equal height, never wider than its place."""

    is_low = True
    chosen = Signal(str)

    def __init__(self, name: str, *, selectable: bool = False) -> None:
        super().__init__(name)
        self.bars: tuple[Bar, ...] = ()
        self._selectable = selectable
        self._chosen = ""
        if selectable:
            self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            self.setCursor(Qt.CursorShape.PointingHandCursor)

    def show_bars(self, bars: Sequence[Bar], chosen: str = "") -> None:
        self.bars, self._chosen = tuple(bars), chosen
        self.setAccessibleDescription("; ".join(f"{bar.label} {bar.text}" for bar in bars))
        self.updateGeometry()
        self.setFixedHeight(self.sizeHint().height())
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(300, max(len(self.bars), 1) * ROW_HEIGHT)

    def _row(self, index: int) -> QRect:
        return QRect(0, index * ROW_HEIGHT, self.width(), ROW_HEIGHT)

    def _label_width(self) -> int:
        """As wide as the longest label, unless that leaves the bars no room."""
        metrics = QFontMetrics(theme.font(12))
        longest = max((metrics.horizontalAdvance(bar.label) for bar in self.bars), default=0) + 20
        least, most = int(self.width() * MIN_LABEL_SHARE), int(self.width() * MAX_LABEL_SHARE)
        return min(max(longest, least), most)

    def draw(self, painter: QPainter) -> None:
        colors = theme.current()
        label_width = self._label_width()
        for index, bar in enumerate(self.bars):
            row = self._row(index)
            if self._selectable and bar.key == self._chosen:
                painter.fillRect(row, colors.selection)
            painter.setFont(theme.font(12))
            painter.setPen(colors.text)
            metrics = painter.fontMetrics()
            label = shortest_whole(bar.label, metrics, label_width - 12)
            left_middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
            painter.drawText(row.adjusted(6, 0, 0, 0), left_middle, label)
            groove = QRectF(label_width, row.center().y() - 4, max(self.width() - label_width - 72, 10), 9)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.strip)
            painter.drawRoundedRect(groove, 3, 3)
            share = min(max(bar.share, 0.0), 1.0)
            if share > 0:
                painter.setBrush(bar.color(colors) if bar.color is not None else colors.accent)
                painter.drawRoundedRect(
                    QRectF(groove.x(), groove.y(), max(groove.width() * share, 2.5), 9), 3, 3
                )
            if bar.mark >= 0:
                at = groove.x() + groove.width() * min(bar.mark, 1.0)
                painter.fillRect(QRectF(at - 1, groove.y() - 3, 2, 15), colors.text)
            painter.setPen(colors.text_secondary)
            painter.setFont(theme.font(12, tabular=True))
            value = QRect(int(groove.right()) + 8, row.y(), 56, row.height())
            painter.drawText(value, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, bar.text)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(colors.accent)
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent):
            index = event.pos().y() // ROW_HEIGHT
            if 0 <= index < len(self.bars):
                bar = self.bars[index]
                QToolTip.showText(event.globalPos(), tooltip(bar.tip or bar.label.strip()), self)
            return True
        return super().event(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        index = int(event.position().y()) // ROW_HEIGHT
        if self._selectable and 0 <= index < len(self.bars):
            self.choose(self.bars[index].key)

    def choose(self, key: str) -> None:
        self._chosen = key
        self.update()
        self.chosen.emit(key)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = [bar.key for bar in self.bars]
        if self._selectable and keys and event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            now = keys.index(self._chosen) if self._chosen in keys else 0
            self.choose(keys[(now + (1 if event.key() == Qt.Key.Key_Down else -1)) % len(keys)])
        else:
            super().keyPressEvent(event)
