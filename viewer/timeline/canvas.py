"""The lanes: one widget that paints them all, scrolls them, and knows what is under a point."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRect, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QImage, QPainter, QPaintEvent, QRegion, QResizeEvent
from PySide6.QtWidgets import QWidget

from parsers.model.late import dataclass
from viewer.appearance import theme
from viewer.appearance.painted_chart import painting
from viewer.timeline.frame import FramePainter, Options
from viewer.timeline.geometry.layout import Placed
from viewer.timeline.hover import event_text
from viewer.timeline.legend import Legend
from viewer.timeline.names_column import NAMES_WIDTH, NamesColumn
from viewer.timeline.overlays import Overlays
from viewer.timeline.pixels import Shown
from viewer.timeline.scene import Scene
from viewer.timeline.state import TimelineState

PICK_PIXELS = 3.0
AROUND_ROW = 6  # pixels of its neighbours stay in view
SETTLE_MS = 30  # after the last frame of a zoom
LOOK_AHEAD_MS = 50  # after the last frame; each time so many rows, which takes a millisecond or two
LOOK_AHEAD_ROWS = 12


@dataclass(frozen=True, slots=True)
class Hit:
    """What lies under a point: a track, and there an event, a gap or a counter, or nothing (-1)."""

    placed: Placed
    in_names: bool
    when: float
    event: int = -1
    gap: int = -1
    derived: int = -1  # offset in the row ``depth`` of what was not recorded
    depth: int = -1

    @property
    def counter(self) -> int:
        return self.placed.track.counter


@dataclass(frozen=True, slots=True, eq=False)
class _InView:
    """The tracks in view, the same until somebody scrolls or moves lanes."""

    of: tuple[object, ...]  # the layout, how far it is scrolled, its room, and what it shows
    shown: list[Shown]
    pinned: list[Shown]
    has_values: bool  # whether a curve is among them


_NOTHING = _InView((), [], [], False)


class LaneCanvas(QWidget):
    """Paints names and lanes; the picture of the lanes is kept until the view or the contents change."""

    scrolled = Signal()  # offset or range changed

    def __init__(self, state: TimelineState) -> None:
        super().__init__()
        self.state = state
        self.offset = 0
        self.hovered = ""
        self.message = ""
        self._painter = FramePainter()
        self._names = NamesColumn()
        self._overlays = Overlays(state)
        self._legend = Legend()
        self.legend_visible = False
        self._picture: QImage | None = None
        self._ahead = QTimer(self)
        self._ahead.setInterval(LOOK_AHEAD_MS)
        self._ahead.timeout.connect(self._look_ahead)
        self._settle = QTimer(self)
        self._settle.setSingleShot(True)
        self._settle.setInterval(SETTLE_MS)
        self._settle.timeout.connect(self._show_other_times)
        self._zoom = 0.0  # ns a pixel, in the last frame
        self._names_image: QImage | None = None
        self._names_state: tuple[object, ...] = ()
        self._seen = _NOTHING
        self.setMouseTracking(True)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName("Lanes")
        self.setMinimumHeight(60)
        state.view_changed.connect(self._show_other_times)
        state.content_changed.connect(self._on_content)
        state.overlay_changed.connect(self.update)
        state.selection.event_changed.connect(self._describe)

    @property
    def room(self) -> int:
        """Height for the tracks that scroll, in pixels."""
        return max(self.height() - self.state.layout.pinned_height, 0)

    @property
    def most_offset(self) -> int:
        """How far one can scroll."""
        return max(self.state.layout.scrolled_height - self.room, 0)

    def scroll_to(self, offset: int) -> None:
        """Scroll so that the track at ``offset`` is the first one."""
        wanted = min(max(offset, 0), self.most_offset)
        if wanted != self.offset:
            self.offset = wanted
            self.invalidate()
            self.scrolled.emit()

    def reveal_lane(self, lane: int) -> bool:
        """Scroll so that a lane can be seen; False where it is hidden or folded away."""
        placed = self.state.layout.of_lane(lane)
        return placed is not None and self.reveal_track(placed.track.key)

    def reveal_row(self, key: str, row: int) -> None:
        """Scroll so that a row of a track can be seen."""
        placed = self.state.layout.find(key)
        if placed is not None and placed not in self.state.layout.pinned and row < len(placed.rows):
            top = placed.top + placed.rows[row].top - AROUND_ROW
            bottom = top + placed.rows[row].height + 2 * AROUND_ROW
            self.scroll_to(min(max(self.offset, bottom - self.room), top))

    def reveal_track(self, key: str) -> bool:
        """Scroll so that a track can be seen; False where it is hidden or folded away."""
        placed = self.state.layout.find(key)
        if placed is None:
            return False
        if placed not in self.state.layout.pinned:
            kept = self.state.layout.heading_above(placed.top)
            first = placed.top - (kept[0].height if kept is not None else 0)
            if first < self.offset:
                self.scroll_to(first)
            elif placed.bottom > self.offset + self.room:
                self.scroll_to(self._at_a_lane(placed.bottom - self.room, first))
        return True

    def shows(self, lane: int) -> bool:
        placed = self.state.layout.of_lane(lane)
        if placed is None or placed in self.state.layout.pinned:
            return placed is not None
        return self.offset <= placed.top and placed.bottom <= self.offset + self.room

    def _at_a_lane(self, least: int, most: int) -> int:
        """An offset of at least ``least`` at which the first lane is whole, below the heading that stays over it."""
        layout = self.state.layout
        for each in layout.visible(least, most + self.room):
            kept = layout.heading_above(each.top)
            offset = each.top - (kept[0].height if kept is not None else 0)
            if least <= offset <= most:
                return offset
        return min(least, most)  # the beginning of a lane that does not fit

    def invalidate(self) -> None:
        self._picture = None
        self.update()

    def _show_other_times(self) -> None:
        self._picture = None
        self.update(NAMES_WIDTH, 0, self.width() - NAMES_WIDTH, self.height())

    def _on_content(self) -> None:
        if self.state.scene is None:
            self._painter.forget()
            self._seen = _NOTHING
        self.offset = min(self.offset, self.most_offset)
        self.scrolled.emit()
        self.invalidate()

    def _describe(self, event: int) -> None:
        """Tell a screen reader what is selected."""
        scene = self.state.scene
        told = "" if event < 0 or scene is None else ", ".join(event_text(scene, event, self.state.origin))
        self.setAccessibleDescription(told.replace("\n", ", "))

    @property
    def _in_view(self) -> _InView:
        layout, offset, room, scene = self.state.layout, self.offset, self.room, self.state.scene
        now = (layout, offset, room, scene, scene.derived if scene is not None else None)
        if self._seen.of != now:
            top = layout.pinned_height - offset
            shown = [Shown(placed, placed.top + top) for placed in layout.visible(offset, offset + room)]
            pinned = [Shown(placed, placed.top) for placed in layout.pinned]
            has_values = scene is not None and any(
                scene.counter_of(each.placed.track) is not None for each in (*shown, *pinned)
            )
            self._seen = _InView(now, shown, pinned, has_values)
        return self._seen

    def shown(self) -> list[Shown]:
        """The tracks that scroll, as far as they are in view."""
        return self._in_view.shown

    def kept_heading(self) -> Shown | None:
        """The heading of the topmost rank while its own place is scrolled away; the next one pushes it out."""
        found = self.state.layout.heading_above(self.offset)
        if found is None:
            return None
        heading, following = found
        top = min(0, following - self.offset - heading.height)
        return Shown(heading, top + self.state.layout.pinned_height)

    def _under_heading(self) -> QRect:
        """Where lanes lie under the heading that is kept."""
        kept, top = self.kept_heading(), self.state.layout.pinned_height
        return (
            QRect(0, top, self.width(), kept.top + kept.placed.height - top) if kept is not None else QRect()
        )

    def pinned(self) -> list[Shown]:
        """The tracks that stay at the top."""
        return self._in_view.pinned

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.state.set_width(max(self.width() - NAMES_WIDTH, 1))
        self.state.set_height(self.height())
        self.offset = min(self.offset, self.most_offset)
        self.scrolled.emit()
        self.invalidate()
        super().resizeEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        with painting(self) as painter:
            self._paint(painter, event.rect().left() < NAMES_WIDTH)

    def _paint(self, painter: QPainter, with_names: bool) -> None:
        colors, scene = theme.current(), self.state.scene
        if scene is None:
            painter.fillRect(self.rect(), colors.window)
            painter.setPen(colors.text_secondary)
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self.message)
            return
        shown, pinned = self.shown(), self.pinned()
        ratio = self.devicePixelRatioF()
        if self._picture is None:
            options = Options(self.state.origin, self.state.gaps_visible)
            self._picture = self._painter.paint(
                scene,
                self.state.scale,
                shown,
                pinned,
                self.height(),
                ratio,
                options,
                self._is_zooming(),
                self.kept_heading(),
            )
            self._ahead.start()
            if self._painter.is_rough:
                self._settle.start()
        if not ratio.is_integer():  # the picture may end before the last column and row
            painter.fillRect(QRectF(self.width() - 2, 0, 4, self.height()), colors.window)
            painter.fillRect(QRectF(0, self.height() - 2, self.width(), 4), colors.window)
        painter.drawImage(QPointF(NAMES_WIDTH, 0), self._picture)
        painter.save()
        painter.setClipRegion(QRegion(NAMES_WIDTH, 0, self.width(), self.height()) - self._under_heading())
        painter.translate(NAMES_WIDTH, 0)
        self._overlays.draw(painter, [*shown, *pinned], self.height(), self._painter.label_boxes)
        if self.legend_visible:
            answers = [(s.top, s.top + s.placed.height) for s in shown if s.placed.track.is_gpu_lane]
            self._legend.draw(painter, scene, self.width() - NAMES_WIDTH, self.height(), answers)
        painter.restore()
        if with_names:
            painter.drawImage(QPointF(0, 0), self._names_picture(scene, shown, pinned, ratio))

    def _is_zooming(self) -> bool:
        """Whether the zoom was another one in the last frame."""
        before, self._zoom = self._zoom, self.state.scale.ns_per_pixel
        return before != self._zoom

    @property
    def is_rough(self) -> bool:
        """Whether the picture was made in a hurry and will soon be made again."""
        return self._picture is None or self._painter.is_rough

    def picture(self) -> QImage | None:
        """The lanes without names, as they were painted last."""
        return None if self._picture is None else self._picture.copy()

    def _look_ahead(self) -> None:
        """While nothing moves, prepare for a movement."""
        if not self._painter.look_ahead(LOOK_AHEAD_ROWS):
            self._ahead.stop()

    def _names_picture(self, scene: Scene, shown: list[Shown], pinned: list[Shown], ratio: float) -> QImage:
        """The left column, painted anew only when something in it changed."""
        cursor = self.state.cursor if self._in_view.has_values else None
        now = (
            self.offset,
            id(self.state.layout),
            id(scene.stacks),
            self.hovered,
            cursor,
            theme.current().name,
            self.height(),
            ratio,
        )
        if self._names_image is None or now != self._names_state:
            self._names_state = now
            image = QImage(
                round(NAMES_WIDTH * ratio), round(self.height() * ratio), QImage.Format.Format_RGB32
            )
            image.setDevicePixelRatio(ratio)
            image.fill(theme.current().window)  # the last line may be painted by half
            with painting(image) as painter:
                covered = self._under_heading().bottom() + 1 or self.state.layout.pinned_height
                self._names.draw(painter, scene, shown, self.height(), cursor, self.hovered, covered)
                if (heading := self.kept_heading()) is not None:
                    self._names.draw_heading(painter, scene, heading, self.hovered)
                if pinned:
                    height = self.state.layout.pinned_height
                    painter.setClipRect(QRectF(0, 0, NAMES_WIDTH, height))
                    self._names.draw(painter, scene, pinned, height, cursor, self.hovered)
            self._names_image = image
        return self._names_image

    def track_at(self, y: float) -> Placed | None:
        if (heading := self.heading_at(QPointF(0, y))) is not None:
            return heading
        pinned = self.state.layout.pinned_height
        if y < pinned:
            return next((each for each in self.state.layout.pinned if each.top <= y < each.bottom), None)
        return self.state.layout.at(int(y) - pinned + self.offset)

    def heading_at(self, at: QPointF) -> Placed | None:
        """The heading that is kept over the lanes, where the point lies on it."""
        kept = self.kept_heading()
        return kept.placed if kept is not None and self._under_heading().contains(at.toPoint()) else None

    def top_of(self, placed: Placed) -> int:
        if placed in self.state.layout.pinned:
            return placed.top
        return placed.top - self.offset + self.state.layout.pinned_height

    def hit(self, at: QPointF) -> Hit | None:
        """What lies under a point of this widget."""
        x = at.x() - NAMES_WIDTH
        placed = self.track_at(at.y())
        if placed is None or self.state.scene is None:
            return None
        when = self.state.scale.time(x)
        if x < 0:
            return Hit(placed, True, when)
        y = at.y() - self.top_of(placed)
        row = next((row for row in placed.rows if row.top - 1 <= y < row.top + row.height + 1), None)
        tolerance = self.state.scale.ns_per_pixel * PICK_PIXELS
        event, derived = -1, -1
        if row is not None and placed.track.derived:
            made = self.state.scene.derived.get(placed.track.key)
            derived = made.at(row.depth, when) if made is not None else -1
        elif row is not None and placed.track.lane >= 0:
            inside = self.state.scene.event_at(placed.track, row.depth, when, 0.0)
            gap = self._gap_at(placed, when)
            event = inside
            if inside < 0 and (gap < 0 or self._pixels_of_gap(gap) < 4 * PICK_PIXELS):
                event = self.state.scene.event_at(placed.track, row.depth, when, tolerance)
        gap = self._gap_at(placed, when) if event < 0 else -1
        return Hit(placed, False, when, event, gap, derived, row.depth if row is not None else -1)

    def _gap_at(self, placed: Placed, when: float) -> int:
        scene = self.state.scene
        if scene is None or scene.idle is None or not self.state.gaps_visible:
            return -1
        devices: tuple[int, ...] = (placed.track.device,) if placed.track.shows_gaps else ()
        if placed.track.is_heading:
            devices = next(each.devices for each in scene.index.groups if each.key == placed.track.group)
        idle = scene.idle
        for device in devices:
            low, high = np.searchsorted(idle.device, (device, device + 1)).tolist()
            row = int(low) + int(np.searchsorted(idle.start[low:high], when, side="right")) - 1
            if row >= low and when < idle.end[row]:
                return row
        return -1

    def _pixels_of_gap(self, gap: int) -> float:
        assert self.state.scene is not None
        idle = self.state.scene.idle
        assert idle is not None
        return float(idle.end[gap] - idle.start[gap]) / self.state.scale.ns_per_pixel

    def lanes_between(self, y0: float, y1: float) -> tuple[int, ...]:
        """The lanes whose tracks touch a span of heights of this widget."""
        low, high = sorted((y0, y1))
        return tuple(
            lane
            for each in (*self.pinned(), *self.shown())
            if each.top < high and each.top + each.placed.height > low
            for lane in (each.placed.track.lane, each.placed.track.calls)
            if lane >= 0
        )
