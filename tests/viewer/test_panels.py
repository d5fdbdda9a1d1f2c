"""Panels: findings, tables, selection, search and the start page, worked with mouse and keys."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pandas as pd
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

import resources
from parsers.model import Trace
from rules import Category, Finding, Severity
from rules.base import EXPLANATION_HEADINGS, Evidence
from viewer.commands import keys_text
from viewer.comparing import ComparisonDialog, compare_with
from viewer.document import Area
from viewer.labels import breakable, unbroken
from viewer.main_window import MainWindow
from viewer.palette import Mode
from viewer.panels.finding_card import FindingCard, explained
from viewer.panels.table_model import Column, Show, TableModel, csv_text

from .conftest import KERNELS, MS, STEPS, US, wait_until_ready


def show_tab(window: MainWindow, qtbot: QtBot, title: str) -> None:
    window.panels.show_panel(title)
    wait_until_ready(qtbot, window)


# Findings


def test_the_first_card_is_open_and_the_rest_are_short(window: MainWindow) -> None:
    cards = window.diagnosis.cards
    assert len(cards) >= 2
    assert cards[0].is_current
    assert cards[0].fix_button.isVisible()
    assert not cards[1].fix_button.isVisible()


def test_a_click_on_a_card_flies_to_its_longest_evidence_and_marks_it(
    window: MainWindow, qtbot: QtBot
) -> None:
    card = window.diagnosis.cards[1]
    window.timeline.fit_all()
    qtbot.mouseClick(card, Qt.MouseButton.LeftButton)
    assert card.is_current
    assert window.document.finding is card.finding
    longest = max(card.finding.evidence, key=lambda each: each.end - each.start)
    t0, t1 = window.timeline.visible_interval
    assert t0 <= longest.start < longest.end <= t1
    assert set(window.timeline.state.evidence) == set(card.finding.evidence)


def test_arrow_keys_on_a_card_walk_its_evidence(window: MainWindow, qtbot: QtBot) -> None:
    card = window.diagnosis.cards[0]
    evidence = card.finding.evidence
    assert len(evidence) > 1
    qtbot.mouseClick(card, Qt.MouseButton.LeftButton)
    asked: list[int] = []
    window.document.evidence_wanted.connect(lambda _, which: asked.append(which))
    card.setFocus()
    qtbot.keyClick(card, Qt.Key.Key_Right)
    qtbot.keyClick(card, Qt.Key.Key_Right)
    qtbot.keyClick(card, Qt.Key.Key_Left)
    assert (asked[1] - asked[0]) % len(evidence) == 1
    assert asked[2] == asked[0]


def test_up_and_down_on_a_card_go_to_the_other_findings(window: MainWindow, qtbot: QtBot) -> None:
    cards = window.diagnosis.cards
    cards[0].setFocus()
    qtbot.keyClick(cards[0], Qt.Key.Key_Down)
    assert window.document.finding is cards[1].finding
    assert cards[1].hasFocus()
    qtbot.keyClick(cards[1], Qt.Key.Key_Up)
    assert cards[0].hasFocus()


def test_how_to_fix_shows_every_advice_and_the_code(qtbot: QtBot, qapp: object) -> None:
    finding = Finding(
        "r",
        Category.HOST_BOUND,
        Severity.HIGH,
        "T",
        "E",
        ("first", "second"),
        50,
        100,
        code="x = 1",
        cannot_tell="why",
    )
    card = FindingCard(
        finding, "\n\n".join(f"{heading}\n    Text of {heading}." for heading in EXPLANATION_HEADINGS)
    )
    qtbot.addWidget(card)
    card.set_current(True)
    card.fix_button.click()
    assert card._detail is not None
    texts = [label.text() for label in card._detail.findChildren(type(card._what).__mro__[1])]
    assert any("second" in text for text in texts)
    assert "x = 1" in texts
    assert "why" in texts
    card.why_button.click()
    assert not card.fix_button.isChecked()
    texts = [label.text() for label in card._detail.findChildren(type(card._what).__mro__[1])]
    assert set(EXPLANATION_HEADINGS) <= set(texts)
    assert any("50.0 ns of 100 ns" in text.replace("\u00a0", " ") for text in texts)


def test_an_explanation_is_taken_apart_at_its_headings() -> None:
    text = "What it found\n  One\n  two.\n\nWhy it costs time\n  Three."
    assert explained(text) == [("What it found", "One two."), ("Why it costs time", "Three.")]


def test_the_filter_keeps_severities_and_categories(window: MainWindow) -> None:
    all_findings = window.diagnosis.shown_findings()
    category = all_findings[0].category.value
    window.diagnosis.set_filter(category=category)
    assert {finding.category.value for finding in window.diagnosis.shown_findings()} == {category}
    window.diagnosis.set_filter(severities=set())
    assert window.diagnosis.cards == []
    window.diagnosis.set_filter()
    assert window.diagnosis.shown_findings() == all_findings


def test_next_and_previous_finding_go_round(window: MainWindow, qtbot: QtBot) -> None:
    cards = window.diagnosis.cards
    window.timeline.setFocus()
    qtbot.keyClick(window, "n")
    assert window.document.finding is cards[1].finding
    qtbot.keyClick(window, "n", Qt.KeyboardModifier.ShiftModifier)
    assert window.document.finding is cards[0].finding


# Tables


@pytest.fixture
def model(qapp: object) -> TableModel:
    made = TableModel(
        [Column("name", "Name"), Column("time", "Time", Show.TIME), Column("share", "Share", Show.SHARE)]
    )
    made.set_frame(
        pd.DataFrame(
            {"name": ["beta", "alpha", "gamma"], "time": [2000, 30, 400_000], "share": [0.2, 0.05, 0.75]}
        )
    )
    return made


def column(model: TableModel, index: int) -> list[str]:
    return [model.index(row, index).data() for row in range(model.rowCount())]


def test_a_table_sorts_by_value_and_not_by_text(model: TableModel) -> None:
    model.sort(1, Qt.SortOrder.AscendingOrder)
    assert column(model, 1) == ["30.0 ns", "2.00 us", "400 us"]
    model.sort(0, Qt.SortOrder.DescendingOrder)
    assert column(model, 0) == ["gamma", "beta", "alpha"]
    model.sort(-1)
    assert column(model, 0) == ["beta", "alpha", "gamma"]


def test_a_filter_keeps_rows_that_contain_the_text(model: TableModel) -> None:
    model.set_filter("A")
    assert model.rowCount() == 3
    model.set_filter("alp")
    assert column(model, 0) == ["alpha"]
    assert model.frame_row(0) == 1
    assert model.view_row(0) == -1
    model.set_filter("")
    assert model.rowCount() == 3


def test_exported_values_are_exact_and_shown_ones_rounded(model: TableModel) -> None:
    rows = list(csv.reader(io.StringIO(model.as_csv())))
    assert rows[0] == ["Name", "Time (ns)", "Share"]
    assert rows[1] == ["beta", "2000", "0.2"]
    assert model.as_text([0]).splitlines()[1] == "beta\t2.00 us\t20 %"


@pytest.mark.parametrize("evil", ["=cmd()", "+1", "-1", "@x", "\tx", "\rx"])
def test_no_cell_becomes_a_formula(evil: str) -> None:
    (_, row) = csv.reader(io.StringIO(csv_text(["a"], [[evil]]), newline=""))
    assert row == ["'" + evil]


def test_numbers_stay_numbers_in_an_export() -> None:
    assert csv_text(["a", "b"], [[-1, -0.5]]).splitlines()[1] == "-1,-0.5"


def test_names_with_markup_are_text_in_tooltips(qapp: object) -> None:
    made = TableModel([Column("name", "Name")])
    made.set_frame(pd.DataFrame({"name": ["<img src=x><b>bold</b>"]}))
    shown = made.index(0, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert "<b>" not in shown
    assert "&lt;b&gt;" in shown


def test_a_row_of_the_kernels_table_selects_its_longest_call(
    window: MainWindow, qtbot: QtBot, trace: Trace
) -> None:
    show_tab(window, qtbot, "Kernels")
    table = window.panels.tabs.currentWidget().by_name
    assert table.rows.rowCount() == 2
    table.selectRow(1)
    assert trace.name(window.document.selected_event) == table.rows.value(1, "name")
    assert window.timeline.state.selected == window.document.selected_event


def test_the_kernels_table_follows_the_step(window: MainWindow, qtbot: QtBot) -> None:
    show_tab(window, qtbot, "Kernels")
    table = window.panels.tabs.currentWidget().by_name
    window.document.select_step(0)
    wait_until_ready(qtbot, window)
    assert int(table.rows.frame["calls"].sum()) == KERNELS


def test_walking_through_a_table_does_not_leave_it(window: MainWindow, qtbot: QtBot) -> None:
    show_tab(window, qtbot, "Kernels")
    panel = window.panels.tabs.currentWidget()
    panel.by_name.setFocus()
    qtbot.keyClick(panel.by_name, Qt.Key.Key_Down)
    assert window.document.selected_event >= 0
    assert window.panels.tabs.currentWidget() is panel
    window.timeline.setFocus()
    window.timeline.event_selected.emit(0)
    assert window.panels.tabs.currentWidget().title == "Selection"


def test_a_row_of_the_steps_table_selects_the_step(window: MainWindow, qtbot: QtBot) -> None:
    show_tab(window, qtbot, "Steps")
    table = window.panels.tabs.currentWidget().table
    assert table.rows.rowCount() == STEPS
    table.selectRow(2)
    assert window.document.step == 2


def test_the_filter_of_the_dock_applies_to_the_shown_table(window: MainWindow, qtbot: QtBot) -> None:
    show_tab(window, qtbot, "Operators")
    window.panels.filter.setText("no such operator")
    assert window.panels.tabs.currentWidget().table.rows.rowCount() == 0
    window.panels.filter.clear()
    assert window.panels.tabs.currentWidget().table.rows.rowCount() == 1


def test_rows_are_copied_with_a_key(window: MainWindow, qtbot: QtBot) -> None:
    show_tab(window, qtbot, "Kernels")
    table = window.panels.tabs.currentWidget().by_name
    table.setFocus()
    table.selectRow(0)
    qtbot.keyClick(table, "c", Qt.KeyboardModifier.ControlModifier)
    text = QGuiApplication.clipboard().text()
    assert text.startswith("Kernel\tFamily")
    assert len(text.splitlines()) == 2
    table.selectAll()
    qtbot.keyClick(table, "c", Qt.KeyboardModifier.ControlModifier)
    assert len(QGuiApplication.clipboard().text().splitlines()) == 3


def test_only_tabs_with_data_are_shown(window: MainWindow) -> None:
    assert window.panels.titles() == ["Selection", "Kernels", "Operators", "Flame", "Steps"]


# Selection


def test_an_event_shows_its_facts_and_all_of_its_name(window: MainWindow, qtbot: QtBot, trace: Trace) -> None:
    kernel = trace.strings.index("softmax_warp")
    event = int((trace.events.name == kernel).nonzero()[0][0])
    window.document.select_event(event)
    panel = window.panels.tabs.currentWidget()
    assert panel.title == "Selection"
    assert {"Launched by", "Operator", "Duration"} <= {fact.label for fact in panel.facts.facts}
    assert panel.histogram.counts.sum() == STEPS * KERNELS // 2
    launch = next(fact for fact in panel.facts.facts if fact.label == "Launched by")
    panel.facts.event_wanted.emit(launch.event)
    assert trace.name(window.document.selected_event) == "cudaLaunchKernel"
    assert "selection 10.0 us" in window.status.times.text()


def test_an_area_shows_its_totals(window: MainWindow, qtbot: QtBot) -> None:
    window.document.select_area(Area(400 * US, 2400 * US))
    wait_until_ready(qtbot, window)
    panel = window.panels.tabs.currentWidget()
    assert "2.00 ms selected" in panel._area_text.text()
    assert set(panel.area_table.rows.frame["group"]) >= {"softmax_warp", "ampere_sgemm_128x64"}
    panel.grouping.setCurrentText("by lane")
    wait_until_ready(qtbot, window)
    assert "GPU 0 stream 7" in set(panel.area_table.rows.frame["group"])


def test_a_gap_shows_its_culprit(window: MainWindow) -> None:
    analysis = window.document.analysis
    assert analysis is not None
    row = int((analysis.idle.end - analysis.idle.start).argmax())
    window.timeline.gap_selected.emit(row)
    panel = window.panels.tabs.currentWidget()
    assert any(fact.text == "tokenize" for fact in panel.facts.facts)


def test_escape_selects_nothing(window: MainWindow, qtbot: QtBot) -> None:
    window.document.select_event(0)
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert window.document.selected_event == -1


# Search


def ask(window: MainWindow, qtbot: QtBot, text: str, mode: Mode = Mode.ALL) -> list[tuple[str, str]]:
    window.toolbar.search.start(mode)
    window.toolbar.search.clear()
    qtbot.keyClicks(window.toolbar.search, text)
    window.toolbar.search._ask()
    wait_until_ready(qtbot, window)
    return [(hit.kind, hit.title) for hit in window.toolbar.search.popup.hits]


def test_the_palette_finds_actions_findings_lanes_and_events(window: MainWindow, qtbot: QtBot) -> None:
    assert ("action", "Whole run") in ask(window, qtbot, "whole")
    assert any(kind == "finding" for kind, _ in ask(window, qtbot, "python"))
    assert ("lane", "GPU 0 stream 7") in ask(window, qtbot, "stream 7")
    assert ("event", "softmax_warp") in ask(window, qtbot, "softmax")


def test_ctrl_p_and_enter_run_the_first_action(window: MainWindow, qtbot: QtBot) -> None:
    window.timeline.setFocus()
    qtbot.keyClick(window, "p", Qt.KeyboardModifier.ControlModifier)
    assert window.toolbar.search.hasFocus()
    assert window.toolbar.search.popup.isVisible()
    ask(window, qtbot, "idle gaps")
    qtbot.keyClick(window.toolbar.search, Qt.Key.Key_Return)
    assert not window.commands["gaps"].isChecked()
    assert not window.toolbar.search.popup.isVisible()


def test_found_events_are_walked_with_f3(window: MainWindow, qtbot: QtBot, trace: Trace) -> None:
    assert ask(window, qtbot, "tokenize", Mode.EVENTS) == [("event", "tokenize")]
    qtbot.keyClick(window.toolbar.search, Qt.Key.Key_Return)
    first = window.document.selected_event
    assert trace.name(first) == "tokenize"
    assert f"of {STEPS}" in window.toolbar.search.position.text()
    qtbot.keyClick(window, Qt.Key.Key_F3)
    assert window.document.selected_event != first
    qtbot.keyClick(window, Qt.Key.Key_F3, Qt.KeyboardModifier.ShiftModifier)
    assert window.document.selected_event == first


def test_a_wrong_regular_expression_is_said_and_not_raised(window: MainWindow, qtbot: QtBot) -> None:
    window.toolbar.search.start(Mode.EVENTS)
    window.toolbar.search.regex.setChecked(True)
    assert ask(window, qtbot, "(", Mode.EVENTS) == []
    assert "Not a regular expression" in window.toolbar.search.popup.note.text()


def test_escape_leaves_the_search(window: MainWindow, qtbot: QtBot) -> None:
    ask(window, qtbot, "softmax")
    qtbot.keyClick(window.toolbar.search, Qt.Key.Key_Escape)
    assert not window.toolbar.search.popup.isVisible()
    qtbot.keyClick(window.toolbar.search, Qt.Key.Key_Escape)
    assert window.toolbar.search.text() == ""


# Bookmarks, keys, kernel reports


def test_a_bookmark_is_there_again_after_reopening(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, trace: Trace
) -> None:
    path = tmp_path / "run.json"
    path.write_text("{}")
    window.document.show(trace, [path])
    wait_until_ready(qtbot, window)
    window.document.select_event(3)
    qtbot.keyClick(window, "b", Qt.KeyboardModifier.ControlModifier)
    assert "Bookmarks" in window.panels.titles()
    window.document.clear()
    assert "Bookmarks" not in window.panels.titles()
    window.document.show(trace, [path])
    wait_until_ready(qtbot, window)
    (mark,) = window.bookmarks.bookmarks
    assert mark.title == trace.name(3)
    window.panels.show_panel("Bookmarks")
    window.document.select_event(-1)
    window.bookmarks.table.selectRow(0)
    assert window.document.selected_event == 3


def test_no_two_commands_have_the_same_key(window: MainWindow) -> None:
    keys = [
        sequence.toString()
        for command in window.commands.all
        for sequence in window.commands[command.id].shortcuts()
    ]
    assert len(keys) == len(set(keys))
    assert keys_text(window.commands["open"])


def test_a_kernel_report_takes_the_place_of_the_timeline(empty_window: MainWindow, qtbot: QtBot) -> None:
    empty_window.open([resources.path("samples/kernels.raw.csv.gz")])
    wait_until_ready(qtbot, empty_window)
    report = empty_window.kernel_report
    assert report is not None
    assert empty_window.pages.currentWidget() is report
    assert not empty_window.panels_dock.isVisible()
    assert report.table.rows.rowCount() == 35
    report.select(9)
    assert report.details.kernel is empty_window.document.trace.kernels[9]  # type: ignore[union-attr]
    assert report.details.light.bars
    assert report.details.stalls.bars
    report.details.stalls.choose("barrier")
    assert report.details._stall_name.text() == "Barrier"


def test_a_kernel_finding_shows_its_kernel(empty_window: MainWindow, qtbot: QtBot) -> None:
    empty_window.open([resources.path("samples/kernels.raw.csv.gz")])
    wait_until_ready(qtbot, empty_window)
    card = empty_window.diagnosis.cards[2]
    qtbot.mouseClick(card, Qt.MouseButton.LeftButton)
    report = empty_window.kernel_report
    assert report is not None
    assert report.details.kernel is not None
    assert report.details.kernel.id == card.finding.kernel


def test_evidence_outside_any_lane_is_no_problem(window: MainWindow) -> None:
    window.document.show_evidence([Evidence(-1, 5 * MS, 6 * MS, "somewhere")])
    t0, t1 = window.timeline.visible_interval
    assert t0 <= 5 * MS < 6 * MS <= t1


def test_two_recordings_are_compared_in_a_window_of_their_own(window: MainWindow, qtbot: QtBot) -> None:
    compare_with(window, [resources.path("samples/elementwise_chain.pt.trace.json.gz")])
    qtbot.waitUntil(lambda: not window.jobs.busy, timeout=20_000)
    dialog = next(iter(window.findChildren(ComparisonDialog)))
    assert [dialog.tabs.tabText(index) for index in range(dialog.tabs.count())] == [
        "Time",
        "Kernels",
        "Findings",
    ]
    times = dialog.tabs.widget(0)
    assert times.rows.rowCount() >= 1
    dialog.close()


def test_a_recording_that_cannot_be_compared_gives_a_banner(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    compare_with(window, [tmp_path / "absent.json"])
    qtbot.waitUntil(window.banner.isVisible)
    assert window.banner.problem.text()


def test_counters_are_shown_for_a_kernel_that_was_profiled_too(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    sample = resources.path("samples")
    empty_window.open([sample / "elementwise_chain.pt.trace.json.gz", sample / "kernels.raw.csv.gz"])
    wait_until_ready(qtbot, empty_window)
    assert {"Counters", "Roofline"} <= set(empty_window.panels.titles())
    assert empty_window.pages.currentWidget() is empty_window.timeline
    show_tab(empty_window, qtbot, "Counters")
    assert "Select a kernel" in empty_window.panels.tabs.currentWidget()._note.text()


@pytest.mark.parametrize(
    ("name", "breaks"), [("short_name", 0), ("ampere_sgemm_128x64_a_very_long_name_indeed", 7), ("x" * 40, 0)]
)
def test_only_long_words_may_be_broken(name: str, breaks: int) -> None:
    assert breakable(name).count("\u200b") == breaks
    assert breakable(name).replace("\u200b", "") == name


def test_values_stay_with_their_units() -> None:
    assert unbroken("28.5 of 46.4 ms, 26 % in 3 steps") == "28.5 of 46.4\u00a0ms, 26\u00a0% in 3 steps"


def test_a_click_in_the_flame_graph_widens_a_call_and_backspace_goes_back(
    window: MainWindow, qtbot: QtBot
) -> None:
    show_tab(window, qtbot, "Flame")
    panel = window.panels.tabs.currentWidget()
    panel.kind.setCurrentText("Regions")
    wait_until_ready(qtbot, window)
    assert panel.view.tree is not None
    nodes, left, width = panel.view.boxes()
    qtbot.mouseClick(panel.view, Qt.MouseButton.LeftButton, pos=QPoint(int(left[0] + width[0] / 2), 8))
    assert panel.view.focus_node == nodes[0]
    assert panel.view.boxes()[2][0] == panel.view.width()
    qtbot.keyClick(panel.view, Qt.Key.Key_Backspace)
    assert panel.view.focus_node == -1
    qtbot.mouseClick(
        panel.view,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.ControlModifier,
        QPoint(int(left[0]) + 2, 8),
    )
    assert window.document.trace is not None
    assert window.document.trace.name(window.document.selected_event) == "tokenize"
