"""The heading of a rank stays at the top while its lanes scroll below it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, QPointF, QRect
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from tests.viewer.timeline.mouse import LEFT, NONE
from tests.viewer.timeline.test_layout import several_ranks
from viewer.appearance import theme
from viewer.timeline.geometry.arrangement import GroupState
from viewer.timeline.geometry.layout import Placed
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.timeline.view import TimelineView


@pytest.fixture
def ranks(qtbot: QtBot) -> Iterator[TimelineView]:
    """Three ranks with all their lanes, in a window that is too low for them."""
    timeline = TimelineView()
    qtbot.addWidget(timeline)
    timeline.set_animated(False)
    timeline.resize(900, 320)
    timeline.show()
    qtbot.waitExposed(timeline)
    timeline.set_trace(several_ranks(3, threads=3))
    timeline.lane_commands.set_all_groups(GroupState.FULL)
    assert timeline.canvas.most_offset > 200
    yield timeline
    timeline.close()


def headings(view: TimelineView) -> list[Placed]:
    return [each for each in view.state.layout.scrolled if each.track.is_heading]


def kept(view: TimelineView) -> tuple[str, int] | None:
    found = view.canvas.kept_heading()
    return None if found is None else (found.placed.track.title, found.top)


def test_nothing_is_kept_while_the_heading_itself_is_there(ranks: TimelineView) -> None:
    assert kept(ranks) is None
    ranks.canvas.scroll_to(headings(ranks)[1].top)
    assert kept(ranks) is None


def test_the_heading_of_the_topmost_rank_stays(ranks: TimelineView) -> None:
    first, second, _ = headings(ranks)
    ranks.canvas.scroll_to(first.bottom + 10)
    assert kept(ranks) == ("Rank 0", 0)
    ranks.canvas.scroll_to(second.bottom + 10)
    assert kept(ranks) == ("Rank 1", 0)


def test_the_next_heading_pushes_it_out(ranks: TimelineView) -> None:
    first, second, _ = headings(ranks)
    ranks.canvas.scroll_to(second.top - 5)
    assert kept(ranks) == ("Rank 0", 5 - first.height)


def test_one_is_kept_below_pinned_lanes(ranks: TimelineView) -> None:
    lane = next(each for each in ranks.state.layout.scrolled if not each.track.is_heading)
    ranks.state.arrangement.pinned = [lane.track.key]
    ranks.state.relayout()
    ranks.canvas.scroll_to(headings(ranks)[0].bottom + 10)
    assert kept(ranks) == ("Rank 0", ranks.state.layout.pinned_height)


def test_a_rank_that_is_one_strip_keeps_no_heading(ranks: TimelineView) -> None:
    ranks.resize(900, 200)
    ranks.lane_commands.set_all_groups(GroupState.STRIP)
    ranks.canvas.scroll_to(5)
    assert kept(ranks) is None


def test_a_click_on_the_kept_heading_folds_its_rank(ranks: TimelineView) -> None:
    ranks.canvas.scroll_to(headings(ranks)[0].bottom + 10)
    hit = ranks.canvas.hit(QPointF(40, 5))
    assert hit is not None
    assert hit.placed.track.title == "Rank 0"
    QTest.mouseClick(ranks.canvas, LEFT, NONE, QPoint(40, 5))
    assert headings(ranks)[0].state is not GroupState.FULL


def test_no_lane_is_seen_nor_clicked_under_the_kept_heading(ranks: TimelineView) -> None:
    first = headings(ranks)[0]
    ranks.canvas.scroll_to(first.bottom + 10)
    hit = ranks.canvas.hit(QPointF(NAMES_WIDTH + 40, 5))
    assert hit is not None
    assert hit.placed.track.is_heading
    seen = ranks.canvas.grab().toImage()
    band = {seen.pixelColor(x, 5).name() for x in range(NAMES_WIDTH, seen.width(), 3)}
    assert band == {theme.current().strip.name()}


def test_the_name_of_a_lane_that_is_half_under_it_stays_below_it(ranks: TimelineView) -> None:
    lane = max(
        (each for each in ranks.state.layout.scrolled if each.track.lane >= 0), key=lambda each: each.height
    )
    pictures = []
    for hidden in (0, 10):
        ranks.canvas.scroll_to(lane.top - headings(ranks)[0].height + hidden)
        pictures.append(ranks.canvas.grab(QRect(24, headings(ranks)[0].height, 120, 22)).toImage())
    assert pictures[0] == pictures[1]


def test_a_lane_that_is_revealed_is_not_covered_by_it(ranks: TimelineView) -> None:
    lane = [each for each in ranks.state.layout.scrolled if each.track.lane >= 0][1]
    ranks.canvas.scroll_to(ranks.canvas.most_offset)
    assert ranks.canvas.reveal_lane(lane.track.lane)
    found = ranks.canvas.kept_heading()
    assert found is not None
    assert ranks.canvas.top_of(lane) >= found.top + found.placed.height


def test_the_names_show_it(ranks: TimelineView) -> None:
    ranks.canvas.scroll_to(headings(ranks)[0].bottom + 10)
    strip = ranks.canvas.grab().toImage()
    ranks.canvas.scroll_to(headings(ranks)[0].top)
    itself = ranks.canvas.grab().toImage()
    height = headings(ranks)[0].height
    size = round(strip.devicePixelRatio())
    place = (0, 0, (NAMES_WIDTH - 4) * size, (height - 2) * size)
    assert strip.copy(*place) == itself.copy(*place)
