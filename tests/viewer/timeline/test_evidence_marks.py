"""What is marked over the lanes is seen, and leaves what is written there readable."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QRect, QRectF
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from rules.findings.base import Evidence
from tests.viewer.timeline.mouse import MS
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.timeline.overlays import free_place
from viewer.timeline.selection import Area
from viewer.timeline.view import TimelineView


def picture(view: TimelineView, part: QRect) -> QImage:
    return view.canvas.grab(part.translated(NAMES_WIDTH, 0)).toImage()


def test_the_mark_of_a_gap_goes_round_the_label_in_it(view: TimelineView) -> None:
    view.show_interval(9.5 * MS, 17 * MS)
    view.canvas.grab()
    (label,) = (box.toAlignedRect() for box in view.canvas._painter.label_boxes if box.width() > 60)
    lane = next(each.placed.track.lane for each in view.canvas.shown() if each.placed.track.is_gpu_lane)
    plain = picture(view, label)
    middle = view.state.scale.time(label.center().x())
    view.highlight([Evidence(lane, round(9.8 * MS), round(middle), "prepare")])
    assert picture(view, label) == plain
    beside = QRect(label.left(), label.bottom() + 1, label.width(), 8)
    marked = picture(view, beside)
    view.highlight([])
    assert picture(view, beside) != marked


def test_a_selected_area_leaves_the_labels_of_gaps_readable(view: TimelineView) -> None:
    view.show_interval(9.5 * MS, 17 * MS)
    view.canvas.grab()
    (label,) = (box.toAlignedRect() for box in view.canvas._painter.label_boxes if box.width() > 60)
    lane = next(each.placed.track.lane for each in view.canvas.shown() if each.placed.track.is_gpu_lane)
    plain = picture(view, label)
    middle = view.state.scale.time(label.center().x())
    view.state.select_area(Area(round(9.8 * MS), round(middle), (lane,)))
    assert picture(view, label) == plain


@pytest.mark.parametrize(
    ("area", "labels", "top"),
    [
        (QRectF(0, 100, 200, 40), [], 145),  # below
        (QRectF(0, 250, 200, 40), [], 221),  # no room below: above
        (QRectF(0, 100, 200, 40), [QRectF(50, 140, 40, 20)], 71),  # a label below
        (QRectF(0, 4, 200, 292), [QRectF(50, 5, 40, 20)], 267),  # inside, at the end that is free
        (QRectF(0, -50, 200, 500), [], 5),  # the area fills the view
    ],
)
def test_the_label_of_an_area_keeps_off_other_labels(area: QRectF, labels: list[QRectF], top: float) -> None:
    assert free_place(QRectF(40, 0, 100, 24), area, 300, labels) == QRectF(40, top, 100, 24)


def test_the_lanes_of_a_device_are_scrolled_into_view(view: TimelineView, qtbot: QtBot) -> None:
    view.resize(1000, 190)
    qtbot.waitUntil(lambda: view.canvas.most_offset > 0)
    view.canvas.scroll_to(0)
    assert not any(each.placed.track.first_of_device for each in view.canvas.shown())
    before = view.visible_interval
    view.reveal_device(0)
    assert any(each.placed.track.first_of_device for each in view.canvas.shown())
    assert view.visible_interval == before
    view.reveal_device(7)
    assert view.visible_interval == before
