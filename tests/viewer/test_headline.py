"""The headline and the budget below it: whole lines, the card and the gaps behind each part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPointF, Qt
from PySide6.QtGui import QEnterEvent
from pytestqt.qtbot import QtBot

import resources
from parsers.model.units import duration, percent
from rules.analysis.idle.causes import Cause
from tests.examples import one_of
from tests.viewer.conftest import wait_until_laid_out, wait_until_ready
from viewer.appearance.headline import Headline
from viewer.window.main_window import MainWindow


def test_a_click_on_a_part_of_the_budget_makes_its_card_the_current_one(
    window: MainWindow, qtbot: QtBot
) -> None:
    last = window.diagnosis.cards[-1].finding
    window.document.select_finding(last)
    about = next(card.finding for card in window.diagnosis.cards if card.finding.category.about is Cause.HOST)
    assert about is not last
    (bar,) = window.verdict.bars
    python = next(button for button in bar.buttons if button.part.key == "host-bound")
    qtbot.mouseClick(python, Qt.MouseButton.LeftButton)
    assert window.document.finding is about
    assert window.side.currentWidget() is window.diagnosis


def test_the_mouse_over_a_part_of_the_budget_lights_up_its_gaps_with_their_number(
    window: MainWindow, qtbot: QtBot
) -> None:
    (bar,) = window.verdict.bars
    python = next(button for button in bar.buttons if button.part.key == "host-bound")
    dark = window.timeline.overview.grab().toImage()
    middle = QPointF(python.rect().center())
    QCoreApplication.sendEvent(python, QEnterEvent(middle, middle, python.mapToGlobal(middle)))
    glow = window.timeline.overview.glow
    assert glow is not None
    whole = duration(int((glow.end - glow.start).sum()))
    assert glow.told == f"waiting for Python: {python.part.count} gaps, {whole} in all, as recorded"
    steps = window.document.analysis.steps_in_window
    assert int((glow.end - glow.start).sum()) == pytest.approx(python.part.amount * steps, abs=steps)
    assert window.timeline.overview.grab().toImage() != dark
    QCoreApplication.sendEvent(python, QEvent(QEvent.Type.Leave))
    assert window.timeline.overview.glow is None


@pytest.mark.parametrize("width", one_of(2, [960, 1366]))
def test_no_line_of_the_headline_is_cut_off(
    width: int, make_window: Callable[..., MainWindow], fixtures: Path, qtbot: QtBot
) -> None:
    window = make_window((width, 700))
    window.open([fixtures / "programs" / "diffusion.pt.trace.json.gz"])
    wait_until_ready(qtbot, window)
    qtbot.waitUntil(lambda: window.document.plan is not None)
    wait_until_laid_out(qtbot, window.verdict)
    for label in (window.verdict.sentence, window.verdict.where):
        assert label.text()
        assert label.height() >= label.heightForWidth(label.width())
    assert window.verdict.headline.height() < 90


def test_a_part_of_the_budget_without_room_for_its_label_has_a_short_name(
    window: MainWindow, qtbot: QtBot
) -> None:
    (bar,) = window.verdict.bars
    button = next(each for each in bar.buttons if each.part.key == "host-bound")
    share = percent(button.share)
    said = {button.shown_name(room) for room in range(0, 400, 2)}
    assert said == {"", "Python", f"Python {share}", f"waiting for Python {share}"}
    assert button.shown_name(400) == f"waiting for Python {share}"


def test_the_bar_is_of_a_step_without_the_recorder_which_a_switch_shows_as_a_part(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    window = empty_window
    window.open([resources.path("samples/cpu_python.pt.trace.json.gz")])
    wait_until_ready(qtbot, window)
    diagnosis = window.document.diagnosis
    assert diagnosis is not None
    step = diagnosis.step_times[0]
    (bar,) = window.verdict.bars
    assert sum(button.part.amount for button in bar.buttons) == pytest.approx(step.length_ns, rel=1e-3)
    python = next(button for button in bar.buttons if button.part.key == "host-bound")
    assert python.share == pytest.approx(diagnosis.findings[0].share, abs=0.02), "one basis"
    switch = window.verdict.headline.without_recorder
    qtbot.mouseClick(switch, Qt.MouseButton.LeftButton)
    (bar,) = window.verdict.bars
    assert sum(button.part.amount for button in bar.buttons) == pytest.approx(step.recorded_ns, rel=1e-3)
    recorder = bar.buttons[-1]
    assert recorder.part.key == "recorder"
    assert recorder.part.amount == pytest.approx(step.recorder_ns, rel=1e-3)
    window.document.select_step(0)
    assert not switch.isVisible(), "a chosen step is shown as it was recorded"


def test_the_switch_and_the_pills_beside_it_stand_on_one_line(qtbot: QtBot) -> None:
    headline = Headline()
    qtbot.addWidget(headline)
    headline.resize(900, 80)
    headline.show()
    headline.without_recorder.show()
    headline.say("A verdict", "what to do", (("profiler: 30 % of a step", "It takes that much."),))
    wait_until_laid_out(qtbot, headline)
    (pill,) = headline.pills
    middle = headline.without_recorder.geometry().center().y()
    assert abs(pill.geometry().center().y() - middle) <= 1
