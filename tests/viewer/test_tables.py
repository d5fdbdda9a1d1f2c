"""Tables show every value whole: names give way, alike sizes are told apart, bars end where the largest value does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QFontMetricsF
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from parsers.model.units import percent
from viewer.appearance import theme
from viewer.panels.tables.table_model import Column, Show
from viewer.panels.tables.table_view import (
    BAR_WIDTH,
    CELL_PADDING,
    TIGHT_KIND_WIDTH,
    TIGHT_NAME_WIDTH,
    TableView,
)
from viewer.tables.sizes import Sizes

COLUMNS = (
    Column("name", "Name"),
    Column("family", "Family", Show.FAMILY),
    Column("count", "Calls", Show.COUNT),
    Column("size", "Size", Show.SIZE),
    Column("ratio", "Of median", Show.SHARE),
    Column("at", "At", Show.FIGURE),
)


def frame(count: int, *, family: str = "gemm") -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": ["a kernel with a rather long name, of which the middle is cut before anything else"] * 3,
            "family": [family] * 3,
            "count": [1, 2, count],
            "size": [33_583_104, 33_591_296, 227_000_000],
            "ratio": [0.5, 1.0, 1.72],
            "at": ["1,000.5", "2.5", "3"],
        }
    )


@pytest.fixture
def table(qtbot: QtBot, qapp: object) -> TableView:
    theme.apply(qapp, "dark")  # type: ignore[arg-type]
    made = TableView(COLUMNS, "Things")
    qtbot.addWidget(made)
    made.resize(760, 300)
    made.show()
    made.raise_()
    return made


def cell(table: TableView, row: int, column: int) -> str:
    return str(table.model().index(row, column).data())


@pytest.mark.parametrize("count", [7, 166_500, 166_500_123_456])
def test_a_count_is_never_cut_while_a_name_can_give_way(table: TableView, count: int) -> None:
    table.set_frame(frame(count, family="embedding, gather, scatter"))
    figures = QFontMetricsF(theme.font(tabular=True))
    for column in (2, 3, 5):
        for row in range(3):
            needed = figures.horizontalAdvance(cell(table, row, column)) + 2 * CELL_PADDING
            assert table.columnWidth(column) >= needed, cell(table, row, column)
    assert table.columnWidth(1) >= TIGHT_KIND_WIDTH
    table.resize(1200, 300)
    words = QFontMetricsF(theme.font())
    assert table.columnWidth(1) >= words.horizontalAdvance("embedding, gather, scatter") + 2 * CELL_PADDING


@pytest.mark.parametrize(("room", "whole"), [(820, True), (560, False)])
def test_a_kind_and_a_single_word_are_whole_as_long_as_a_name_has_room_to_give(
    qtbot: QtBot, qapp: object, room: int, whole: bool
) -> None:
    theme.apply(qapp, "dark")  # type: ignore[arg-type]
    table = TableView((*COLUMNS[:3], Column("step", "Step"), *COLUMNS[4:]), "Things")
    qtbot.addWidget(table)
    table.set_frame(frame(7, family="communication").assign(step="ProfilerStep#1"))
    table.resize(room, 300)
    table.show()
    words = QFontMetricsF(theme.font())
    for column, text in ((1, "communication"), (3, "ProfilerStep#1")):
        needed = words.horizontalAdvance(text) + 2 * CELL_PADDING
        assert (table.columnWidth(column) >= needed) is whole, text
    assert table.columnWidth(0) >= TIGHT_NAME_WIDTH if whole else table.columnWidth(0) < TIGHT_NAME_WIDTH
    assert table.horizontalHeader().length() <= table.viewport().width()


@pytest.mark.parametrize("room", [1200, 640])
def test_a_share_is_written_whole_beside_its_bar(table: TableView, room: int) -> None:
    table.set_frame(frame(7).assign(ratio=[0.00001, 0.0004, 1.0]))
    table.resize(room, 300)
    least = QFontMetricsF(theme.font(tabular=True)).horizontalAdvance(percent(0.00001))
    assert cell(table, 0, 4) == "<0.01 %"
    assert table.room_of_text(4) >= least
    rect = table.visualRect(table.model().index(0, 4))
    line = table.viewport().grab(rect).toImage()
    strip = [
        x for x in range(rect.width()) if line.pixelColor(x, rect.height() // 2) == theme.current().strip
    ]
    assert strip[-1] + least + 8 <= rect.width()


def test_a_width_that_the_user_chose_stays(table: TableView) -> None:
    table.set_frame(frame(7))
    table.setColumnWidth(2, 51)
    table.set_frame(frame(166_500_123_456))
    assert table.columnWidth(2) == 51


def test_sizes_that_would_read_the_same_are_told_apart(table: TableView) -> None:
    table.set_frame(frame(7))
    assert [cell(table, row, 3) for row in range(3)] == ["33.58 MB", "33.59 MB", "227 MB"]


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ([4.52e9, 1.31e9, 427e6, 0.0], ["4.52 GB", "1.31 GB", "0.427 GB", "0 GB"]),
        ([4.52e9, 427e6, 774e6, 33e6], ["4,520 MB", "427 MB", "774 MB", "33.0 MB"]),
        ([8, 728, 12], ["8 B", "728 B", "12 B"]),
        ([3e9, 2e9, 600e3, 400e3], ["3.00 GB", "2.00 GB", "0.001 GB", "<0.001 GB"]),
        ([float("nan"), 0.0], ["", "0 B"]),
        ([33_579_008, 33_570_816, 33_566_720, 8e3], ["33.579 MB", "33.571 MB", "33.567 MB", "0.008 MB"]),
        ([], []),
    ],
)
def test_the_sizes_of_a_table_are_in_one_unit(sizes: list[float], told: list[str]) -> None:
    written = Sizes(sizes).written
    assert [written(each) if each == each else "" for each in sizes] == told


def test_rates_of_a_table_are_in_one_unit_and_may_read_the_same() -> None:
    rates = [2.741e12, 2.742e12, 223e9, 224e9, 9e9]
    assert [Sizes(rates, "/s").written(each) for each in rates] == [
        "2,741 GB/s",
        "2,742 GB/s",
        "223 GB/s",
        "224 GB/s",
        "9.00 GB/s",
    ]


def test_a_share_above_one_has_a_longer_bar_than_one(table: TableView) -> None:
    table.resize(1200, 300)
    table.set_frame(frame(7))
    lengths = []
    for row in range(3):
        rect = table.visualRect(table.model().index(row, 4))
        picture = table.viewport().grab(rect).toImage()
        line = [picture.pixelColor(x, rect.height() // 2) for x in range(12, 4 + BAR_WIDTH)]
        lengths.append(sum(color == theme.current().family("gemm") for color in line))
    assert 0 < lengths[0] < lengths[1] < lengths[2]


def test_everything_that_is_a_number_is_at_the_right(table: TableView) -> None:
    table.set_frame(frame(7))
    sides = [
        table.model().index(0, column).data(Qt.ItemDataRole.TextAlignmentRole) & Qt.AlignmentFlag.AlignRight
        for column in range(6)
    ]
    assert [bool(side) for side in np.array(sides)] == [False, False, True, True, True, True]


def test_the_whole_row_under_the_mouse_is_tinted_and_no_other(table: TableView, qtbot: QtBot) -> None:
    table.set_frame(frame(7))
    QTest.mouseMove(table.viewport(), QPoint(600, 280))

    def ground(row: int, column: int) -> str:
        place = table.visualRect(table.model().index(row, column))
        return table.viewport().grab(place).toImage().pixelColor(2, 2).name()

    plain = {ground(row, column) for row in range(3) for column in range(len(COLUMNS))}
    assert len(plain) == 1
    QTest.mouseMove(table.viewport(), table.visualRect(table.model().index(1, 0)).center())
    assert {ground(1, column) for column in range(len(COLUMNS))}.isdisjoint(plain)
    assert {ground(row, column) for row in (0, 2) for column in range(len(COLUMNS))} == plain


def test_a_bound_is_of_how_long_a_thing_took_not_of_when_it_began(qtbot: QtBot) -> None:
    made = TableView(
        (Column("0:start_ns", "Start", Show.TIME), Column("1:took_ns", "Took", Show.TIME)), "Times"
    )
    qtbot.addWidget(made)
    made.set_frame(pd.DataFrame({"0:start_ns": [9e6, 1e5, 9e6], "1:took_ns": [2e5, 3e6, 2e6]}))
    made.set_filter(">1ms")
    assert made.rows.shown("1:took_ns").tolist() == [3e6, 2e6]


@pytest.mark.parametrize("is_filtered", [True, False])
def test_typing_narrows_a_table_down_where_there_is_a_filter_and_jumps_to_a_name_elsewhere(
    table: TableView, is_filtered: bool
) -> None:
    table.set_frame(frame(3).assign(name=["addmm", "softmax", "tanh"]))
    table.is_filtered = is_filtered
    typed: list[str] = []
    table.typed.connect(typed.append)
    table.selectRow(0)
    QTest.keyClick(table, "t")
    assert typed == (["t"] if is_filtered else [])
    assert table.currentIndex().row() == (0 if is_filtered else 2)
    QTest.keyClick(table, Qt.Key.Key_Backspace)
    assert len(typed) == is_filtered
