"""Changes are tried from the window: rows fill meanwhile, it can be stopped, and it says what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QMessageBox
from pytestqt.qtbot import QtBot

from rules.trials.blocks import Gain
from rules.trials.likeness import Likeness, LossComparison
from rules.trials.trial import Candidate, Kind, Promised, Trial, trial_of
from rules.verdict import trials as wording
from tests.capture.trials.test_trying import blocks
from tests.viewer.trials.pretended import GAINS, PretendedLaunches, click, wait_until_ended
from viewer.appearance import theme
from viewer.dialogs.trials import window
from viewer.dialogs.trials.rows import color_of
from viewer.dialogs.trials.window import TrialsWindow
from viewer.panels.charts import gain_axis
from viewer.panels.charts.gain_axis import GainAxis
from viewer.reports.rendering.markdown_report import as_markdown
from viewer.reports.trial_report import trials_report


def has_begun(shown: TrialsWindow, switch: str) -> bool:
    """Whether the first block of a change is shown, which comes after the row, and the row after the program began."""
    row = shown.rows.rows.get(switch)
    return row is not None and row.trial is not None


def test_a_program_that_was_never_tried_waits_for_start_and_one_that_was_does_not(
    make_trial: Callable[..., TrialsWindow], pretend: Callable[..., PretendedLaunches], qtbot: QtBot
) -> None:
    runner = pretend()
    first = make_trial("tf32")
    first.begin()
    assert not runner.orders
    assert "runs for real" in first.notice.text()
    assert first.notice.isVisible()
    click(first.start_button)
    assert not first.notice.isVisible()
    wait_until_ended(qtbot, first)
    second = make_trial("tf32")
    launched = len(runner.orders)
    second.begin()
    wait_until_ended(qtbot, second)
    assert len(runner.orders) > launched


def test_rows_fill_while_it_runs_and_agree_with_the_report(
    make_trial: Callable[..., TrialsWindow], pretend: Callable[..., PretendedLaunches], qtbot: QtBot
) -> None:
    runner = pretend(hold="fused-optimizer")
    shown = make_trial("tf32", "fused-optimizer", "no-read-backs", "gc-freeze")
    click(shown.start_button)
    qtbot.waitUntil(runner.holds.is_set)
    rows = shown.rows.rows
    qtbot.waitUntil(lambda: has_begun(shown, "fused-optimizer"))
    assert "proved" in rows["tf32"].result.text()
    assert rows["fused-optimizer"].result.text() == "measuring: 1 of 12 blocks"
    assert rows["gc-freeze"].result.text() == "waiting"
    assert shown.stop_button.isVisible()
    assert "Use a fused optimizer: block 1 of 12 · about " in shown.state.text()
    assert shown.state.text().endswith(" s left")
    assert 0 <= shown.bar.value() < shown.bar.maximum() == 1000
    runner.go_on.set()
    trials = wait_until_ended(qtbot, shown)
    assert list(shown.rows.rows)[-2:] == ["control", "together"]
    markdown = as_markdown(trials_report(trials, shown.name))
    for trial in trials.trials:
        row = shown.rows.rows[trial.candidate.switch]
        assert row.trial is trial
        assert trial.gain is not None
        assert wording.result(trial) in markdown
        assert row.cell.accessibleName() == wording.times(trial.gain)
        left, right = row.cell.x_of(trial.gain.low), row.cell.x_of(trial.gain.high)
        assert 0 < left <= row.cell.x_of(trial.gain.value) <= right <= row.cell.width()
    assert shown.summary.text() == wording.summary(trials)
    assert "losses" in shown.rows.rows["tf32"].more.text()
    assert [each.name for each in shown.losses.curves][:2] == ["", ""]
    assert {each.name for each in shown.losses.curves[2:]} == {
        each.candidate.title for each in trials.trials if each.is_a_gain
    }


def test_columns_have_headings_once_there_are_rows(
    make_trial: Callable[..., TrialsWindow], pretend: Callable[..., PretendedLaunches], qtbot: QtBot
) -> None:
    runner = pretend(hold="tf32")
    shown = make_trial("tf32")
    assert not shown.axis.isVisible()
    click(shown.start_button)
    qtbot.waitUntil(runner.holds.is_set)
    qtbot.waitUntil(lambda: bool(shown.rows.rows))
    assert shown.axis.isVisible()
    runner.go_on.set()
    wait_until_ended(qtbot, shown)


def test_it_can_be_made_narrower_again_and_the_axis_stays_above_its_column(
    make_trial: Callable[..., TrialsWindow], pretend: Callable[..., PretendedLaunches], qtbot: QtBot
) -> None:
    pretend()
    shown = make_trial()
    click(shown.start_button)
    wait_until_ended(qtbot, shown)
    row = shown.rows.rows["tf32"]

    def places() -> list[tuple[int, int]]:
        return [(each.mapTo(shown, QPoint()).x(), each.width()) for each in (shown.axis.cell, row.cell)]

    for width, height in ((1280, 800), (760, 800), (760, 660), (1000, 660)):
        shown.resize(width, height)
        qtbot.waitUntil(lambda wanted=width: shown.width() == wanted and places()[0] == places()[1])
        for label in (shown.summary, shown.notes):
            assert not label.isVisible() or label.height() >= label.heightForWidth(label.width())


def test_the_time_left_counts_down_between_two_reports(
    make_trial: Callable[..., TrialsWindow],
    pretend: Callable[..., PretendedLaunches],
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = pretend(hold="tf32")
    shown = make_trial("tf32")
    now = 1000.0
    monkeypatch.setattr(window, "monotonic", lambda: now)
    click(shown.start_button)
    assert shown.clock.isActive()
    qtbot.waitUntil(runner.holds.is_set)
    qtbot.waitUntil(lambda: has_begun(shown, "tf32"))
    shown._tell("TF32: block 1 of 12", now + 60.4)
    assert shown.state.text() == "TF32: block 1 of 12 · about 60 s left"
    used = shown.bar.value()
    now += 40.0
    shown.clock.timeout.emit()
    assert shown.state.text() == "TF32: block 1 of 12 · about 20 s left"
    assert shown.bar.value() == used + round(1000 * 40 / shown.seconds.value())
    now += 40.0
    shown.clock.timeout.emit()
    assert shown.state.text() == "TF32: block 1 of 12 · finishing"
    runner.go_on.set()
    wait_until_ended(qtbot, shown)
    assert not shown.clock.isActive()


def test_how_sure_it_is_so_far_is_told(
    make_trial: Callable[..., TrialsWindow], pretend: Callable[..., PretendedLaunches], qtbot: QtBot
) -> None:
    pretend()
    shown = make_trial("tf32")
    said: list[str] = []
    shown.session.progressed.connect(lambda far: said.append(shown.state.text()))
    click(shown.start_button)
    wait_until_ended(qtbot, shown)
    assert any("so far · about" in each for each in said)


def test_stop_keeps_what_is_known(
    make_trial: Callable[..., TrialsWindow], pretend: Callable[..., PretendedLaunches], qtbot: QtBot
) -> None:
    runner = pretend(hold="fused-optimizer")
    shown = make_trial("tf32", "fused-optimizer")
    click(shown.start_button)
    qtbot.waitUntil(runner.holds.is_set)
    click(shown.stop_button)
    trials = wait_until_ended(qtbot, shown)
    assert trials.ended == "stopped"
    assert shown.rows.rows["tf32"].trial is not None
    assert shown.rows.rows["tf32"].trial.gain is not None
    assert "not measured" in shown.rows.rows["fused-optimizer"].result.text()
    assert "Stopped after" in shown.notes.text()
    assert shown.start_button.isVisible()
    assert not shown.stop_button.isVisible()
    assert not runner.killed.is_set()


def test_closing_asks_before_a_running_trial_is_lost(
    make_trial: Callable[..., TrialsWindow],
    pretend: Callable[..., PretendedLaunches],
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = pretend(hold="tf32")
    shown = make_trial("tf32")
    click(shown.start_button)
    qtbot.waitUntil(runner.holds.is_set)
    answers = iter(["Go on", "Kill it and close"])

    def pick(box: QMessageBox) -> int:
        wanted = next(answers)
        monkeypatch.setattr(
            QMessageBox,
            "clickedButton",
            lambda asked: next(each for each in asked.buttons() if each.text() == wanted),
        )
        return 0

    monkeypatch.setattr(QMessageBox, "exec", pick)
    QTest.keyClick(shown, Qt.Key.Key_Escape)
    assert shown.isVisible()
    assert not runner.killed.is_set()
    QTest.keyClick(shown, Qt.Key.Key_Escape)
    assert not shown.isVisible()
    assert runner.killed.is_set()


def test_the_report_is_that_of_the_command(
    make_trial: Callable[..., TrialsWindow],
    pretend: Callable[..., PretendedLaunches],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend()
    shown = make_trial("tf32", "fused-optimizer")
    click(shown.report_button)
    click(shown.start_button)
    trials = wait_until_ended(qtbot, shown)
    page = tmp_path / "page.md"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(page), "Markdown (*.md)"))
    click(shown.report_button)
    qtbot.waitUntil(page.exists)
    assert page.read_text("utf-8") == as_markdown(trials_report(trials, "training.py"))
    click(shown.copy_button)
    assert QGuiApplication.clipboard().text() == page.read_text("utf-8")


def test_a_restless_machine_is_told_without_gains(
    make_trial: Callable[..., TrialsWindow], pretend: Callable[..., PretendedLaunches], qtbot: QtBot
) -> None:
    pretend({**GAINS, "control": 1.4})
    shown = make_trial("tf32", "fused-optimizer")
    click(shown.start_button)
    wait_until_ended(qtbot, shown)
    assert list(shown.rows.rows) == ["control"]
    assert "too noisy to tell" in shown.summary.text()


CANDIDATE = Candidate("x", Kind.SWITCH, "X")


@pytest.mark.parametrize(
    ("kind", "low", "high", "name"),
    [
        (Kind.SWITCH, 1.1, 1.3, "accent"),
        (Kind.CEILING, 1.1, 1.3, "warning"),
        (Kind.TOGETHER, 1.1, 1.3, "good"),
        (Kind.SWITCH, 0.9, 1.3, "grey"),
        (Kind.CEILING, 0.9, 1.3, "grey"),
        (Kind.SWITCH, 0.7, 0.9, "error"),
    ],
)
def test_each_colour_says_one_thing(kind: Kind, low: float, high: float, name: str) -> None:
    trial = Trial(replace(CANDIDATE, kind=kind), Gain((low + high) / 2, low, high))
    assert color_of(trial) == getattr(theme.current(), name)


def test_the_measured_band_lies_on_that_of_the_promise(make_trial: Callable[..., TrialsWindow]) -> None:
    shown = make_trial()
    promised = replace(CANDIDATE, promised=Promised(1.0, 1.5, 2.0))
    shown.rows.show_candidates([promised])
    trial = replace(trial_of(promised, blocks("x", 1.6)), loss=LossComparison(Likeness.BIT_EQUAL, 0.0, 0.0))
    shown.rows.show_trial(trial)
    cell = shown.rows.rows["x"].cell
    assert trial.gain is not None
    picture = shown.grab().toImage()
    corner = cell.mapTo(shown, cell.rect().topLeft())

    def at(gain: float, off: int = 0) -> QColor:
        return picture.pixelColor(corner.x() + round(cell.x_of(gain)), corner.y() + cell.height() // 2 + off)

    assert at(trial.gain.value) == theme.current().accent
    pale = at(1.3, 8)
    assert pale not in (theme.current().accent, theme.current().panel, at(2.2, 8))
    assert pale == at(1.8, 8)


@pytest.mark.parametrize("pixels", [60, 110, 400])
def test_marks_of_the_axis_are_apart_and_hold_no_difference(pixels: int) -> None:
    for gains in ((1.01,), (0.5, 3.0), (1.1, 40.0), (0.8, 2.5), ()):
        axis = GainAxis.around(gains)
        marks = axis.marks(pixels)
        shares = [axis.share(each) for each in marks]
        assert 1.0 in marks
        assert all(right - left >= gain_axis.MIN_APART for left, right in pairwise(shares))
        assert all((right - left) * pixels >= gain_axis.MARK_PX for left, right in pairwise(shares))
        assert all(0 <= axis.share(each) <= 1 for each in (*gains, 1.0))
