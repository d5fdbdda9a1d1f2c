"""Selection, search, bookmarks, kernel reports, flame graph and comparison, worked with mouse and keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

import resources
from parsers import open_trace
from parsers.model import Trace
from rules.findings.base import Evidence
from viewer.appearance import theme
from viewer.appearance.widgets import Label, breakable, unbroken
from viewer.panels.kernel.kernel_details import launch_facts
from viewer.timeline.hover import event_text
from viewer.timeline.selection import Area
from viewer.window.commands import keys_text
from viewer.window.main_window import MainWindow
from viewer.window.palette import Mode

from .conftest import KERNELS, MS, STEPS, US, show_tab, wait_until_ready

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
    window.document.selection.select_area(Area(400 * US, 2400 * US))
    wait_until_ready(qtbot, window)
    panel = window.panels.tabs.currentWidget()
    assert "2.00 ms selected" in panel.area.text.text()
    assert set(panel.area.table.rows.frame["group"]) >= {"softmax_warp", "ampere_sgemm_128x64"}
    (gpu,) = panel.area.devices
    assert sum(ns for _, _, ns in gpu.parts) == 2 * MS
    assert [each.text() for each in panel.area.findChildren(Label)] == ["GPU 0 busy 100 %"]
    panel.area.copy.click()
    copied = QGuiApplication.clipboard().text()
    assert gpu.text in copied
    assert "softmax_warp\t" in copied
    panel.area.grouping.setCurrentText("by lane")
    wait_until_ready(qtbot, window)
    assert "GPU 0 · stream 7, NVIDIA H200" in set(panel.area.table.rows.frame["group"])


def test_a_gap_shows_its_culprit(window: MainWindow) -> None:
    analysis = window.document.analysis
    assert analysis is not None
    row = int((analysis.idle.end - analysis.idle.start).argmax())
    window.timeline.state.selection.select_gap(row)
    panel = window.panels.tabs.currentWidget()
    assert any(fact.text == "tokenize" for fact in panel.facts.facts)


def test_escape_selects_nothing(window: MainWindow, qtbot: QtBot) -> None:
    window.document.select_event(0)
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert window.document.selected_event == -1


def test_a_kernel_has_one_name_in_every_panel(empty_window: MainWindow, qtbot: QtBot) -> None:
    window = empty_window
    window.open([resources.path("samples/elementwise_chain.pt.trace.json.gz")])
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Kernels")
    table = window.panels.tabs.currentWidget().by_name
    row = next(
        row for row in range(9) if table.rows.value(row, "short_name") != table.rows.value(row, "name")
    )
    name, event = table.rows.index(row, 0).data(), int(table.rows.value(row, "event"))
    window.document.select_event(event)
    show_tab(window, qtbot, "Selection")
    panel = window.panels.tabs.currentWidget()
    scene, trace = window.timeline.state.scene, window.document.trace
    assert scene is not None
    assert trace is not None
    window.bookmarks.add((0, 1))
    (mark,) = window.bookmarks.bookmarks
    assert {panel.facts.title, event_text(scene, event, 0)[0], mark.title} == {name}
    window.document.selection.select_area(Area(int(trace.events.start[event]), int(trace.events.end[event])))
    wait_until_ready(qtbot, window)
    rows = panel.area.table.rows
    assert name in [rows.index(place, 0).data() for place in range(rows.rowCount())]


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
    assert ("lane", "GPU 0 · stream 7, NVIDIA H200") in ask(window, qtbot, "stream 7")
    assert ("event", "softmax_warp") in ask(window, qtbot, "softmax")


def test_what_is_only_similar_comes_last_and_is_said_to_be_no_match(window: MainWindow, qtbot: QtBot) -> None:
    hits = ask(window, qtbot, "cdlaunch")
    assert hits[-1] == ("similar", "cudaLaunchKernel")
    assert not any(kind in ("event", "events") for kind, _ in hits)
    assert "No matching events" in window.toolbar.search.popup.note.text()
    hits = ask(window, qtbot, "all")
    assert (hits[0], hits[-1]) == (("action", "All steps"), ("similar", "cudaLaunchKernel"))


def test_a_lane_that_was_found_is_marked(window: MainWindow, qtbot: QtBot, trace: Trace) -> None:
    ask(window, qtbot, "stream 7")
    hits = window.toolbar.search.popup.hits
    window.toolbar.search.popup.run(next(row for row, hit in enumerate(hits) if hit.kind == "lane"))
    (place,) = window.timeline.state.evidence
    assert trace.lanes[place.lane].name == "GPU 0 stream 7"


def test_tabs_are_found_and_those_without_data_say_what_is_missing(window: MainWindow, qtbot: QtBot) -> None:
    assert ask(window, qtbot, "operators")[0] == ("tab", "Operators")
    qtbot.keyClick(window.toolbar.search, Qt.Key.Key_Return)
    assert window.panels.tabs.currentWidget().title == "Operators"
    assert not window.banner.isVisible()
    assert ask(window, qtbot, "serving")[0] == ("tab", "Serving")
    qtbot.keyClick(window.toolbar.search, Qt.Key.Key_Return)
    assert window.banner.problem.text() == "The tab Serving is empty."
    assert "open a request log" in window.banner.hint.text()


def test_a_text_that_nothing_matches_is_said_to_match_nothing(window: MainWindow, qtbot: QtBot) -> None:
    assert ask(window, qtbot, "qqqqqqq") == []
    assert window.toolbar.search.popup.note.text() == "Nothing matches"
    assert ask(window, qtbot, "qqqqqqq", Mode.EVENTS) == []
    assert window.toolbar.search.popup.note.text() == "No matching events"


def test_a_found_event_that_is_in_view_is_where_the_search_begins(
    window: MainWindow, qtbot: QtBot, trace: Trace
) -> None:
    every = [index for index in range(len(trace.events)) if trace.name(index) == "tokenize"]
    second = sorted(every, key=lambda index: int(trace.events.start[index]))[1]
    start = int(trace.events.start[second])
    window.timeline.show_interval(start - 1_000, start + 1_000_000_000, animate=False)
    window.timeline.show_interval(start - 1_000, int(trace.events.end[second]) * 2 - start, animate=False)
    ask(window, qtbot, "tokenize", Mode.EVENTS)
    qtbot.keyClick(window.toolbar.search, Qt.Key.Key_Return)
    assert window.document.selected_event == second
    assert window.toolbar.search.position.text() == f"2 of {STEPS}"


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


def test_what_stands_in_the_empty_field_is_whole_at_any_width(window: MainWindow) -> None:
    field = window.toolbar.search
    for mode in Mode:
        field.set_mode(mode)
        field.setMinimumWidth(0)
        field.resize(600, field.height())
        whole = field.placeholderText()
        assert whole == mode.value
        metrics = field.fontMetrics()
        needed = metrics.horizontalAdvance(whole)
        for width in range(600, needed, -1):
            field.resize(width, field.height())
            text = field.placeholderText()
            assert text in (whole, whole.split()[0])
            if text != whole:
                break
            assert needed <= width - field.textMargins().right() - field.textMargins().left()
        assert text == whole.split()[0]


def test_a_wrong_regular_expression_is_said_and_not_raised(window: MainWindow, qtbot: QtBot) -> None:
    window.toolbar.search.start(Mode.EVENTS)
    window.toolbar.search.regex.setChecked(True)
    assert ask(window, qtbot, "(", Mode.EVENTS) == []
    assert "Invalid regular expression" in window.toolbar.search.popup.note.text()


def test_escape_leaves_the_search(window: MainWindow, qtbot: QtBot) -> None:
    ask(window, qtbot, "softmax")
    qtbot.keyClick(window.toolbar.search, Qt.Key.Key_Escape)
    assert not window.toolbar.search.popup.isVisible()
    assert window.toolbar.search.text() == ""
    assert window.timeline.hasFocus()


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


def test_a_kernel_report_takes_the_place_of_the_timeline_and_sets_two_kernels_side_by_side(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
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
    table = report.table
    for row, keys in ((0, Qt.KeyboardModifier.NoModifier), (2, Qt.KeyboardModifier.ControlModifier)):
        where = table.visualRect(table.rows.index(row, 0)).center()
        qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, keys, where)
    assert report.pair.isVisible()
    assert report.pair.sides.why.text()
    assert len(report.pair.roofline.points) == 2
    table.selectRow(1)
    assert not report.pair.isVisible()


def test_a_printed_summary_shows_what_it_holds_and_how_to_get_the_rest(
    empty_window: MainWindow, fixtures: Path, qtbot: QtBot
) -> None:
    empty_window.open([fixtures / "ncu" / "kernels.summary.txt.gz"])
    wait_until_ready(qtbot, empty_window)
    report = empty_window.kernel_report
    assert report is not None
    report.select(0)
    qtbot.waitUntil(report.lacking.isVisible)
    assert "--set full" in report.lacking.text()
    assert report.roofline is not None
    assert not report.roofline.isVisible(), "an empty panel takes no room"
    assert report.details.light.isVisible()
    assert not report.details.memory.isVisible()
    assert not report.details.pipes.isVisible()
    assert ("Registers", "16 per thread") in launch_facts(report.details.kernel)  # type: ignore[arg-type]


def said_by(widget: QWidget) -> list[str]:
    return [label.text() for label in widget.findChildren(QLabel) if label.isVisible()]


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


def test_a_recording_with_shapes_has_a_roofline_whose_dots_select_the_operator(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    empty_window.open([resources.path("samples") / "healthy.pt.trace.json.gz"])
    wait_until_ready(qtbot, empty_window)
    show_tab(empty_window, qtbot, "Roofline")
    panel = empty_window.panels.tabs.currentWidget()
    assert "Estimated from the shapes of its inputs" in panel.plot._text.text()
    number, point = panel.plot.points[-1]
    panel.plot.chosen.emit(number)
    trace = empty_window.document.trace
    assert trace is not None
    assert trace.name(empty_window.document.selected_event) == point.kernel


@pytest.mark.parametrize(
    ("name", "breaks"), [("short_name", 0), ("ampere_sgemm_128x64_a_very_long_name_indeed", 7), ("x" * 40, 0)]
)
def test_only_long_words_may_be_broken(name: str, breaks: int) -> None:
    assert breakable(name).count("\u200b") == breaks
    assert breakable(name).replace("\u200b", "") == name


def test_values_stay_with_their_units() -> None:
    assert unbroken("28.5 of 46.4 ms, 26 % in 3 steps") == "28.5 of 46.4\u00a0ms, 26\u00a0% in 3 steps"
    assert unbroken("142 → 60.1 ms a step, a → b") == "142\u00a0→\u00a060.1\u00a0ms a step, a → b"


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
    stream = next(index for index, lane in enumerate(window.document.trace.lanes) if lane.is_gpu)
    window.document.selection.select_area(Area(0, 20 * MS, (stream,)))
    show_tab(window, qtbot, "Flame")
    wait_until_ready(qtbot, window)
    assert panel._text.text() == "The selected lanes contain no nested calls."


def test_the_arguments_of_an_event_are_read_from_the_file(empty_window: MainWindow, qtbot: QtBot) -> None:
    empty_window.open([resources.path("samples/elementwise_chain.pt.trace.json.gz")])
    wait_until_ready(qtbot, empty_window)
    trace = empty_window.document.trace
    assert trace is not None
    empty_window.document.select_event(int(trace.gpu_operations[0]))
    wait_until_ready(qtbot, empty_window)
    table = empty_window.panels.tabs.currentWidget().arguments.rows
    shown = {table.index(row, 0).data(): table.index(row, 1).data() for row in range(table.rowCount())}
    assert {"stream", "correlation"} <= set(shown)


def test_another_recording_starts_with_an_empty_search(window: MainWindow, qtbot: QtBot) -> None:
    ask(window, qtbot, "gemm")
    window.home.go()
    assert window.document.trace is not None
    window.document.show(window.document.trace)
    assert window.toolbar.search.text() == ""


def test_what_was_found_in_one_recording_is_not_shown_for_the_next(
    window: MainWindow, qtbot: QtBot, fixtures: Path
) -> None:
    assert ("event", "softmax_warp") in ask(window, qtbot, "softmax")
    assert window.toolbar.search.popup.isVisible()
    window.toolbar.search._ask()  # its answer would come after the next recording
    window.document.show(open_trace([fixtures / "smi" / "query.csv"]))
    wait_until_ready(qtbot, window)
    assert not any(hit.kind == "event" for hit in window.toolbar.search.popup.hits)


def test_the_open_card_is_as_high_as_its_text_after_a_change_of_theme(
    window: MainWindow, qtbot: QtBot
) -> None:
    for name in ("light", "dark", "light"):
        window.acts.set_theme(name)
        qtbot.wait(1)
        card = window.diagnosis.cards[0]
        assert card.is_current
        qtbot.waitUntil(lambda shown=card: shown.height() >= shown.heightForWidth(shown.width()))


def test_open_results_take_the_colours_of_another_theme(window: MainWindow, qtbot: QtBot) -> None:
    ask(window, qtbot, "softmax")
    popup = window.toolbar.search.popup
    for name in ("light", "dark"):
        window.acts.set_theme(name)
        picture = popup.grab().toImage()
        assert picture.pixelColor(picture.width() // 2, picture.height() - 4) == theme.current().panel
