"""Changes are tried from the window: rows fill meanwhile, it can be stopped, and what it gave stands on the cards."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QMessageBox
from pytestqt.qtbot import QtBot

import resources
from rules.fixes.base import switches_of
from rules.trials.blocks import Gain
from rules.trials.kept import KeptTrial
from rules.trials.likeness import Likeness, LossComparison
from rules.trials.record import MIN_TRIALS
from rules.trials.trial import Candidate, Kind, Promised, Trial, Trials, trial_of
from rules.verdict import trials as wording
from tests.capture.pretend import script_request
from tests.capture.trials.test_trying import blocks, usual
from viewer.capture.form.dialog import CaptureDialog
from viewer.capture.request import CaptureRequest, Target, TargetKind
from viewer.capture.storage import History as Runs
from viewer.capture.trials.journal import earlier_trials
from viewer.capture.trials.launch import Launched, Launcher, Order
from viewer.dialogs.trials import window
from viewer.dialogs.trials.rows import color_of
from viewer.dialogs.trials.session import Subject
from viewer.dialogs.trials.window import TrialsWindow
from viewer.kept.history import Entry, History, Series
from viewer.look import theme
from viewer.panels.charts import gain_axis
from viewer.panels.charts.gain_axis import GainAxis
from viewer.reports.rendering.markdown_report import as_markdown
from viewer.reports.trial_report import trials_report
from viewer.window.main_window import MainWindow
from viewer.window.trials import RECORDS

from .conftest import wait_until_ready

GAINS = {"tf32": 2.0, "fused-optimizer": 1.15, "no-read-backs": 1.3}
SAMPLE = "samples/cpu_python.pt.trace.json.gz"


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
            launcher._on_line(_line(block, spent=number * 2.0))
        return answer

    def stop(self, launcher: Launcher) -> None:
        launcher._stopped = True
        self.go_on.set()

    def kill(self, launcher: Launcher) -> None:
        self.killed.set()
        launcher.killed = True
        self.stop(launcher)


def _line(block: Any, spent: float) -> dict[str, Any]:
    return {
        "kind": "block",
        "candidate": block.candidate,
        "variant": "B" if block.changed else "A",
        "steps": block.steps,
        "slowest_ns": block.ns,
        "elements": block.elements,
        "spent_s": spent,
        "changes": list(block.changes),
    }


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
        qtbot.addWidget(shown)
        shown.resize(1280, 800)
        shown.show()
        made.append(shown)
        return shown

    yield make
    for shown in made:
        shown.session.end_now()
        shown.close()


def click(button: Any) -> None:
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def wait_until_ended(qtbot: QtBot, shown: TrialsWindow) -> Trials:
    qtbot.waitUntil(lambda: shown.session.trials is not None and not shown.session.running)
    assert shown.session.trials is not None
    return shown.session.trials


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
    qtbot.waitUntil(lambda: rows["fused-optimizer"].trial is not None)
    assert "proved" in rows["tf32"].result.text()
    assert rows["fused-optimizer"].result.text() == "measuring: 1 of 12 blocks"
    assert rows["gc-freeze"].result.text() == "waiting"
    assert shown.stop_button.isVisible()
    assert "Use a fused optimizer: block 1 of 12 · about " in shown.state.text()
    assert shown.state.text().endswith(" s left")
    assert 0 < shown.bar.value() < shown.bar.maximum() == 1000
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
    qtbot.waitUntil(lambda: shown.rows.rows["tf32"].trial is not None)
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


@pytest.fixture
def slow(empty_window: MainWindow, qtbot: QtBot) -> MainWindow:
    """The window on the sample that waits for Python, with its fixes in front."""
    empty_window.open([resources.path(SAMPLE)])
    wait_until_ready(qtbot, empty_window)
    qtbot.waitUntil(lambda: empty_window.side.count() == 2)
    empty_window.side.setCurrentWidget(empty_window.fixes)
    return empty_window


def recorded_from_here(tmp_path: Path) -> CaptureRequest:
    """Has the sample be one that the recorder wrote."""
    request = script_request("training.py", tmp_path)
    run = Runs().begin(request)
    Runs().save(replace(run, recordings=(resources.path(SAMPLE),)))
    return request


def test_what_was_measured_stands_beside_the_promise_on_its_card(
    slow: MainWindow, pretend: Callable[..., PretendedLaunches], qtbot: QtBot, tmp_path: Path
) -> None:
    request = recorded_from_here(tmp_path)
    card = next(each for each in slow.fixes.cards if each.try_button is not None)
    others = [each for each in slow.fixes.cards if each is not card]
    switches = switches_of(card.promise.proposal.fix)
    runner = pretend(dict.fromkeys(switches, 1.2))
    assert card.try_button is not None
    slow.fixes._scroll.ensureWidgetVisible(card.try_button)
    click(card.try_button)
    shown = slow.trials.shown
    assert shown is not None
    assert {each for order in runner.orders for each, _ in order.candidates} <= set(switches)
    click(shown.start_button)
    trials = wait_until_ended(qtbot, shown)
    qtbot.waitUntil(lambda: card.measured.isVisible())
    assert card.measured.text().startswith("Promised ")
    assert ", measured 1.2" in card.measured.text().replace("\u00a0", " ")
    assert not any(each.measured.isVisible() for each in others)
    kept = slow.what_if.measured(card.promise)
    assert kept is not None
    assert any(
        each.gain is not None and kept.measured == (each.gain.low, each.gain.value, each.gain.high)
        for each in trials.trials
    )
    assert earlier_trials(request)
    told = card.measured.text()
    shown.close()
    slow.open([resources.path(SAMPLE)])
    wait_until_ready(qtbot, slow)
    again = next(each for each in slow.fixes.cards if each.promise.id == card.promise.id)
    qtbot.waitUntil(lambda: bool(again.measured.text()))
    assert again.measured.text() == told


@pytest.mark.parametrize(
    ("trials", "elsewhere", "said"),
    [
        (0, MIN_TRIALS, ""),
        (
            MIN_TRIALS - 1,
            0,
            f"The promise held in {MIN_TRIALS - 1} of {MIN_TRIALS - 1} trials on this machine",
        ),
        (MIN_TRIALS, 1, f"On this machine, {MIN_TRIALS} trials measured 0.90 times the promise: expect "),
    ],
)
def test_how_promises_held_on_this_machine_stands_on_the_card(
    slow: MainWindow, qtbot: QtBot, trials: int, elsewhere: int, said: str
) -> None:
    promise = slow.fixes.cards[0].promise
    bounds = (promise.low, promise.expected, promise.high)
    gain = 0.9 * promise.expected
    kept = KeptTrial("a", "switch", "A", promise.id, bounds, (0.5 * gain, gain, 1.5 * gain))
    for host, count in ((socket.gethostname(), trials), ("another", elsewhere)):
        for number in range(count):
            History().keep(Entry(f"torch: train{number}.py on {host}", (), Series.TRIAL, trials=(kept,)))
    slow.open([resources.path(SAMPLE)])
    wait_until_ready(qtbot, slow)
    qtbot.waitUntil(lambda: len(slow.fixes.cards) > 0 and not slow.document.jobs.is_running(RECORDS))
    qtbot.waitUntil(lambda: slow.fixes.cards[0].kept.text().replace("\u00a0", " ").startswith(said))
    card = slow.fixes.cards[0]
    assert card.promise.id == promise.id
    assert card.kept.isHidden() is not bool(said)
    told = card.kept.text().replace("\u00a0", " ")
    assert ("expect" in told) is (trials >= MIN_TRIALS)
    assert not told or said


def test_a_ceiling_never_hides_a_change_that_can_be_kept(slow: MainWindow) -> None:
    promise = slow.fixes.cards[0].promise
    kept = KeptTrial("a", "switch", "A", promise.id, (1.0, 1.1, 1.2), (1.0, 1.1, 1.2))
    ceiling = replace(kept, switch="b", kind="ceiling", measured=(2.0, 2.1, 2.2))
    slow.what_if.keep_measured([kept, ceiling])
    assert slow.what_if.measured(promise) == kept


def test_a_program_that_is_not_known_is_asked_for_in_the_record_dialog(
    slow: MainWindow, pretend: Callable[..., PretendedLaunches], qtbot: QtBot, tmp_path: Path
) -> None:
    pretend()
    click(slow.fixes.try_button)
    (dialog,) = slow.findChildren(CaptureDialog)
    qtbot.waitUntil(lambda: not dialog._jobs.busy)
    assert dialog.try_button.isDefault() or not dialog.try_button.isEnabled()
    request = script_request("training.py", tmp_path)
    dialog.target.show_target(replace(request.target, interpreter="/no/python"))
    dialog.try_it()
    shown = slow.trials.shown
    assert shown is not None
    assert shown.session.subject.request.target.program == request.target.program
    assert shown.session.subject.promises
    assert shown.session.subject.fixes == ()


def test_what_is_no_python_program_is_refused_in_the_form(slow: MainWindow, qtbot: QtBot) -> None:
    click(slow.fixes.try_button)
    (dialog,) = slow.findChildren(CaptureDialog)
    dialog.target.show_target(Target(TargetKind.COMMAND, "make"))
    dialog.try_it()
    assert "Changes are tried in Python programs" in dialog.problem.text()
    assert slow.trials.shown is None


def test_two_trials_never_run_at_a_time(
    slow: MainWindow, pretend: Callable[..., PretendedLaunches], qtbot: QtBot, tmp_path: Path
) -> None:
    recorded_from_here(tmp_path)
    runner = pretend(hold="tf32")
    slow.trials.try_fixes(("tf32",))
    shown = slow.trials.shown
    assert shown is not None
    click(shown.start_button)
    qtbot.waitUntil(runner.holds.is_set)
    click(slow.fixes.try_button)
    assert slow.trials.shown is shown
    slow.close()
    assert runner.killed.is_set()
