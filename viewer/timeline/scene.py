"""What the timeline draws: a recording, its index, what the analysis said about it, and the colours of its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from PySide6.QtGui import QColor

from parsers.model import Lane, LaneKind, Trace
from rules.analysis.analysis import Analysis
from rules.analysis.causes import Cause, IdleTable
from rules.analysis.steps import Step
from viewer import theme
from viewer.theme import Theme
from viewer.timeline.geometry.drawing_index import DrawingIndex
from viewer.timeline.geometry.gaps import Gaps, device_gaps
from viewer.timeline.geometry.raster import density_table
from viewer.timeline.geometry.row_index import Row
from viewer.timeline.kinds.base import Place, stable_number, style_of

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

COLOR_MODES = ("family", "category", "name", "stream", "duration")
CULPRIT_SHARE = 0.03  # of all idle time: a region that causes more is painted in the colour of its cause
MOST_KEYS = 250
_DURATIONS = ("#5b6bb5", "#4a8fc0", "#44a9a6", "#62bb7a", "#a3c653", "#e0c340", "#f09a3e", "#e4572e")
_CATEGORIES = {
    LaneKind.REGION: "#8d80ee",
    LaneKind.GPU_REGION: "#8d80ee",
    LaneKind.CPU_THREAD: "#5f86cf",
    LaneKind.PYTHON: "#9cb86a",
    LaneKind.CUDA_API: "#c2a14a",
    LaneKind.GPU_STREAM: "#36b3e6",
    LaneKind.NCCL: "#c86fc9",
    LaneKind.COPY: "#3aa99f",
}


def rgb(color: QColor) -> int:
    """A colour as 0xffRRGGBB."""
    return int(color.rgb()) | 0xFF000000


@dataclass(frozen=True, slots=True, eq=False)
class Shades:
    """The colours of one row: a density table over its classes, and the text colour of each class."""

    table: U32
    inks: tuple[QColor, ...]


@dataclass(eq=False)
class Scene:
    """One recording as the timeline sees it."""

    trace: Trace
    index: DrawingIndex
    analysis: Analysis | None = None
    color_mode: str = "family"
    idle: IdleTable | None = None
    gaps: Mapping[int, Gaps] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    culprits: Mapping[str, Cause] = field(default_factory=dict)
    _classes: dict[LaneKind, tuple[U8, tuple[str, ...]]] = field(default_factory=dict)
    _shades: dict[tuple[int, int], Shades] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)

    def set_analysis(self, analysis: Analysis | None, gaps: Mapping[int, Gaps] | None = None) -> None:
        """Take over the idle table, the steps and the culprits; ``gaps`` where they are known already."""
        self.analysis = analysis
        if analysis is None:
            self.idle, self.gaps, self.steps, self.culprits = None, {}, (), {}
        else:
            self.idle, self.gaps = analysis.idle, device_gaps(analysis.idle) if gaps is None else gaps
            self.steps, self.culprits = tuple(analysis.steps), heavy_culprits(analysis.idle)
        self.forget_colors()

    def set_color_mode(self, mode: str) -> None:
        """One of ``COLOR_MODES``."""
        self.color_mode = mode if mode in COLOR_MODES else COLOR_MODES[0]
        self.forget_colors()

    def forget_colors(self) -> None:
        """After a change of theme, mode or analysis."""
        self._classes.clear()
        self._shades.clear()

    def classes(self, lane: int, row: Row, event: I64) -> U8:
        """The colour class of events of a row (offsets; -1 gives any)."""
        if self.color_mode == "duration":
            taken = row.end[event] - row.start[event]
            decade: U8 = np.clip(np.log10(np.maximum(taken, 1)).astype(np.int64) - 1, 0, 7).astype(np.uint8)
            return decade
        column, _ = self._classes_of(self.trace.lanes[lane].kind)
        classes: U8 = column[row.name[event]]
        return classes

    def shades(self, lane: int, depth: int) -> Shades:
        """The colours of one row of a lane."""
        key = (lane, min(depth, 4))
        found = self._shades.get(key)
        if found is None:
            now = theme.current()
            colors = self._colors(lane, key[1], now)
            table = density_table(np.array([rgb(color) for color in colors], np.uint32), rgb(now.window))
            found = self._shades[key] = Shades(table, tuple(theme.text_on(color) for color in colors))
        return found

    def color_of(self, event: int) -> QColor:
        """The colour of one event."""
        lane, depth = int(self.trace.events.lane[event]), int(self.trace.events.depth[event])
        rows = self.index.rows[lane]
        offset = np.array([event - rows[depth].first])
        return self._colors(lane, min(depth, 4), theme.current())[
            int(self.classes(lane, rows[depth], offset)[0])
        ]

    def legend(self, kind: LaneKind) -> list[tuple[str, QColor]]:
        """The colour keys that occur in lanes of a kind, with their colours."""
        lane = next((index for index, each in enumerate(self.trace.lanes) if each.kind is kind), None)
        if lane is None or self.color_mode != "family":
            return []
        keys = self._classes_of(kind)[1]
        return list(zip(keys, self._colors(lane, 0, theme.current()), strict=True))

    def duration_colors(self) -> list[QColor]:
        """The colours of decades of duration, from below a microsecond on."""
        return [QColor(value) for value in _DURATIONS]

    def shown_name(self, lane: int, name: int) -> str:
        """What is written into a box of an event with this name."""
        return style_of(self.trace.lanes[lane].kind).shown(self.trace.strings[name])

    def _colors(self, lane: int, depth: int, now: Theme) -> list[QColor]:
        each = self.trace.lanes[lane]
        if self.color_mode == "duration":
            return [QColor(value) for value in _DURATIONS]
        keys = self._classes_of(each.kind)[1]
        if self.color_mode == "name":
            return [now.named(int(key)) for key in keys]
        if self.color_mode == "category":
            return [QColor(_CATEGORIES.get(each.kind, "#8b94a7"))]
        if self.color_mode == "stream":
            return [now.named(lane)]
        place = Place(each, self._number(lane), depth)
        return [style_of(each.kind).color(key, place, now) for key in keys]

    def _number(self, lane: int) -> int:
        if not self._numbers:
            counted: dict[tuple[LaneKind, str], int] = {}
            for group in self.index.groups:
                for track in group.tracks:
                    if track.kind is not None:
                        number = counted.get((track.kind, group.key), 0)
                        self._numbers[track.lane] = number
                        counted[track.kind, group.key] = number + 1
        return self._numbers.get(lane, 0)

    def _classes_of(self, kind: LaneKind) -> tuple[U8, tuple[str, ...]]:
        found = self._classes.get(kind)
        if found is None:
            found = self._classes[kind] = self._classified(kind)
        return found

    def _classified(self, kind: LaneKind) -> tuple[U8, tuple[str, ...]]:
        strings = self.trace.strings
        column = np.zeros(max(len(strings), 1), np.uint8)
        if self.color_mode in ("category", "stream", "duration"):
            return column, ("",)
        keys: dict[str, int] = {}
        style = style_of(kind)
        for name in self.index.names.get(kind, np.empty(0, np.int64)).tolist():
            text = strings[name]
            key = (
                str(stable_number(text) % 10) if self.color_mode == "name" else style.key(text, self.culprits)
            )
            column[name] = keys.setdefault(key, len(keys)) % MOST_KEYS
        return column, tuple(keys)[:MOST_KEYS] or ("0" if self.color_mode == "name" else style.key("", {}),)

    def lane(self, index: int) -> Lane:
        return self.trace.lanes[index]


def heavy_culprits(idle: IdleTable) -> dict[str, Cause]:
    """The names behind at least ``CULPRIT_SHARE`` of all idle time, with the cause that they cost most under."""
    if not len(idle):
        return {}
    weight = (idle.end - idle.start).astype(np.float64)
    total = np.zeros((len(idle.culprits), len(Cause)))
    np.add.at(total, (idle.culprit, idle.cause), weight)
    heavy = np.flatnonzero(total.sum(axis=1) >= CULPRIT_SHARE * weight.sum())
    return {
        idle.culprits[index]: Cause(int(total[index].argmax()))
        for index in heavy.tolist()
        if int(total[index].argmax()) in (Cause.INPUT, Cause.HOST, Cause.SYNCHRONIZATION, Cause.ALLOCATOR)
    }
