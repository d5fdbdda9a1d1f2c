"""A kind of lane or of counter is described in one place, and everything that shows it asks there."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from parsers.model import Counter, EventKind, Lane, LaneKind
from parsers.model.builder import TraceBuilder
from viewer.appearance import theme
from viewer.statistics.event_facts import facts_of_event
from viewer.timeline.geometry.arrangement import Arrangement
from viewer.timeline.geometry.drawing_index import build_index
from viewer.timeline.geometry.layout import lay_out
from viewer.timeline.geometry.tracks import groups
from viewer.timeline.kinds import base
from viewer.timeline.kinds.base import CounterStyle, LaneStyle, Nested, Place, Wish, lane_styles
from viewer.timeline.scene import EventColors


class BalletStyle(LaneStyle):
    """A kind that no module of the program knows."""

    kind: ClassVar[LaneKind] = LaneKind.SAMPLES
    order: ClassVar[int] = 5
    title: ClassVar[str] = "Ballet"
    endings: ClassVar[tuple[str, ...]] = ("dances",)
    hue: ClassVar[str] = "#123456"
    nested: ClassVar[Nested | None] = Nested("Dance", "Dances", 9)
    wish: ClassVar[Wish] = Wish(91, 17, 3)

    def shown(self, name: str) -> str:
        return name.upper()


def test_every_kind_of_lane_is_described_and_has_an_order_of_its_own() -> None:
    assert {style.kind for style in lane_styles()} == set(LaneKind)
    assert len({style.order for style in lane_styles()}) == len(LaneKind)


def test_a_new_kind_of_lane_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    lane_styles()
    monkeypatch.setitem(base._LANES, LaneKind.SAMPLES, BalletStyle())
    builder = TraceBuilder()
    for kind, name in ((LaneKind.CPU_THREAD, "main"), (LaneKind.SAMPLES, "main dances")):
        lane = builder.lane(Lane(kind, name, process=1, thread=1))
        names = builder.string(f"{kind.name} outer"), builder.string(f"{kind.name} inner")
        builder.add(
            np.array([0, 10]),
            np.array([100, 90]),
            np.array(names),
            lane,
            np.full(2, EventKind.SAMPLE, np.uint8),
        )
    trace = builder.build()
    (group,) = groups(trace)
    first, second = group.tracks
    assert (first.title, first.subtitle, first.place) == ("Ballet", "main", Place.WORKING_THREAD)
    assert second.kind is LaneKind.CPU_THREAD
    placed = lay_out([group], Arrangement()).scrolled[0]
    assert placed.height == 91
    colors = EventColors(trace, build_index(trace), "category")
    assert colors.palette(first.lane, 0)[0].name() == "#123456"
    operator = next(event for event in range(len(trace.events)) if trace.name(event) == "CPU_THREAD inner")
    assert "SAMPLES inner" in [fact.text for fact in facts_of_event(trace, operator) if fact.label == "Dance"]


def test_a_new_kind_of_counter_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class Degrees(CounterStyle):
        full: ClassVar[float | None] = 110.0

        def written(self, value: float, unit: str) -> str:
            return f"{value:.0f} degrees"

        def place(self, counter: Counter) -> Place:
            return Place.REGIONS

    lane_styles()
    monkeypatch.setitem(base._COUNTERS, "C", Degrees())
    builder = TraceBuilder()
    lane = builder.lane(Lane(LaneKind.CPU_THREAD, "main", process=1, thread=1))
    builder.add(np.array([0]), np.array([9]), builder.string("x"), lane, EventKind.CPU_OP)
    builder.counters.append(Counter("heat", "C", np.array([0, 5]), np.array([40.0, 41.0])))
    trace = builder.build()
    assert groups(trace)[0].tracks[0].place is Place.REGIONS
    assert base.counter_style_of("C").bounds(trace.counters[0]) == (0.0, 110.0)
    assert base.shown_value(41.0, "C") == "41 degrees"
    assert base.shown_value(float("nan"), "C") == "–"


def test_colours_that_no_theme_knows_are_the_same_in_all() -> None:
    assert theme.DARK.plain("#123456") == theme.LIGHT.plain("#123456")
