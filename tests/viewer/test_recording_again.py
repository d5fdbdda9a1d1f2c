"""The window records a program again, compares the two recordings, and tells what became of what was promised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Signal
from pytestqt.qtbot import QtBot

import resources
from viewer.capture.request import CaptureRequest, Target
from viewer.capture.storage import History as Runs
from viewer.user_data.history import History, Series
from viewer.window.main_window import MainWindow

REQUEST = CaptureRequest(target=Target(program="/a/train.py"))


class FakeDialog(QObject):
    """In the place of the recorder: it has recorded already."""

    captured = Signal(list)
    try_wanted = Signal(object)
    finished = Signal(int)
    asked: CaptureRequest | None = None
    title = ""
    records: Path

    def __init__(self, _: object, request: CaptureRequest | None = None, *, for_trial: bool = False) -> None:
        super().__init__()
        FakeDialog.asked = request

    def setAttribute(self, *_: object) -> None: ...

    def setWindowTitle(self, title: str) -> None:
        FakeDialog.title = title

    def show(self) -> None:
        run = Runs().begin(REQUEST)
        Runs().save(replace(run, recordings=(self.records,)))
        self.captured.emit([self.records])
        self.finished.emit(0)


def test_the_window_records_again_compares_and_tells(
    make_window: Callable[..., MainWindow], qtbot: QtBot, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewer.capture.form.dialog.CaptureDialog", FakeDialog)
    earlier, window = make_window(), make_window()
    earlier.open_beside_wanted.connect(window.open)
    FakeDialog.records = fixtures / "programs" / "fields.pt.trace.json.gz"
    earlier.open([resources.path("samples/elementwise_chain.pt.trace.json.gz")])
    qtbot.waitUntil(lambda: earlier.document.diagnosis is not None and not earlier.jobs.busy)
    before = earlier.document.paths
    earlier.commands["record-again"].trigger()
    assert "does not know how this was recorded" in earlier.banner.problem.text()
    earlier.commands["record"].trigger()
    assert earlier.document.paths == before, "what is open is not replaced"
    qtbot.waitUntil(lambda: window.document.diagnosis is not None and not window.jobs.busy)
    (kept,) = History().entries(Series.PROGRAM)
    assert kept.promises
    FakeDialog.records = fixtures / "programs" / "fields.fixed.pt.trace.json.gz"
    window.commands["record-again"].trigger()
    assert FakeDialog.title == "Record again and compare with fields.pt.trace.json.gz"
    assert FakeDialog.asked is not None
    assert FakeDialog.asked.target == REQUEST.target
    qtbot.waitUntil(lambda: "promised" in window.banner.problem.text())
    assert len(History().entries(Series.PROGRAM)) == 2
