"""The main window: opening, the verdict, the budget, findings, steps, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

import resources
from parsers.model import Cancelled, Progress, Trace
from rules.findings.base import Category
from viewer.appearance import theme
from viewer.dialogs.preferences_dialog import PreferencesDialog
from viewer.dialogs.problem import ProblemDialog, report_of
from viewer.documents.document import Stage
from viewer.panels.tabs.selection import SelectionPanel
from viewer.user_data.preferences import Preferences
from viewer.user_data.recent import recent_files
from viewer.user_data.storage import data_folder
from viewer.window.main_window import MIN_SIZE, MainWindow

from .conftest import KERNELS, MS, STEPS, training_run, wait_until_ready

SAMPLE = resources.path("samples/elementwise_chain.pt.trace.json.gz")


def test_the_start_page_is_shown_while_nothing_is_open(empty_window: MainWindow) -> None:
    assert empty_window.pages.currentWidget() is empty_window.start_page
    assert not empty_window.verdict.isVisible()
    assert not empty_window.diagnosis_dock.isVisible()
    assert not empty_window.commands["find"].isEnabled()


def test_opening_a_file_shows_timeline_verdict_and_findings(empty_window: MainWindow, qtbot: QtBot) -> None:
    empty_window.open([SAMPLE])
    wait_until_ready(qtbot, empty_window)
    assert empty_window.pages.currentWidget() is empty_window.timeline
    assert empty_window.verdict.sentence.text()
    assert empty_window.verdict.bars
    assert "Kernels" in empty_window.panels.titles()
    assert SAMPLE.name in empty_window.windowTitle()
    assert SAMPLE.name in empty_window.status.file.text()


def test_in_the_smallest_window_no_button_of_the_tool_bar_is_cut(
    make_window: Callable[..., MainWindow], trace: Trace, qtbot: QtBot
) -> None:
    window = make_window(MIN_SIZE)
    window.document.show(trace)
    wait_until_ready(qtbot, window)
    window.grab()
    tools = window.toolbar
    for button in (tools.open, tools.record, tools.compare):
        assert button.width() >= button.sizeHint().width()
    assert tools.steps.geometry().right() <= tools.width()


def test_a_finding_about_idle_time_selects_the_gap_it_flies_to(window: MainWindow, qtbot: QtBot) -> None:
    document = window.document
    analysis = document.analysis
    assert analysis is not None
    document.select_event(int(document.trace.gpu_operations[0]))
    qtbot.mouseClick(window.diagnosis.cards[0], Qt.MouseButton.LeftButton)
    assert document.selected_event == -1
    assert analysis.idle.culprit_of(document.selected_gap).text == "tokenize"
    assert window.timeline.state.gap == document.selected_gap
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, SelectionPanel)
    assert {fact.label: fact.text for fact in panel.facts.facts}["Cause"] == "waiting for Python"
    kernels = next(card for card in window.diagnosis.cards if card.finding.evidence[0].event >= 0)
    qtbot.mouseClick(kernels, Qt.MouseButton.LeftButton)
    assert document.selected_gap == window.timeline.state.gap == -1
    assert document.selected_event >= 0


def test_of_a_recording_with_warm_up_the_verdict_says_so_first_and_the_cards_what_is_slow_after_it(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    empty_window.document.show(training_run(warm_up=10_000 * MS))
    wait_until_ready(qtbot, empty_window)
    assert empty_window.verdict.sentence.text().startswith("Warm-up is in the recording: 99 %")
    first, second = empty_window.diagnosis.cards[:2]
    assert first.finding.of_recording
    assert first.ceiling == "60.0 ms without it"
    assert second.finding.title.startswith("The GPU waits for Python")
    assert "at most" not in second.ceiling


def test_what_has_no_single_cause_is_told_after_the_cause_it_goes_away_with(
    empty_window: MainWindow, fixtures: Path, qtbot: QtBot
) -> None:
    empty_window.open([fixtures / "programs" / "diffusion.pt.trace.json.gz"])
    wait_until_ready(qtbot, empty_window)
    assert empty_window.verdict.sentence.text().startswith("The GPU waits for Python: 35 %")
    first, launching = (card.finding for card in empty_window.diagnosis.cards[:2])
    assert first.category is Category.HOST_BOUND
    assert launching.category is Category.LAUNCH_BOUND
    assert (launching.fix, launching.leads) == (first.fix, False)
    assert launching.share < first.share


def test_the_verdict_names_cause_and_culprit_and_then_what_to_do_and_what_it_gives(
    window: MainWindow, qtbot: QtBot
) -> None:
    qtbot.waitUntil(lambda: window.document.plan is not None)
    said = f"{window.verdict.sentence.text()} {window.verdict.where.text()}"
    assert "Python" in said
    assert "tokenize" in said
    assert "\u00a0ms a step · about " in said
    assert window.diagnosis.cards[0].ceiling.startswith("about ")


def test_a_file_that_is_no_recording_gives_a_banner_with_a_hint(
    empty_window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    broken = tmp_path / "<b>broken.json"
    broken.write_text("this is not a recording")
    empty_window.open([broken])
    wait_until_ready(qtbot, empty_window)
    assert empty_window.banner.isVisible()
    assert "<b>broken.json" in empty_window.banner.problem.text()
    assert empty_window.banner.problem.textFormat() == Qt.TextFormat.PlainText
    assert empty_window.banner.hint.text()
    assert empty_window.pages.currentWidget() is empty_window.start_page


def test_the_start_page_grows_with_the_screen(empty_window: MainWindow) -> None:
    page = empty_window.start_page
    empty_window.resize(1366, 768)
    before = page.open_button.font().pixelSize(), page.sample_tiles[0].width()
    empty_window.resize(3840, 2160)
    assert page.open_button.font().pixelSize() > 1.5 * before[0]
    assert page.sample_tiles[0].width() > 1.5 * before[1]


def test_a_file_that_fails_leaves_the_open_recording_as_it_is(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, trace: Trace
) -> None:
    window.open([tmp_path / "absent.json"])
    wait_until_ready(qtbot, window)
    assert window.banner.isVisible()
    assert window.document.trace is trace
    assert window.document.stage is Stage.READY


def test_the_title_says_how_many_files_are_open(window: MainWindow, trace: Trace, tmp_path: Path) -> None:
    window.document.show(trace, [tmp_path / "rank0.json", tmp_path / "rank1.json"])
    assert window.windowTitle() == "rank0.json and 1 more - Stallscope"
    window.document.show(trace, [tmp_path / "rank0.json"])
    assert window.windowTitle() == "rank0.json - Stallscope"


def test_the_banner_goes_away_with_escape(window: MainWindow, qtbot: QtBot) -> None:
    window.banner.say("Something is wrong.", "Do this.")
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert not window.banner.isVisible()


@pytest.mark.usefixtures("opened_anew")
def test_loading_can_be_cancelled_in_the_status_bar(
    empty_window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = []

    def endless(paths: object, progress: Progress) -> Trace:
        try:
            while True:
                progress.step(0.3, "reading")
        except Cancelled:
            stopped.append(True)
            raise

    monkeypatch.setattr("parsers.open_trace", endless)
    empty_window.open([SAMPLE])
    qtbot.waitUntil(lambda: empty_window.status.cancel.isVisible())
    assert "Reading" in empty_window.status.doing.text()
    qtbot.mouseClick(empty_window.status.cancel, Qt.MouseButton.LeftButton)
    wait_until_ready(qtbot, empty_window)
    assert stopped == [True]
    assert not empty_window.status.cancel.isVisible()
    assert not empty_window.banner.isVisible()
    assert empty_window.document.stage is Stage.EMPTY


def test_a_file_can_be_dropped_on_the_window(empty_window: MainWindow, qtbot: QtBot) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(SAMPLE))])
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(QPoint(9, 9), Qt.DropAction.CopyAction, data, buttons, keys)
    empty_window.dragEnterEvent(enter)
    assert enter.isAccepted()
    empty_window.dropEvent(QDropEvent(QPointF(9, 9), Qt.DropAction.CopyAction, data, buttons, keys))
    wait_until_ready(qtbot, empty_window)
    assert empty_window.document.trace is not None


def test_a_sample_on_the_start_page_opens_with_a_click(empty_window: MainWindow, qtbot: QtBot) -> None:
    tiles = empty_window.start_page.sample_tiles
    assert len(tiles) == 9
    small = next(tile for tile in tiles if tile.text() == "A chain of small formulas")
    qtbot.mouseClick(small, Qt.MouseButton.LeftButton)
    wait_until_ready(qtbot, empty_window)
    assert empty_window.document.paths == (SAMPLE,)
    assert [recent.paths for recent in recent_files()] == [(str(SAMPLE),)]


def test_a_step_with_the_longest_evidence_the_kernels_and_what_was_kept_are_shown_first(
    window: MainWindow,
) -> None:
    diagnosis = window.document.diagnosis
    assert diagnosis is not None
    worst = max(diagnosis.findings[0].evidence, key=lambda each: each.end - each.start)
    t0, t1 = window.timeline.visible_interval
    assert t0 <= worst.start < worst.end <= t1
    assert t1 - t0 < 2 * 20 * MS
    assert window.panels.tabs.tabText(window.panels.tabs.currentIndex()) == "Kernels"
    assert f"{STEPS * (2 + 3 * KERNELS)} events, all kept" in window.status.badge.text()


def test_a_click_on_a_part_of_the_budget_marks_its_intervals(window: MainWindow, qtbot: QtBot) -> None:
    (bar,) = window.verdict.bars
    python = next(button for button in bar.buttons if button.part.key == "host-bound")
    with qtbot.waitSignal(window.document.evidence_wanted) as asked:
        qtbot.mouseClick(python, Qt.MouseButton.LeftButton)
    places, which = asked.args
    assert places
    assert all(place.name.startswith("waiting for Python") for place in places)
    longest = max(place.end - place.start for place in places)
    assert places[which].end - places[which].start == longest
    assert list(window.timeline.state.evidence) == places


def test_the_parts_of_the_budget_fill_the_bar_and_state_their_time_in_a_step(window: MainWindow) -> None:
    (bar,) = window.verdict.bars
    start, end = window.document.window
    assert sum(button.width() for button in bar.buttons) == bar.width()
    assert sum(button.part.amount for button in bar.buttons) == pytest.approx((end - start) / STEPS, rel=1e-3)
    assert "ms a step" in bar.buttons[0].toolTip()


def test_choosing_a_step_changes_the_budget_and_the_view(window: MainWindow, qtbot: QtBot) -> None:
    assert window.toolbar.steps.box.count() == STEPS + 1
    window.document.select_step(1)
    step = window.document.steps[1]
    parts = [button.part for button in window.verdict.bars[0].buttons]
    assert sum(part.amount for part in parts) == pytest.approx(step.duration, rel=1e-3)
    assert not any(part.a_step for part in parts)
    t0, t1 = window.timeline.visible_interval
    assert t0 <= step.start < step.end <= t1
    assert window.toolbar.steps.box.currentIndex() == 2
    qtbot.mouseClick(window.toolbar.steps.next, Qt.MouseButton.LeftButton)
    assert window.document.step == 2


def test_zooming_and_panning_with_keys_changes_the_view(window: MainWindow, qtbot: QtBot) -> None:
    window.timeline.setFocus()
    t0, t1 = window.timeline.visible_interval
    qtbot.keyClick(window.timeline, "w")
    qtbot.waitUntil(
        lambda: window.timeline.visible_interval[1] - window.timeline.visible_interval[0] < t1 - t0
    )
    before = window.timeline.visible_interval[0]
    qtbot.keyClick(window.timeline, "d")
    qtbot.waitUntil(lambda: window.timeline.visible_interval[0] > before)
    assert "view" in window.status.times.text()


def test_a_moment_asked_for_is_in_the_middle_of_the_first_view(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    empty_window.open([SAMPLE], at=2 * MS)
    wait_until_ready(qtbot, empty_window)
    t0, t1 = empty_window.timeline.visible_interval
    assert (t0 + t1) / 2 == pytest.approx(2 * MS, abs=1000)


def test_a_narrow_window_puts_the_diagnosis_into_a_tab(window: MainWindow, qtbot: QtBot) -> None:
    window.resize(760, 600)
    qtbot.waitUntil(lambda: window.panels_dock in window.tabifiedDockWidgets(window.diagnosis_dock))
    window.resize(1300, 800)
    qtbot.waitUntil(lambda: window.panels_dock not in window.tabifiedDockWidgets(window.diagnosis_dock))


def test_the_layout_is_remembered(make_window: Callable[..., MainWindow], trace: Trace, qtbot: QtBot) -> None:
    first = make_window()
    first.document.show(trace)
    wait_until_ready(qtbot, first)
    first.resize(760, 700)
    first.close()
    assert make_window(None).size() == first.size()


def test_recent_files_are_remembered_with_their_verdict(
    empty_window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    copy = tmp_path / "mine.json.gz"
    copy.write_bytes(SAMPLE.read_bytes())
    empty_window.open([copy])
    wait_until_ready(qtbot, empty_window)
    empty_window.acts.show_start_page()
    (tile,) = empty_window.start_page.recent_tiles
    assert tile.text() == "mine.json.gz"
    assert empty_window.pages.currentWidget() is empty_window.start_page


def test_no_second_window_appears_while_a_recording_is_shown(
    make_window: Callable[..., MainWindow], trace: Trace, qtbot: QtBot
) -> None:
    shown = make_window()
    shown.document.show(trace)
    wait_until_ready(qtbot, shown)
    assert [window for window in QApplication.topLevelWidgets() if window.isVisible()] == [shown]
    assert shown.isActiveWindow()


def test_every_text_of_the_budget_can_be_read_in_both_themes(window: MainWindow) -> None:
    parts = "compute communication copy host-bound launch-bound input-bound synchronization"
    for name in ("light", "dark"):
        window.acts.set_theme(name)
        colors = theme.current()
        assert colors.name == name
        assert window.preferences.theme == name
        for key in parts.split():
            fill = colors.part(key)
            assert theme.contrast(theme.text_on(fill), fill) >= 4.5


def test_the_window_is_written_as_png_and_the_timeline_as_svg(window: MainWindow, tmp_path: Path) -> None:
    assert window.acts.write_picture(tmp_path / "a.png", as_svg=False)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert window.acts.write_picture(tmp_path / "a.svg", as_svg=True)
    assert "<svg" in (tmp_path / "a.svg").read_text("utf-8")
    assert not window.acts.write_picture(tmp_path / "absent" / "a.png", as_svg=False)


def test_a_link_names_the_files_and_the_moment(window: MainWindow, trace: Trace, qtbot: QtBot) -> None:
    window.document.show(trace, [Path("/data/my run.json")])
    wait_until_ready(qtbot, window)
    window.timeline.show_interval(10 * MS, 12 * MS, animate=False)
    window.acts.copy_link()
    assert QGuiApplication.clipboard().text() == "stallscope '/data/my run.json' --at 11.000ms"


def test_the_diagnosis_is_copied_as_text(window: MainWindow) -> None:
    window.acts.copy_diagnosis()
    assert "tokenize" in QGuiApplication.clipboard().text()


def test_preferences_take_effect_when_accepted(window: MainWindow, qtbot: QtBot) -> None:
    dialog = PreferencesDialog(window.preferences, window)
    qtbot.addWidget(dialog)
    dialog.theme.setCurrentIndex(dialog.theme.findData("light"))
    dialog.first_view.setCurrentIndex(dialog.first_view.findData("all"))
    dialog.reject()
    assert Preferences().first_view == "worst"
    dialog.accept()
    assert Preferences().theme == "light"
    assert Preferences().first_view == "all"


def test_the_price_of_a_gpu_hour_makes_the_window_say_what_idle_gpus_cost(
    window: MainWindow, qtbot: QtBot
) -> None:
    assert not window.verdict.headline.pills
    window.acts.show_preferences()
    (dialog,) = window.findChildren(PreferencesDialog)
    dialog.price.setValue(2.5)
    dialog.accept()
    assert Preferences().cost_per_hour == 2.5
    (pill,) = window.verdict.headline.pills
    assert pill.text().startswith("idle: ")
    assert "at 2.50 a GPU-hour" in pill.told
    window.preferences.cost_per_hour = None
    assert Preferences().cost_per_hour is None


def test_the_first_view_can_be_the_whole_run(window: MainWindow, trace: Trace, qtbot: QtBot) -> None:
    window.preferences.first_view = "all"
    window.document.show(trace)
    wait_until_ready(qtbot, window)
    t0, t1 = window.timeline.visible_interval
    assert t0 <= 0
    assert t1 >= trace.duration


def test_a_bug_gives_a_report_that_can_be_copied(qtbot: QtBot, qapp: object) -> None:
    try:
        raise ValueError("<b>what happened</b>")
    except ValueError as error:
        report = report_of(type(error), error, error.__traceback__)
    dialog = ProblemDialog(report)
    qtbot.addWidget(dialog)
    assert "<b>what happened</b>" in report
    assert "Python 3" in report


def test_everything_the_keyboard_reaches_has_a_name(window: MainWindow, qtbot: QtBot) -> None:
    silent = []
    for title in window.panels.titles():
        window.panels.show_panel(title)
        wait_until_ready(qtbot, window)
        for widget in window.findChildren(QWidget):
            reachable = widget.isVisible() and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
            text = widget.text() if isinstance(widget, (QAbstractButton, QLabel)) else ""
            if reachable and widget.focusProxy() is None and not (widget.accessibleName() or text):
                silent.append(f"{title}: {type(widget).__name__} {widget.objectName()}")
    assert silent == []


def test_the_start_page_is_worked_with_keys_alone(empty_window: MainWindow, qtbot: QtBot) -> None:
    tile = empty_window.start_page.sample_tiles[4]
    tile.setFocus()
    qtbot.keyClick(tile, Qt.Key.Key_Return)
    wait_until_ready(qtbot, empty_window)
    assert empty_window.document.paths == (SAMPLE,)


def test_a_window_notes_what_it_shows_until_it_is_closed(
    empty_window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    copy = tmp_path / "mine.json.gz"
    copy.write_bytes(SAMPLE.read_bytes())
    notes = data_folder() / "open"
    empty_window.open([copy])
    wait_until_ready(qtbot, empty_window)
    (note,) = notes.iterdir()
    assert str(copy) in note.read_text("utf-8")
    empty_window.close()
    assert list(notes.iterdir()) == []
