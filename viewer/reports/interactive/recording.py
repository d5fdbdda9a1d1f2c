"""A recording as an interactive page holds it: lanes, colours and names as JSON, its events as packed columns."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from parsers.model import F64, I64, LaneKind
from parsers.model.late import dataclass
from parsers.model.names.devices import device_name
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from viewer.appearance.lane_colors import PageColors
from viewer.appearance.plain_text import safe
from viewer.reports.interactive.packing import EventRow, columns_of, entries_of, few_points, planes
from viewer.timeline.geometry.arrangement import Arrangement, GroupState
from viewer.timeline.geometry.drawing_index import DrawingIndex, drawing_index
from viewer.timeline.geometry.gaps import PERIOD, Gaps, device_gaps, hatching
from viewer.timeline.geometry.layout import drawn, starting_states
from viewer.timeline.geometry.row_index import Row
from viewer.timeline.geometry.tracks import Group, Track
from viewer.timeline.kinds.base import StyledRow, counter_style_of, lane_words, style_of
from viewer.timeline.memory.colors import color_of
from viewer.timeline.memory.stack import MemoryStack, stacks_of

MAX_BYTES = 3_600_000  # packed; as text in a page a third more
MAX_NAME_LENGTH = 300  # characters
MAX_POINTS = 2_000  # of a counter
MAX_COUNTERS = 64
MAX_CULPRITS = 20_000
DEEPEST_SHADE = 4
MIN_BYTES = 1.0  # that an entry takes packed
BUSY_CELLS = 50_000  # of the whole time: when a device is busy is seen from afar only
# (unit of times, what is joined below), ns: the first that fits is taken
GRADES = (
    (1, 0), (8, 0), (64, 0), (128, 0), (128, 500), (256, 1_000), (256, 2_000), (512, 4_000), (1_024, 8_000),
    (1_024, 16_000), (2_048, 32_000), (4_096, 128_000), (16_384, 512_000), (131_072, 4_000_000),
    (1_048_576, 32_000_000), (8_388_608, 256_000_000),
)  # fmt: skip


def packed_recording(analysis: Analysis, view: tuple[int, int], most_bytes: int = MAX_BYTES) -> bytes:
    """The recording as zlib data of at most ``most_bytes``; ``view`` is what a page shows first, ns.

    Length of the header (4 bytes), the header as JSON, columns. Where all events are too many, times are coarser and
    neighbours that are short are joined; the header says so.
    """
    lanes = _Lanes(analysis, drawing_index(analysis.trace))
    header = lanes.header(view)
    found = b""
    for unit, resolution in GRADES:
        entries = entries_of(lanes.rows, resolution)
        if len(entries) * MIN_BYTES > most_bytes and (unit, resolution) != GRADES[-1]:
            continue
        named, name = np.unique(entries.name, return_inverse=True)
        entries = replace(entries, name=name.astype(np.int64))
        place = np.full(len(analysis.trace.events), -1, np.int64)
        kept = np.flatnonzero(entries.event >= 0)
        place[entries.event[kept]] = kept
        columns = columns_of(entries, unit, lanes.launches(entries.event, place))
        header |= {
            "names": lanes.names(named),
            "unit": unit,
            "resolution": resolution,
            "rows": np.diff(entries.first).tolist(),
            "joined": bool((entries.count > 1).any()),
            "events": len(analysis.trace.events),
        }
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode("ascii")
        found = zlib.compress(len(text).to_bytes(4, "little") + text + columns + lanes.samples, 6)
        if len(found) <= most_bytes:
            break
    return found


@dataclass(slots=True)
class _Names:
    """Names as they are drawn, each once for each look: text, what is written into a box, what else is told, class."""

    text: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    color: list[int] = field(default_factory=list)

    def add(self, text: str, shown: str, told: str, color: int) -> int:
        self.text.append(_cut(text))
        self.shown.append("" if shown == text else _cut(shown))
        self.told.append(_cut(told))
        self.color.append(color)
        return len(self.text) - 1

    def data(self, used: I64) -> dict[str, Any]:
        columns: dict[str, list[Any]] = {
            "text": self.text,
            "shown": self.shown,
            "told": self.told,
            "color": self.color,
        }
        return {key: [column[each] for each in used.tolist()] for key, column in columns.items()}


def _cut(text: str) -> str:
    shown = safe(text)
    return shown if len(shown) <= MAX_NAME_LENGTH else f"{shown[: MAX_NAME_LENGTH - 1]}…"


class _Lanes:
    """The rows of a recording in the order in which its header names them."""

    def __init__(self, analysis: Analysis, index: DrawingIndex) -> None:
        self.rows: list[EventRow] = []
        self._analysis, self._trace, self._index = analysis, analysis.trace, index
        self._names = _Names()
        self._palettes: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
        self._of_kind: dict[LaneKind, tuple[I64, list[str]]] = {}
        self._samples: list[bytes] = []
        self._gaps = device_gaps(analysis.idle)
        self._stacks = stacks_of(analysis)
        states = starting_states(index.groups)
        self._groups = [self._group(group, states[group.key]) for group in index.groups]

    @property
    def samples(self) -> bytes:
        return b"".join(self._samples)

    def names(self, used: I64) -> dict[str, Any]:
        """Those that are drawn, by the numbers that entries have for them."""
        return self._names.data(used)

    def launches(self, event: I64, place: I64) -> I64:
        """The entry that launched each entry; ``place`` is the entry of each event."""
        found = np.full(len(event), -1, np.int64)
        mine = np.flatnonzero(event >= 0)
        launch = self._trace.links.launch_of(event[mine])
        found[mine] = np.where(launch >= 0, place[np.maximum(launch, 0)], -1)
        return found

    def header(self, view: tuple[int, int]) -> dict[str, Any]:
        events = self._trace.events
        last = int(events.end.max()) if len(events) else 1
        first = int(events.start.min()) if len(events) else 0
        light, dark = PageColors(False), PageColors(True)
        if view[1] <= view[0]:
            view = first, last
        return {
            "span": [min(first, view[0]), max(last, view[1])],
            "view": [int(view[0]), int(view[1])],
            "palettes": [[list(colors) for colors in pair] for pair in self._palettes],
            "groups": self._groups,
            "causes": [
                {
                    "label": self._analysis.idle.label(cause),
                    "light": light.cause(cause),
                    "dark": dark.cause(cause),
                    "tile": np.packbits(hatching(1)[cause]).tolist(),
                }
                for cause in Cause
            ],
            "period": PERIOD,
        }

    def _group(self, group: Group, state: GroupState) -> dict[str, Any]:
        tracks = drawn(group, Arrangement())
        counters = [track for track in tracks if track.counter >= 0]
        shown = set(counters[: max(MAX_COUNTERS - len(self._samples), 0)])
        return {
            "title": safe(group.title),
            "subtitle": safe(group.subtitle),
            "folded": state is GroupState.STRIP and len(self._index.groups) > 1,
            "devices": [each for device in group.devices for each in self._device(device)],
            "tracks": [
                self._track(track) if track.lane >= 0 else self._counter(track)
                for track in tracks
                if track.lane >= 0 or track in shown
            ],
        }

    def _device(self, device: int) -> Iterator[dict[str, Any]]:
        """When a device is busy, and the gaps between."""
        busy = self._index.busy.get(device)
        if busy is None or not len(busy):
            return
        name = device_name(self._trace, device)
        work = [self._names.add(text, text, name, color) for color, text in enumerate(_BUSY)]
        colors = [
            tuple(each.family(key) for key in _BUSY_COLORS) for each in (PageColors(False), PageColors(True))
        ]
        yield {
            "device": device,
            "name": name,
            "row": self._add(
                busy.start,
                busy.end,
                np.array(work)[busy.name],
                np.full(len(busy), -1, np.int64),
                int(busy.end[-1] - busy.start[0]) // BUSY_CELLS,
            ),
            "palette": self._palette(colors[0], colors[1]),
            "gaps": self._gap_row(self._gaps[device]) if device in self._gaps else -1,
        }

    def _gap_row(self, gaps: Gaps) -> int:
        idle = self._analysis.idle
        pair = gaps.row.name.astype(np.int64) * (len(idle.culprits) + 1) + gaps.culprit
        found, number = np.unique(pair, return_inverse=True)
        names: list[int] = []
        for each in found.tolist():
            cause, culprit = divmod(each, len(idle.culprits) + 1)
            label = idle.label(Cause(cause))
            who = idle.culprits[culprit].text if len(names) < MAX_CULPRITS else ""
            names.append(self._names.add(label, label, "" if who == label else who, cause))
        column = np.array(names, np.int64)[number] if names else np.empty(0, np.int64)
        return self._add(gaps.row.start, gaps.row.end, column, np.full(len(gaps.row), -1, np.int64))

    def _track(self, track: Track) -> dict[str, Any]:
        style = style_of(track.kind or LaneKind.OTHER)
        wish = style.wished(track.levels, brief=False, first=track.first_of_device)
        names, keys = self._names_of(track.kind or LaneKind.OTHER)
        levels = []
        for depth in range(track.levels):
            row = self._index.row(track, depth)
            if row is None:
                continue
            levels.append([self._level(track, row, depth, names), self._colors(track, depth, keys)])
        return {
            "title": safe(track.title),
            "subtitle": safe(track.subtitle),
            "words": safe(lane_words(self._trace.lanes[track.lane], self._trace)),
            "lanes": [each for each in (track.lane, track.calls) if each >= 0],
            "levels": levels,
            "most": wish.rows,
            "row": wish.row,
            "least": wish.height,
            "small": track.small,
            "gaps": track.device if track.first_of_device else -1,
        }

    def _level(self, track: Track, row: Row, depth: int, names: I64) -> int:
        nested = self._index.events(track, depth)
        event = nested if nested is not None else np.arange(row.first, row.first + len(row), dtype=np.int64)
        return self._add(row.start, row.end, names[row.name], event)

    def _add(self, start: I64, end: I64, name: I64, event: I64, resolution: int = 0) -> int:
        self.rows.append(EventRow(start, end, name, event, resolution))
        return len(self.rows) - 1

    def _names_of(self, kind: LaneKind) -> tuple[I64, list[str]]:
        """For lanes of a kind: the drawn name of each string, and the keys of its colours."""
        if kind not in self._of_kind:
            style, keys = style_of(kind), dict[str, int]()
            column = np.full(max(len(self._trace.strings), 1), -1, np.int64)
            mine = self._index.names.get(kind, np.empty(0, np.int64)).tolist()
            if kind is LaneKind.CPU_THREAD:  # calls of the GPU's API are drawn inside of its operators
                calls = self._index.names.get(LaneKind.CUDA_API, np.empty(0, np.int64)).tolist()
                mine = sorted({*mine, *calls})
            for name in mine:
                text = self._trace.strings[name]
                color = keys.setdefault(style.key(text), len(keys))
                column[name] = self._names.add(text, style.shown(text), style.told(text), color)
            self._of_kind[kind] = column, list(keys)
        return self._of_kind[kind]

    def _colors(self, track: Track, depth: int, keys: Sequence[str]) -> int:
        style = style_of(track.kind or LaneKind.OTHER)
        lane = self._trace.lanes[track.lane]
        row = StyledRow(lane, self._index.numbers.get(track.lane, 0), min(depth, DEEPEST_SHADE))
        light, dark = (
            tuple(style.color(key, row, PageColors(is_dark)) for key in keys) for is_dark in (False, True)
        )
        return self._palette(light, dark)

    def _palette(self, light: tuple[str, ...], dark: tuple[str, ...]) -> int:
        return self._palettes.setdefault((light, dark), len(self._palettes))

    def _counter(self, track: Track) -> dict[str, Any]:
        counter = self._trace.counters[track.counter]
        known = np.isfinite(counter.value)
        time, value = few_points(counter.time[known], counter.value[known], MAX_POINTS)
        style = counter_style_of(counter.unit)
        low, high = style.bounds(counter)
        stack = self._stacks.get(track.counter)
        largest = float(value.max(initial=0.0) if stack is None else stack.peak)
        high = max(high, largest)
        self._sample(time, (value - low) / (high - low))
        told = f"{'max' if stack is None else 'peak'} {style.written(largest, counter.unit)}"
        light, dark = (style.color(track.counter, PageColors(is_dark)) for is_dark in (False, True))
        return {
            "title": safe(track.title),
            "subtitle": safe(f"{told}  {track.subtitle}".rstrip()),
            "counter": len(time),
            "low": low,
            "high": high,
            "unit": safe(counter.unit),
            "color": [light, dark],
            "small": track.small,
            **({} if stack is None else {"bands": self._bands(stack, high)}),
        }

    def _bands(self, stack: MemoryStack, high: float) -> list[dict[str, Any]]:
        """What adds up to a counter of memory: each with all below it, the uppermost first."""
        time, _ = few_points(stack.time, stack.held.astype(np.float64), MAX_POINTS)
        held = [
            level[np.searchsorted(changes, time, side="right")]
            for changes, level in zip(stack.times, stack.levels, strict=True)
        ]
        found = []
        for kind, below in reversed(list(zip(stack.kinds, np.cumsum(held, axis=0), strict=True))):
            self._sample(time, below / high)
            colors = [color_of(kind, PageColors(is_dark)) for is_dark in (False, True)]
            found.append({"title": safe(kind.value), "counter": len(time), "color": colors})
        return found

    def _sample(self, time: I64, share: F64) -> None:
        """The columns of a series: shares of what is drawn highest."""
        level = np.clip(np.round(share * 65535), 0, 65535).astype(np.int64)
        self._samples += [planes(np.diff(np.maximum(time, 0), prepend=0)), planes(level)]


_BUSY = ("busy", "only communication")
_BUSY_COLORS = ("gemm", "communication")
