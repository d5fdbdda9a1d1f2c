"""Two recordings in one window: linked timelines, counterparts, the bridge, and what happens while one is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import resources
from parsers import open_trace
from parsers.model.units import percent
from rules.findings.base import Evidence
from rules.terms import DEFAULTS
from tests.viewer.conftest import training_run, wait_until_laid_out
from tests.viewer.every_window import WAIT_MS, until
from tests.viewer.test_home import click, press
from viewer.appearance import theme
from viewer.comparison.bridge_chart import rows_of
from viewer.comparison.controls import title_of
from viewer.comparison.details import ROOM_FOR_THREE, DotAxis
from viewer.comparison.finding_list import FindingRow
from viewer.comparison.twins import Alignment
from viewer.comparison.window import ComparisonWindow, compare_with
from viewer.documents.document import Stage
from viewer.reports.comparison_report import finding_sides
from viewer.timeline.geometry.scale import Scale
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.window.main_window import MainWindow

PROGRAMS = Path(__file__).resolve().parents[1] / "fixtures" / "programs"
BEFORE, AFTER = PROGRAMS / "moderate.pt.trace.json.gz", PROGRAMS / "moderate.fixed.pt.trace.json.gz"


def opened(before: Path) -> ComparisonWindow:
    window = ComparisonWindow(open_trace([before]), DEFAULTS)
    window.resize(1366, 768)
    for view in window.twins.views:
        view.set_animated(False)
    window.show()
    window.activateWindow()
    return window


def close(window: ComparisonWindow) -> None:
    """Close it and let Qt delete it now: left to the garbage collector, its parts go in any order."""
    window.close()
    QCoreApplication.sendPostedEvents(window, int(QEvent.Type.DeferredDelete.value))


@pytest.fixture(scope="module")
def shared(qapp: QApplication) -> Iterator[ComparisonWindow]:
    theme.apply(qapp, "light")
    window = opened(BEFORE)
    window.read([AFTER])
    until(lambda: window.steps is not None)
    yield window
    close(window)


@pytest.fixture
def window(shared: ComparisonWindow, qtbot: QtBot) -> Iterator[ComparisonWindow]:
    """The window as it was after reading, and the one that hears the keys."""
    until(lambda: not shared.jobs.busy)
    with qtbot.waitActive(shared):
        shared.activateWindow()
    wait_until_laid_out(qtbot, shared.details.currentWidget(), *(view.canvas for view in shared.twins.views))
    shared.twins.fit()
    yield shared
    shared.bar.link.setChecked(True)
    shared.bar.scale.setChecked(True)
    shared.twins.clear()


def drop(window: ComparisonWindow | MainWindow, path: Path) -> None:
    """Let go of a file over a window."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    button, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    window.dropEvent(QDropEvent(QPointF(9, 9), Qt.DropAction.CopyAction, data, button, keys))


def views(window: ComparisonWindow) -> tuple[Scale, Scale]:
    before, after = (view.state.scale for view in window.twins.views)
    return before, after


def are_aligned(window: ComparisonWindow) -> bool:
    before, after = views(window)
    wanted = window.twins.alignment.below(before)
    return np.allclose((after.t0, after.t1), (wanted.t0, wanted.t1), rtol=0, atol=0.01 * before.span)


def at_middle(window: ComparisonWindow, side: int, event: int) -> QPoint:
    """Where an event is drawn on its canvas."""
    view = window.twins.views[side]
    trace, canvas = window.traces[side], view.canvas
    assert trace is not None
    placed = next(each for each in canvas.shown() if each.placed.track.lane == int(trace.events.lane[event]))
    row = next(row for row in placed.placed.rows if row.depth == int(trace.events.depth[event]))
    middle = (float(trace.events.start[event]) + float(trace.events.end[event])) / 2
    return QPoint(round(NAMES_WIDTH + view.state.scale.x(middle)), placed.top + row.top + row.height // 2)


def test_an_alignment_lays_its_moments_above_each_other_and_stretches_around_them() -> None:
    plain, stretched = Alignment(100, 40), Alignment(100, 40, 0.5)
    assert plain.to_after(130) == 70
    assert stretched.to_after(130) == 55
    assert stretched.to_before(stretched.to_after(77.5)) == 77.5
    assert plain.below(Scale(100, 200, 10)) == Scale(40, 140, 10)
    assert plain.limits(300, 500) == (0, 560)


def test_both_timelines_begin_with_the_same_step_and_the_verdict_is_told(window: ComparisonWindow) -> None:
    assert are_aligned(window)
    assert "faster: a step takes" in window.head.sentence.text()
    assert window.head.badge.startswith("same work: ")
    assert [view.state.focus is not None for view in window.twins.views] == [True, True]
    lanes = [[p.height for p in v.state.layout.scrolled if p.track.is_gpu_lane] for v in window.twins.views]
    assert set(lanes[0]) == set(lanes[1])
    assert "▼" in window.details.measures.rows.value(0, "told")


def test_the_wheel_and_the_cursor_of_one_go_to_the_other_until_the_link_is_cut(
    window: ComparisonWindow, qtbot: QtBot
) -> None:
    before, after = window.twins.views
    canvas = after.canvas
    spans = [scale.span for scale in views(window)]
    after.state.zoom(300, 0.5, animate=False)
    assert views(window)[0].span == pytest.approx(spans[0] / 2)
    assert are_aligned(window)
    qtbot.mouseMove(canvas, QPoint(NAMES_WIDTH + 200, 20))
    assert before.state.cursor == pytest.approx(window.twins.alignment.to_before(after.state.cursor or 0.0))
    told = window.twins.ribbons.read_out()
    assert told is None or "into the step" in told[0]
    before.setFocus()
    qtbot.keyClick(before, Qt.Key.Key_L, Qt.KeyboardModifier.ShiftModifier)
    assert not window.twins.linked
    kept = views(window)[1]
    qtbot.keyClick(before, Qt.Key.Key_D)
    assert views(window)[1] == kept
    qtbot.keyClick(before, Qt.Key.Key_L, Qt.KeyboardModifier.ShiftModifier)
    assert are_aligned(window)


def test_the_keys_of_the_timelines_never_go_dead_and_escape_leads_back(
    window: ComparisonWindow, qtbot: QtBot
) -> None:
    above, details = window.twins.views[0], window.details
    table, tabs = details.kernels, details.tabBar()
    places = {
        "a kernel": lambda: click(table.viewport(), QPoint(40, 8)),
        "a heading": lambda: click(table.horizontalHeader().viewport()),
        "a finding": lambda: click(details.findings.findChildren(FindingRow)[0]),
        "a bar": lambda: click(window.bridge.chart, window.bridge.chart.box(1).center().toPoint()),
        "a tab": lambda: click(tabs, tabs.tabRect(1).center()),
        "the verdict": lambda: click(window.head),
        "the tabulator": lambda: [press(window, "Tab") for _ in range(9)],
    }
    for what, go_there in places.items():
        details.setCurrentIndex(0)
        wait_until_laid_out(qtbot, table)
        window.twins.fit()
        go_there()
        wait_until_laid_out(qtbot, table)
        for key in "wd":
            seen = views(window)
            press(window, key)
            assert views(window) != seen, f"{key} after {what}, focus at {QApplication.focusWidget()}"
    details.setCurrentIndex(0)
    wait_until_laid_out(qtbot, table)
    places["a kernel"]()
    assert any(above.state.evidence)
    press(window, "Esc")
    assert above.hasFocus()
    assert any(above.state.evidence)
    press(window, "Esc")
    assert not any(above.state.evidence)


def test_steps_drawn_equally_long_are_said_to_be_stretched(window: ComparisonWindow, qtbot: QtBot) -> None:
    qtbot.keyClick(window.twins.views[0], Qt.Key.Key_T)
    (b0, b1), (a0, a1) = window.twins.spans()
    before, after = views(window)
    assert (b1 - b0) / before.ns_per_pixel == pytest.approx((a1 - a0) / after.ns_per_pixel, rel=1e-3)
    assert "times longer" in window.twins.headers[1].figure.text()
    qtbot.keyClick(window.twins.views[0], Qt.Key.Key_T)
    assert "times longer" not in window.twins.headers[1].figure.text()


def test_a_click_on_a_kernel_selects_its_counterpart(window: ComparisonWindow, qtbot: QtBot) -> None:
    assert window.steps is not None
    pairs, calls = window.steps.pairs.counterpart, window.steps.calls
    longest = pairs[calls[0].ns[pairs[:, 0]].argmax()]
    event, other = int(calls[0].event[longest[0]]), int(calls[1].event[longest[1]])
    where = at_middle(window, 0, event)
    qtbot.mouseClick(window.twins.views[0].canvas, Qt.MouseButton.LeftButton, pos=where)
    assert [view.state.selected for view in window.twins.views] == [event, other]
    assert "after: " in window.foot.text()
    qtbot.keyClick(window.twins.views[0], Qt.Key.Key_Escape)
    assert [view.state.selected for view in window.twins.views] == [-1, -1]


def test_a_bar_of_the_bridge_and_a_row_of_kernels_mark_their_kernels_on_both_sides(
    window: ComparisonWindow, qtbot: QtBot
) -> None:
    chart = window.bridge.chart
    place = next(i for i, row in enumerate(chart.rows) if row.label == "matrix product")
    qtbot.mouseClick(chart, Qt.MouseButton.LeftButton, pos=chart.box(place).center().toPoint())
    marked = [view.state.evidence for view in window.twins.views]
    assert all(marked)
    names = {each.name for side in marked for each in side}
    assert all(any(word in name.lower() for word in ("gemm", "nvjet", "cutlass", "splitk")) for name in names)
    click(window.details.kernels.viewport(), QPoint(40, 8))
    rows = window.details.kernels.rows
    assert rows.frame is not None
    first = set(rows.frame["names_before"].iloc[rows.frame_row(0)].split("\n"))
    evidence = window.twins.views[0].state.evidence
    assert {each.name for each in evidence} <= first
    window.twins.views[0].show_interval(0, 1000, animate=False)
    click(window.details.kernels.viewport(), QPoint(40, 8))
    t0, t1 = window.twins.views[0].visible_interval
    assert any(each.end > t0 and each.start < t1 for each in evidence)
    assert are_aligned(window)


def test_every_bar_adds_up_and_small_ones_are_enlarged(window: ComparisonWindow) -> None:
    assert window.result is not None
    for bridge in window.result.bridges:
        rows = rows_of(bridge)
        changes = sum(row.change or 0.0 for row in rows)
        assert bridge.before + changes == pytest.approx(bridge.after, abs=0.002 * bridge.before)
        assert (rows[0].label, rows[-1].label) == ("before", "after")


def test_another_step_and_another_moment_can_be_laid_above_each_other(window: ComparisonWindow) -> None:
    assert window.steps is not None
    window.bar.steps[0].setCurrentIndex(0)
    window.bar.steps[0].activated.emit(0)
    until(lambda: not window.jobs.busy)
    assert window.result is not None
    assert window.result.sides is not None
    assert window.steps.steps[0] is window.result.sides[0].analysis.steady_steps[0]
    assert window.twins.anchors[-1] == "first common kernel"
    window.twins.align("first common kernel")
    assert are_aligned(window)
    window.twins.align("start of step")
    assert all(box.minimumSizeHint().width() <= box.sizeHint().width() for box in window.bar.steps)


def test_the_page_is_written_and_the_text_is_copied(window: ComparisonWindow, tmp_path: Path) -> None:
    window.buttons.export_to(tmp_path / "page.html")
    assert "Where the time went" in (tmp_path / "page.html").read_text("utf-8")
    window.buttons.copy.click()
    assert "same work:" in QGuiApplication.clipboard().text()
    window.buttons.export_to(tmp_path / "absent" / "page.html")
    assert "could not be written" in window.foot.text()


def test_the_first_recording_can_be_looked_at_while_the_second_is_read_and_both_can_be_swapped(
    qtbot: QtBot, qapp: QApplication
) -> None:
    window = ComparisonWindow(training_run(), DEFAULTS)
    window.show()
    drop(window, resources.path("samples/elementwise_chain.pt.trace.json.gz"))
    assert window.twins.views[0].state.scene is not None
    assert window.twins.views[1].state.scene is None
    assert "Reading" in window.twins.views[1].canvas.message
    window.twins.views[0].show_interval(0, 1000, animate=False)
    assert window.twins.views[0].visible_interval[1] <= 1100
    qtbot.waitUntil(lambda: window.steps is not None, timeout=WAIT_MS)
    first = window.result
    assert first is not None
    before, after = window.traces
    qtbot.keyClick(window.twins.views[0], Qt.Key.Key_X)
    assert window.traces[0] is before, "timelines change sides with their names and figures"
    qtbot.waitUntil(lambda: window.result is not first, timeout=WAIT_MS)
    assert window.traces[0] is after
    assert window.traces[1] is before
    assert window.result is not None
    assert window.result.files == first.files[::-1]
    assert (window.result.step.before, window.result.step.after) == (first.step.after, first.step.before)
    close(window)


def test_the_title_tells_recordings_of_one_name_apart() -> None:
    trace = training_run()
    one, other = (replace(trace, epoch_ns=1_700_000_000 * 10**9 + later) for later in (0, 60 * 10**9))
    assert title_of(one, training_run()) == "run.json (.) → run.json (.) - Comparison"
    told = title_of(one, other)
    assert told.startswith("run.json (20")
    assert len(set(told.split(" → "))) == 2
    assert title_of(open_trace([BEFORE]), open_trace([AFTER])) == f"{BEFORE.name} → {AFTER.name} - Comparison"


def test_a_file_dropped_beside_an_open_one_is_compared_and_what_cannot_be_gives_a_banner(
    make_window: Callable[..., MainWindow], qtbot: QtBot, tmp_path: Path
) -> None:
    main = make_window()
    main.document.show(training_run())
    qtbot.waitUntil(lambda: main.document.stage is Stage.READY, timeout=WAIT_MS)
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    for path in (tmp_path / "absent.json", empty):
        main.banner.hide()
        drop(main, path)
        assert main.findChildren(ComparisonWindow)
        qtbot.waitUntil(main.banner.isVisible, timeout=WAIT_MS)
        qtbot.waitUntil(lambda: not main.findChildren(ComparisonWindow))


def test_dots_of_times_far_apart_lie_on_an_axis_of_ratios() -> None:
    near, far = DotAxis(10e6, 12e6, 100), DotAxis(10e6, 1000e6, 100)
    assert near.x(np.array([11e6])) == pytest.approx([50])
    assert far.x(np.array([100e6])) == pytest.approx([50])
    assert all(10e6 <= tick <= 12e6 for tick in near.ticks())
    assert len(near.ticks()) >= 3
    assert DotAxis(13.5e6, 41e6, 100).ticks() == pytest.approx([20e6, 30e6, 40e6])
    assert far.ticks() == pytest.approx([each * 1e6 for each in (10, 20, 50, 100, 200, 500, 1000)])


def test_places_outside_of_any_lane_are_no_problem(window: ComparisonWindow) -> None:
    window.twins.highlight(([Evidence(-1, 0, 1, "somewhere")], []))
    assert window.twins.views[0].state.evidence


@pytest.mark.parametrize(
    ("low", "high", "width", "told"),
    [
        (30e6, 160e6, 360, [50e6, 100e6]),
        (30e6, 160e6, 900, [30e6, 40e6, 50e6, 60e6, 70e6, 80e6, 100e6]),
        (10e6, 1000e6, 200, [10e6, 100e6, 1000e6]),
    ],
    ids=["the rounder ones", "nearly all", "powers of ten"],
)
def test_the_rounder_times_of_an_axis_are_written_first_and_none_covers_another(
    low: float, high: float, width: float, told: list[float]
) -> None:
    axis = DotAxis(low, high, width)
    found = axis.labelled(axis.ticks())
    assert set(told) <= set(found)
    assert (np.diff(axis.x(np.array(found))) >= 52).all()


def test_all_that_is_different_is_readable_in_a_narrow_window(shared: ComparisonWindow, qtbot: QtBot) -> None:
    reason, text = shared.head.reason, shared.head.reason.text()
    try:
        reason.setText("; ".join([text] * 6))
        wait_until_laid_out(qtbot, shared.twins)
        assert reason.height() >= reason.heightForWidth(reason.width()) > 2 * reason.fontMetrics().height()
    finally:
        reason.setText(text)


@pytest.mark.parametrize(("width", "apart"), [(ROOM_FOR_THREE - 1, True), (ROOM_FOR_THREE, False)])
def test_findings_are_a_tab_of_their_own_where_names_of_kernels_would_be_cut_for_them(
    shared: ComparisonWindow, qtbot: QtBot, width: int, apart: bool
) -> None:
    size, details = shared.size(), shared.details
    try:
        shared.resize(width, 700)
        wait_until_laid_out(qtbot, details.kernels)
        titles = [details.tabText(index) for index in range(details.count())]
        assert titles[:2] == ["Side by side", "Findings" if apart else "Kinds of kernel"]
        assert details.findings.isVisible() is not apart
        if apart:
            click(details.tabBar(), details.tabBar().tabRect(1).center())
            wait_until_laid_out(qtbot, details.findings)
            assert details.findings.isVisible()
    finally:
        details.setCurrentIndex(0)
        shared.resize(size)
        wait_until_laid_out(qtbot, details.findings)
    assert details.findings.isVisible()


def test_the_kernel_that_was_selected_is_marked_with_its_times_before_and_after(
    make_window: Callable[..., MainWindow], qtbot: QtBot
) -> None:
    main = make_window()
    main.document.open([BEFORE])
    until(lambda: main.document.stage is Stage.READY)
    trace = main.document.trace
    assert trace is not None
    kernel = int(trace.gpu_operations[len(trace.gpu_operations) // 2])
    main.document.select_event(kernel)
    compared = compare_with(main.document, [AFTER], main)
    assert compared is not None
    until(lambda: compared.steps is not None)
    assert compared.steps is not None
    rows = compared.details.kernels.selectionModel().selectedRows()
    (row,) = [compared.details.kernels.rows.frame_row(each.row()) for each in rows]
    assert trace.name(kernel) in compared.steps.rows.rows[row].before
    assert not compared.twins.is_marked
    close(compared)


def test_what_a_finding_costs_is_of_the_recorded_step_that_stands_above_it(shared: ComparisonWindow) -> None:
    assert shared.result is not None
    step = shared.result.step.before
    for each in shared.result.findings:
        if each.before is not None:
            assert each.before_ns == pytest.approx(each.before.recorded_share * step)
            assert finding_sides(each, shared.result)[0].endswith(percent(each.before_ns / step))


def test_two_figures_that_differ_are_not_called_the_same(shared: ComparisonWindow) -> None:
    measures = shared.details.measures.rows.frame
    assert measures is not None
    for before, after, told in measures[["before", "after", "told"]].itertuples(index=False):
        assert (told == "same") <= (before == after)
        assert told != "little" or before != after
