"""The names of roofs cover neither each other nor the dots where there is room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pyqtgraph import TextItem
from PySide6.QtCore import QPointF, QRectF, QSizeF
from pytestqt.qtbot import QtBot

from rules.kernels.roofline import Roof, Roofline
from viewer.panels.charts.roofline import NamePlaces, RooflinePlot

SHOWN, SIZE, NAME = QRectF(-1.0, 9.0, 5.0, 7.0), QSizeF(500.0, 350.0), QSizeF(40.0, 20.0)
LINE = [QPointF(4.0 - number * 0.1, 14.0) for number in range(50)]


def test_a_name_stands_at_the_first_wanted_place() -> None:
    assert NamePlaces(SHOWN, SIZE, []).take(LINE, NAME, (1.0, 0.5)) == LINE[0]


def test_a_name_gives_way_to_a_dot_and_to_another_name() -> None:
    places = NamePlaces(SHOWN, SIZE, [(3.9, 14.0)])
    first = places.take(LINE, NAME, (1.0, 0.5))
    assert first.x() < 3.9
    second = places.take(LINE, NAME, (1.0, 0.5))
    assert second.x() <= first.x() - NAME.width() / SIZE.width() * SHOWN.width() + 1e-9
    elsewhere = places.take([QPointF(each.x(), 12.0) for each in LINE], NAME, (1.0, 0.5))
    assert elsewhere.x() == LINE[0].x()


@given(st.lists(st.tuples(st.floats(-1, 4), st.floats(9, 16)), max_size=60), st.integers(1, 8))
def test_a_crowded_line_still_gets_its_names(dots: list[tuple[float, float]], count: int) -> None:
    places = NamePlaces(SHOWN, SIZE, dots)
    assert all(places.take(LINE, NAME, (1.0, 0.5)) in LINE for _ in range(count))


def test_a_plot_without_a_size_and_a_line_without_room_are_no_problem() -> None:
    assert NamePlaces(QRectF(), QSizeF(), [(0.0, 0.0)]).take([], NAME, (0.0, 0.0)) == QPointF()


def test_roofs_without_a_dot_below_them_are_seen_with_their_whole_names(qtbot: QtBot) -> None:
    plot = RooflinePlot()
    plot.resize(420, 260)
    qtbot.addWidget(plot)
    plot.show()
    qtbot.waitExposed(plot)
    roofs = (Roof("DRAM", 3e12, True, True), Roof("FP32", 6e13, False, True), Roof("FP64", 3e13, False, True))
    plot._show(["copy"], [Roofline((), roofs)])
    plot.grab()
    (left, right), (bottom, top) = plot.plot.viewRange()
    assert bottom < 13 < top - 0.5
    assert right - left < 6
    shown = plot.plot.getViewBox().sceneBoundingRect()
    names = [each for each in plot._roofs if isinstance(each, TextItem)]
    assert len(names) == len(roofs)
    for name in names:
        assert shown.contains(name.mapRectToScene(name.boundingRect()).adjusted(1, 1, -1, -1))
