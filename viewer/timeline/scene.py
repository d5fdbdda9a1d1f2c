"""What the timeline draws: a recording, its index, and what the analysis said about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtGui import QColor

from parsers.model import I64, U8, U32, Counter, LaneKind, Trace, derived
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from rules.analysis.idle.causes import Cause, IdleTable
from rules.terms import CulpritKind
from viewer.appearance import theme
from viewer.timeline.geometry.derived import Derived
from viewer.timeline.geometry.drawing_index import DrawingIndex
from viewer.timeline.geometry.gaps import Gaps, device_gaps
from viewer.timeline.geometry.raster import density_table
from viewer.timeline.geometry.row_index import Row, entry_at
from viewer.timeline.geometry.step_rows import StepRow, step_rows
from viewer.timeline.geometry.tracks import Track
from viewer.timeline.kinds.base import LaneStyle, StyledRow, stable_number, style_of
from viewer.timeline.memory.stack import MemoryStack, stacks_of

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis
    from rules.analysis.steps.steps import Step

COLOR_MODES = ("family", "category", "name", "stream", "duration")
MAX_KEYS = 250
NOT_SEEN = 255
DEEPEST_SHADE = 4
DURATION_COLORS = ("#5b6bb5", "#4a8fc0", "#44a9a6", "#62bb7a", "#a3c653", "#e0c340", "#f09a3e", "#e4572e")
DURATION_LABELS = (
    "below 1 us", "below 10 us", "below 100 us", "below 1 ms", "below 10 ms", "below 100 ms", "below 1 s", "longer",
)  # fmt: skip


def rgb(color: QColor) -> int:
    """A colour as 0xffRRGGBB."""
    return int(color.rgb()) | 0xFF000000


@dataclass(frozen=True, slots=True, eq=False)
class Shades:
    """The colours of one row: a density table over its classes, and the text colour of each class."""

    classes: int  # how many were known
    table: U32
    inks: tuple[QColor, ...]


@dataclass(slots=True, eq=False)
class _Classes:
    """For the lanes of one kind: the class of every string (``NOT_SEEN`` until needed), and the key of every class."""

    of_string: U8
    keys: dict[str, int] = field(default_factory=dict)


@dataclass(eq=False)
class EventColors:
    """Colours in one mode (one of ``COLOR_MODES``); made anew when the theme or the mode changes."""

    trace: Trace
    index: DrawingIndex
    mode: str = COLOR_MODES[0]
    blamed: Mapping[str, Cause] = field(default_factory=dict)  # names for which the GPU waits
    _classes: dict[LaneKind, _Classes] = field(default_factory=dict)
    _shades: dict[tuple[int, int], Shades] = field(default_factory=dict)

    def classes(self, lane: int, row: Row, event: I64) -> U8:
        if self.mode == "duration":
            taken = np.maximum(row.end[event] - row.start[event], 1)
            decade: U8 = np.clip(np.log10(taken).astype(np.int64) - 2, 0, 7).astype(np.uint8)
            return decade
        known = self._of_kind(self.trace.lanes[lane].kind)
        name = row.name.take(event)
        classes: U8 = known.of_string.take(name)
        if len(classes) and int(classes.max()) == NOT_SEEN:
            self._learn(
                known, self.trace.lanes[lane].kind, distinct_values(name[classes == NOT_SEEN]).tolist()
            )
            classes = known.of_string[name]
        return classes

    def shades(self, lane: int, depth: int) -> Shades:
        """The colours of one row of a lane, for the classes handed out so far."""
        depth = min(depth, DEEPEST_SHADE)
        found = self._shades.get((lane, depth))
        known = len(self._of_kind(self.trace.lanes[lane].kind).keys)
        if found is None or found.classes != known:
            palette = self.palette(lane, depth)
            ground = rgb(theme.current().window)
            table = density_table(np.array([rgb(color) for color in palette], np.uint32), ground)
            found = Shades(known, table, tuple(theme.text_on(color) for color in palette))
            self._shades[lane, depth] = found
        return found

    def palette(self, lane: int, depth: int) -> list[QColor]:
        """The colour of every class in one row of a lane."""
        each, now = self.trace.lanes[lane], theme.current()
        if self.mode == "duration":
            return [QColor(value) for value in DURATION_COLORS]
        if self.mode == "category":
            return [now.plain(style_of(each.kind).hue)]
        if self.mode == "stream":
            return [now.named(lane)]
        keys = self._of_kind(each.kind).keys
        if self.mode == "name":
            return [now.named(int(key)) for key in keys]
        row = StyledRow(each, self.index.numbers.get(lane, 0), depth)
        return [style_of(each.kind).color(key, row, now) for key in keys]

    def legend(self, kind: LaneKind) -> list[tuple[str, QColor]]:
        """The colour keys of all names that occur in lanes of a kind, with their colours."""
        lane = next((index for index, each in enumerate(self.trace.lanes) if each.kind is kind), None)
        if lane is None or self.mode != "family":
            return []
        known = self._of_kind(kind)
        names = self.index.names.get(kind, np.empty(0, np.int64))
        self._learn(known, kind, names[known.of_string[names] == NOT_SEEN].tolist())
        return list(zip(known.keys, self.palette(lane, 0), strict=True))

    def _of_kind(self, kind: LaneKind) -> _Classes:
        found = self._classes.get(kind)
        if found is None:
            by_name = self.mode in ("family", "name")
            column = np.full(max(len(self.trace.strings), 1), NOT_SEEN if by_name else 0, np.uint8)
            found = self._classes[kind] = _Classes(column, {} if by_name else {"": 0})
        return found

    def _learn(self, known: _Classes, kind: LaneKind, names: list[int]) -> None:
        style = style_of(kind)
        for name in names:
            text = self.trace.strings[name]
            key = str(stable_number(text) % 10) if self.mode == "name" else self._key(style, text)
            if key not in known.keys and len(known.keys) >= MAX_KEYS:
                key = next(iter(known.keys))
            known.of_string[name] = known.keys.setdefault(key, len(known.keys))

    def _key(self, style: LaneStyle, text: str) -> str:
        cause = self.blamed.get(text)
        return style.key(text) if cause is None else style.blamed(style.key(text), cause)

    def of_event(self, event: int) -> QColor:
        lane, depth = int(self.trace.events.lane[event]), int(self.trace.events.depth[event])
        style = style_of(self.trace.lanes[lane].kind)
        row = StyledRow(self.trace.lanes[lane], self.index.numbers.get(lane, 0), min(depth, DEEPEST_SHADE))
        return style.color(self._key(style, self.trace.name(event)), row, theme.current())


MIN_BLAMED = 0.03  # of the analysed time


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """What the timeline draws of an analysis: gaps by device, and steps by rank."""

    gaps: Mapping[int, Gaps] = field(default_factory=dict)
    step_rows: Mapping[int | None, StepRow] = field(default_factory=dict)
    stacks: Mapping[int, MemoryStack] = field(default_factory=dict)
    blamed: Mapping[str, Cause] = field(default_factory=dict)  # ranges by name


@derived
def joined(analysis: Analysis) -> Joined:
    """Takes a moment when there are many gaps, steps or allocations."""
    return Joined(
        device_gaps(analysis.idle), step_rows(analysis.steps), stacks_of(analysis), blamed_ranges(analysis)
    )


def blamed_ranges(analysis: Analysis) -> dict[str, Cause]:
    """The ranges for which a GPU waits longer than a part of the time that matters, by the reason that is longest."""
    idle = analysis.idle
    pairs, which = np.unique(
        np.stack([idle.culprit.astype(np.int64), idle.cause.astype(np.int64)], axis=1),
        axis=0,
        return_inverse=True,
    )
    spent = np.bincount(which.reshape(-1), idle.end - idle.start, len(pairs))
    least = MIN_BLAMED * analysis.window_ns * max(len(analysis.active_devices), 1)
    return {
        idle.culprits[culprit].name: Cause(cause)
        for (culprit, cause), ns in sorted(
            zip(pairs.tolist(), spent.tolist(), strict=True), key=itemgetter(1)
        )
        if ns >= least and idle.culprits[culprit].kind is CulpritKind.REGION
    }


def joining_size(analysis: Analysis) -> int:
    """How many rows ``joined`` goes through."""
    allocations = sum(len(each.allocations.start) for each in analysis.trace.memory)
    return len(analysis.idle) + len(analysis.steps) + allocations


@dataclass(eq=False)
class Scene:
    """One recording as the timeline sees it."""

    trace: Trace
    index: DrawingIndex
    analysis: Analysis | None = None
    idle: IdleTable | None = None
    gaps: Mapping[int, Gaps] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    step_rows: Mapping[int | None, StepRow] = field(default_factory=dict)
    color_mode: str = COLOR_MODES[0]
    derived: Mapping[str, Derived] = field(default_factory=dict)
    stacks: Mapping[int, MemoryStack] = field(default_factory=dict)  # by the counter that they add up to
    blames: bool = True  # whether ranges for which a GPU waits have the colour of the wait
    blamed: Mapping[str, Cause] = field(default_factory=dict)
    colors: EventColors = field(init=False)

    def __post_init__(self) -> None:
        self.forget_colors()

    def counter_of(self, track: Track) -> Counter | None:
        """The curve that a track shows: recorded, or worked out."""
        if track.counter >= 0:
            return self.trace.counters[track.counter]
        made = self.derived.get(track.key) if track.derived else None
        return made.curve if made is not None else None

    def set_analysis(self, analysis: Analysis | None) -> None:
        self.analysis = analysis
        self.idle = None if analysis is None else analysis.idle
        self.steps = () if analysis is None else analysis.steps
        drawn = Joined() if analysis is None else joined(analysis)
        self.gaps, self.step_rows = drawn.gaps, drawn.step_rows
        self.stacks = drawn.stacks
        if self.blames and self.blamed != drawn.blamed:
            self.blamed = drawn.blamed
            self.forget_colors()

    def set_color_mode(self, mode: str) -> None:
        """One of ``COLOR_MODES``; the first one for anything else."""
        self.color_mode = mode if mode in COLOR_MODES else COLOR_MODES[0]
        self.forget_colors()

    def forget_colors(self) -> None:
        """After a change of theme or mode."""
        self.colors = EventColors(self.trace, self.index, self.color_mode, self.blamed)

    def event_at(self, track: Track, depth: int, when: float, tolerance: float) -> int:
        """The event on a level of a lane at ``when``, else the nearest one within ``tolerance`` ns; -1 for none."""
        row, events = self.index.row(track, depth), self.index.events(track, depth)
        entry = -1 if row is None else entry_at(row, when, tolerance)
        if row is None or entry < 0:
            return -1
        return row.first + entry if events is None else int(events[entry])

    def level_of(self, track: Track, event: int) -> int:
        lane, depth = int(self.trace.events.lane[event]), int(self.trace.events.depth[event])
        return self.index.calls[track.lane].level_of(event) if lane == track.calls else depth

    def shown_name(self, lane: int, name: int) -> str:
        """What is written into a box of an event with this name."""
        return style_of(self.trace.lanes[lane].kind).shown(self.trace.strings[name])
