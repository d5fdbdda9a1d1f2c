"""The map of ranks and steps: one colour a cell, strips of parallel groups beside it, callouts of what stands out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from parsers.model.arrays import I64
from parsers.model.late import dataclass
from rules.analysis.ranks.groups import NODE, RAIL, Dimension
from viewer.appearance import theme
from viewer.appearance.tab_order import CHART
from viewer.appearance.widgets import tooltip
from viewer.panels.ranks.painting import Callout, compared_color, mark_cell, picture, placed, write_values
from viewer.statistics.rank_map import Measure, Order, RankMap, worst_of, zoomed

NAMES, TOP, STRIP, GAP = 96, 28, 15, 5
MIN_ROWS, MIN_STEPS = 8, 4
ZOOM = 1.25
MIN_LABEL_GAP = 26
_STEPS_TO_NAME = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, slots=True)
class Cell:
    """A row of the run and one of its steps (index)."""

    row: int
    step: int


class RankHeat(QWidget):
    """Arrows walk, Enter opens the rank, P pins it, the wheel zooms ranks and with Shift steps, a drag selects."""

    accessible_role = CHART
    selected = Signal(object)  # Cell, or None
    rank_wanted = Signal(int)
    pin_wanted = Signal(int)
    block_selected = Signal(object, object)  # rows and steps (arrays), empty for none
    filtered = Signal(str)  # the name of the group that is shown; empty: all

    def __init__(self) -> None:
        super().__init__()
        self._map: RankMap | None = None
        self._measure, self._order = Measure.LATENESS, Order.RANK
        self._sorted: I64 = np.empty(0, np.int64)  # the rows that are shown, in their order
        self._place: dict[int, int] = {}
        self._rows, self._steps = (0, 0), (0, 0)  # what is in view: places in the order, steps
        self._strips: tuple[Dimension, ...] = ()
        self._filter: tuple[Dimension, int] | None = None
        self._callouts: tuple[Callout, ...] = ()
        self._image: QImage | None = None
        self._painted: object = None
        self.cell: Cell | None = None
        self.compared: tuple[int, ...] = ()
        self._pressed: QPointF | None = None
        self._dragged: QRectF | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Ranks and steps")
        self.setMinimumHeight(150)

    def sizeHint(self) -> QSize:
        return QSize(900, 330)

    def show_map(self, found: RankMap | None, callouts: Sequence[Callout] = ()) -> None:
        self._map, self._callouts, self.cell, self._filter = found, tuple(callouts), None, None
        dimensions = found.facts.lateness.dimensions if found is not None else ()
        self._strips = tuple(each for each in dimensions if each.kind not in (NODE, RAIL))[:4]
        self._sort()

    def show_measure(self, measure: Measure, order: Order) -> None:
        self._measure, self._order = measure, order
        self._sort()

    def _sort(self) -> None:
        if self._map is not None:
            order = self._map.order(self._order, self._measure)
            if self._filter is not None:
                dimension, label = self._filter
                order = order[dimension.label[order] == label]
            self._sorted = order
            self._place = {row: index for index, row in enumerate(order.tolist())}
            self._rows, self._steps = (0, len(order)), (0, self._map.steps)
        self._painted = None
        self.update()

    def select(self, cell: Cell | None) -> None:
        self.cell = cell
        if cell is not None and (place := self._place.get(cell.row)) is not None:
            first, last = self._rows
            if not first <= place < last:
                first = min(max(place - (last - first) // 2, 0), len(self._sorted) - (last - first))
                self._rows, self._painted = (first, first + last - self._rows[0]), None
        self.selected.emit(cell)
        self.update()

    @property
    def plot(self) -> QRectF:
        left = NAMES + len(self._strips) * (STRIP + GAP)
        return QRectF(left, TOP, max(self.width() - left - 14, 1), max(self.height() - TOP - 6, 1))

    @property
    def rows_a_pixel(self) -> int:
        """How many ranks share one row of pixels at most."""
        return -(-(self._rows[1] - self._rows[0]) // max(int(self.plot.height()), 1))

    def at(self, point: QPointF) -> Cell | None:
        plot = self.plot
        if self._map is None or not plot.contains(point) or not len(self._sorted):
            return None
        place = self._rows[0] + int(
            (point.y() - plot.top()) / plot.height() * (self._rows[1] - self._rows[0])
        )
        step = self._steps[0] + int(
            (point.x() - plot.left()) / plot.width() * (self._steps[1] - self._steps[0])
        )
        place, step = min(place, len(self._sorted) - 1), min(step, self._map.steps - 1)
        row = int(self._sorted[place])
        if self.rows_a_pixel > 1:
            near = self._sorted[place : place + self.rows_a_pixel]
            row = int(near[np.nan_to_num(self._map.shades(self._measure)[near, step]).argmax()])
        return Cell(row, step)

    def box(self, rows: I64, steps: I64) -> QRectF | None:
        """Where some ranks and steps are, if they stand together and are in view."""
        places = np.array([self._place[row] for row in rows.tolist() if row in self._place], np.int64)
        if not len(places) or not len(steps) or np.ptp(places) >= 2 * len(places):
            return None
        plot = self.plot
        tall, wide = self._rows[1] - self._rows[0], self._steps[1] - self._steps[0]
        top = plot.top() + (int(places.min()) - self._rows[0]) / tall * plot.height()
        low = plot.top() + (int(places.max()) + 1 - self._rows[0]) / tall * plot.height()
        left = plot.left() + (int(steps.min()) - self._steps[0]) / wide * plot.width()
        right = plot.left() + (int(steps.max()) + 1 - self._steps[0]) / wide * plot.width()
        if low - top < 3:
            top, low = (top + low) / 2 - 1.5, (top + low) / 2 + 1.5
        found = QRectF(left, top, right - left, low - top).intersected(plot)
        return found if not found.isEmpty() else None

    # painting

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.fillRect(self.rect(), colors.window)
        if self._map is None or not len(self._sorted):
            return
        plot = self.plot
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
        painter.drawImage(plot, self._cells(plot))
        rows, steps = self._sorted[slice(*self._rows)], slice(*self._steps)
        values = self._map.values(self._measure)[rows, steps]
        write_values(painter, plot, values, self._map.shades(self._measure)[rows, steps], self._measure.said)
        self._paint_strips(painter)
        self._paint_axes(painter)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_compared(painter)
        self._paint_callouts(painter)
        self._paint_selection(painter)

    def _cells(self, plot: QRectF) -> QImage:
        """The cells in view as a picture, made anew only when something else is in view."""
        assert self._map is not None
        key = (self._measure, self._rows, self._steps, plot.size().toTuple(), theme.current().name)
        if self._image is None or self._painted != (key, id(self._sorted)):
            rows = self._sorted[slice(*self._rows)]
            shade = self._map.shades(self._measure)[rows, slice(*self._steps)]
            scale = self.devicePixelRatioF()
            self._image = picture(worst_of(shade, int(plot.height() * scale), int(plot.width() * scale)))
            self._painted = key, id(self._sorted)
        return self._image

    def _paint_strips(self, painter: QPainter) -> None:
        colors, plot = theme.current(), self.plot
        painter.setFont(theme.font(10))
        rows = self._sorted[slice(*self._rows)]
        for number, dimension in enumerate(self._strips):
            left = NAMES + number * (STRIP + GAP)
            painter.setPen(colors.text_secondary)
            painter.drawText(
                QRectF(left - 4, 4, STRIP + 8, TOP - 6), Qt.AlignmentFlag.AlignCenter, dimension.kind
            )
            labels = dimension.label[rows]
            begins = np.flatnonzero(np.diff(labels, prepend=-2))
            if len(begins) > plot.height() / 2:  # too fine to be told apart
                painter.fillRect(
                    QRectF(left, plot.top(), STRIP, plot.height()), colors.muted(colors.named(number), 0.5)
                )
                continue
            for first, last in zip(begins.tolist(), [*begins[1:].tolist(), len(rows)], strict=True):
                if labels[first] < 0:
                    continue
                top = plot.top() + first / len(rows) * plot.height()
                height = (last - first) / len(rows) * plot.height()
                painter.fillRect(QRectF(left, top, STRIP, height), colors.named(int(labels[first])))
                if height > 4:
                    painter.fillRect(QRectF(left, top, STRIP, 1), colors.window)

    def _paint_axes(self, painter: QPainter) -> None:
        assert self._map is not None
        colors, plot, run = theme.current(), self.plot, self._map.facts.run
        painter.setFont(theme.font(theme.SECONDARY_PX))
        metrics = painter.fontMetrics()
        painter.setPen(colors.text)
        painter.drawText(QRectF(14, 4, 70, TOP - 6), Qt.AlignmentFlag.AlignVCenter, "Step")
        painter.setPen(colors.text_secondary)
        wide = self._steps[1] - self._steps[0]
        every = next((each for each in _STEPS_TO_NAME if each * plot.width() / wide >= 64), 1000)
        for step in range(-(-self._steps[0] // every) * every, self._steps[1], every):
            x = plot.left() + (step + 0.5 - self._steps[0]) / wide * plot.width()
            name = run.step_names[step].removeprefix("ProfilerStep#")
            place = QRectF(x - 40, 4, 80, TOP - 6)
            if place.right() < self.width() + 20:
                painter.drawText(place, Qt.AlignmentFlag.AlignCenter, name)
        tall = self._rows[1] - self._rows[0]
        most = max(int(plot.height() / MIN_LABEL_GAP), 1)
        every = next((1 << power for power in range(24) if (1 << power) * most >= tall), 1)
        by_node = self._order is Order.NODE and run.rows[0].node
        for place_number in range(-(-self._rows[0] // every) * every, self._rows[1], every):
            y = plot.top() + (place_number + 0.5 - self._rows[0]) / tall * plot.height()
            row = int(self._sorted[place_number])
            name = run.rows[row].node if by_node else run.name(row)
            text = metrics.elidedText(name, Qt.TextElideMode.ElideRight, NAMES - 22)
            painter.drawText(QRectF(14, y - 8, NAMES - 20, 16), Qt.AlignmentFlag.AlignVCenter, text)

    def _paint_compared(self, painter: QPainter) -> None:
        """Small marks at the ranks whose timelines are shown below."""
        plot = self.plot
        for number, row in enumerate(self.compared):
            if (place := self._place.get(row)) is not None and self._rows[0] <= place < self._rows[1]:
                y = (
                    plot.top()
                    + (place + 0.5 - self._rows[0]) / (self._rows[1] - self._rows[0]) * plot.height()
                )
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(compared_color(number))
                painter.drawEllipse(QPointF(plot.right() + 7, y), 3.5, 3.5)

    def _paint_callouts(self, painter: QPainter) -> None:
        colors = theme.current()
        boxes = [self.box(each.rows, each.steps) for each in self._callouts]
        bold, small = theme.font(12, weight=QFont.Weight.DemiBold), theme.font(theme.SECONDARY_PX)
        wide = [
            max(
                QFontMetricsF(bold).horizontalAdvance(each.title),
                QFontMetricsF(small).horizontalAdvance(each.reason),
            )
            for each in self._callouts
        ]
        shown = placed(self._callouts, boxes, self.plot, wide)
        for _, box, place in shown:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(colors.text, 1.4))
            painter.drawRoundedRect(box.adjusted(-2, -2.5, 2, 2.5), 3, 3)
            painter.setPen(QPen(colors.text, 1.0))
            inside = QPointF(
                min(max(place.center().x(), box.left()), box.right()),
                box.top() if place.bottom() < box.center().y() else box.bottom(),
            )
            painter.drawLine(
                QPointF(inside.x(), place.bottom() if place.bottom() < box.center().y() else place.top()),
                inside,
            )
        fill = QColor(colors.panel)
        fill.setAlpha(242)
        for callout, _, place in shown:
            painter.setBrush(fill)
            painter.setPen(QPen(colors.line_strong, 1))
            painter.drawRoundedRect(place, 5, 5)
            text = place.adjusted(10, 5, -10, -5)
            painter.setFont(bold)
            painter.setPen(colors.text)
            painter.drawText(text, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft, callout.title)
            painter.setFont(small)
            painter.setPen(colors.text_secondary)
            painter.drawText(text, Qt.AlignmentFlag.AlignBottom | Qt.AlignmentFlag.AlignLeft, callout.reason)

    def _paint_selection(self, painter: QPainter) -> None:
        colors, plot = theme.current(), self.plot
        if self._dragged is not None:
            fill = QColor(colors.accent)
            fill.setAlpha(60)
            painter.fillRect(self._dragged, fill)
        if self.cell is None:
            return
        box = self.box(np.array([self.cell.row]), np.array([self.cell.step]))
        if box is not None:
            mark_cell(painter, plot, box)

    # mouse and keys

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self._map is None:
            return
        turned = event.angleDelta().y() or event.angleDelta().x()
        factor = ZOOM ** (-turned / 120)
        plot, point = self.plot, event.position()
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            share = (point.x() - plot.left()) / plot.width()
            self._steps = zoomed(self._steps, factor, share, self._map.steps, MIN_STEPS)
        else:
            share = (point.y() - plot.top()) / plot.height()
            self._rows = zoomed(self._rows, factor, share, len(self._sorted), MIN_ROWS)
        self.update()
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed = event.position()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        point = event.position()
        if self._pressed is not None and (point - self._pressed).manhattanLength() > 6:
            self._dragged = QRectF(self._pressed, point).normalized().intersected(self.plot)
            self.update()
            return
        found = self.at(point)
        self.setToolTip(tooltip(self.said(found)) if found is not None else "")

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        dragged, self._dragged, pressed, self._pressed = self._dragged, None, self._pressed, None
        if pressed is None:
            return
        if dragged is not None and not dragged.isEmpty():
            self._select_block(dragged)
        elif (strip := self._strip_at(event.position())) is not None:
            self._show_group(strip)
        elif (found := self.at(event.position())) is not None:
            self.select(found)
        self.update()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if (found := self.at(event.position())) is not None:
            self.select(found)
            self.rank_wanted.emit(found.row)

    def _select_block(self, dragged: QRectF) -> None:
        first, last = self.at(dragged.topLeft()), self.at(dragged.bottomRight() - QPointF(1, 1))
        if first is None or last is None:
            return
        low, high = sorted((self._place[first.row], self._place[last.row]))
        self.block_selected.emit(
            self._sorted[low : high + 1], np.arange(first.step, max(last.step, first.step) + 1)
        )

    def _strip_at(self, point: QPointF) -> tuple[Dimension, int] | None:
        plot = self.plot
        number = int((point.x() - NAMES) // (STRIP + GAP))
        if not (0 <= number < len(self._strips) and plot.top() <= point.y() < plot.bottom()):
            return None
        share = (point.y() - plot.top()) / plot.height()
        place = self._rows[0] + int(share * (self._rows[1] - self._rows[0]))
        return self._strips[number], int(self._strips[number].label[self._sorted[place]])

    def _show_group(self, strip: tuple[Dimension, int] | None) -> None:
        same = self._filter is not None and strip is not None and self._filter[1] == strip[1]
        self._filter = None if same else strip
        self._sort()
        self.filtered.emit(self._filter[0].names[self._filter[1]] if self._filter is not None else "")

    def event(self, event: QEvent) -> bool:
        # The window's own shortcuts must not take what acts here while the map has the focus.
        asked = event.type() == QEvent.Type.ShortcutOverride
        if asked and isinstance(event, QKeyEvent) and self._acts(event):
            event.accept()
            return True
        return super().event(event)

    def _acts(self, event: QKeyEvent) -> bool:
        if event.key() == Qt.Key.Key_Escape and self._map is not None and self.cell is None is self._filter:
            return (self._rows, self._steps) != ((0, len(self._sorted)), (0, self._map.steps))
        return event.key() in _KEYS and not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._map is None or not self._acts(event) or not len(self._sorted):
            super().keyPressEvent(event)
            return
        key = event.key()
        if key == Qt.Key.Key_Escape:
            if self._filter is not None:
                self._show_group(None)
            else:
                self._rows, self._steps = (0, len(self._sorted)), (0, self._map.steps)
                self.block_selected.emit(np.empty(0, np.int64), np.empty(0, np.int64))
                self.select(None)
            return
        if self.cell is None or self.cell.row not in self._place:
            self.select(Cell(int(self._sorted[self._rows[0]]), self._steps[0]))
            return
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.rank_wanted.emit(self.cell.row)
        elif key == Qt.Key.Key_P:
            self.pin_wanted.emit(self.cell.row)
        else:
            down, right = _KEYS[Qt.Key(key)]
            place = min(
                max(self._place[self.cell.row] + down * max(self.rows_a_pixel, 1), 0), len(self._sorted) - 1
            )
            step = min(max(self.cell.step + right, 0), self._map.steps - 1)
            self.select(Cell(int(self._sorted[place]), step))

    def said(self, cell: Cell) -> str:
        """ "step 148, rank 3140: late by 0.2 ms, waits 15.8 ms"."""
        assert self._map is not None
        run = self._map.facts.run
        told = [
            f"{each.key} {each.said(float(self._map.values(each)[cell.row, cell.step]))}"
            for each in dict.fromkeys((self._measure, Measure.LATENESS, Measure.WAIT))
        ]
        node = f" ({run.rows[cell.row].node})" if run.rows[cell.row].node else ""
        return f"{run.step_names[cell.step]}, {run.name(cell.row)}{node}: {', '.join(told)}"


_KEYS: dict[Qt.Key, tuple[int, int]] = {  # those that act, and by how many rows and steps they walk
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    **dict.fromkeys((Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_P, Qt.Key.Key_Escape), (0, 0)),
}
