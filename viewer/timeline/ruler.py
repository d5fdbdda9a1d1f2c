"""The time ruler and the ruler of steps above the lanes: drag to measure, click a step to fit it."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QContextMenuEvent,
    QFont,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QWheelEvent,
)
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolTip, QWidget

from parsers.model.units import duration
from viewer.appearance import theme
from viewer.appearance.painted_chart import TextCache, painting
from viewer.appearance.widgets import tooltip
from viewer.timeline.geometry.scale import exact, ticks
from viewer.timeline.names_column import NAMES_WIDTH, TEXT_LEFT
from viewer.timeline.selection import Area
from viewer.timeline.state import Mark, TimelineState

RULER_HEIGHT = 24
STEPS_HEIGHT = 26
MIN_DRAG = 4


def rank_name(rank: int | None) -> str:
    """What a rank is called beside its steps."""
    return "no rank" if rank is None else f"rank {rank}"


class Ruler(QWidget):
    """Marks in the unit of the zoom; below them the steps of the run, where there are any."""

    def __init__(self, state: TimelineState) -> None:
        super().__init__()
        self._state = state
        self._text = TextCache(theme.font(theme.SECONDARY_PX, tabular=True))
        self._bold = TextCache(theme.font(12, QFont.Weight.DemiBold))
        self._names = TextCache(theme.font(12))
        self._pressed: QPointF | None = None
        self._start = 0.0
        self._clicked_step = -1
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Time ruler and steps")
        state.view_changed.connect(self._on_view)
        state.overlay_changed.connect(self.update)
        state.content_changed.connect(self._on_content)

    def sizeHint(self) -> QSize:
        return QSize(600, RULER_HEIGHT + (STEPS_HEIGHT if self._state.shown_steps else 0))

    def minimumSizeHint(self) -> QSize:
        return QSize(100, self.sizeHint().height())

    def _on_view(self) -> None:
        if self.toolTip():  # it tells of what is not under the mouse any more
            self.setToolTip("")
            QToolTip.hideText()
        self.update()

    def _on_content(self) -> None:
        self.updateGeometry()
        self.update()

    def paintEvent(self, _: QPaintEvent) -> None:
        with painting(self) as painter:
            self._paint(painter)

    def _paint(self, painter: QPainter) -> None:
        colors = theme.current()
        painter.fillRect(self.rect(), colors.window)
        painter.save()
        painter.setClipRect(QRectF(NAMES_WIDTH, 0, self.width() - NAMES_WIDTH, self.height()))
        self._draw_marks(painter)
        self._draw_area(painter)
        self._draw_bookmarks(painter)
        if self._state.shown_steps:
            self._draw_steps(painter)
        self._draw_cursor(painter)
        painter.restore()
        if self._state.shown_steps:
            painter.fillRect(QRectF(0, RULER_HEIGHT - 1, self.width(), 1), colors.line)
            self._draw_steps_name(painter)
        painter.fillRect(QRectF(0, self.height() - 1, self.width(), 1), colors.line)
        painter.fillRect(QRectF(NAMES_WIDTH - 1, 0, 1, self.height()), colors.line)

    def _draw_steps_name(self, painter: QPainter) -> None:
        """ "Steps" and, where several ranks have some, whose they are."""
        colors = theme.current()
        y = RULER_HEIGHT + (STEPS_HEIGHT - self._bold.height) / 2 - 1
        painter.setPen(colors.text)
        painter.setFont(self._bold.font)
        self._bold.draw(painter, "Steps", TEXT_LEFT, y, 150)
        if self._has_several_ranks():
            x = TEXT_LEFT + self._bold.width("Steps") + 8
            painter.setPen(colors.text_secondary)
            painter.setFont(self._names.font)
            whose = f"{rank_name(self._state.step_row.rank)} ▾"
            self._names.draw(painter, whose, x, y, NAMES_WIDTH - x - 6)

    def _has_several_ranks(self) -> bool:
        return self._state.scene is not None and len(self._state.scene.step_rows) > 1

    def _draw_marks(self, painter: QPainter) -> None:
        state, colors = self._state, theme.current()
        marks = ticks(state.scale, state.origin)
        painter.setFont(self._text.font)
        y = round((RULER_HEIGHT - self._text.height) / 2)
        free, t0, per_pixel = float(NAMES_WIDTH), state.scale.t0, state.scale.ns_per_pixel
        covered = [box for box in (self._cursor_box(), self._area_box()) if box is not None]
        if marks.anchor:
            painter.setPen(colors.text)
            self._text.draw(painter, marks.anchor, NAMES_WIDTH + 8, y, 200)
            free += 8 + self._text.width(marks.anchor) + 12
        painter.setPen(colors.text_secondary)
        most = self.width() - 2
        for when, label in zip(marks.times, marks.labels, strict=True):
            x, width = NAMES_WIDTH + (when - t0) / per_pixel, self._text.width(label)
            left, right = x - width / 2, x - width / 2 + width
            hidden = covered and any(right > box.left() - 4 and left < box.right() + 4 for box in covered)
            if left >= free and right <= most and not hidden:
                self._text.draw(painter, label, round(left), y, 200)
            painter.fillRect(QRectF(round(x), RULER_HEIGHT - 5, 1, 4), colors.line_strong)

    def _area_box(self) -> QRectF | None:
        """Where the length of the measured area is written; None where it has no room."""
        area, scale = self._state.area, self._state.scale
        if area is None:
            return None
        left = max(NAMES_WIDTH + scale.x(area.start), NAMES_WIDTH)
        right = min(NAMES_WIDTH + scale.x(area.end), self.width())
        width = self._bold.width(duration(area.duration)) + 10
        if right - left <= width:
            return None
        return QRectF((left + right - width) / 2, 3, width, RULER_HEIGHT - 7)

    def _draw_area(self, painter: QPainter) -> None:
        state, colors = self._state, theme.current()
        if state.area is None:
            return
        left, right = (NAMES_WIDTH + state.scale.x(when) for when in (state.area.start, state.area.end))
        tint = QPointF(left, 0)
        fill = colors.accent
        fill = type(fill)(fill)
        fill.setAlpha(70)
        painter.fillRect(QRectF(tint, QPointF(right, RULER_HEIGHT - 1)), fill)
        box = self._area_box()
        if box is not None:
            painter.setFont(self._bold.font)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.accent_fill)
            painter.drawRoundedRect(box, 3, 3)
            painter.setPen(theme.text_on(colors.accent_fill))
            y = (RULER_HEIGHT - self._bold.height) / 2 - 0.5
            self._bold.draw(painter, duration(state.area.duration), box.left() + 5, y, box.width() - 9)
        painter.setPen(QPen(colors.accent, 1))
        for x in (left, right):
            painter.drawLine(QPointF(round(x) + 0.5, 0), QPointF(round(x) + 0.5, RULER_HEIGHT))

    def _draw_bookmarks(self, painter: QPainter) -> None:
        """A flag at the beginning of every place that is kept."""
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.current().accent)
        for mark in self._state.bookmarks:
            x = round(NAMES_WIDTH + self._state.scale.x(mark.start))
            if NAMES_WIDTH <= x <= self.width():
                painter.drawRect(QRectF(x, 2, 1, RULER_HEIGHT - 3))
                painter.drawPolygon(QPolygonF([QPointF(x, 2), QPointF(x + 8, 5), QPointF(x, 9)]))

    def bookmark_at(self, x: float, y: float) -> Mark | None:
        """The bookmark whose flag is at a point of this widget."""
        if y >= RULER_HEIGHT:
            return None
        left = NAMES_WIDTH + 0.0
        return next(
            (mark for mark in self._state.bookmarks if -3 <= x - left - self._state.scale.x(mark.start) <= 9),
            None,
        )

    def _draw_steps(self, painter: QPainter) -> None:
        state, colors = self._state, theme.current()
        top, height = RULER_HEIGHT + 3, STEPS_HEIGHT - 7
        painter.setFont(self._names.font)
        for _, step in state.step_row.visible(state.scale):
            left, right = NAMES_WIDTH + state.scale.x(step.start), NAMES_WIDTH + state.scale.x(step.end)
            box = QRectF(left, top, max(right - left - 1, 1.0), height)
            fill = colors.step if step.steady else theme.mixed(colors.step, colors.window, 0.5)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(fill)
            painter.drawRoundedRect(box, 2, 2)
            start = max(box.left(), NAMES_WIDTH) + 6
            room = min(box.right(), self.width()) - start - 4
            painter.setPen(colors.text)
            name = step.name if step.steady else f"{step.name}, warm-up"
            y = top + (height - self._names.height) / 2
            if self._names.draw(painter, name, start, y, room):
                painter.setPen(colors.text_secondary)
                painter.setFont(self._text.font)
                used = self._names.width(name) + 10
                taken = duration(step.end - step.start)
                if room - used >= self._text.width(taken):
                    self._text.draw(painter, taken, start + used, top + (height - self._text.height) / 2, 100)
                painter.setFont(self._names.font)

    def _cursor_text(self) -> str:
        when = self._state.cursor
        return "" if when is None else exact(when - self._state.origin, self._state.scale.ns_per_pixel)

    def _cursor_box(self) -> QRectF | None:
        if self._state.cursor is None:
            return None
        width = self._text.width(self._cursor_text()) + 12
        middle = NAMES_WIDTH + self._state.scale.x(self._state.cursor)
        left = min(max(middle - width / 2, NAMES_WIDTH), self.width() - width)
        return QRectF(left, 3, width, RULER_HEIGHT - 7)

    def _draw_cursor(self, painter: QPainter) -> None:
        colors, box = theme.current(), self._cursor_box()
        if box is None:
            return
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.text)
        painter.drawRoundedRect(box, 3, 3)
        painter.setPen(colors.window)
        painter.setFont(self._text.font)
        y = (RULER_HEIGHT - self._text.height) / 2 - 0.5
        self._text.draw(painter, self._cursor_text(), box.left() + 6, y, box.width())

    def step_at(self, x: float) -> int:
        """Index of the step at a pixel of this widget; -1 where there is none."""
        return self._state.step_row.at(self._state.scale.time(x - NAMES_WIDTH))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        in_names = event.position().x() < NAMES_WIDTH
        if event.button() is not Qt.MouseButton.LeftButton:
            return
        if in_names and event.position().y() >= RULER_HEIGHT and self._has_several_ranks():
            self.rank_menu().exec(self.mapToGlobal(QPointF(TEXT_LEFT, self.height()).toPoint()))
        elif not in_names:
            self._pressed = event.position()
            self._start = self._state.scale.time(event.position().x() - NAMES_WIDTH)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        x = event.position().x() - NAMES_WIDTH
        when = self._state.scale.time(x)
        self._state.point_at(x if x >= 0 else None)
        in_steps = event.position().y() >= RULER_HEIGHT
        self.setCursor(
            Qt.CursorShape.PointingHandCursor
            if in_steps and (x >= 0 or self._has_several_ranks())
            else Qt.CursorShape.ArrowCursor
        )
        if self._pressed is not None and self._pressed.y() < RULER_HEIGHT:
            if abs(event.position().x() - self._pressed.x()) >= MIN_DRAG:
                low, high = sorted((self._start, when))
                self._state.select_area(Area(round(low), round(high)), done=False)
        elif in_steps:
            self.setToolTip(tooltip(self._steps_tip(event.position().x())))
        else:
            mark = self.bookmark_at(event.position().x(), event.position().y())
            self.setToolTip(tooltip(mark.title) if mark is not None else "")

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        pressed, self._pressed = self._pressed, None
        if pressed is None:
            return
        if abs(event.position().x() - pressed.x()) >= MIN_DRAG and pressed.y() < RULER_HEIGHT:
            self._state.select_area(self._state.area)
        elif pressed.y() >= RULER_HEIGHT and (index := self.step_at(event.position().x())) >= 0:
            self._fit_step(index)
        elif (mark := self.bookmark_at(pressed.x(), pressed.y())) is not None:
            self._state.reveal(mark.start, mark.end)
        elif pressed.y() < RULER_HEIGHT:
            self._state.select_area(None)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Count from the step that was clicked; on the times, from the start of the recording."""
        self._pressed = None
        if event.position().x() < NAMES_WIDTH or self._state.scene is None:
            return
        if event.position().y() < RULER_HEIGHT:
            self._state.set_origin(0.0)
        elif self._clicked_step >= 0:
            self._state.set_origin(float(self._state.scene.steps[self._clicked_step].start))

    def _fit_step(self, index: int) -> None:
        assert self._state.scene is not None
        step = self._state.scene.steps[index]
        self._clicked_step = index
        self._state.show_interval(step.start, step.end, air=0.02)
        self._state.step_selected.emit(index)

    def wheelEvent(self, event: QWheelEvent) -> None:
        notches = (event.angleDelta().y() or event.angleDelta().x()) / 120
        self._state.zoom(event.position().x() - NAMES_WIDTH, 0.8**notches)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.menu(event.pos().x()).exec(event.globalPos())

    def rank_menu(self) -> QMenu:
        """Whose steps are shown."""
        menu = QMenu(self)
        for rank in self._state.scene.step_rows if self._state.scene is not None else ():
            action = menu.addAction(rank_name(rank), partial(self._state.follow, rank))
            action.setCheckable(True)
            action.setChecked(rank == self._state.step_row.rank)
        return menu

    def menu(self, x: float) -> QMenu:
        """What time can be counted from: the start, the step at pixel ``x``, or that place."""
        menu, state = QMenu(self), self._state
        start = menu.addAction("Count from the start of the recording", partial(state.set_origin, 0.0))
        start.setCheckable(True)
        start.setChecked(state.origin == 0)
        number = self.step_at(x)
        if number >= 0 and state.scene is not None:
            step = state.scene.steps[number]
            menu.addAction("Count from the start of this step", partial(state.set_origin, float(step.start)))
        menu.addAction("Count from here", partial(state.set_origin, state.scale.time(x - NAMES_WIDTH)))
        return menu

    def leaveEvent(self, _: object) -> None:
        self._state.point_at(None)

    def _steps_tip(self, x: float) -> str:
        if x < NAMES_WIDTH:
            return "Click to choose the rank whose steps are shown" if self._has_several_ranks() else ""
        index = self.step_at(x)
        return self._step_text(index) if index >= 0 else ""

    def _step_text(self, index: int) -> str:
        assert self._state.scene is not None
        step = self._state.scene.steps[index]
        note = "" if step.steady else "\nnot steady: left out of the analysis"
        return f"{step.name}   {duration(step.end - step.start)}{note}\nclick to fit, double click to count from it"
