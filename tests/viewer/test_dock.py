"""The tabs of the bottom dock are made after the window is there, without anybody noticing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QFontMetricsF
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from parsers.model import EventKind, Trace, TraceError
from parsers.model.catalogs import loading
from rules.fixes.plan import Plan
from viewer.appearance import theme
from viewer.desktop.jobs import Jobs
from viewer.documents.document import Document, Stage
from viewer.panels import panel
from viewer.panels.dock import PADDING, TIGHT
from viewer.panels.panel import Panel, tabs
from viewer.panels.tables.table_view import EASY_NAME_WIDTH, MAX_NAME
from viewer.panels.tabs.kernels import KernelsPanel
from viewer.panels.tabs.selection import SelectionPanel
from viewer.timeline.selection import Area
from viewer.user_data.preferences import Preferences
from viewer.window.main_window import MainWindow

from .conftest import MS, show_tab, training_run, wait_until_laid_out, wait_until_ready

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def number_of_tabs() -> int:
    for _ in loading("viewer.panels.tabs"):
        pass
    return len(panel._TABS)


def wait_until_complete(qtbot: QtBot, window: MainWindow) -> None:
    """Until the headline has its second line as well, and the rest its place below it."""
    wait_until_ready(qtbot, window)
    qtbot.waitUntil(lambda: window.document.plan is not None)
    wait_until_laid_out(qtbot, window.timeline, window.panels_dock)


@pytest.mark.parametrize("another", [False, True])
def test_tabs_and_fixes_come_once_for_all_that_is_found_out(
    make_window: Callable[..., MainWindow],
    qtbot: QtBot,
    trace: Trace,
    monkeypatch: pytest.MonkeyPatch,
    another: bool,
) -> None:
    window = make_window(shows=training_run() if another else None)
    if another:
        wait_until_complete(qtbot, window)
    qtbot.waitUntil(lambda: len(window.panels.panels) == number_of_tabs())
    wait_until_laid_out(qtbot, window)
    brought: list[Stage] = []
    plans: list[Plan | None] = []
    update = window.panels.update_tabs

    def counted(prefer: str = "") -> None:
        brought.append(window.document.stage)
        update(prefer)

    monkeypatch.setattr(window.panels, "update_tabs", counted)
    window.what_if.plan_changed.connect(lambda: plans.append(window.document.plan))
    window.document.show(trace)
    wait_until_complete(qtbot, window)
    assert brought == [Stage.LOADING, Stage.ANALYSING, Stage.READY]
    assert plans == ([None] if another else []) + [window.document.plan]


@pytest.mark.parametrize("with_gpu", [True, False])
def test_the_tab_that_is_shown_first_is_made_before_the_analysis_comes(
    empty_window: MainWindow, qtbot: QtBot, trace: Trace, monkeypatch: pytest.MonkeyPatch, with_gpu: bool
) -> None:
    before: list[bool] = []
    build = KernelsPanel.build

    def noted(tab: KernelsPanel) -> None:
        before.append(tab.document.analysis is None)
        build(tab)

    monkeypatch.setattr(KernelsPanel, "build", noted)
    monkeypatch.setattr("viewer.panels.dock.AHEAD_MS", 0)  # the analysis may come sooner
    if with_gpu:
        empty_window.document.show(trace)
    else:
        empty_window.document.open([FIXTURES / "cpu" / "twice.pt.trace.json.gz"])
    qtbot.waitUntil(lambda: empty_window.document.diagnosis is not None)
    wait_until_ready(qtbot, empty_window)
    assert before == [True] * with_gpu


def test_tabs_that_need_no_analysis_come_where_it_fails(
    empty_window: MainWindow, qtbot: QtBot, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise TraceError(Path("run.json"), "no time is left")

    monkeypatch.setattr("viewer.documents.document.analysis_of", fails)
    empty_window.document.show(trace)
    wait_until_ready(qtbot, empty_window)
    assert empty_window.document.analysis is None
    assert "Operators" in empty_window.panels.titles()
    assert "Kernels" not in empty_window.panels.titles()


def test_a_new_tab_is_one_class(
    make_window: Callable[..., MainWindow], qtbot: QtBot, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Weather(Panel):
        title: ClassVar[str] = "Weather"
        order: ClassVar[int] = 15

        def has_data(self) -> bool:
            return self.document.analysis is not None

    list(tabs(Document(Jobs()), QWidget()))  # so that all others are registered
    monkeypatch.setattr(panel, "_TABS", [*panel._TABS, Weather])
    window = make_window()
    window.document.show(trace)
    assert "Weather" not in window.panels.titles()
    wait_until_ready(qtbot, window)
    assert window.panels.titles()[:3] == ["Selection", "Weather", "Kernels"]


def test_the_tabs_come_one_by_one_and_no_other_window_flashes_up(
    make_window: Callable[..., MainWindow], qtbot: QtBot
) -> None:
    window = make_window()
    qtbot.waitUntil(lambda: len(window.panels.panels) == number_of_tabs())
    assert window.isActiveWindow()
    assert window.panels.titles() == []
    orders = [panel.order for panel in window.panels.panels]
    assert orders == sorted(orders)


def test_a_recording_that_comes_first_finds_all_tabs(qtbot: QtBot, trace: Trace) -> None:
    window = MainWindow(Preferences())
    qtbot.addWidget(window)
    assert window.panels.panels == ()
    window.document.show(trace)
    assert len(window.panels.panels) == number_of_tabs()
    wait_until_ready(qtbot, window)
    assert window.panels.titles()[:2] == ["Selection", "Kernels"]
    window.close()


def test_a_window_without_a_file_loads_nothing_that_only_a_recording_needs() -> None:
    program = (
        "import sys; from viewer.app import application, open_window; application(); open_window().grab(); "
        "late = ('pandas', 'pyqtgraph', 'scipy', 'msgspec', 'urllib.request', 'parsers.opening', 'rules.diagnosis', "
        "'rules.verdict.verdict', 'viewer.panels.tables.table_view', 'viewer.panels.tabs.kernels'); "
        "print([name for name in late if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_what_has_no_room_beside_the_tabs_is_in_a_menu(window: MainWindow) -> None:
    panels = window.panels
    panels.show_panel("Kernels")
    window.resize(1440, 900)
    assert panels.by_family.isVisible()
    assert panels.export.isVisible()
    assert not panels.more.isVisible()
    window.resize(720, 600)
    panels.raise_()
    assert panels.export.isHidden()
    assert not panels.more.isHidden()
    assert panels.more_export.isVisible()
    assert panels.more_families.isVisible() is panels.by_family.isHidden()
    panels.more_families.trigger()
    assert panels.by_family.isChecked()
    bar = panels.tabs.tabBar()
    for width in range(940, 720, -20):  # how wide the titles are is up to the fonts of the machine
        window.resize(width, 600)
        shown = [index for index in range(bar.count()) if bar.isTabVisible(index)]
        if len(shown) < bar.count():
            break
    assert 2 < len(shown) < bar.count()
    for index in shown:
        assert bar.tabRect(index).width() >= bar.fontMetrics().horizontalAdvance(bar.tabText(index))
    further = panels.further.menu()
    further.aboutToShow.emit()
    last = further.actions()[-1]
    assert panels.further.text() == f"{len(further.actions())} more ▾"
    last.trigger()
    assert bar.tabText(bar.currentIndex()) == last.text() == panels.titles()[-1]
    reached = []
    for _ in panels.titles():
        QTest.keyClick(window, Qt.Key.Key_PageDown, Qt.KeyboardModifier.ControlModifier)
        reached.append(bar.tabText(bar.currentIndex()))
        assert bar.isTabVisible(bar.currentIndex())
    assert reached == panels.titles()


def test_no_title_of_a_tab_is_cut_off_at_any_width(window: MainWindow) -> None:
    bar = window.panels.tabs.tabBar()
    for width in range(1300, 720, -7):
        window.resize(width, 600)
        beside = TIGHT if bar.property("crowded") else PADDING
        for index in filter(bar.isTabVisible, range(bar.count())):
            words = bar.fontMetrics().size(Qt.TextFlag.TextShowMnemonic, bar.tabText(index)).width()
            assert bar.tabRect(index).width() >= words + beside, (width, bar.tabText(index))


def test_selecting_an_event_leaves_the_timeline_as_high_as_it_was(
    make_window: Callable[..., MainWindow], trace: Trace, qtbot: QtBot
) -> None:
    window = make_window((1024, 700))
    window.document.show(trace)
    wait_until_complete(qtbot, window)
    before = window.timeline.height()
    kernel = int(np.flatnonzero(trace.events.kind == EventKind.KERNEL)[0])
    window.timeline.select_event(kernel)
    wait_until_ready(qtbot, window)
    assert window.panels.tabs.tabText(window.panels.tabs.currentIndex()) == "Selection"
    assert window.timeline.height() == before


def test_another_recording_begins_with_its_first_rows_and_all_of_them(
    window: MainWindow, qtbot: QtBot
) -> None:
    show_tab(window, qtbot, "Kernels")
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, KernelsPanel)
    table = panel.by_name
    table.verticalHeader().setDefaultSectionSize(400)
    table.scrollToBottom()
    window.document.show(training_run(MS))
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Kernels")
    assert table.verticalScrollBar().value() == 0 < table.verticalScrollBar().maximum()
    qtbot.keyClicks(window.panels.filter, "softmax")
    assert table.model().rowCount() == 1
    window.document.show(training_run())
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Kernels")
    assert table.model().rowCount() == 2


def test_the_filter_is_there_only_while_there_is_a_table_to_filter(
    window: MainWindow, trace: Trace, qtbot: QtBot
) -> None:
    window.resize(1440, 900)
    panels = window.panels
    panels.show_panel("Selection")
    assert panels.filter.isHidden()
    assert panels.export.isHidden()
    window.timeline.state.select_area(Area(0, trace.duration))
    assert not panels.filter.isHidden()
    window.timeline.state.select_area(None)
    window.timeline.state.selection.select_gap(0)
    assert panels.filter.isHidden()
    panels.show_panel("Kernels")
    assert not panels.filter.isHidden()


def test_facts_that_fit_need_no_scroll_bar(window: MainWindow, qtbot: QtBot) -> None:
    window.resize(1440, 900)
    window.timeline.state.selection.select_gap(0)
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, SelectionPanel)
    body = panel.facts.widget()
    facts = [label for label in body.findChildren(QLabel) if label.isVisible()]
    lowest = max(label.mapTo(body, label.rect().bottomLeft()).y() for label in facts)
    assert body.minimumHeight() <= lowest + 2 * facts[0].height()


def kernels_of(window: MainWindow, trace: Trace, qtbot: QtBot) -> KernelsPanel:
    """The tab of kernels, in front."""
    window.document.show(trace)
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Kernels")
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, KernelsPanel)
    return panel


def test_columns_that_matter_less_leave_room_for_names(
    make_window: Callable[..., MainWindow], trace: Trace, qtbot: QtBot
) -> None:
    window = make_window((1280, 800))
    panel = kernels_of(window, trace, qtbot)
    table = panel.by_name
    shown = [column.key for index, column in enumerate(table.rows.columns) if not table.isColumnHidden(index)]
    metrics = QFontMetricsF(theme.font())
    longest = max(map(metrics.horizontalAdvance, table.rows.widest_texts(0)))
    assert table.columnWidth(0) >= min(longest, EASY_NAME_WIDTH)
    assert {"calls", "total_ns", "mean_ns", "gpu_time_share"} <= set(shown)
    window.resize(1800, 900)
    wait_until_ready(qtbot, window)
    assert not any(table.isColumnHidden(index) for index in range(len(table.rows.columns)))
    assert table.columnWidth(0) >= longest


def test_two_kernels_stand_side_by_side_while_both_are_selected(
    make_window: Callable[..., MainWindow], trace: Trace, qtbot: QtBot
) -> None:
    window = make_window((1500, 900))
    panel = kernels_of(window, trace, qtbot)
    table = panel.by_name

    def click(row: int, keys: Qt.KeyboardModifier) -> None:
        where = table.visualRect(table.rows.index(row, 0)).center()
        qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, keys, where)
        wait_until_ready(qtbot, window)

    click(0, Qt.KeyboardModifier.NoModifier)
    assert panel.pair is None
    click(1, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: panel.pair is not None and panel.pair.isVisible())
    pair, frame = panel.pair, table.rows.frame
    assert pair is not None
    assert frame is not None
    assert [heading.text() for heading in pair.headings] == frame["short_name"].tolist()[:2]
    shown = pair.table.rows.frame
    assert shown is not None
    assert shown.set_index("label").loc["Calls", ["before", "after"]].tolist() == ["12", "12"]
    click(1, Qt.KeyboardModifier.NoModifier)
    assert not pair.isVisible()
    click(0, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(pair.isVisible)
    window.document.select_step(0)
    wait_until_ready(qtbot, window)
    assert pair.isVisible() == (len(table.selectionModel().selectedRows()) == 2)


def test_tabs_get_what_the_lanes_leave_over_in_each_window_size(window: MainWindow, qtbot: QtBot) -> None:
    def shares(height: int) -> tuple[float, int]:
        canvas = window.timeline.canvas
        window.resize(1600, height)
        qtbot.waitUntil(lambda: window.height() == height)
        wait_until_laid_out(qtbot, window.panels_dock, canvas)
        return (
            window.panels_dock.height() / height,
            canvas.height() - window.timeline.state.layout.scrolled_height,
        )

    low, high, low_again = shares(768), shares(2160), shares(768)
    for share, empty in (low, high):
        assert 0.2 <= share <= 0.5
        assert empty < 30 or share > 0.49
    assert low_again == low


def test_a_dragged_border_keeps_its_share_in_windows_and_screens(
    make_window: Callable[..., MainWindow], trace: Trace, qtbot: QtBot
) -> None:
    window = make_window((1440, 900))
    window.document.show(trace)
    wait_until_complete(qtbot, window)
    before = window.panels_dock.height()

    def drag_border(window: MainWindow, by: int) -> None:
        border = QPoint(300, window.panels_dock.y() - 1)
        button, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        QTest.mousePress(window, button, none, border)
        QTest.mouseMove(window, border + QPoint(0, by // 3))
        QTest.mouseMove(window, border + QPoint(0, by))
        wait_until_laid_out(qtbot, window.panels_dock)  # the border follows in a turn of its own
        QTest.mouseRelease(window, button, none, border + QPoint(0, by))

    drag_border(window, 60)
    qtbot.waitUntil(lambda: window.panels_dock.height() == before - 60)
    share = window.panels_dock.height() / 900
    window.resize(1440, 1800)
    qtbot.waitUntil(lambda: abs(window.panels_dock.height() - 1800 * share) <= 2)
    window.close()
    later = make_window((1200, 900))
    later.document.show(trace)
    wait_until_complete(qtbot, later)
    later.resize(1200, 900)
    qtbot.waitUntil(lambda: abs(later.panels_dock.height() - 900 * share) <= 2)
    drag_border(later, -400)
    qtbot.waitUntil(lambda: later.panels_dock.height() > 900 * 0.5)
    later.resize(1200, 1000)
    qtbot.waitUntil(lambda: abs(later.panels_dock.height() - 1000 * 0.5) <= 2)


def test_compact_lanes_give_the_tables_what_they_free_and_take_it_back(
    make_window: Callable[..., MainWindow], trace: Trace, qtbot: QtBot
) -> None:
    window = make_window((1600, 900))
    window.document.show(trace)
    wait_until_complete(qtbot, window)
    before = window.panels_dock.height()
    qtbot.keyClick(window, Qt.Key.Key_C)
    qtbot.waitUntil(lambda: window.panels_dock.height() > before)
    qtbot.keyClick(window, Qt.Key.Key_C)
    qtbot.waitUntil(lambda: window.panels_dock.height() == before)


def test_a_double_click_on_a_tab_fills_the_window_and_another_gives_the_room_back(
    window: MainWindow, qtbot: QtBot
) -> None:
    wait_until_laid_out(qtbot, window.panels)
    bar, low = window.panels.tabs.tabBar(), window.panels.height()
    where = bar.tabRect(window.panels.tabs.currentIndex()).center()
    window.timeline.setFocus()
    qtbot.mouseDClick(bar, Qt.MouseButton.LeftButton, pos=where)
    focus, panel = QApplication.focusWidget(), window.panels.tabs.currentWidget()
    assert focus is not None
    assert panel.isAncestorOf(focus)
    qtbot.waitUntil(lambda: window.panels.height() > 2 * low)
    assert not window.timeline.isVisible()
    assert not window.diagnosis.isVisible()
    assert window.panels.width() == window.width()
    qtbot.mouseDClick(bar, Qt.MouseButton.LeftButton, pos=where)
    qtbot.waitUntil(lambda: window.panels.height() < 2 * low)
    assert window.timeline.isVisible()
    assert window.diagnosis.isVisible()


def test_in_a_wide_window_names_end_where_nobody_reads_on_and_durations_have_a_histogram(
    make_window: Callable[..., MainWindow], trace: Trace, qtbot: QtBot
) -> None:
    panel = kernels_of(make_window((3000, 1400)), trace, qtbot)
    table = panel.by_name
    last = len(table.rows.columns) - 1
    assert table.columnWidth(0) == MAX_NAME
    assert not table.isColumnHidden(last)
    assert sum(table.rows.value(0, "counts")) == table.rows.value(0, "calls")
    frame = table.rows.frame.copy()
    frame.loc[0, "short_name"] = (
        "a name of so many words that all the room beside the numbers is not enough for it"
    )
    panel.window().resize(1500, 900)
    table.set_frame(frame)
    qtbot.waitUntil(lambda: table.isColumnHidden(last))
