"""Notes of bookmarks are typed where they stand, and typing is nothing but typing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit
from pytestqt.qtbot import QtBot

import resources
from parsers.model import Trace
from tests.examples import one_of
from viewer.user_data.session import Session
from viewer.window.main_window import MainWindow

from .conftest import wait_until_ready
from .test_home import press


@pytest.fixture
def kept(window: MainWindow, qtbot: QtBot, tmp_path: Path, trace: Trace) -> MainWindow:
    """The window with one bookmark, whose note is being typed."""
    path = tmp_path / "run.json"
    path.write_text("{}")
    window.document.show(trace, [path])
    wait_until_ready(qtbot, window)
    window.document.select_event(3)
    press(window, "Ctrl+B")
    return window


def test_a_bookmark_asks_for_its_note_at_once_and_letters_are_text(kept: MainWindow) -> None:
    view, gaps = kept.timeline.state.target, kept.timeline.state.gaps_visible
    kept.panels.update_tabs()  # another panel has its answer while the note is typed
    kept.bookmarks.invalidate()  # and the analysis arrives
    assert isinstance(QApplication.focusWidget(), QLineEdit)
    for letter in ("w", "d", "g", "n", "Space", "0", "."):
        press(kept, letter)
    press(kept, "Return")
    (mark,) = kept.bookmarks.bookmarks
    assert mark.note == "wdgn 0."
    assert kept.timeline.state.target == view
    assert kept.timeline.state.gaps_visible is gaps
    press(kept, "d")
    assert kept.timeline.state.target != view


def test_a_note_belongs_to_the_new_bookmark_where_the_tabs_are_hidden_or_filtered(kept: MainWindow) -> None:
    for letter in ("o", "n", "e"):
        press(kept, letter)
    press(kept, "Return")
    assert kept.timeline.hasFocus()
    press(kept, "F7")
    assert not kept.panels_dock.isVisible()
    kept.panels.filter.setText("nothing is called so")
    press(kept, "Ctrl+B")
    assert kept.bookmarks.table.isVisible()
    for letter in ("t", "w", "o"):
        press(kept, letter)
    press(kept, "Return")
    assert [mark.note for mark in kept.bookmarks.bookmarks] == ["one", "two"]


def test_escape_leaves_the_note_as_it_was(kept: MainWindow) -> None:
    press(kept, "x")
    press(kept, "Esc")
    (mark,) = kept.bookmarks.bookmarks
    assert mark.note == ""


@pytest.mark.parametrize(("column", "key"), one_of(2, [(3, "note"), (0, "title")]))
def test_a_double_click_edits_what_it_hits(kept: MainWindow, column: int, key: str) -> None:
    press(kept, "Esc")
    table = kept.bookmarks.table
    place = table.visualRect(table.rows.index(0, column)).center()
    qtwidgets_place = table.viewport().mapTo(kept, place)
    QTest.mouseClick(kept.windowHandle(), Qt.MouseButton.LeftButton, pos=qtwidgets_place)
    QTest.mouseDClick(kept.windowHandle(), Qt.MouseButton.LeftButton, pos=qtwidgets_place)
    QApplication.processEvents()
    for letter in ("a", "b"):
        press(kept, letter)
    press(kept, "Return")
    (mark,) = kept.bookmarks.bookmarks
    assert getattr(mark, key) == "ab"


def test_notes_that_somebody_put_beside_a_recording_are_shown_and_gone_on_with(
    make_window: Callable[..., MainWindow], qtbot: QtBot, tmp_path: Path
) -> None:
    recording = tmp_path / "run.pt.trace.json.gz"
    shutil.copyfile(resources.path("samples/elementwise_chain.pt.trace.json.gz"), recording)
    theirs = Session(tmp_path / "notes.stallscope", [recording])
    theirs.add(0, 5, "look here", "slow")
    theirs.close()
    window = make_window()
    window.open([recording])
    wait_until_ready(qtbot, window)
    assert [mark.note for mark in window.bookmarks.bookmarks] == ["slow"]
    window.bookmarks.add((0, 10))
    assert len(Session(theirs.path).bookmarks()) == 2
