"""The query tab: questions are chosen or typed, answers fly and lie on the timeline, mistakes are marked."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from parsers.model import EventKind, Trace
from viewer.appearance import theme
from viewer.appearance.theme import contrast
from viewer.loading.recording_process import asked as answering
from viewer.panels.query.answer import shown_columns
from viewer.panels.tables.table_model import Show
from viewer.panels.tabs.query import QueryPanel
from viewer.query.completion import candidates
from viewer.query.overlay import KEY, overlay_of, places_of_rows
from viewer.query.questions import questions
from viewer.timeline.geometry.scale import Scale, covered_pixels
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.timeline.selection import Area
from viewer.user_data.own_questions import asked_lately, own_questions
from viewer.window.main_window import MainWindow

from .conftest import KERNELS, MS, STEPS, US, wait_until_laid_out, wait_until_ready

LONG = "SELECT event, start_ns, duration_ns FROM kernels WHERE duration_ns >= ms(1) ORDER BY start_ns"


def test_a_window_stays_the_active_one_while_its_tabs_are_made(window: MainWindow) -> None:
    assert window.isActiveWindow()


def asked(window: MainWindow, qtbot: QtBot, sql: str = "") -> QueryPanel:
    """The tab, with an answer where there is a question."""
    window.commands["ask"].trigger()
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, QueryPanel)
    if sql:
        panel.editor.put(sql)
        QTest.keyClick(panel.editor, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    wait_until_ready(qtbot, window)
    return panel


@pytest.mark.usefixtures("answered_apart")
def test_a_question_is_answered_as_a_table_and_as_a_lane(
    window: MainWindow, qtbot: QtBot, trace: Trace, tmp_path: Path
) -> None:
    panel = asked(window, qtbot)
    counted = {item.data(0, Qt.ItemDataRole.UserRole): item for item in panel.list._items()}
    assert counted["cuda_gpu_kern_sum"].text(1) == "2"
    assert counted["collectives_by_size"].text(1) == "–"
    panel.list._choose(counted["cuda_gpu_kern_sum"])
    wait_until_ready(qtbot, window)
    assert panel.editor.sql == questions()["cuda_gpu_kern_sum"].sql
    assert panel.answer.table is not None
    assert panel.answer.table.rows.rowCount() == 2
    panel = asked(window, qtbot, LONG)
    assert panel.answer.left.text().startswith(f"{STEPS * KERNELS} rows in ")
    assert f"duration_ns: sum {STEPS * KERNELS}.0 ms" in panel.answer.left.text()
    state = window.timeline.state
    assert state.scene is not None
    lane = state.scene.derived[f"{KEY}0"]
    assert len(lane.rows[0].start) == STEPS * KERNELS
    assert lane.told(0, 3)[1].startswith("row 4 of the answer")
    panel.answer.table.setFocus()
    panel.answer.table.selectRow(1)
    assert window.document.selected_event == int(panel._result.frame["event"].iloc[1])
    QTest.keyClick(panel.answer.table, Qt.Key.Key_O)
    asked(window, qtbot, "SELECT start_ns, end_ns FROM gaps")
    assert {f"{KEY}0", f"{KEY}1"} <= set(state.scene.derived)
    panel.export_to(tmp_path / "gaps.csv")
    wait_until_ready(qtbot, window)
    assert len(pd.read_csv(tmp_path / "gaps.csv")) == panel.answer.table.rows.rowCount()
    window.document.clear()
    assert not window.document.overlays


def test_what_cannot_be_answered_is_said_and_marked(window: MainWindow, qtbot: QtBot) -> None:
    panel = asked(window, qtbot, "SELECT strat_ns FROM kernels")
    assert panel.answer.said.startswith("There is no column strat_ns. Did you mean start_ns")
    (mark,) = panel.editor.extraSelections()
    assert mark.cursor.selectedText() == "strat_ns"
    panel = asked(window, qtbot, "SELECT * FROM kernels WHERE stream = 7 AND name = 'nobody'")
    assert panel.answer.said == f"No rows. Without name = 'nobody' there would be {STEPS * KERNELS}."
    assert not panel.editor.extraSelections()
    assert not window.document.overlays
    panel.describe()
    assert panel.answer.table is not None
    assert panel.answer.table.rows.frame["table"].iloc[0] == "kernels"


@pytest.mark.usefixtures("answered_apart")
def test_escape_stops_a_question_that_takes_long(window: MainWindow, qtbot: QtBot) -> None:
    panel = asked(window, qtbot)
    panel.editor.put("SELECT sum(a.range * b.range) FROM range(100000000) a, range(100000000) b")
    panel.run()
    assert panel.editor.running
    QTest.keyClick(panel.editor, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not panel.editor.running)
    assert panel.said.text() == "stopped"
    assert "range(100000000)" in panel.editor.sql


@pytest.mark.thorough
@pytest.mark.usefixtures("answered_apart")
def test_a_question_that_costs_too_much_is_ended_and_the_next_one_is_answered(
    window: MainWindow, qtbot: QtBot
) -> None:
    panel = asked(window, qtbot, "SELECT repeat('x', 3000000000)")
    assert panel.answer.said.startswith("This needs more memory than the 1.00 GB that a question may use.")
    panel = asked(window, qtbot, "SELECT list(name) AS names, {'a': 1} AS parts FROM kernels LIMIT 1")
    assert panel.answer.table is not None
    assert panel.answer.table.rows.frame.iloc[0, 1] == '{"a": 1}'
    assert panel.answer.table.rows.frame.iloc[0, 0].startswith('["')


@pytest.mark.usefixtures("answered_apart", "only_new_garbage")
def test_the_process_that_answers_ends_with_the_recording(window: MainWindow, qtbot: QtBot) -> None:
    asked(window, qtbot, "SELECT 1")
    assert window.document.analysis is not None
    helper = answering(window.document.analysis)._helper
    assert helper is not None
    process, held = helper.process, weakref.ref(helper)
    assert process.poll() is None
    del helper
    window.document.clear()

    def has_ended() -> bool:
        if held() is not None:
            gc.collect()
        return process.poll() is not None

    qtbot.waitUntil(has_ended)


def test_the_sums_below_an_answer_follow_the_filter_and_leave_out_what_does_not_add_up(
    window: MainWindow, qtbot: QtBot
) -> None:
    sql = "SELECT short_name, count(*) AS calls, sum(duration_ns) AS total_ns, max(duration_ns) AS longest_ns"
    panel = asked(window, qtbot, f"{sql} FROM kernels GROUP BY short_name")
    whole = STEPS * KERNELS
    told = panel.answer.left.text()
    assert f"calls: sum {whole} · total_ns: sum {whole}.0 ms, median" in told
    assert "longest" not in told
    QTest.keyClicks(window.panels.filter, "softmax")
    qtbot.waitUntil(lambda: panel.answer.left.text().startswith("1 of 2 rows"))
    half = whole // 2
    spread = f"total_ns: sum {half}.0 ms, median {half}.0 ms, p99 {half}.0 ms"
    assert panel.answer.left.text() == f"1 of 2 rows · calls: sum {half} · {spread}"
    window.panels.filter.clear()
    qtbot.waitUntil(lambda: panel.answer.left.text() == told)


def test_names_in_an_answer_have_room_before_its_numbers_of_events(window: MainWindow, qtbot: QtBot) -> None:
    window.resize(1300, 800)
    sql = "SELECT event, name, start_ns, duration_ns FROM kernels"
    table = asked(window, qtbot, sql).answer.table
    assert table is not None
    wait_until_laid_out(qtbot, table)
    header, place = table.horizontalHeader(), [column.title for column in table.rows.columns].index("name")
    longest = max(table.rows.widest_texts(place), key=len)
    assert header.sectionSize(place) >= table.fontMetrics().horizontalAdvance(longest)
    assert header.isSectionHidden(0)


def test_questions_are_saved_as_text_and_remembered(window: MainWindow, qtbot: QtBot) -> None:
    panel = asked(window, qtbot, LONG)
    panel.save("long kernels / mine")
    assert own_questions() == {"long kernels _ mine": LONG + "\n"}
    listed = {item.text(0) for item in panel.list._items()}
    assert "long kernels _ mine" in listed
    panel.ask(questions()["longest_gaps"])
    wait_until_ready(qtbot, window)
    assert asked_lately()[:2] == [questions()["longest_gaps"].sql, LONG]
    panel.editor.undo()
    assert panel.editor.sql == LONG
    panel._remove("long kernels _ mine")
    assert own_questions() == {}


def test_what_is_selected_becomes_a_condition(window: MainWindow, qtbot: QtBot, trace: Trace) -> None:
    panel = asked(window, qtbot)
    window.document.selection.select_area(Area(5 * US, 9 * US, (2, 3)))
    conditions = [text for _, text in panel.conditions()]
    assert conditions == ["start_ns >= 5000 AND start_ns < 9000", "lane IN (2, 3)"]
    window.document.selection.select_area(None)
    window.document.select_event(trace.strings.index("tokenize") and 0)
    assert any(text.startswith("name = '") for _, text in panel.conditions())


@pytest.mark.parametrize(
    ("typed", "first", "meaning"),
    [
        ("SELECT k.reg", "registers", "registers of a thread"),
        ("SELECT dur", "duration_ns", "how long it took"),
        ("SELECT coal", "coalesce", "the first that is not missing"),
        ("SELECT name FROM ker", "kernels", "one kernel as it ran on the GPU"),
        ("SELECT * FROM kernels WHERE name = 'soft", "softmax_warp", "in this recording"),
        ("sel", "SELECT", ""),
    ],
)
def test_what_can_be_typed_next_comes_with_its_meaning(
    trace: Trace, typed: str, first: str, meaning: str
) -> None:
    rest = " FROM kernels k" if "FROM" not in typed and typed != "sel" else ""
    begin, found = candidates(typed + rest, len(typed), trace)
    assert (found[0].text, found[0].about) == (first, meaning)
    assert first.lower().startswith(typed[begin:].lower())


def test_a_completion_is_taken_with_enter(window: MainWindow, qtbot: QtBot) -> None:
    panel = asked(window, qtbot)
    panel.editor.put("")
    QTest.keyClicks(panel.editor, "SELECT * FROM kern")
    assert panel.editor.popup is not None
    assert panel.editor.popup.isVisible()
    QTest.keyClick(panel.editor.popup, Qt.Key.Key_Return)
    assert panel.editor.sql == "SELECT * FROM kernels"


def test_columns_of_an_answer_are_shown_by_their_units_and_missing_numbers_are_none() -> None:
    frame = pd.DataFrame(
        [[1, 2.5, None, 0.5, "a", 7]], columns=["total_ns", "x", "n", "busy_share", "name", "n"]
    )
    frame["n"] = frame["n"].astype("Int64")
    columns, shown = shown_columns(frame)
    assert [column.show for column in columns] == [
        Show.TIME, Show.NUMBER, Show.COUNT, Show.SHARE, Show.TEXT, Show.COUNT
    ]  # fmt: skip
    assert columns[0].title == "total"
    assert shown.iloc[0, 2] != shown.iloc[0, 2]
    assert shown.iloc[0, 5] == 7


def test_marks_of_answers_in_the_overview_are_runs_of_pixels() -> None:
    scale = Scale(0.0, 100.0, 10)
    start, end = np.array([0, 5, 41, 99]), np.array([4, 12, 49, 130])
    assert covered_pixels(start, end, scale) == [(0, 2), (4, 5), (9, 10)]
    assert covered_pixels(start[:0], end[:0], scale) == []


def test_rows_lie_where_their_event_or_their_times_say(trace: Trace) -> None:
    frame = pd.DataFrame(
        {"event": pd.array([0, None, 99_999], "Int64"), "start_ns": [5, 7, -1], "duration_ns": [2, 3, 0]}
    )
    start, end, found = places_of_rows(trace, frame)
    assert (start.tolist(), end.tolist(), found.tolist()) == ([5, 7, -1], [7, 10, -1], [0, -1, -1])
    alone = places_of_rows(trace, frame[["event"]])
    assert alone[0].tolist() == [int(trace.events.start[0]), -1, -1]
    assert overlay_of(trace, frame, "x").row.tolist() == [0, 1]
    assert overlay_of(trace, pd.DataFrame({"ts": [MS], "dur": [US]}), "x").end.tolist() == [MS + US]
    assert len(overlay_of(trace, pd.DataFrame({"name": ["a"]}), "x")) == 0


def test_events_that_do_not_answer_are_pale_while_an_answer_is_shown(
    window: MainWindow, qtbot: QtBot, trace: Trace
) -> None:
    asked(window, qtbot, "SELECT event FROM kernels ORDER BY start_ns LIMIT 1")
    window.document.show_overlays(())
    kernels = trace.events.of_kind(EventKind.KERNEL)
    answer, other = (int(kernel) for kernel in kernels[:2])
    span = float(trace.events.start[answer]), float(trace.events.end[other])
    canvas, state = window.timeline.canvas, window.timeline.state

    def color(event: int) -> QColor:
        """What is drawn in the middle of an event, near its lower edge, where no name is."""
        events = trace.events
        placed = state.layout.of_lane(int(events.lane[event]))
        assert placed is not None
        row = next(row for row in placed.rows if row.depth == events.depth[event])
        x = NAMES_WIDTH + state.scale.x((int(events.start[event]) + int(events.end[event])) / 2)
        y = canvas.top_of(placed) + row.top + row.height - 2
        return canvas.grab().toImage().pixelColor(round(x), round(y))

    state.show_interval(*span, animate=False)
    before = {event: color(event) for event in (answer, other)}
    asked(window, qtbot, "SELECT event FROM kernels ORDER BY start_ns LIMIT 1")
    assert len(window.document.overlays) == 1
    state.show_interval(*span, animate=False)
    assert color(answer) == before[answer]
    ground = theme.current().window
    assert 1.0 < contrast(color(other), ground) < 0.8 * contrast(before[other], ground)
    asked(window, qtbot, "SELECT start_ns FROM gaps")
    assert {event: color(event) for event in before} == before
    window.document.show_overlays(())
    assert {event: color(event) for event in before} == before
