"""The mouse on the lanes: select, measure, move, zoom, fold, resize and reorder."""

from __future__ import annotations

from enum import Enum

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QContextMenuEvent, QMouseEvent, QNativeGestureEvent, QWheelEvent
from PySide6.QtWidgets import QToolTip

from parsers.model.late import dataclass
from viewer.timeline.canvas import Hit, LaneCanvas
from viewer.timeline.geometry.derived import Derived
from viewer.timeline.geometry.layout import Placed
from viewer.timeline.hover import DELAY_MS, HoverCard, card_text
from viewer.timeline.lane_commands import LaneCommands
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.timeline.pixels import memory_share
from viewer.timeline.selection import Area, Moment
from viewer.timeline.state import TimelineState

MIN_DRAG = 4
NOT_THERE = "A lane can only be moved within its own heading"
EDGE = 4
ZOOM_NOTCH = 0.8
PAN_NOTCH = 0.12  # of the width
SCROLL_NOTCH = 60


class WheelAct(Enum):
    """What one notch of the wheel does."""

    ZOOM = 0
    MOVE = 1
    SCROLL = 2


@dataclass(frozen=True, slots=True)
class WheelHabit:
    """What the wheel does alone and with a key held."""

    alone: WheelAct
    control: WheelAct
    shift: WheelAct
    alt: WheelAct

    def act(self, modifiers: Qt.KeyboardModifier) -> WheelAct:
        if modifiers & Qt.KeyboardModifier.ControlModifier:
            return self.control
        if modifiers & Qt.KeyboardModifier.ShiftModifier:
            return self.shift
        return self.alt if modifiers & Qt.KeyboardModifier.AltModifier else self.alone


WHEEL_HABITS = {
    "maps": WheelHabit(WheelAct.ZOOM, WheelAct.ZOOM, WheelAct.MOVE, WheelAct.SCROLL),
    "perfetto": WheelHabit(WheelAct.SCROLL, WheelAct.ZOOM, WheelAct.MOVE, WheelAct.SCROLL),
    "chrome": WheelHabit(WheelAct.SCROLL, WheelAct.SCROLL, WheelAct.MOVE, WheelAct.ZOOM),
}


class Gestures(QObject):
    """An event filter on the canvas; holds what a press has begun."""

    def __init__(self, canvas: LaneCanvas, state: TimelineState, commands: LaneCommands) -> None:
        super().__init__(canvas)
        self._canvas, self._state, self._commands = canvas, state, commands
        self._pressed: QPointF | None = None
        self._doing = ""  # "", "press", "area", "pan", "name", "resize", "reorder"
        self._last_x = 0.0
        self._start_time = 0.0
        self._track: Placed | None = None
        self._start_height = 0
        self.card = HoverCard(canvas)
        self._resting = QTimer(self)
        self._resting.setSingleShot(True)
        self._resting.setInterval(DELAY_MS)
        self._resting.timeout.connect(self._on_rest)
        for moved in (state.view_changed, canvas.scrolled):
            moved.connect(self._on_moved_from_under_the_mouse)
        self._at = QPointF()
        self._wheel_habit = WHEEL_HABITS["maps"]
        canvas.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if isinstance(event, QMouseEvent):
            if kind is QEvent.Type.MouseButtonPress:
                return self._press(event)
            if kind is QEvent.Type.MouseMove:
                return self._move(event)
            if kind is QEvent.Type.MouseButtonRelease:
                return self._release(event)
            if kind is QEvent.Type.MouseButtonDblClick:
                return self._double_click(event)
        elif isinstance(event, QWheelEvent):
            return self._wheel(event)
        elif isinstance(event, QNativeGestureEvent):
            return self._native(event)
        elif isinstance(event, QContextMenuEvent):
            return self._context_menu(event)
        elif kind in (QEvent.Type.Leave, QEvent.Type.Hide):
            self._leave()
        return False

    # Pressing and dragging

    def _press(self, event: QMouseEvent) -> bool:
        self._hide_card()
        self._canvas.setFocus(Qt.FocusReason.MouseFocusReason)
        at = event.position()
        middle = event.button() is Qt.MouseButton.MiddleButton
        left = event.button() is Qt.MouseButton.LeftButton
        if not (middle or left):
            return False
        self._pressed, self._last_x = at, at.x()
        self._track = self._canvas.track_at(at.y())
        if at.x() < NAMES_WIDTH and left:
            self._doing = "resize" if self._edge_at(at) is not None else "name"
            if self._doing == "resize":
                self._track = self._edge_at(at)
                self._start_height = self._track.height if self._track is not None else 0
        elif middle or event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._doing = "pan"
            self._state.finish_flight()
            self._state.remember()
            self._canvas.setCursor(Qt.CursorShape.ClosedHandCursor)
        else:
            self._doing = "press"
            self._start_time = self._state.scale.time(at.x() - NAMES_WIDTH)
        return True

    def _move(self, event: QMouseEvent) -> bool:
        at = event.position()
        self._at = at
        x = at.x() - NAMES_WIDTH
        self._state.point_at(x if x >= 0 else None)
        if self._doing == "pan":
            self._state.pan(round(self._last_x - at.x()))
            self._last_x = at.x()
        elif self._pressed is not None and (self._doing == "area" or self._dragged(at)):
            if self._doing in ("press", "area"):
                self._doing = "area"
                self._measure(at, done=False)
            elif self._doing == "resize" and self._track is not None:
                self._commands.resize(self._track, self._start_height + round(at.y() - self._pressed.y()))
            elif self._doing in ("name", "reorder"):
                self._doing = "reorder"
                target = self._canvas.track_at(at.y())
                fits = self._track is not None and self._commands.move(self._track, target)
                self._canvas.setCursor(
                    Qt.CursorShape.SizeVerCursor if fits else Qt.CursorShape.ForbiddenCursor
                )
                QToolTip.showText(event.globalPosition().toPoint(), "" if fits else NOT_THERE, self._canvas)
        elif self._doing == "":
            self._hover(at)
        return True

    def _release(self, event: QMouseEvent) -> bool:
        doing, self._doing = self._doing, ""
        pressed, self._pressed = self._pressed, None
        at = event.position()
        self._canvas.unsetCursor()
        if doing == "area":
            self._pressed = pressed
            self._measure(at, done=True)
            self._pressed = None
        elif doing == "press":
            self._click(at)
        elif doing == "name" and self._track is not None:
            self._commands.toggle(self._track)
        return True

    def _dragged(self, at: QPointF) -> bool:
        assert self._pressed is not None
        distance = at - self._pressed
        along = abs(distance.x()) if self._doing == "press" else abs(distance.y())
        return along >= MIN_DRAG or self._doing == "reorder"

    def _measure(self, at: QPointF, *, done: bool) -> None:
        assert self._pressed is not None
        when = self._state.scale.time(min(max(at.x() - NAMES_WIDTH, 0.0), self._state.scale.width))
        low, high = sorted((self._start_time, when))
        lanes = self._canvas.lanes_between(self._pressed.y(), at.y())
        self._state.select_area(Area(round(low), round(high), lanes), done=done)

    def _click(self, at: QPointF) -> None:
        hit = self._canvas.hit(at)
        state = self._state
        if state.area is not None:
            state.select_area(None)
        if hit is not None and hit.event >= 0:
            state.selection.select_gap(-1)
            state.selection.select_event(hit.event)
        elif hit is not None and hit.gap >= 0:
            state.selection.select_gap(hit.gap)
        elif hit is not None and state.scene is not None and hit.counter in state.scene.stacks:
            stack, top = state.scene.stacks[hit.counter], self._canvas.top_of(hit.placed)
            kind = stack.kind_at(round(hit.when), memory_share(hit.placed, at.y() - top))
            state.selection.choose_moment(Moment(hit.placed.track.device, round(hit.when), kind))
        elif hit is not None and (made := self._made(hit)) is not None and made.item is not None:
            state.entry_chosen.emit(made.track.key, made.item(hit.depth, hit.derived))
        elif hit is not None and hit.placed.track.is_heading:
            self._commands.toggle(hit.placed)
        else:
            state.selection.select_event(-1)
            state.selection.select_gap(-1)

    def _double_click(self, event: QMouseEvent) -> bool:
        hit = self._canvas.hit(event.position())
        scene = self._state.scene
        if hit is None or scene is None or hit.in_names:
            return True
        if hit.event >= 0:
            start, end = int(scene.trace.events.start[hit.event]), int(scene.trace.events.end[hit.event])
            self._state.show_interval(start, end, air=0.25)
        elif hit.gap >= 0 and scene.idle is not None:
            self._state.show_interval(int(scene.idle.start[hit.gap]), int(scene.idle.end[hit.gap]), air=0.15)
        return True

    # Wheel and pinch

    def use_wheel(self, habit: str) -> None:
        """Let the wheel follow a habit: a key of ``WHEEL_HABITS``."""
        self._wheel_habit = WHEEL_HABITS[habit]

    def _wheel(self, event: QWheelEvent) -> bool:
        self._hide_card()
        at, modifiers = event.position(), event.modifiers()
        across, along = event.angleDelta().x() / 120, event.angleDelta().y() / 120
        touchpad = not event.pixelDelta().isNull()
        act = self._wheel_habit.act(modifiers)
        held_alt = modifiers & Qt.KeyboardModifier.AltModifier  # then Qt calls every turn one to the side
        to_the_side = across and not along and not held_alt
        if at.x() < NAMES_WIDTH:
            self._scroll_notches(along or across)
        elif touchpad and modifiers == Qt.KeyboardModifier.NoModifier:
            self._state.pan(-event.pixelDelta().x())
            self._canvas.scroll_to(self._canvas.offset - event.pixelDelta().y())
        elif act is WheelAct.MOVE or to_the_side:
            self._pan_notches(along or across)
        elif act is WheelAct.SCROLL:
            self._scroll_notches(along or across)
        else:
            notches = along or across
            self._state.zoom(at.x() - NAMES_WIDTH, ZOOM_NOTCH**notches, animate=abs(notches) >= 1)
        event.accept()
        return True

    def _scroll_notches(self, notches: float) -> None:
        self._canvas.scroll_to(self._canvas.offset - round(notches * SCROLL_NOTCH))

    def _pan_notches(self, notches: float) -> None:
        self._state.pan(-round(notches * PAN_NOTCH * self._state.scale.width), animate=abs(notches) >= 1)

    def _native(self, event: QNativeGestureEvent) -> bool:
        if event.gestureType() is not Qt.NativeGestureType.ZoomNativeGesture:
            return False
        self._state.zoom(event.position().x() - NAMES_WIDTH, 1 / max(1 + event.value(), 0.2), animate=False)
        return True

    # Hovering

    def _hover(self, at: QPointF) -> None:
        placed = self._canvas.track_at(at.y())
        key = placed.track.key if placed is not None else ""
        if key != self._canvas.hovered:
            self._canvas.hovered = key
            self._canvas.update()
        if at.x() < NAMES_WIDTH:
            over_edge = self._edge_at(at) is not None
            self._canvas.setCursor(Qt.CursorShape.SizeVerCursor if over_edge else Qt.CursorShape.ArrowCursor)
        else:
            self._canvas.unsetCursor()
        self._hide_card()
        self._resting.start()

    def _edge_at(self, at: QPointF) -> Placed | None:
        """The track whose lower edge is under a point of the names."""
        if at.x() >= NAMES_WIDTH or self._canvas.heading_at(at) is not None:
            return None
        placed = self._canvas.track_at(at.y() - EDGE)
        if placed is None or placed.track.is_heading or placed.track.is_made or placed.collapsed:
            return None
        bottom = self._canvas.top_of(placed) + placed.height
        return placed if abs(bottom - at.y()) <= EDGE else None

    def _on_rest(self) -> None:
        if self._doing or not self._canvas.isVisible():
            return
        hit = self._canvas.hit(self._at)
        if hit is None:
            return
        title, body = self._text_of(hit)
        if title:
            self.card.tell(title, body, self._canvas.mapToGlobal(self._at.toPoint()))

    def _text_of(self, hit: Hit) -> tuple[str, str]:
        if hit.in_names:
            track = hit.placed.track
            return track.title, track.subtitle
        if (made := self._made(hit)) is not None:
            return made.told(hit.depth, hit.derived)
        return card_text(self._state, hit.event, hit.gap, hit.placed.track, hit.when)

    def _made(self, hit: Hit) -> Derived | None:
        """The derived track of which an entry was hit."""
        scene = self._state.scene
        return scene.derived.get(hit.placed.track.key) if scene is not None and hit.derived >= 0 else None

    def _on_moved_from_under_the_mouse(self) -> None:
        """What a card tells is not there any more; one that was still to come waits until all is at rest."""
        was_to_come = self._resting.isActive()
        self._hide_card()
        if was_to_come:
            self._resting.start()

    def _hide_card(self) -> None:
        self._resting.stop()
        self.card.hide()

    def _leave(self) -> None:
        self._hide_card()
        self._state.point_at(None)
        if self._canvas.hovered:
            self._canvas.hovered = ""
            self._canvas.update()

    def _context_menu(self, event: QContextMenuEvent) -> bool:
        self._hide_card()
        position = QPointF(event.pos())
        self._commands.menu(self._canvas.track_at(position.y()), self._canvas).exec(QPoint(event.globalPos()))
        return True
