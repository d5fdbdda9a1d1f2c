"""Launches that are pretended, for windows that try changes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from rules.trials.trial import Trials
from tests.capture.trials.pretended import line_of
from tests.capture.trials.test_trying import usual
from viewer.capture.trials.launch import Launched, Launcher, Order
from viewer.dialogs.trials.window import TrialsWindow

GAINS = {"tf32": 2.0, "fused-optimizer": 1.15, "no-read-backs": 1.3}


class PretendedLaunches:
    """Says the blocks of each launch as the recorder does; ``hold`` names the candidate at which it waits."""

    def __init__(self, gains: Mapping[str, float], hold: str = "") -> None:
        self.orders: list[Order] = []
        self.holds, self.go_on, self.killed = threading.Event(), threading.Event(), threading.Event()
        self._hold = hold
        self._answer = usual(dict(gains), together=2.3)

    def launch(self, launcher: Launcher, order: Order) -> Launched:
        self.orders.append(order)
        answer = self._answer(order)
        seen = []
        for number, block in enumerate(answer.account.blocks if order.candidates else ()):
            if block.candidate == self._hold and seen and seen[-1].candidate == self._hold:
                self.holds.set()
                assert self.go_on.wait(60)
            if launcher.is_stopped():
                return Launched(replace(answer.account, blocks=tuple(seen), ended="stopped"), answer.outcome)
            seen.append(block)
            launcher._on_line(line_of(block, spent=number * 2.0))
        return answer

    def stop(self, launcher: Launcher) -> None:
        launcher._stopped = True
        self.go_on.set()

    def kill(self, launcher: Launcher) -> None:
        self.killed.set()
        launcher.killed = True
        self.stop(launcher)


def click(button: Any) -> None:
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def wait_until_ended(qtbot: QtBot, shown: TrialsWindow) -> Trials:
    qtbot.waitUntil(lambda: shown.session.trials is not None and not shown.session.running)
    assert shown.session.trials is not None
    return shown.session.trials
