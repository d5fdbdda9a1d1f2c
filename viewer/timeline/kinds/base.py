"""What a kind of lane or of counter decides about its place, looks and words, and how the kinds are found; no Qt.

The colours are those of the theme that is handed over, so that lanes are laid out where no window is.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from functools import cache
from typing import ClassVar, TypeVar

import numpy as np

from parsers.model import Counter, Lane, LaneKind, Trace
from parsers.model.catalogs import load_all
from parsers.model.late import dataclass
from parsers.model.units import quantity
from rules.analysis.idle.causes import Cause
from viewer.appearance.lane_colors import C, LaneColors
from viewer.appearance.naming import plain_name

GREY = "#8b94a7"


class Place(IntEnum):
    """Where in its group a track belongs; the order on the screen."""

    REGIONS = 0
    WORKING_THREAD = 1  # launches GPU work
    GPU = 2
    COUNTER = 3
    QUIET_THREAD = 4
    ASIDE = 5  # the profiler's own work, samples, synchronisation markers


@dataclass(frozen=True, slots=True)
class StyledRow:
    """Where a colour is wanted: the lane, its number among lanes like it, and the depth of the row."""

    lane: Lane
    number: int
    depth: int


@dataclass(frozen=True, slots=True)
class Wish:
    """How a lane that nobody resized is drawn: its least height, the height of a row (pixels), and how many rows."""

    height: int
    row: int
    rows: int


@dataclass(frozen=True, slots=True)
class Nested:
    """How nested calls of a lane are spoken of: ``one`` of them as caller, ``all`` in a flame graph.

    The lowest ``order`` is offered first; ``every`` one that is open around an event is told, else the innermost.
    """

    one: str
    all: str
    order: int
    every: bool = False


class LaneStyle:
    """The lanes of one ``kind``. Events of one ``key`` have one colour; a lane has at most 250 keys."""

    kind: ClassVar[LaneKind]
    order: ClassVar[int]  # among lanes of one thread or one device
    title: ClassVar[str] = ""  # instead of the lane's own name, which is the second line then
    subtitle: ClassVar[str] = ""  # the second line below the lane's own name
    endings: ClassVar[tuple[str, ...]] = ()  # of a recorded lane's name, that only repeat the kind
    category: ClassVar[str] = "other"
    hue: ClassVar[str] = GREY  # where colours tell the kind of lane
    heading: ClassVar[str] = ""  # in the legend; none: its colours explain themselves
    nested: ClassVar[Nested | None] = None
    is_drawn: ClassVar[bool] = True
    starts_small: ClassVar[bool] = False
    stands_aside: ClassVar[bool] = False  # explains little by itself: after everything else
    stays_when_brief: ClassVar[bool] = False
    main_thread: ClassVar[int] = 0  # 1, 2: how surely a thread with such a lane is one that leads
    wish: ClassVar[Wish] = Wish(26, 16, 4)
    beside: ClassVar[Wish | None] = None  # further lanes of a device, where they wish for less
    brief: ClassVar[Wish] = Wish(28, 16, 2)  # while its group is brief, so that all ranks fit on a screen
    brief_beside: ClassVar[Wish | None] = None
    highest_row: ClassVar[int] = 26

    def key(self, name: str) -> str:
        return ""

    def blamed(self, key: str, cause: Cause) -> str:
        """The colour key of events for which the GPU waits longest, for this reason."""
        return key

    def color(self, key: str, row: StyledRow, theme: LaneColors[C]) -> C:
        return theme.plain(self.hue)

    def explained(self, key: str) -> str:
        """What the legend says of a colour key; empty for what is explained elsewhere."""
        return key

    def shown(self, name: str) -> str:
        """The name as it is written into a box and on its card."""
        return plain_name(name)

    def told(self, name: str) -> str:
        """What else a card says about events of this name; empty for nothing."""
        return ""

    def titles(self, lane: Lane, trace: Trace) -> tuple[str, str]:
        """What the lane is called, and its second line."""
        name = self.bare_name(lane)
        if not self.title:
            return name or "Other", self.subtitle
        who = f"stream {lane.stream}" if lane.stream is not None else name
        title = self.title
        return title, "" if title.casefold() in (who.casefold(), lane.name.casefold()) else who

    def bare_name(self, lane: Lane) -> str:
        """The recorded name without the ending that says which kind of lane it is."""
        return next(
            (
                lane.name.removesuffix(f" {ending}")
                for ending in self.endings
                if lane.name.endswith(f" {ending}")
            ),
            lane.name,
        )

    def place(self, lane: Lane, works: bool, leads: bool) -> Place:
        """Where the lane belongs; its thread ``works``: launches GPU work, and ``leads``: is the group's first one."""
        if self.stands_aside:
            return Place.ASIDE
        if lane.device is not None:
            return Place.GPU
        return Place.WORKING_THREAD if works else Place.QUIET_THREAD

    def wished(self, levels: int, *, brief: bool, first: bool) -> Wish:
        """How a lane with so many levels wants to be drawn; ``first``: it is the one that shows the device's gaps."""
        beside = None if first else self.brief_beside if brief else self.beside
        return beside or (self.brief if brief else self.wish)


class CounterStyle:
    """The counters of some ``units``: up to where they are drawn, how their values are written, in which colour."""

    units: ClassVar[frozenset[str]] = frozenset()
    full: ClassVar[float | None] = None  # the top of what is drawn, where no value is larger

    def bounds(self, counter: Counter) -> tuple[float, float]:
        """The range it is drawn in: from zero to ``full``, else to its largest value."""
        finite = counter.value[np.isfinite(counter.value)]
        if not len(finite):
            return 0.0, 1.0
        low, high = min(float(finite.min()), 0.0), float(finite.max())
        if self.full is not None and high <= self.full:
            high = self.full
        return (low, high) if high > low else (low, low + 1.0)

    def written(self, value: float, unit: str) -> str:
        """A finite value with its unit."""
        return quantity(value, unit)

    def color(self, number: int, theme: LaneColors[C]) -> C:
        return theme.named(number)

    def place(self, counter: Counter) -> Place:
        """Beside the GPU's lanes; at the end of its group where it never changes."""
        flat = not len(counter.value) or bool(np.all(counter.value == counter.value[0]))
        return Place.ASIDE if flat else Place.COUNTER


L = TypeVar("L", bound=type[LaneStyle])
K = TypeVar("K", bound=type[CounterStyle])
_LANES: dict[LaneKind, LaneStyle] = {}
_COUNTERS: dict[str, CounterStyle] = {}
_PLAIN = CounterStyle()


def lane_style(cls: L) -> L:
    """Register how lanes of one kind look."""
    _LANES[cls.kind] = cls()
    return cls


def counter_style(cls: K) -> K:
    """Register how counters of some units look."""
    _COUNTERS.update(dict.fromkeys(cls.units, cls()))
    return cls


@cache
def _discover() -> None:
    load_all(str(__package__))


def style_of(kind: LaneKind) -> LaneStyle:
    """How lanes of this kind look; like those of OTHER where nobody described it."""
    _discover()
    return _LANES.get(kind) or _LANES[LaneKind.OTHER]


def lane_words(lane: Lane, trace: Trace) -> str:
    """A lane as the timeline calls it, in one line."""
    return ", ".join(filter(None, style_of(lane.kind).titles(lane, trace)))


def lane_styles() -> list[LaneStyle]:
    """Every kind of lane, in the order of the lanes of a thread and then of a device."""
    _discover()
    return sorted(_LANES.values(), key=lambda style: style.order)


def nested_styles() -> list[tuple[LaneStyle, Nested]]:
    """The kinds whose lanes hold calls inside calls, the one that is offered first leading."""
    found = [(style, style.nested) for style in lane_styles() if style.nested is not None]
    return sorted(found, key=lambda each: each[1].order)


def counter_style_of(unit: str) -> CounterStyle:
    """How counters of this unit look."""
    _discover()
    return _COUNTERS.get(unit, _PLAIN)


def shown_value(value: float | None, unit: str) -> str:
    """A counter's value with its unit; a dash where it is not known."""
    return "–" if value is None or not np.isfinite(value) else counter_style_of(unit).written(value, unit)


def stable_number(text: str) -> int:
    """A number that is the same for the same text, in every run."""
    return zlib.crc32(text.encode("utf-8", "replace"))
