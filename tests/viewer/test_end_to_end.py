"""One session as a user has it, with real mouse and key events: from opening to finding a bookmark again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton, QWidget
from pytestqt.qtbot import QtBot

import resources
from parsers.model import EventKind
from viewer.window.main_window import MainWindow

from .conftest import wait_until_ready
from .timeline.mouse import MS, at

CONTROL = Qt.KeyboardModifier.ControlModifier


def press(
    window: MainWindow, key: Qt.Key, keys: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> None:
    """A key as the platform delivers it: to the window, which finds the shortcut or the focused widget."""
    QTest.keyClick(window.windowHandle(), key, keys)


def click(widget: QWidget, place: QPoint) -> None:
    QTest.mouseClick(widget, Qt.MouseButton.LeftButton, pos=place)


def follow(window: MainWindow, fact: str) -> None:
    """Click the link of a fact about the selection."""
    links = window.panels.tabs.currentWidget().findChildren(QPushButton)
    link = next(each for each in links if each.isVisible() and each.accessibleName().startswith(f"{fact}: "))
    click(link, link.rect().center())


def test_from_opening_a_recording_to_finding_its_bookmark_again(
    make_window: Callable[..., MainWindow], qtbot: QtBot, tmp_path: Path
) -> None:
    recording = tmp_path / "training.pt.trace.json.gz"
    recording.write_bytes(resources.path("samples/cpu_python.pt.trace.json.gz").read_bytes())
    window = make_window((780, 760))
    window.open([recording])
    wait_until_ready(qtbot, window)
    trace, analysis = window.document.trace, window.document.analysis
    assert trace is not None
    assert analysis is not None

    # The window alone names the bottleneck and shows where it is.
    said = f"{window.verdict.sentence.text()} {window.verdict.where.text()}"
    assert "Python" in said
    assert "tokenize_next" in said
    worst = window.timeline.state.evidence[0]
    t0, t1 = window.timeline.visible_interval
    assert t0 <= worst.start < worst.end <= t1

    # The finding's card flies to its longest gap.
    card = window.diagnosis.cards[0]
    click(card, QPoint(40, 20))
    assert window.document.finding is card.finding
    longest = max(card.finding.evidence, key=lambda each: each.end - each.start)
    assert longest.end - longest.start > 20_000_000

    # From the gap to the kernel that ended it, and on to its launch.
    middle = (longest.start + longest.end) / 2 / MS
    stream = next(
        each.track.title for each in window.timeline.state.layout.scrolled if each.track.is_gpu_lane
    )
    click(window.timeline.canvas, at(window.timeline, middle, stream))
    row = window.document.selected_gap
    assert analysis.idle.start[row] <= longest.start < longest.end <= analysis.idle.end[row]
    follow(window, "Ended by")
    kernel = window.document.selected_event
    assert trace.events.kind[kernel] in (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
    follow(window, "Launched by")
    launch = window.document.selected_event
    assert trace.events.kind[launch] == EventKind.API
    assert trace.events.start[launch] <= trace.events.start[kernel]

    # Measure it, then keep it.
    window.timeline.setFocus()
    press(window, Qt.Key.Key_M)
    assert window.document.area is not None
    measured = window.document.area.end - window.document.area.start
    assert measured == trace.events.duration[launch]
    press(window, Qt.Key.Key_M)
    press(window, Qt.Key.Key_B, CONTROL)
    (mark,) = window.bookmarks.bookmarks
    assert mark.event == launch
    window.close()

    # Another day: the bookmark is there and leads to the same place.
    again = make_window((780, 760))
    again.open([recording])
    wait_until_ready(qtbot, again)
    again.panels.show_panel("Bookmarks")
    wait_until_ready(qtbot, again)
    again.bookmarks.table.selectRow(0)
    assert again.document.selected_event == launch
    press(again, Qt.Key.Key_P, CONTROL)
    assert again.toolbar.search.hasFocus()
