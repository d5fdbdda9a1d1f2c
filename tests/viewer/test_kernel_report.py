"""A report of Nsight Compute: launches grouped, a baseline, metrics by section, columns to choose, occupancy curves."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QFontMetrics
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

import resources
from parsers.model import KernelProfile
from viewer.appearance import theme
from viewer.panels.charts.bar_chart import shortest_whole
from viewer.panels.charts.memory_flow import MemoryDiagram
from viewer.panels.kernel.kernel_report import ROOM_FOR_ROOFLINE
from viewer.panels.kernel.occupancy_curves import OccupancyCurves
from viewer.panels.tables.table_view import TIGHT_NAME_WIDTH, TableView
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_laid_out, wait_until_ready


def test_launches_are_grouped_and_one_of_them_is_a_baseline(empty_window: MainWindow, qtbot: QtBot) -> None:
    empty_window.open([resources.path("samples/kernels.raw.csv.gz")])
    wait_until_ready(qtbot, empty_window)
    report, trace = empty_window.kernel_report, empty_window.document.trace
    assert report is not None
    assert trace is not None
    launches = len(trace.kernels)
    qtbot.mouseClick(report.grouped, Qt.MouseButton.LeftButton, pos=QPoint(8, report.grouped.height() // 2))
    frame = report.table.rows.frame
    assert frame is not None
    assert len(frame) < launches
    assert int(frame["launches"].sum()) == launches
    report.select(8)
    assert report.details.kernel is trace.kernels[8]
    qtbot.mouseClick(report.baseline, Qt.MouseButton.LeftButton, pos=QPoint(8, report.baseline.height() // 2))
    assert not report.pair.isVisible()
    other = report.table.visualRect(report.table.rows.index(0, 0)).center()
    qtbot.mouseClick(report.table.viewport(), Qt.MouseButton.LeftButton, pos=other)
    assert report.pair.isVisible()
    assert trace.kernels[8].name.split("(")[0] in report.pair.sides.headings[0].text()
    qtbot.mouseClick(report.baseline, Qt.MouseButton.LeftButton, pos=QPoint(8, report.baseline.height() // 2))
    assert not report.pair.isVisible()


def test_metrics_stand_by_section_with_what_they_are_called(empty_window: MainWindow, qtbot: QtBot) -> None:
    empty_window.open([resources.path("samples/kernels.raw.csv.gz")])
    wait_until_ready(qtbot, empty_window)
    report = empty_window.kernel_report
    assert report is not None
    table = report.details.metrics.table
    frame = table.rows.frame
    assert frame is not None
    of = frame.set_index("metric")
    duration = of.loc["gpu__time_duration.sum"]
    assert (duration["label"], duration["unit"]) == ("Duration", "ns")
    named = [section for section, label in zip(frame["section"], frame["label"], strict=True) if label]
    assert frame["section"].tolist()[: len(named)] == named == sorted(named)


def test_a_click_on_a_heading_chooses_columns(window: MainWindow, qtbot: QtBot) -> None:
    show_tab(window, qtbot, "Kernels")
    table = next(
        each for each in window.panels.tabs.currentWidget().findChildren(TableView) if each.isVisible()
    )
    header = table.horizontalHeader()
    column = next(i for i, each in enumerate(table.rows.columns) if each.title == "Calls")
    for hidden in (True, False):
        place = QPoint(10, 5)
        right_click = QContextMenuEvent(
            QContextMenuEvent.Reason.Mouse, place, header.viewport().mapToGlobal(place)
        )
        QApplication.sendEvent(header.viewport(), right_click)
        menu = next(each for each in table.findChildren(QMenu) if each.isVisible())
        action = next(each for each in menu.actions() if each.text() == "Calls")
        assert action.isChecked() is hidden
        qtbot.mouseClick(menu, Qt.MouseButton.LeftButton, pos=menu.actionGeometry(action).center())
        assert header.isSectionHidden(column) is hidden


def test_occupancy_is_drawn_for_other_sizes(qtbot: QtBot) -> None:
    occupied = {
        "launch__occupancy_per_block_size": ((32, 32.0), (64, 64.0), (1024, 32.0)),
        "launch__occupancy_per_register_count": ((0, 64.0), (128, 16.0)),
    }
    kernel = KernelProfile(
        "0",
        "k",
        (1, 1, 1),
        (64, 1, 1),
        0,
        (9, 0),
        None,
        None,
        None,
        "",
        {"launch__block_size": 64},
        instances=occupied,
    )
    curves = OccupancyCurves()
    qtbot.addWidget(curves)
    curves.show()
    curves.show_kernel(kernel)
    assert curves.curves["launch__occupancy_per_block_size"].now == (64.0, 64.0)
    assert curves.curves["launch__occupancy_per_register_count"].now is None
    assert not curves.curves["launch__occupancy_per_shared_mem_size"].isVisible()
    curves.show_kernel(replace(kernel, instances={}))
    assert "--section Occupancy" in curves.note.text()


@pytest.mark.parametrize(("width", "each"), [(900, 84), (520, 82), (460, 67), (440, 62)])
def test_the_levels_of_memory_get_narrower_before_the_last_one_is_cut_off(
    qtbot: QtBot, width: int, each: int
) -> None:
    diagram = MemoryDiagram()
    qtbot.addWidget(diagram)
    diagram.resize(width, 112)
    boxes = diagram.boxes(4)
    assert boxes[-1].right() <= width
    assert all(box.width() == each for box in boxes)
    assert all(right.left() - left.right() >= 60 for left, right in pairwise(boxes))


def test_a_label_loses_what_stands_in_brackets_before_it_is_cut() -> None:
    metrics = QFontMetrics(theme.font(12))
    label = "FMA (32-bit floating point, integers)"
    whole = metrics.horizontalAdvance(label)
    assert shortest_whole(label, metrics, whole) == label
    assert shortest_whole(label, metrics, whole - 1) == "FMA"
    assert shortest_whole("Theoretical", metrics, 30).endswith("…")


def test_in_a_smaller_window_the_chosen_launch_stays_in_sight_and_names_get_the_room_of_the_roofline(
    empty_window: MainWindow, qtbot: QtBot
) -> None:
    window = empty_window
    window.resize(1456, 1200)
    window.open([resources.path("samples/kernels.raw.csv.gz")])
    wait_until_ready(qtbot, window)
    report = window.kernel_report
    assert report is not None
    table = report.table
    row = table.rows.rowCount() - 1
    while table.visualRect(table.rows.index(row, 0)).bottom() >= table.viewport().height():
        row -= 1
    report.select(int(table.rows.frame["kernel"].iloc[table.rows.frame_row(row)]))
    window.resize(960, 600)
    wait_until_laid_out(qtbot, table)
    assert table.viewport().height() < (row + 1) * table.rowHeight(row)
    assert table.viewport().rect().contains(table.visualRect(table.rows.index(row, 0)).center())
    assert report.roofline is not None
    for width, shown in ((1440, True), (960, False), (1440, True)):
        window.resize(width, 700)
        qtbot.waitUntil(lambda shown=shown: report.roofline.isVisible() is shown)
        wait_until_laid_out(qtbot, report.table)
        assert (report.width() >= ROOM_FOR_ROOFLINE) is shown
        assert report.table.columnWidth(0) >= TIGHT_NAME_WIDTH
