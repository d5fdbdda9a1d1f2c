"""A recording without a GPU is one of a CPU: threads, regions, operators and calls, and no list of what it lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from parsers.model import EventKind, Lane, LaneKind, Trace
from parsers.model.builder import TraceBuilder
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import what_lacks_shapes
from viewer.appearance.widgets import unbroken
from viewer.panels.findings.check_list import CheckList
from viewer.panels.tabs.flame import FlamePanel
from viewer.panels.tabs.operators import OperatorsPanel
from viewer.reports.diagnosis_report import as_html
from viewer.reports.text_report import as_text
from viewer.window.main_window import MainWindow

from .conftest import MS, show_tab, wait_until_ready

LACKS = ("could not be made", "Not checked, because", "kernel-occupancy: ")


def on_two_threads(kind: LaneKind, event: EventKind) -> Trace:
    """Ten events of 1 ms on each thread, with one inside of each."""
    builder = TraceBuilder()
    for thread in (1, 2):
        lane = builder.lane(Lane(kind, f"Thread {thread}", process=1, thread=thread))
        start = np.arange(10) * 2 * MS
        builder.add(start, start + MS, builder.string("load"), lane, event)
        builder.add(start + 100, start + MS - 100, builder.string("decode"), lane, event)
    builder.quality.read(40)
    return builder.build()


def nothing_is_said_to_be_missing(window: MainWindow) -> None:
    trace, diagnosis = window.document.trace, window.document.diagnosis
    assert trace is not None
    assert diagnosis is not None
    analysis = Analysis(trace)
    headings = [each.heading.text() for each in window.diagnosis.findChildren(CheckList)]
    without_shapes = what_lacks_shapes(trace, diagnosis)
    others = len(diagnosis.skipped) - len(without_shapes)
    assert [each for each in headings if each.startswith(f"{others} checks need GPU activity")]
    needs_shapes = [each for each in headings if each.endswith("checks need tensor shapes  ▸")]
    assert len(needs_shapes) == (len(without_shapes) > 0) == (EventKind.CPU_OP in trace.kinds)
    for told in (as_text(trace, diagnosis, analysis), as_html(trace, diagnosis, analysis)):
        assert "checks need GPU activity" in told
        assert not [each for each in LACKS if each in told]


def test_threads_are_open_operators_have_no_columns_of_a_gpu_and_calls_are_added_up(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    window = empty_window
    window.document.show(on_two_threads(LaneKind.CPU_THREAD, EventKind.CPU_OP))
    wait_until_ready(qtbot, window)
    assert "The CPU's operators are the limit" in window.verdict.sentence.text()
    assert [each.collapsed for each in window.timeline.state.layout.scrolled] == [False, False]
    show_tab(window, qtbot, "Operators")
    table = window.panels.findChild(OperatorsPanel).table
    shown = [column.title for i, column in enumerate(table.rows.columns) if not table.isColumnHidden(i)]
    assert shown == ["Operator", "CPU calls", "CPU self", "CPU total"]
    nothing_is_said_to_be_missing(window)


def test_the_flame_graph_begins_with_what_ran(empty_window: MainWindow, qtbot: QtBot) -> None:
    builder = TraceBuilder()
    regions = builder.lane(Lane(LaneKind.REGION, "regions", process=1, thread=1))
    operators = builder.lane(Lane(LaneKind.CPU_THREAD, "operators", process=1, thread=1))
    steps = builder.lane(Lane(LaneKind.STEPS, "steps", process=1, thread=1))
    start = np.arange(5) * 10 * MS
    builder.add(start, start + 10 * MS, builder.string("ProfilerStep#1"), steps, EventKind.STEP)
    builder.add(start, start + 8 * MS, builder.string("reduce"), regions, EventKind.REGION)
    builder.add(np.array([90 * MS]), np.array([99 * MS]), builder.string("save"), operators, EventKind.CPU_OP)
    empty_window.document.show(builder.build())
    wait_until_ready(qtbot, empty_window)
    show_tab(empty_window, qtbot, "Flame")
    flame = empty_window.panels.findChild(FlamePanel)
    assert flame.kind.currentText() == "Regions"
    assert flame.view.tree is not None
    assert len(flame.view.tree)


def test_where_nothing_but_the_profiler_ran_that_is_said_and_no_more(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    empty_window.document.show(on_two_threads(LaneKind.OVERHEAD, EventKind.OVERHEAD))
    wait_until_ready(qtbot, empty_window)
    assert "No GPU activity was recorded" in empty_window.verdict.sentence.text()
    nothing_is_said_to_be_missing(empty_window)


@pytest.mark.parametrize(
    ("name", "share"), [("layers", "48 %"), ("crowded_training.stacks", "5.1 %"), ("paced", "")]
)
def test_a_step_without_the_profiler_is_told_beside_the_recorded_one(
    name: str, share: str, empty_window: MainWindow, qtbot: QtBot, fixtures: Path
) -> None:
    window = empty_window
    window.open([fixtures / "cpu" / f"{name}.pt.trace.json.gz"])
    wait_until_ready(qtbot, window)
    texts = [unbroken(card.finding.explanation).replace("\u00a0", " ") for card in window.diagnosis.cards]
    told = [each for each in texts if "The profiler takes" in each]
    assert len(told) == (share != "")
    assert all(f"({share}) of a recorded step of " in each for each in told)
    pills = [each.text() for each in window.verdict.headline.pills]
    assert pills == (["profiler: 48 % of a step"] if share == "48 %" else [])
