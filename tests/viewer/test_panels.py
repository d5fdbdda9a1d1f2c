"""Panels: findings, tables, selection, search and the start page, worked with mouse and keys."""

from __future__ import annotations

import csv
import io

import pandas as pd
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

import resources
from parsers.model import EventKind, Trace
from rules import Category, Finding, Severity
from rules.findings.base import EXPLANATION_HEADINGS
from rules.remedies.remedy import Remedy
from rules.wording.words import Headline
from viewer.panels.findings.finding_card import FindingCard
from viewer.panels.tables.facts import LinkButton
from viewer.panels.tables.table_model import Column, Show, TableModel, csv_text
from viewer.panels.tables.table_view import TIGHT_KIND_WIDTH, TIGHT_NAME_WIDTH, TableView
from viewer.statistics.event_facts import Fact
from viewer.window.main_window import MainWindow

from .conftest import KERNELS, STEPS, show_tab, wait_until_ready

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
        Headline("T"),
        "E",
        Remedy(("first", "second"), "x = 1"),
        50,
        100,
        unknown=("why",),
    )
    card = FindingCard(finding, {heading: f"Text of {heading}." for heading in EXPLANATION_HEADINGS})
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
    assert any("50 ns of 100 ns" in text.replace("\u00a0", " ") for text in texts)


def test_the_filter_keeps_severities_and_categories(window: MainWindow) -> None:
    all_findings = window.diagnosis.shown_findings()
    category = all_findings[0].category.value
    window.diagnosis.set_filter(category=category)
    assert {finding.category.value for finding in window.diagnosis.shown_findings()} == {category}
    window.diagnosis.set_filter(severities=set())
    assert window.diagnosis.cards == []
    window.diagnosis.set_filter()
    assert window.diagnosis.shown_findings() == all_findings


def test_the_menu_of_the_filter_says_what_is_chosen_below_each_heading(window: MainWindow) -> None:
    actions = window.diagnosis.filter_button.menu().actions()
    headings = [each.text() for each in actions if not each.isSeparator() and not each.isEnabled()]
    assert headings == ["Severity", "Category"]
    assert actions[0].text() == "Severity"
    assert actions[1].isCheckable()


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
    assert column(model, 1) == ["30 ns", "2.00 us", "400 us"]
    model.sort(0, Qt.SortOrder.DescendingOrder)
    assert column(model, 0) == ["gamma", "beta", "alpha"]
    model.sort(-1)
    assert column(model, 0) == ["beta", "alpha", "gamma"]


def test_a_written_figure_sorts_by_its_number_and_the_large_ones_come_first(qtbot: QtBot) -> None:
    columns = [
        Column("name", "Name"),
        Column("told", "Change", Show.FIGURE, order="change"),
        Column("time", "Time", Show.TIME),
    ]
    table = TableView(columns, "Changes")
    qtbot.addWidget(table)
    table.resize(500, 200)
    table.show()
    rows = [("a", "+9 us", 9e3, 1.0), ("b", "−1 ms", -1e6, 3.0), ("c", "+10 ms", 1e7, 2.0)]
    table.set_frame(pd.DataFrame(rows, columns=["name", "told", "change", "time"]))
    header = table.horizontalHeader()
    for section, wanted in ((1, "cab"), (2, "bca"), (0, "abc")):
        where = QPoint(header.sectionViewportPosition(section) + 8, header.height() // 2)
        qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=where)
        assert "".join(table.rows.index(row, 0).data() for row in range(3)) == wanted


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
    assert row == ["'" + evil if evil != "\rx" else "\ufffdx"]


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


def test_a_kernel_and_its_lane_are_called_alike_everywhere(empty_window: MainWindow, qtbot: QtBot) -> None:
    window = empty_window
    window.open([resources.path("samples/cpu_python.pt.trace.json.gz")])
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Kernels")
    table, trace = window.panels.tabs.currentWidget().by_name, window.document.trace
    assert trace is not None
    called = {}
    for row in range(6):
        where = table.visualRect(table.rows.index(row, 0)).center()
        qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=where)
        event = window.document.selected_event
        lane = int(trace.events.lane[event])
        state = window.timeline.state
        assert state.scene is not None
        on_the_timeline = state.scene.shown_name(lane, int(trace.events.name[event]))
        called[on_the_timeline] = table.rows.value(row, "short_name")
        show_tab(window, qtbot, "Selection")
        facts = window.panels.tabs.currentWidget().facts
        assert facts.title == on_the_timeline
        drawn = state.layout.of_lane(lane)
        assert drawn is not None
        assert Fact("Lane", drawn.track.title) in facts.facts
        show_tab(window, qtbot, "Kernels")
    assert len(called) >= 4
    for name, in_the_table in called.items():
        assert in_the_table == name or in_the_table.startswith(f"{name}<"), "told apart by its arguments"


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
    window.timeline.state.selection.select_event(0)
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


def test_a_row_is_selected_whatever_keys_are_held(window: MainWindow, qtbot: QtBot) -> None:
    show_tab(window, qtbot, "Kernels")
    table = window.panels.tabs.currentWidget().by_name
    QTest.keyPress(table, Qt.Key.Key_Home, Qt.KeyboardModifier.ShiftModifier)
    try:
        assert QGuiApplication.keyboardModifiers() == Qt.KeyboardModifier.ShiftModifier
        for row in (0, 1):
            table.select_frame_row(table.rows.frame_row(row))
            assert table.selected_rows() == [row]
    finally:
        QTest.keyRelease(table, Qt.Key.Key_Home)
    assert QGuiApplication.keyboardModifiers() == Qt.KeyboardModifier.NoModifier


def test_rows_are_copied_with_a_key(window: MainWindow, qtbot: QtBot) -> None:
    show_tab(window, qtbot, "Kernels")
    table = window.panels.tabs.currentWidget().by_name
    table.setFocus()
    table.selectRow(0)
    qtbot.keyClick(table, "c", Qt.KeyboardModifier.ControlModifier)
    text = QGuiApplication.clipboard().text()
    assert text.startswith("Kernel\tKind")
    assert len(text.splitlines()) == 2
    table.selectAll()
    qtbot.keyClick(table, "c", Qt.KeyboardModifier.ControlModifier)
    assert len(QGuiApplication.clipboard().text().splitlines()) == 3


def test_a_narrow_table_leaves_out_minor_columns_and_shortens_bars(qtbot: QtBot) -> None:
    columns = (
        Column("name", "Name"),
        Column("mean", "Mean", Show.TIME),
        Column("p99", "p99", Show.TIME, minor=True),
        Column("share", "Share", Show.SHARE),
    )
    table = TableView(columns, "Anything")
    qtbot.addWidget(table)
    table.set_frame(pd.DataFrame([("a", 1_200, 2_400, 0.5)], columns=["name", "mean", "p99", "share"]))
    for width, shown in ((900, True), (290, False), (900, True)):
        table.resize(width, 200)
        table.show()
        assert table.isColumnHidden(2) is not shown
        assert sum(table.columnWidth(index) for index in range(4)) <= table.viewport().width()
    wide_bar = table.columnWidth(3)
    table.resize(240, 200)
    assert table.columnWidth(3) < wide_bar
    table.copy_csv()
    assert "p99" in QGuiApplication.clipboard().text()


def test_a_column_without_a_word_is_hidden_and_a_narrow_one_has_its_short_title(qtbot: QtBot) -> None:
    columns = (
        Column("name", "Name"),
        Column("rank", "Rank", sparse=True),
        Column("share", "Share of GPU time", Show.SHARE, short="Share"),
    )
    table = TableView(columns, "Steps")
    qtbot.addWidget(table)
    table.resize(900, 200)
    table.show()

    def title() -> object:
        return table.model().headerData(2, Qt.Orientation.Horizontal)

    table.set_frame(pd.DataFrame({"name": ["a", "b"], "rank": ["", ""], "share": [0.5, 0.5]}))
    assert table.isColumnHidden(1)
    assert title() == "Share of GPU time"
    table.resize(200, 200)
    assert title() == "Share"
    table.set_frame(pd.DataFrame({"name": ["a", "b"], "rank": ["", "rank 1"], "share": [0.5, 0.5]}))
    assert not table.isColumnHidden(1)


def test_a_kind_gives_way_before_a_name_does(qtbot: QtBot) -> None:
    table = TableView((Column("name", "Kernel"), Column("kind", "Kind", Show.FAMILY)), "Kernels")
    qtbot.addWidget(table)
    table.set_frame(pd.DataFrame({"name": ["n" * 90], "kind": ["normalisation and reduction"]}))
    table.resize(TIGHT_NAME_WIDTH + TIGHT_KIND_WIDTH + 40, 200)
    table.show()
    assert table.columnWidth(0) >= TIGHT_NAME_WIDTH
    assert table.columnWidth(1) < 2 * TIGHT_KIND_WIDTH
    table.resize(900, 200)
    assert table.columnWidth(1) > TIGHT_KIND_WIDTH


def test_a_link_that_is_too_long_keeps_both_of_its_ends(qtbot: QtBot) -> None:
    link = LinkButton("aten::_cudnn_attention_backward & more")
    qtbot.addWidget(link)
    link.resize(90, 20)
    link.show()
    assert "…" in link.text()
    assert link.text().startswith("aten")
    assert link.text().endswith("re")
    link.resize(600, 20)
    assert link.text() == "aten::_cudnn_attention_backward && more"


def test_a_narrow_selection_shows_facts_and_histogram_only(
    window: MainWindow, qtbot: QtBot, trace: Trace
) -> None:
    window.document.select_event(int(trace.events.of_kind(EventKind.KERNEL)[0]))
    show_tab(window, qtbot, "Selection")
    panel = window.panels.tabs.currentWidget()
    panel._show_arguments({"stream": 7}, [])
    assert panel.arguments.isVisible()
    window.resize(1000, 700)
    qtbot.waitUntil(lambda: not panel.arguments.isVisible())
    assert panel.facts.isVisible()
    assert panel.histogram.isVisible()
    window.resize(1400, 800)
    qtbot.waitUntil(panel.arguments.isVisible)


def test_only_tabs_with_data_are_shown(window: MainWindow) -> None:
    with_data = [panel.title for panel in window.panels.panels if panel.has_data()]
    assert window.panels.titles() == with_data
    assert {"Selection", "Kernels", "Operators", "Steps", "Critical path"} <= set(with_data)
    assert not {"Ranks", "Counters", "Memory"} & set(with_data)
