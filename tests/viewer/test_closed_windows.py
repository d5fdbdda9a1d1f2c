"""What a closed window leaves behind: nothing, however often one opens and closes."""

from __future__ import annotations

import gc

from pytestqt.qtbot import QtBot
from shiboken6 import isValid

import resources
import viewer.app
from viewer.documents.document import Stage
from viewer.window.main_window import MainWindow

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
