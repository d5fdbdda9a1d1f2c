"""The trend tab shows the runs that were kept, and the open recording as the last of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pytestqt.qtbot import QtBot

from rules.gates.figures import figures_of
from viewer.panels.tabs.steps import OPEN, TrendPanel
from viewer.user_data.history import Entry, History
from viewer.window.main_window import MainWindow

from .conftest import show_tab


def test_the_trend_of_the_same_program_is_chosen_and_ends_with_the_open_recording(
    window: MainWindow, qtbot: QtBot
) -> None:
    analysis = window.document.analysis
    assert analysis is not None
    figures = replace(figures_of(analysis), files=("other.json",))
    other = replace(figures, gpus=("Other GPU",))
    history = History()
    for name, run, factor, reason in (
        ("mine", figures, 1.0, ""),
        ("mine", figures, 2.0, "a larger model"),
        ("another", other, 1.0, ""),
    ):
        steps = np.asarray(run.step_ns * factor)
        history.keep(Entry(name, (replace(run, step_ns=steps),), revision=f"r{factor:g}", reason=reason))
    window.panels.update_tabs()
    show_tab(window, qtbot, "Trend")
    panel = window.panels.findChild(TrendPanel)
    assert isinstance(panel, TrendPanel)
    qtbot.waitUntil(lambda: len(panel.chart.points) == 3)
    assert panel.names.currentText() == "mine"
    assert [each.note for each in panel.chart.points] == ["", "a larger model", ""]
    assert panel.chart.points[-1].label == OPEN
    assert panel.chart.points[1].low_ns <= panel.chart.points[1].step_ns <= panel.chart.points[1].high_ns
    panel.names.setCurrentText("another")
    panel.names.activated.emit(0)
    qtbot.waitUntil(lambda: len(panel.chart.points) == 2)
    assert not panel.chart.grab().isNull()
