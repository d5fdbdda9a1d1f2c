"""What charts painted by hand share: their room, the lines across it, and that they are empty without values."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from pytestqt.qtbot import QtBot

from viewer.appearance.painted_chart import PaintedChart


class Levels(PaintedChart):
    margins = (40, 10, 20, 30)
    wanted = (200, 100)

    def __init__(self) -> None:
        super().__init__("Levels")
        self.levels: list[tuple[float, str]] = []

    def is_empty(self) -> bool:
        return not self.levels

    def draw(self, painter: QPainter) -> None:
        self.draw_levels(painter, self.levels)
        self.draw_ends(painter, "first", "last")


@pytest.fixture
def chart(qtbot: QtBot) -> Levels:
    made = Levels()
    qtbot.addWidget(made)
    made.resize(200, 100)
    return made


def painted(chart: Levels) -> QImage:
    """The chart on its own ground, as nothing else paints there."""
    image = QImage(chart.size(), QImage.Format.Format_RGB32)
    image.fill(QColor("#ff00ff"))
    chart.render(image, renderFlags=chart.RenderFlag.DrawChildren)
    return image


def drawn_rows(image: QImage, x: int) -> list[int]:
    ground = QColor("#ff00ff")
    return [y for y in range(image.height()) if image.pixelColor(x, y) != ground]


def test_the_room_lies_between_the_margins_and_is_never_empty(chart: Levels) -> None:
    assert chart.room == QRectF(40, 10, 140, 60)
    chart.resize(10, 10)
    assert (chart.room.width(), chart.room.height()) == (1, 1)


def test_parts_of_the_room_are_counted_from_its_left_and_from_its_foot(chart: Levels) -> None:
    assert chart.at(0, 0) == QPointF(40, 70)
    assert chart.at(0.5, 1) == QPointF(110, 10)


def test_a_chart_without_values_paints_nothing(chart: Levels) -> None:
    assert drawn_rows(painted(chart), 100) == []


def test_levels_are_lines_at_their_parts_of_the_height(chart: Levels) -> None:
    chart.levels = [(0.0, "0"), (0.5, "5")]
    rows = drawn_rows(painted(chart), 100)
    assert {40, 70} <= {y for row in rows for y in (row, row + 1)}
    assert all(abs(y - 40) <= 1 or abs(y - 70) <= 1 for y in rows if y < 72)


def test_the_texts_of_levels_end_before_the_room_begins(chart: Levels) -> None:
    chart.levels = [(0.5, "5")]
    image = painted(chart)
    written = [x for x in range(40) if any(1 < abs(y - 40) < 8 for y in drawn_rows(image, x))]
    assert written
    assert max(written) < 32


def test_a_low_chart_is_never_higher_than_it_wants_to_be(qtbot: QtBot) -> None:
    class Low(Levels):
        is_low = True

    policies = {kind: kind().sizePolicy().verticalPolicy() for kind in (Levels, Low)}
    assert policies[Levels] is policies[Levels].Expanding
    assert policies[Low] is policies[Low].Fixed
