"""The tabs of the bottom dock are made after the window is there, without anybody noticing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from pytestqt.qtbot import QtBot

from parsers.model import Trace
from viewer.main_window import MainWindow
from viewer.preferences import Preferences

from .conftest import wait_until_ready

TABS = 11


def test_the_tabs_come_one_by_one_and_no_other_window_flashes_up(
    make_window: Callable[..., MainWindow], qtbot: QtBot
) -> None:
    window = make_window()
    qtbot.waitUntil(lambda: len(window.panels.panels) == TABS)
    assert window.isActiveWindow()
    assert window.panels.titles() == []
    assert [panel.title for panel in window.panels.panels][-1] == "Bookmarks"


def test_a_recording_that_comes_first_finds_all_tabs(qtbot: QtBot, trace: Trace) -> None:
    window = MainWindow(Preferences())
    qtbot.addWidget(window)
    assert window.panels.panels == ()
    window.document.show(trace)
    assert len(window.panels.panels) == TABS
    wait_until_ready(qtbot, window)
    assert window.panels.titles()[:2] == ["Selection", "Kernels"]
    window.close()


def test_a_window_without_a_file_loads_no_table_library() -> None:
    program = (
        "import sys; from viewer.app import application, open_window; application(); open_window().grab(); "
        "late = ('pandas', 'pyqtgraph', 'scipy', 'msgspec', 'parsers.opening', 'viewer.panels.kernels'); "
        "print([name for name in late if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
