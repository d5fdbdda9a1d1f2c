"""The strip on top: the whole run, or a part of it, as busy density, with the visible part as a window one can drag."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QImage,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from parsers.model import Counter
from parsers.model.arrays import I64, U32
from parsers.model.late import dataclass
from parsers.model.units import duration, how_many
from rules.analysis.idle.causes import Cause
from rules.memory.kinds import Kind
from viewer.appearance import theme
from viewer.appearance.painted_chart import TextCache, painting
from viewer.timeline.geometry.columns import Grid, columns, grid
from viewer.timeline.geometry.raster import density_table, paint_row
from viewer.timeline.geometry.row_index import Row
from viewer.timeline.geometry.scale import Scale, covered_pixels
from viewer.timeline.memory.colors import color_of
from viewer.timeline.memory.painting import paint_memory
from viewer.timeline.memory.stack import MemoryStack
from viewer.timeline.names_column import NAMES_WIDTH, TEXT_LEFT
from viewer.timeline.pixels import busy_classes, busy_table, without_edges
from viewer.timeline.scene import Scene, rgb
from viewer.timeline.state import TimelineState

HEIGHT = 44
GRIP = 6
MAX_DEVICES = 8
OUTSIDE, INSIDE = 0.47, 0.11  # how much of the background's and of the accent's colour lies over the run
MAX_ANSWERS, ANSWER = 3, 4  # lines of marks, and pixels of each
ZOOM_NOTCH = 0.7
AROUND = 5.0  # times the view: what the overview shows when it is zoomed to it
MIN_SHARE = 0.1  # of the run: where the steps take less, the overview begins with them alone
STEPS_AIR = 0.15
MORE = 5.0  # pixels of the mark that says that the run goes on
MAX_STACKS = 3
GLOW_VEIL = 0.75
CAUSES = 3  # pixels of the line that says what a device waits for


@dataclass(frozen=True, slots=True, eq=False)
class Glow:
    """Stretches of the run (ns) to light up, in the colour of a part of the budget, and what is said of them."""

    start: I64
    end: I64
    key: str
    told: str


class Overview(QWidget):
    """Shows everything, or the part that it was zoomed to; the window in it moves the view."""

    def __init__(self, state: TimelineState) -> None:
        super().__init__()
        self._state = state
        self._bold = TextCache(theme.font(12, QFont.Weight.DemiBold))
        self._small = TextCache(theme.font(theme.SECONDARY_PX))
        self._picture: QImage | None = None
        self._inside = self._outside = QImage()
        self._span: tuple[float, float] | None = None  # ns: the part that is shown, None for all
        self._of: Scene | None = None
        self.glow: Glow | None = None
        self._dragged: str | None = None  # "move", "left", "right" or "new"
        self._grabbed = 0.0
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Overview of the whole run")
        state.view_changed.connect(self._on_view)
        state.content_changed.connect(self._on_content)

    def sizeHint(self) -> QSize:
        return QSize(600, HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(100, HEIGHT)

    def _on_content(self) -> None:
        self._picture = None
        scene = self._state.scene
        if scene is not self._of and (scene is None or scene.analysis is not None):
            self._of, self._span = scene, None
            self._begin_with_steps()
        self.update()

    def _begin_with_steps(self) -> None:
        """Where nearly nothing of a long run is of interest, show the part that is."""
        steps = self._state.scene.steps if self._state.scene is not None else ()
        if steps:
            first, last = min(step.start for step in steps), max(step.end for step in steps)
            if last - first < MIN_SHARE * self._state.end:
                air = STEPS_AIR * (last - first)
                self._show(first - air, last + air)

    def _on_view(self) -> None:
        """The window stays inside of what is shown."""
        view = self._state.scale
        if self._span is not None:
            t0, t1 = self._span
            if view.span >= t1 - t0:
                self._show(view.t0 - view.span, view.t1 + view.span)
            elif view.t0 < t0 or view.t1 > t1:
                moved = min(view.t0 - t0, 0.0) + max(view.t1 - t1, 0.0)
                self._show(t0 + moved, t1 + moved)
        left = NAMES_WIDTH - 1  # what is beside it stays as it is
        self.update(left, 0, self.width() - left, HEIGHT)

    def _show(self, t0: float, t1: float) -> None:
        low, high = max(t0, 0.0), min(t1, self._state.end)
        self._span = None if high - low >= self._state.end else (low, high)
        self._picture = None
        self.update()

    @property
    def shown(self) -> tuple[float, float]:
        return self._span or (0.0, self._state.end)

    def toggle_zoom(self) -> None:
        """Show what is around the view, or the whole run again."""
        view = self._state.target
        air = view.span * (AROUND - 1) / 2
        self._show(*((0.0, self._state.end) if self._span is not None else (view.t0 - air, view.t1 + air)))

    def _scale(self) -> Scale:
        return Scale(*self.shown, max(self.width() - NAMES_WIDTH, 1))

    def window_rect(self) -> QRectF:
        """The rectangle of the visible part, in pixels of this widget."""
        whole, view = self._scale(), self._state.scale
        left = min(max(whole.x(view.t0), 0.0), whole.width)
        right = min(max(whole.x(view.t1), 0.0), whole.width)
        if right - left < 6:
            middle = min(max((left + right) / 2, 3), whole.width - 3)
            left, right = middle - 3, middle + 3
        return QRectF(NAMES_WIDTH + left, 2, right - left, HEIGHT - 5)

    def paintEvent(self, event: QPaintEvent) -> None:
        with painting(self) as painter:
            self._paint(painter, event.rect().left() < NAMES_WIDTH - 1)

    def _paint(self, painter: QPainter, with_names: bool) -> None:
        colors = theme.current()
        painter.fillRect(self.rect(), colors.window)
        scene = self._state.scene
        if scene is not None:
            ratio = self.devicePixelRatioF()
            width = max(round((self.width() - NAMES_WIDTH) * ratio), 1)
            if self._picture is None or self._picture.width() != width:
                self._picture = _density(
                    scene, self._scale().resized(width), round((HEIGHT - 5) * ratio), ratio
                )
                self._outside = _tinted(self._picture, colors.window, OUTSIDE)
                self._inside = _tinted(self._picture, colors.accent, INSIDE)
            self._draw_density(painter, self._picture)
            self._draw_answers(painter, scene)
            if self.glow is not None:
                self._draw_glow(painter, self.glow)
            if with_names:
                self._draw_names(painter, scene)
            self._draw_ends(painter)
        painter.fillRect(QRectF(0, HEIGHT - 1, self.width(), 1), colors.line)
        painter.fillRect(QRectF(NAMES_WIDTH - 1, 0, 1, HEIGHT), colors.line)

    def _draw_density(self, painter: QPainter, picture: QImage) -> None:
        """The whole run, with the visible part set off from the rest."""
        window = self.window_rect()
        area = QRectF(NAMES_WIDTH, 2, self.width() - NAMES_WIDTH, HEIGHT - 5)
        if window.width() >= area.width() - 1:
            painter.drawImage(area, picture)
            return
        painter.drawImage(area, self._outside)
        painter.save()
        painter.setClipRect(window)
        painter.drawImage(area, self._inside)
        painter.restore()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(theme.current().accent, 1.2))
        painter.drawRoundedRect(window.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)

    def _draw_ends(self, painter: QPainter) -> None:
        """At each end behind which the run goes on, a mark."""
        (t0, t1), middle = self.shown, HEIGHT / 2
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.current().text_secondary)
        for goes_on, x, towards in (
            (t0 > 0, NAMES_WIDTH + 2, -1),
            (t1 < self._state.end, self.width() - 2, 1),
        ):
            if goes_on:
                base = x - towards * MORE
                painter.drawPolygon(
                    QPolygonF(
                        [QPointF(x, middle), QPointF(base, middle - MORE), QPointF(base, middle + MORE)]
                    )
                )

    def _draw_answers(self, painter: QPainter, scene: Scene) -> None:
        """Where the rows of answers lie in the whole run: a line of marks for each."""
        whole = self._scale()
        answers = [each for each in scene.derived.values() if each.events is not None]
        for number, each in enumerate(answers[:MAX_ANSWERS]):
            color = each.colors(theme.current())[0]
            for left, right in covered_pixels(each.rows[0].start, each.rows[0].end, whole):
                painter.fillRect(
                    QRectF(NAMES_WIDTH + left, 2 + number * ANSWER, right - left, ANSWER - 1), color
                )

    def light(self, glow: Glow | None) -> None:
        self.glow = glow
        self.update()

    def _draw_glow(self, painter: QPainter, glow: Glow) -> None:
        """Everything else is dimmed; how many there are stands where there is room for it."""
        colors, color = theme.current(), theme.current().part(glow.key)
        veil = QColor(colors.window)
        veil.setAlphaF(GLOW_VEIL)
        painter.fillRect(QRectF(NAMES_WIDTH, 2, self.width() - NAMES_WIDTH, HEIGHT - 5), veil)
        for left, right in covered_pixels(glow.start, glow.end, self._scale()):
            painter.fillRect(QRectF(NAMES_WIDTH + left, 2, max(right - left, 1.0), HEIGHT - 5), color)
        painter.setFont(self._bold.font)
        metrics = QFontMetricsF(self._bold.font)
        width = metrics.horizontalAdvance(glow.told) + 14
        box = QRectF(self.width() - width - 8, (HEIGHT - 20) / 2, width, 20)
        painter.setPen(QPen(color, 1.2))
        painter.setBrush(colors.panel)
        painter.drawRoundedRect(box, 4, 4)
        painter.setPen(colors.text)
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, glow.told)

    def _draw_names(self, painter: QPainter, scene: Scene) -> None:
        colors = theme.current()
        painter.setPen(colors.text)
        painter.setFont(self._bold.font)
        t0, t1 = self.shown
        what = "First events" if scene.trace.quality.of_preview else "Whole run"
        what = what if self._span is None else f"{duration(t1 - t0)} of {duration(self._state.end)}"
        self._bold.draw(painter, what, TEXT_LEFT, 6, NAMES_WIDTH - TEXT_LEFT - 8)
        steps = len(self._state.shown_steps)
        told = (
            f"{duration(self._state.end)}, {how_many(steps, 'step')}" if steps else duration(self._state.end)
        )
        told = told if self._span is None else "double-click: whole run"
        painter.setPen(colors.text_secondary)
        painter.setFont(self._small.font)
        self._small.draw(painter, told, TEXT_LEFT, 6 + self._bold.height + 1, NAMES_WIDTH - TEXT_LEFT - 8)

    def _part_at(self, x: float) -> str:
        window = self.window_rect()
        if abs(x - window.left()) <= GRIP and abs(x - window.left()) <= abs(x - window.right()):
            return "left"
        if abs(x - window.right()) <= GRIP:
            return "right"
        return "move" if window.left() < x < window.right() else "new"

    def mousePressEvent(self, event: QMouseEvent) -> None:
        x = event.position().x()
        if event.button() is not Qt.MouseButton.LeftButton or x < NAMES_WIDTH:
            return
        self._state.remember()
        self._dragged = self._part_at(x)
        when = self._scale().time(x - NAMES_WIDTH)
        self._grabbed = when - self._state.scale.t0 if self._dragged == "move" else when

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        x = event.position().x()
        if self._dragged is None:
            shape = (
                Qt.CursorShape.SizeHorCursor
                if self._part_at(x) in ("left", "right")
                else Qt.CursorShape.ArrowCursor
            )
            self.setCursor(shape)
            return
        when = self._scale().time(x - NAMES_WIDTH)
        view = self._state.scale
        if self._dragged == "move":
            t0 = when - self._grabbed
            self._look(t0, t0 + view.span)
        elif self._dragged == "left":
            self._look(min(when, view.t1 - 100), view.t1)
        elif self._dragged == "right":
            self._look(view.t0, max(when, view.t0 + 100))
        elif abs(when - self._grabbed) > self._scale().ns_per_pixel * 3:
            self._look(min(when, self._grabbed), max(when, self._grabbed))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        dragged, self._dragged = self._dragged, None
        when = self._scale().time(event.position().x() - NAMES_WIDTH)
        if dragged == "new" and abs(when - self._grabbed) <= self._scale().ns_per_pixel * 3:
            span = self._state.scale.span
            self._state.look_at(Scale(when - span / 2, when + span / 2, 1), remember=False)

    def mouseDoubleClickEvent(self, _: QMouseEvent) -> None:
        if self._span is not None:
            self._show(0.0, self._state.end)
        else:
            self._state.show_interval(0, self._state.end, air=0.01)

    def wheelEvent(self, event: QWheelEvent) -> None:
        notches = (event.angleDelta().y() or event.angleDelta().x()) / 120
        whole = self._scale()
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            zoomed = whole.zoomed(event.position().x() - NAMES_WIDTH, ZOOM_NOTCH**notches)
            view = self._state.target
            self._show(min(zoomed.t0, view.t0), max(zoomed.t1, view.t1))
            return
        x = self._state.scale.x(whole.time(event.position().x() - NAMES_WIDTH))
        self._state.zoom(min(max(x, 0), self._state.scale.width), 0.8**notches)

    def _look(self, t0: float, t1: float) -> None:
        self._state.look_at(Scale(t0, t1, 1), animate=False, remember=False)


def _tinted(picture: QImage, color: QColor, share: float) -> QImage:
    """A copy of the picture under a veil of this colour."""
    veil, tinted = QColor(color), picture.copy()
    veil.setAlphaF(share)
    with painting(tinted) as painter:
        painter.fillRect(tinted.rect(), veil)
    return tinted


def _density(scene: Scene, scale: Scale, height: int, ratio: float) -> QImage:
    """Busy density of every device, one above the other; of the CPU lanes where there is no GPU; else a counter."""
    colors = theme.current()
    pixels = np.full((height, int(scale.width)), rgb(colors.strip), np.uint32)
    rows: list[Row] = list(scene.index.busy.values())[:MAX_DEVICES]
    if not rows:
        rows = [lane[0] for lane in scene.index.rows if lane][:3]
    mark = np.uint32(rgb(colors.window))
    starts = [round(scale.x(step.start)) for step in scene.steps if step.rank == scene.steps[0].rank]
    for x in starts if len(starts) <= 200 else []:
        if 0 <= x < pixels.shape[1]:
            pixels[:, x : x + max(round(ratio), 1)] = mark
    table = busy_table(colors)
    margin = round((11 if len(rows) == 1 else 4) * ratio)
    if not scene.index.busy and scene.stacks:
        _paint_memory(pixels, list(scene.stacks.values())[:MAX_STACKS], scale, round(ratio))
        rows = []
    elif not rows and (counter := _telling(scene.trace.counters)) is not None:
        _paint_counter(pixels, counter, scale, colors)
    view = grid(scale)
    each = (height - 2 * margin) / max(len(rows), 1)
    for number, row in enumerate(rows):
        seen = columns(row, view)
        if seen is not None:
            top, bottom = margin + round(number * each), margin + round((number + 1) * each)
            block = pixels[top : max(bottom - (len(rows) > 1), top + 1)]
            none = np.zeros(len(seen.event), np.uint8)
            classes = busy_classes(row, seen) if scene.index.busy else none
            paint_row(block, seen, classes, table, rgb(colors.strip))
    for stack in scene.stacks.values():
        _paint_floor(pixels, stack, scale, round(2 * ratio))
    if len(rows) == 1 and len(scene.gaps) == 1:
        _paint_causes(pixels[-round(CAUSES * ratio) :], next(iter(scene.gaps.values())).row, view)
    return QImage(
        pixels.data, pixels.shape[1], height, 4 * pixels.shape[1], QImage.Format.Format_RGB32
    ).copy()


def _telling(counters: Sequence[Counter]) -> Counter | None:
    """How busy something is, if that was sampled, else the first thing that ever was more than nothing."""
    sampled = [each for each in counters if len(each.time) and np.nanmax(each.value, initial=0.0) > 0]
    return next((each for each in sampled if "utilization" in each.name), next(iter(sampled), None))


def _paint_counter(pixels: U32, counter: Counter, scale: Scale, colors: theme.Theme) -> None:
    """The most that a sampled quantity was in each column, below its highest value."""
    height, width = pixels.shape
    edges = scale.t0 + np.arange(width + 1) * scale.ns_per_pixel
    holds = np.searchsorted(counter.time, edges, side="right") - 1
    first, last = np.maximum(holds[:-1], 0), np.maximum(holds[1:], 0)
    value = np.append(np.nan_to_num(counter.value), 0.0)
    most = np.maximum.reduceat(value, np.column_stack((first, last + 1)).ravel())[::2]
    top = height - np.rint((height - 4) * most / value.max()).astype(np.int64)
    inside = (holds[1:] >= 0) & (edges[:-1] <= counter.time[-1])
    pixels[(np.arange(height)[:, None] >= top) & inside] = rgb(colors.grey)


def _paint_memory(pixels: U32, stacks: list[MemoryStack], scale: Scale, line: int) -> None:
    """What fills each GPU, one above the other, where nothing else is known of the run."""
    height = len(pixels) // len(stacks)
    for number, stack in enumerate(stacks):
        block = pixels[number * height : (number + 1) * height]
        paint_memory(block, stack, stack.columns(scale), line, (0, 0), height, 0)


def _paint_floor(pixels: U32, stack: MemoryStack, scale: Scale, line: int) -> None:
    """A line for what is held from then on to the end, where it grows from step to step."""
    if Kind.KEPT not in stack.kinds:
        return
    row = np.arange(len(pixels))[:, None]
    top = np.rint(len(pixels) * (1 - stack.floor(scale) / stack.top)).astype(np.int64)
    rises = np.maximum(top, np.append(top[:1], top[:-1]))  # joins the line where it jumps
    pixels[(row >= top - line // 2) & (row < np.maximum(top - line // 2 + line, rises))] = rgb(
        color_of(Kind.KEPT, theme.current())
    )


def _paint_causes(block: U32, gaps: Row, view: Grid) -> None:
    """A line in the colours of what the device waits for."""
    seen = columns(gaps, view)
    if seen is not None:
        colors = theme.current()
        palette = np.array([rgb(colors.cause(cause)) for cause in Cause], np.uint32)
        classes = gaps.name[np.maximum(seen.event, 0)].astype(np.uint8)
        table = density_table(palette, rgb(colors.strip))
        paint_row(block, without_edges(seen), classes, table, rgb(colors.strip))
