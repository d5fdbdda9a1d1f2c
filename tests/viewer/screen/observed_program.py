"""The program, started as a user starts it, and somebody who looks over its shoulder.

``python -m tests.viewer.screen.observed_program ARGUMENTS`` runs the command line with ARGUMENTS. Whenever something
changes in its window, one line of JSON on standard output says what is shown and where, in pixels of the screen. The
observer only reads; whoever drives the program has a mouse and a keyboard and nothing else.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from PySide6.QtCore import QObject, QPoint, QRect, QTimer
from PySide6.QtWidgets import QApplication, QLineEdit, QPushButton, QTabBar, QWidget

import viewer.app
from tests.viewer.screen import observed_comparison
from viewer.documents.document import Stage
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.timeline.ruler import RULER_HEIGHT
from viewer.window.main_window import MainWindow

LOOK_EVERY_MS = 50
Rectangle = list[int]  # left, top, width, height


def on_screen(widget: QWidget, part: QRect | None = None) -> Rectangle:
    """A part of a widget, in pixels of the screen; the part of it that can be seen, if it lies in a scroll area."""
    part = widget.rect() if part is None else part
    seen = part.intersected(widget.visibleRegion().boundingRect())
    seen = part if seen.isEmpty() else seen
    corner, ratio = widget.mapToGlobal(seen.topLeft()), widget.devicePixelRatioF()
    return [round(each * ratio) for each in (corner.x(), corner.y(), seen.width(), seen.height())]


class Observer(QObject):
    """Writes down what the window shows, each time that it has changed."""

    def __init__(self, application: QApplication) -> None:
        super().__init__(application)
        self._last: dict[str, Any] = {}
        self._settled = False
        self._clock = QTimer(self)
        self._clock.timeout.connect(self._look)
        self._clock.start(LOOK_EVERY_MS)

    def _look(self) -> None:
        windows = [each for each in QApplication.topLevelWidgets() if isinstance(each, MainWindow)]
        visible = [each for each in windows if each.isVisible()]
        if not visible:
            return
        seen = observation(visible[0])
        settled = seen == self._last and not seen["working"]
        if seen != self._last or settled != self._settled:
            self._last, self._settled = seen, settled
            print(json.dumps({**seen, "settled": settled}), flush=True)


def observation(window: MainWindow) -> dict[str, Any]:
    """What one window shows, and where its parts are."""
    document, timeline = window.document, window.timeline
    active = QApplication.activeWindow()
    compared = observed_comparison.comparison(window)
    area = document.area
    return {
        "stage": document.stage.name,
        "working": window.jobs.busy
        or timeline.state.flying
        or compared.get("working", False)
        or document.stage not in (Stage.READY, Stage.EMPTY),
        "active": active.windowTitle() if active is not None else "",
        "typed": written.text() if isinstance(written := QApplication.focusWidget(), QLineEdit) else "",
        "finding": document.finding.title if document.finding is not None else "",
        "worst": [[place.start, place.end] for place in timeline.state.evidence],
        "event": event(window),
        "gap": gap(window),
        "area": [area.start, area.end] if area is not None else [],
        "view": list(timeline.visible_interval),
        "bookmarks": [[mark.start, mark.end, mark.title] for mark in window.bookmarks.bookmarks],
        "tab": window.panels.tabs.tabText(window.panels.tabs.currentIndex()),
        "compared": compared,
        "places": places(window),
    }


def event(window: MainWindow) -> dict[str, Any]:
    """The selected event."""
    trace, chosen = window.document.trace, window.document.selected_event
    if trace is None or chosen < 0:
        return {}
    events = trace.events
    return {
        "kind": events.kind[chosen].item(),
        "name": trace.name(chosen),
        "start": int(events.start[chosen]),
        "end": int(events.end[chosen]),
    }


def gap(window: MainWindow) -> list[int]:
    """The selected gap, ns."""
    analysis, row = window.document.analysis, window.document.selected_gap
    return [] if analysis is None or row < 0 else [int(analysis.idle.start[row]), int(analysis.idle.end[row])]


def places(window: MainWindow) -> dict[str, Rectangle]:
    """Where things are on the screen, by what they are called."""
    timeline, found = window.timeline, {}
    if timeline.isVisible():
        ruler, canvas = timeline.ruler, timeline.canvas
        time = QRect(NAMES_WIDTH, 0, round(timeline.state.scale.width), RULER_HEIGHT)
        found["ruler"] = on_screen(ruler, time)
        for placed in timeline.state.layout.scrolled:
            row = placed.rows[0] if placed.rows else None
            if row is not None:
                top = canvas.top_of(placed) + row.top
                lane = QRect(QPoint(NAMES_WIDTH, top), QPoint(canvas.width() - 1, top + row.height))
                found[f"lane {placed.track.title}"] = on_screen(canvas, lane)
    for number, card in enumerate(window.diagnosis.cards):
        if card.isVisible():
            found[f"card {number}"] = on_screen(card)
    for button in window.findChildren(QPushButton):
        if button.isVisible() and button.accessibleName():
            found[button.accessibleName()] = on_screen(button)
    for bar in window.findChildren(QTabBar):
        for index in range(bar.count() if bar.isVisible() else 0):
            found[f"tab {bar.tabText(index)}"] = on_screen(bar, bar.tabRect(index))
    for name, (widget, part) in observed_comparison.places(window).items():
        found[name] = on_screen(widget, part)
    table = window.bookmarks.table
    if table.isVisible() and table.model().rowCount():
        row_of = table.visualRect(table.model().index(0, 0))
        found["first bookmark"] = on_screen(table.viewport(), row_of)
    return found


def main() -> int:
    """Run the command line with an observer inside."""
    make = viewer.app.application

    def observed() -> QApplication:
        application = make()
        Observer(application)
        return application

    viewer.app.application = observed
    from viewer.cli import main as command_line

    return command_line()


if __name__ == "__main__":
    sys.exit(main())
