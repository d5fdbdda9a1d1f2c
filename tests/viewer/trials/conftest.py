"""Launches that are pretended, and windows of a trial that are closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.capture.pretend import script_request
from tests.viewer.trials.pretended import GAINS, PretendedLaunches
from viewer.appearance import theme
from viewer.capture.trials.launch import Launcher
from viewer.dialogs.trials.session import Subject
from viewer.dialogs.trials.window import TrialsWindow


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., PretendedLaunches]]:
    made: list[PretendedLaunches] = []

    def install(gains: Mapping[str, float] = GAINS, hold: str = "") -> PretendedLaunches:
        runner = PretendedLaunches(gains, hold)
        made.append(runner)
        for name in ("launch", "stop", "kill"):
            method = getattr(runner, name)
            monkeypatch.setattr(Launcher, name, lambda self, *rest, call=method: call(self, *rest))
        return runner

    yield install
    for runner in made:
        runner.go_on.set()


@pytest.fixture
def make_trial(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> Iterator[Callable[..., TrialsWindow]]:
    theme.apply(qapp, "dark")
    made: list[TrialsWindow] = []

    def make(*fixes: str, promises: tuple[Any, ...] | None = ()) -> TrialsWindow:
        shown = TrialsWindow(Subject(script_request("training.py", tmp_path), fixes, promises))
        # a test that fails leaves its trial running, and closing would ask
        qtbot.addWidget(shown, before_close_func=lambda closing: closing.session.end_now())
        shown.resize(1280, 800)
        shown.show()
        made.append(shown)
        return shown

    yield make
    for shown in made:
        shown.session.end_now()
        shown.close()
