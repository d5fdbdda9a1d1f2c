"""The colours of events: a class for each name, worked out when the name is first seen, and shades for each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np
from PySide6.QtGui import QColor

from parsers.model import I64, U8, U32, LaneKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late.dataclass import dataclass
from rules.analysis.idle.causes import Cause
from viewer.appearance import theme
from viewer.timeline.geometry.drawing_index import DrawingIndex
from viewer.timeline.geometry.raster import density_table
from viewer.timeline.geometry.row_index import Row
from viewer.timeline.kinds.base import LaneStyle, StyledRow, stable_number, style_of

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
        """The colour class of events of a row (offsets)."""
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
        """The colour of one event, as its lane has it."""
        lane, depth = int(self.trace.events.lane[event]), int(self.trace.events.depth[event])
        style = style_of(self.trace.lanes[lane].kind)
        row = StyledRow(self.trace.lanes[lane], self.index.numbers.get(lane, 0), min(depth, DEEPEST_SHADE))
        return style.color(self._key(style, self.trace.name(event)), row, theme.current())
