"""What was tried stands on the cards of fixes, and how promises held on this machine beside it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

import resources
from rules.fixes.base import switches_of
from rules.trials.record import MIN_TRIALS, KeptTrial
from rules.verdict.promises import usually
from tests.capture.pretend import script_request
from tests.viewer.conftest import wait_until_ready
from tests.viewer.trials.pretended import PretendedLaunches, click, wait_until_ended
from viewer.capture.form.dialog import CaptureDialog
from viewer.capture.request import CaptureRequest, Target, TargetKind
from viewer.capture.storage import History as Runs
from viewer.capture.trials.journal import earlier_trials
from viewer.user_data.history import Entry, History, Series
from viewer.window.main_window import MainWindow
from viewer.window.trials import RECORDS

SAMPLE = "samples/cpu_python.pt.trace.json.gz"


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
        pytest.param(0, MIN_TRIALS, "", marks=pytest.mark.thorough),
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
    told = card.kept.text().replace("\u00a0", " ")
    assert card.kept.isHidden() is not bool(told)
    assert ("expect" in told) is (trials >= MIN_TRIALS)
    assert said or told == usually(promise)


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
