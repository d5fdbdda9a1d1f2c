"""Mouse events on the timeline, and where things are on the screen."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from parsers.model import EventKind, Trace
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.timeline.view import TimelineView

MS = 1_000_000
LEFT = Qt.MouseButton.LeftButton
NONE = Qt.KeyboardModifier.NoModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier


def track_y(view: TimelineView, title: str) -> int:
    """The middle of a track's first row, in pixels of the canvas."""
    placed = next(each for each in view.state.layout.scrolled if each.track.title == title)
    row = placed.rows[0]
    return view.canvas.top_of(placed) + row.top + row.height // 2


def x_of(view: TimelineView, ms: float) -> int:
    return round(NAMES_WIDTH + view.state.scale.x(ms * MS))


def at(view: TimelineView, ms: float, title: str = "GPU 0 · stream 7") -> QPoint:
    return QPoint(x_of(view, ms), track_y(view, title))


def span(view: TimelineView) -> int:
    t0, t1 = view.visible_interval
    return t1 - t0


def drag(
    widget: QWidget,
    start: QPoint,
    end: QPoint,
    button: Qt.MouseButton = LEFT,
    modifiers: Qt.KeyboardModifier = NONE,
) -> None:
    QTest.mousePress(widget, button, modifiers, start)
    for part in (0.3, 0.7, 1.0):
        place = start + (end - start) * part
        moved = QMouseEvent(
            QEvent.Type.MouseMove,
            QPointF(place),
            QPointF(widget.mapToGlobal(place)),
            Qt.MouseButton.NoButton,
            button,
            modifiers,
        )
        QApplication.sendEvent(widget, moved)
    QTest.mouseRelease(widget, button, modifiers, end)


def wheel(
    widget: QWidget,
    place: QPoint,
    notches: float,
    modifiers: Qt.KeyboardModifier = NONE,
    pixels: QPoint | None = None,
    across: float = 0,
) -> None:
    event = QWheelEvent(
        QPointF(place),
        QPointF(widget.mapToGlobal(place)),
        pixels or QPoint(),
        QPoint(round(across * 120), round(notches * 120)),
        Qt.MouseButton.NoButton,
        modifiers,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(widget, event)


def kernel(trace: Trace, number: int) -> int:
    return int(trace.events.of_kind(EventKind.KERNEL)[number])
