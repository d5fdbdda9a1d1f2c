"""Fixes are ticked beside the diagnosis, and the window shows what would be: bars, a predicted step, the path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

import resources
from parsers import open_trace
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.fixes.plan import plan_of
from rules.replay.critical_path import PathKind, critical_path_of
from rules.replay.replay import replay_of
from rules.replay.slack import slack_of
from viewer.appearance import theme
from viewer.documents.document import PREDICTING
from viewer.panels.findings.card_parts import ShareBar
from viewer.panels.fixes.fix_card import FixCard, GainRange
from viewer.panels.tables.facts import LinkButton
from viewer.reports.fixes_report import outcome_json
from viewer.statistics.what_if import PATH_NAMES, ghosts, path_rows, predict
from viewer.timeline.geometry.derived import GHOST, PATH
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_ready
from .test_home import click, press
from .test_selection_and_search import ask


@pytest.fixture
def slow(empty_window: MainWindow, qtbot: QtBot) -> MainWindow:
    """The window on the sample that waits for Python, with its fixes in front."""
    empty_window.open([resources.path("samples/cpu_python.pt.trace.json.gz")])
    wait_until_ready(qtbot, empty_window)
    qtbot.waitUntil(lambda: empty_window.side.count() == 2)
    empty_window.side.setCurrentWidget(empty_window.fixes)
    return empty_window


def tick(window: MainWindow, qtbot: QtBot, card: FixCard) -> None:
    click(card.box)
    wait_until_ready(qtbot, window)


def test_a_tick_shows_what_a_step_would_take(slow: MainWindow, qtbot: QtBot) -> None:
    assert not slow.prediction.isVisible()
    assert slow.verdict.isVisible()
    first = slow.fixes.cards[0]
    tick(slow, qtbot, first)
    prediction = slow.what_if.prediction
    assert prediction is not None
    assert prediction.ids == (first.promise.id,)
    assert slow.prediction.isVisible()
    assert not slow.verdict.isVisible()
    assert "faster with the fix you ticked" in slow.prediction.sentence.text()
    outcome = prediction.outcome
    assert outcome.least_ns <= outcome.after_ns <= outcome.most_ns
    tick(slow, qtbot, first)
    assert slow.what_if.prediction is None
    assert slow.verdict.isVisible()
    assert not slow.prediction.isVisible()


def test_the_fixes_are_reached_and_ticked_with_the_keyboard_alone(slow: MainWindow, qtbot: QtBot) -> None:
    slow.side.setCurrentWidget(slow.diagnosis)
    slow.timeline.setFocus()
    qtbot.keyClick(slow, "i")
    assert slow.side.currentWidget() is slow.fixes
    assert slow.fixes.cards[0].hasFocus()
    qtbot.keyClick(slow.fixes.cards[0], Qt.Key.Key_Space)
    wait_until_ready(qtbot, slow)
    assert slow.what_if.ticked == (slow.fixes.cards[0].promise.id,)
    qtbot.keyClick(slow, "i")
    assert slow.fixes.cards[1].hasFocus()


def test_the_fixes_are_found_by_their_name_and_their_lack_is_said(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    empty_window.open([resources.path("samples/kernels.raw.csv.gz")])
    wait_until_ready(qtbot, empty_window)
    assert ask(empty_window, qtbot, "what if")[0] == ("action", "What if: fixes and their gains")
    qtbot.keyClick(empty_window.toolbar.search, Qt.Key.Key_Return)
    assert empty_window.banner.problem.text() == "What fixes would give is not known."
    assert "record both" in empty_window.banner.hint.text()


def test_nothing_moves_when_the_gains_of_fixes_are_known(
    empty_window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[tuple[object, ...]] = []
    jobs_ask = empty_window.jobs.ask

    def hold_the_plan(slot: str, *rest: object, **how: object) -> None:
        if slot == PREDICTING:
            answers.append(rest)
        else:
            jobs_ask(slot, *rest, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(empty_window.jobs, "ask", hold_the_plan)
    empty_window.open([resources.path("samples/cpu_python.pt.trace.json.gz")])
    qtbot.waitUntil(lambda: bool(answers) and empty_window.document.diagnosis is not None)
    assert empty_window.side.count() == 2
    assert "Working out" in empty_window.verdict.where.text()
    before = [each.height() for each in (empty_window.verdict, empty_window.side.tabBar())]
    monkeypatch.undo()
    empty_window.jobs.ask(PREDICTING, *answers[0])  # type: ignore[arg-type]
    wait_until_ready(qtbot, empty_window)
    assert empty_window.fixes.cards
    assert "Working out" not in empty_window.verdict.where.text()
    assert [each.height() for each in (empty_window.verdict, empty_window.side.tabBar())] == before


def test_what_is_ticked_is_replayed_together_and_never_multiplied(slow: MainWindow, qtbot: QtBot) -> None:
    cards = slow.fixes.cards[:2]
    for card in reversed(cards):
        tick(slow, qtbot, card)
    plan, prediction = slow.what_if.plan, slow.what_if.prediction
    assert plan is not None
    assert prediction is not None
    assert prediction.ids == tuple(card.promise.id for card in cards)
    assert prediction.outcome.after_ns == plan.predict(prediction.ids).after_ns
    slow.fixes.copy_button.click()
    text = QGuiApplication.clipboard().text()
    assert all(card.promise.proposal.title in text for card in cards)
    assert "Together:" in text


def test_the_predicted_step_lies_under_the_lane_of_its_gpu_and_never_looks_recorded(
    slow: MainWindow, qtbot: QtBot
) -> None:
    tick(slow, qtbot, slow.fixes.cards[0])
    state = slow.timeline.state
    titles = [each.track.title for each in state.layout.scrolled]
    assert titles[titles.index("GPU 0 · stream 7") + 1] == "after the fixes"
    (key,) = (key for key in state.scene.derived if key.startswith(GHOST))
    ghost = state.scene.derived[key]
    assert ghost.track.subtitle == "predicted, not recorded"
    assert ghost.frame is not None
    t0, t1 = slow.timeline.visible_interval
    assert t0 <= ghost.frame.start < ghost.frame.end < ghost.frame.recorded_end <= t1
    for row in ghost.rows:
        assert np.all(row.start[1:] >= row.end[:-1])
        assert row.end[-1] <= ghost.frame.end
    placed, canvas = state.layout.find(key), slow.timeline.canvas
    assert placed is not None
    qtbot.waitUntil(lambda: canvas.offset <= placed.top < placed.bottom <= canvas.offset + canvas.room)
    picture = slow.timeline.canvas.grab().toImage()
    top = slow.timeline.canvas.top_of(placed)
    middle = top + placed.rows[0].top + placed.rows[0].height // 2
    left, right = (NAMES_WIDTH + state.scale.x(when) for when in (ghost.frame.start, ghost.frame.end))
    colors = {picture.pixelColor(x, middle).name() for x in range(round(left) + 4, round(right) - 4)}
    assert len(colors) > 3
    assert not colors & {color.name() for color in theme.current().families.values()}
    press(slow, "Shift+G")
    assert not any(each.startswith(GHOST) for each in state.scene.derived)
    press(slow, "Shift+G")
    assert key in state.scene.derived


def test_what_is_drawn_of_a_step_unlike_the_others_stays_in_its_frame_and_tells_their_average(
    fixtures: Path,
) -> None:
    trace = open_trace([fixtures / "programs" / "gallery.pt.trace.json.gz"])
    plan = plan_of(Analysis(trace))
    captions = {}
    for promise in plan.promises:
        prediction = predict(plan, [promise.id])
        (ghost,) = ghosts(trace, prediction)
        frame = ghost.frame
        assert frame is not None
        assert all(frame.start <= row.start[0] and row.end[-1] <= frame.end for row in ghost.rows)
        captions[promise.proposal.fix] = frame.caption
    assert "predicted on average, " in captions["compile-model"]
    assert "on average" not in captions["move-host-phase"]


def test_a_predicted_operation_cannot_be_selected_and_says_what_it_is(slow: MainWindow, qtbot: QtBot) -> None:
    tick(slow, qtbot, slow.fixes.cards[0])
    state = slow.timeline.state
    ghost = next(each for key, each in state.scene.derived.items() if key.startswith(GHOST))
    row = ghost.rows[0]
    assert ghost.at(0, float(row.start[3])) == 3
    assert ghost.at(0, float(row.end[-1]) + 10) == -1
    assert ghost.told(0, 3)[1].endswith("predicted, not recorded")
    placed = state.layout.find(ghost.track.key)
    assert placed is not None
    hit = slow.timeline.canvas.hit(_point(slow, placed, float(row.start[3])))
    assert hit is not None
    assert (hit.event, hit.gap) == (-1, -1)


def _point(window: MainWindow, placed: object, when: float) -> object:

    from viewer.timeline.names_column import NAMES_WIDTH

    canvas, state = window.timeline.canvas, window.timeline.state
    return QPointF(NAMES_WIDTH + state.scale.x(when), canvas.top_of(placed) + placed.rows[0].top + 2)  # type: ignore[attr-defined, arg-type]


def test_space_ticks_and_j_and_k_walk_the_cards(slow: MainWindow, qtbot: QtBot) -> None:
    first, second = slow.fixes.cards[:2]
    first.setFocus()
    press(slow, "J")
    assert second.hasFocus()
    press(slow, "Space")
    assert second.box.isChecked()
    press(slow, "K")
    assert first.hasFocus()
    assert not first.box.isChecked()
    press(slow, "Esc")
    assert slow.timeline.hasFocus()
    assert second.box.isChecked()


def test_the_critical_path_is_a_lane_and_a_table_that_add_up(slow: MainWindow, qtbot: QtBot) -> None:
    trace, analysis = slow.document.trace, slow.document.analysis
    assert trace is not None
    assert analysis is not None
    press(slow, "Shift+C")
    qtbot.waitUntil(lambda: PATH in slow.timeline.state.scene.derived)
    assert "Critical path" in {each.track.title for each in slow.timeline.state.layout.scrolled[:2]}
    path = critical_path_of(analysis)
    rows = path_rows(analysis, path)
    assert sum(row.ns for row in rows) == pytest.approx(sum(path.share().values()), rel=0.001)
    host = next(row for row in rows if row.name.startswith(PATH_NAMES[PathKind.HOST]))
    assert host.name.endswith("in tokenize_next")
    show_tab(slow, qtbot, "Critical path")
    table = slow.panels.tabs.currentWidget().table
    table.selectRow(0)
    (place,) = slow.timeline.state.evidence
    longest = rows[0].longest
    assert (place.start, place.end) == (int(path.start[longest]), int(path.end[longest]))
    press(slow, "Shift+C")
    assert PATH not in slow.timeline.state.scene.derived


def test_a_selected_event_says_how_much_later_it_could_be(slow: MainWindow, qtbot: QtBot) -> None:
    analysis = slow.document.analysis
    assert analysis is not None
    slack = slack_of(analysis)
    assert slack.ns.max() <= replay_of(analysis).mean_ns, "later than that the next step has its turn"
    show_tab(slow, qtbot, "Selection")
    panel = slow.panels.tabs.currentWidget()
    for event, text in (
        (int(slack.event[slack.ns.argmax()]), "later without making a step longer"),
        (int(slack.event[slack.ns.argmin()]), "none: it is on the critical path"),
    ):
        slow.document.select_event(event)
        qtbot.waitUntil(lambda: any(text in each.text for each in panel.facts.facts))  # noqa: B023


def test_the_prediction_in_json_says_why_the_gpu_would_still_idle(slow: MainWindow) -> None:
    analysis = slow.document.analysis
    assert analysis is not None
    plan = plan_of(analysis)
    chosen = [each for each in plan.promises if each.proposal.fix == "move-host-phase"][:1]
    told = outcome_json(plan, plan.predict([chosen[0].id]), chosen)
    before, after = told["idle_before_ns"], told["idle_after_ns"]
    assert sum(after.values()) < sum(before.values()) <= told["step_before_ns"]
    assert after.get("host-bound", 0) < 0.5 * before["host-bound"]


def test_another_recording_starts_without_ticks(slow: MainWindow, qtbot: QtBot) -> None:
    tick(slow, qtbot, slow.fixes.cards[0])
    slow.open([resources.path("samples/kernels.raw.csv.gz")])
    wait_until_ready(qtbot, slow)
    assert slow.what_if.ticked == ()
    assert not slow.prediction.isVisible()
    assert slow.side.count() == 1


def test_every_band_is_drawn_on_one_axis(slow: MainWindow) -> None:
    ranges = [card.findChild(GainRange) for card in slow.fixes.cards]
    for each in ranges:
        low, expected, high = (
            each.x_of(gain) for gain in (each.promise.low, each.promise.expected, each.promise.high)
        )
        assert 0 <= low <= high <= each.width()
        assert low - 1 <= expected <= high + 1
    assert ranges[0].x_of(2.0) == pytest.approx(ranges[1].x_of(2.0))


def test_no_fix_changes_nothing(slow: MainWindow) -> None:
    analysis = slow.document.analysis
    assert analysis is not None
    prediction = predict(plan_of(analysis), [])
    assert prediction.outcome.after_ns == pytest.approx(prediction.outcome.before_ns, rel=0.001)
    (step,) = prediction.steps
    assert sum(step.after.parts.values()) == pytest.approx(step.after.length, rel=0.01)


def test_a_chip_leads_to_its_finding(slow: MainWindow, qtbot: QtBot) -> None:
    chip = slow.fixes.cards[0].findChild(LinkButton)
    QTest.mouseClick(chip, Qt.MouseButton.LeftButton)
    assert slow.document.finding is not None
    assert slow.side.currentWidget() is slow.diagnosis


def test_one_switch_sets_the_step_that_bar_headline_card_and_fixes_are_about(
    slow: MainWindow, qtbot: QtBot
) -> None:
    document, switch = slow.document, slow.verdict.headline.without_recorder
    assert document.diagnosis is not None
    time = document.diagnosis.step_times[0]
    assert percent(time.recorder_share) != percent(0.0)
    shares = []
    for whole in (time.length_ns, time.recorded_ns):
        card, (bar,) = slow.diagnosis.cards[0], slow.verdict.bars
        (share,) = {button.share for button in bar.buttons if button.part.key == "host-bound"}
        assert sum(button.part.amount for button in bar.buttons) == pytest.approx(whole, rel=1e-3)
        (share_bar,) = card.findChildren(ShareBar)
        assert share_bar.share == pytest.approx(share, abs=0.02)
        assert percent(share_bar.share) in card.share.text()
        assert percent(share_bar.share) in slow.verdict.sentence.text().replace("\u00a0", " ")
        shares.append(share_bar.share)
        tick(slow, qtbot, slow.fixes.cards[0])
        now, then = slow.prediction.bars.parts()
        assert sum(ns for *_, ns in now) == pytest.approx(whole, rel=1e-3)
        (waiting,) = (ns for key, _, ns in now if key == "host-bound")
        assert waiting / whole == pytest.approx(share, abs=0.01)
        chip, _ = slow.fixes.cards[0].chips[0]
        chip.resize(2000, chip.height())
        assert percent(share_bar.share) in chip.text(), "after it was laid out again"
        assert slow.what_if.prediction is not None
        assert sum(ns for *_, ns in then) == pytest.approx(slow.what_if.prediction.outcome.after_ns, rel=1e-3)
        tick(slow, qtbot, slow.fixes.cards[0])
        qtbot.mouseClick(switch, Qt.MouseButton.LeftButton)
    assert shares[1] == pytest.approx(shares[0] * time.length_ns / time.recorded_ns)
    assert slow.diagnosis.cards[0].findChildren(ShareBar)[0].share == shares[0], "switched back"
