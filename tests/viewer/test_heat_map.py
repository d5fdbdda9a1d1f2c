"""The heat map of waiting: readable with few ranks and with many."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from viewer.panels.charts.heat_map import LETTERS, HeatMap

LINE = 14
RANKS = 64


def map_of(qtbot: QtBot, ranks: int, late: int = 0) -> HeatMap:
    shown = HeatMap("Waiting")
    qtbot.addWidget(shown)
    shown.resize(400, 160)
    values = np.full((3, ranks), 1_000_000, np.int64)
    values[:, late] = 0
    shown.show_values(["1", "2", "3"], [f"rank {number}" for number in range(ranks)], values)
    return shown


@pytest.mark.parametrize("ranks", [2, 8, 16, 64, 256])
def test_names_of_ranks_do_not_overlap(qtbot: QtBot, ranks: int) -> None:
    shown = map_of(qtbot, ranks)
    assert shown.rows_a_name(LINE) * shown.cell(0, 0).height() >= LETTERS * LINE


def test_every_rank_is_named_where_there_is_room(qtbot: QtBot) -> None:
    assert map_of(qtbot, 4).rows_a_name(LINE) == 1


def test_the_cells_of_many_ranks_have_the_colours_of_their_values(qtbot: QtBot) -> None:
    shown = map_of(qtbot, RANKS, late=40)
    picture = shown.grab().toImage()

    def color(row: int) -> QColor:
        return picture.pixelColor(shown.cell(1, row).center().toPoint() * picture.devicePixelRatio())

    most = {color(row).name() for row in range(RANKS) if abs(row - 40) > 1}
    assert len(most) == 1
    assert color(40).name() not in most
