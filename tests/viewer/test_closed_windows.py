"""What a closed window leaves behind: nothing, however often one opens and closes."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
from PySide6.QtCore import QAbstractItemModel
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot
from shiboken6 import isValid, ownedByPython

import resources
import viewer.app
from viewer.documents.document import Stage
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_ready

SAMPLE = resources.path("samples/elementwise_chain.pt.trace.json.gz")


def close(window: MainWindow, qtbot: QtBot) -> None:
    window.close()
    qtbot.waitUntil(lambda: not isValid(window))


def open_and_close(qtbot: QtBot) -> None:
    window = viewer.app.open_window([SAMPLE])
    qtbot.waitUntil(lambda: window.document.stage is Stage.READY and not window.jobs.busy)
    close(window, qtbot)


def test_windows_that_were_closed_leave_no_widget_and_no_object(qtbot: QtBot) -> None:
    app = viewer.app.application()
    stays = viewer.app.open_window()
    stays.panels._complete()  # its tabs would come one by one meanwhile
    left = []
    for _ in range(3):
        open_and_close(qtbot)
        gc.collect()
        left.append((len(app.allWidgets()), len(viewer.app._windows)))
    assert left[1] == left[2] == (left[0][0], 1)
    close(stays, qtbot)
    assert not viewer.app._windows


@pytest.mark.usefixtures("only_new_garbage")
def test_no_part_of_a_window_ends_when_python_collects_garbage(
    make_window: Callable[..., MainWindow], qtbot: QtBot
) -> None:
    window = make_window()
    window.open([resources.path("samples/cpu_python.pt.trace.json.gz")])
    wait_until_ready(qtbot, window)
    for title in window.panels.titles():
        show_tab(window, qtbot, title)
    parts = (QMenu, QAbstractItemModel, QAction)
    alone = [
        each for each in gc.get_objects() if isinstance(each, parts) and isValid(each) and ownedByPython(each)
    ]
    assert [(type(each), each.objectName()) for each in alone] == []
