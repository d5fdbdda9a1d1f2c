"""Paints tracks as pixels: rows of events, gaps, the strips of folded ranks, counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import lru_cache

import numpy as np
from PySide6.QtGui import QColor

from parsers.model import I64, U8, U32, Counter
from parsers.model.late import dataclass
from rules.analysis.idle.causes import Cause
from viewer.appearance import theme
from viewer.appearance.theme import Theme
from viewer.timeline.geometry.columns import Columns, Grid, counter_columns
from viewer.timeline.geometry.gaps import hatching
from viewer.timeline.geometry.layout import FOOT, Placed
from viewer.timeline.geometry.raster import (
    GapColors,
    GapPlaces,
    Lines,
    density_table,
    gap_colors,
    gap_places,
    gap_tiles,
    paint_curve,
    paint_gaps,
    paint_row,
    paint_shares,
    put_over,
    round_corners,
    visible_colors,
)
from viewer.timeline.geometry.row_index import Row
from viewer.timeline.geometry.scale import tick_numbers
from viewer.timeline.geometry.strips import Stretched, Strip, Strips
from viewer.timeline.kinds.base import counter_style_of
from viewer.timeline.memory.painting import paint_memory
from viewer.timeline.memory.stack import MemoryStack
from viewer.timeline.scene import Scene, rgb

PREDICTED = 0.72  # of a colour is left where nothing was recorded
MIN_FOOTED = 8  # pixels: lower strips have no foot line


@dataclass(frozen=True, slots=True)
class Shown:
    """A track and where its top is in the picture, in logical pixels."""

    placed: Placed
    top: int


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """What one frame is painted into; ``ratio`` is device pixels for a logical pixel, ``view`` in device pixels."""

    pixels: U32
    view: Grid
    ratio: float
    strips: Strips
    lines: Lines
    ground: int  # its colour
    line: int  # width of a fine line in device pixels
    idle: dict[int, Idle | None] = field(default_factory=dict)  # of the devices that were looked at
    grid: list[int] = field(default_factory=list)  # the columns of the ruler's lines

    def block(self, top: float, height: float) -> U32:
        """The part of the picture from ``top`` on (logical) that lies inside it."""
        return self.pixels[_place(top, height, self.ratio)]

    def cut_below(self, bottom: float) -> int:
        """How many device pixels of something that ends at ``bottom`` (logical) lie outside."""
        cut = round(bottom * self.ratio) - len(self.pixels)
        return cut if cut > 0 else 0


@lru_cache(maxsize=1024)
def _place(top: float, height: float, ratio: float) -> slice:
    begin, end = round(top * ratio), round((top + height) * ratio)
    return slice(begin if begin > 0 else 0, end if end > 0 else 0)


@dataclass(frozen=True, slots=True, eq=False)
class EventRow:
    """A row of a lane, which lines of the picture it takes, and the colours of its columns, 0 where nothing is."""

    name: tuple[int, int]  # its lane and depth
    row: Row
    place: slice
    height: int  # logical pixels
    colors: Callable[[Columns], U32]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is the same in all pictures until lanes move or change their colours."""

    of: tuple[object, ...]
    ground: (
        I64  # which line each line of a picture shows where nothing else is: the ground, a heading, an edge
    )
    tracks: tuple[
        tuple[Shown, tuple[EventRow, ...]], ...
    ]  # lanes with their rows of events; others have none
    rows: int  # of events


GROUND_LINES = 3


def plan(of: tuple[object, ...], scene: Scene, shown: Sequence[Shown], height: int, ratio: float) -> Plan:
    """Where everything lies in a picture of this height (device pixels)."""
    ground, line = np.zeros(height, np.int64), max(round(ratio), 1)
    for each in shown:
        if each.placed.track.is_heading or each.placed.track.busy:
            ground[_place(each.top, each.placed.height, ratio)] = 1
    for each in shown:
        bottom = round((each.top + each.placed.height) * ratio)
        if bottom > 0:
            ground[max(bottom - line, 0) : bottom] = 2
    tracks = tuple((each, _event_rows(scene, each, height, ratio)) for each in shown)
    return Plan(of, ground, tracks, sum(len(rows) for _, rows in tracks))


def _event_rows(scene: Scene, shown: Shown, height: int, ratio: float) -> tuple[EventRow, ...]:
    track, rows = shown.placed.track, []
    for each in shown.placed.rows if track.lane >= 0 else ():
        place, row = _place(shown.top + each.top, each.height, ratio), scene.index.row(track, each.depth)
        if row is not None and place.start < min(place.stop, height):
            name = track.lane, each.depth
            rows.append(EventRow(name, row, place, each.height, _colors_of(scene, *name, row, ratio)))
    return tuple(rows)


def _colors_of(scene: Scene, lane: int, depth: int, row: Row, ratio: float) -> Callable[[Columns], U32]:
    known, ground, line = scene.colors, rgb(theme.current().window), max(round(ratio), 1)

    def colors(shown: Columns) -> U32:
        classes = known.classes(lane, row, np.maximum(shown.event, 0))
        return visible_colors(shown, classes, known.shades(lane, depth).table, ground, line)

    return colors


def draw_ground(picture: Picture, plan: Plan, origin: float) -> None:
    """The ground, the grid of the ruler, headings, and the lines between tracks."""
    colors, view = theme.current(), picture.view
    ground, heading, edge = picture.lines.begin(plan.ground, GROUND_LINES, view.width, plan.rows)
    heading.fill(rgb(colors.strip))
    edge.fill(rgb(colors.line))
    ground.fill(picture.ground)
    scale, grid, line = view.scale, rgb(colors.grid), picture.line
    step, numbers = tick_numbers(scale, origin, 88.0 * picture.ratio)
    t0, per_pixel = scale.t0, scale.ns_per_pixel
    for number in numbers:
        x = round((origin + number * step - t0) / per_pixel)
        if 0 <= x < view.width:
            ground[x : x + line] = grid
            picture.grid.extend(range(x, min(x + line, view.width)))


def paint_over_gaps(picture: Picture, events: EventRow, colors: U32) -> None:
    """The events of a row over the gaps of its lane."""
    put_over(picture.pixels[events.place], colors)


def round_events(picture: Picture, events: EventRow, seen: Columns) -> None:
    """Take away the corners of a row's wide events."""
    round_corners(picture.pixels[events.place], seen, picture.ground, picture.line)


@dataclass(frozen=True, slots=True, eq=False)
class Idle:
    """The gaps of a device in view."""

    device: int
    strip: Strip | Stretched
    places: GapPlaces


def idle_of(picture: Picture, scene: Scene, device: int) -> Idle | None:
    """The gaps of a device, worked out once; None where it has none in view."""
    if device not in picture.idle:
        picture.idle[device] = _idle_of(picture, scene, device)
    return picture.idle[device]


def _idle_of(picture: Picture, scene: Scene, device: int) -> Idle | None:
    gaps = scene.gaps.get(device)
    strip = picture.strips.strip(("gaps", device), gaps.row, picture.view) if gaps is not None else None
    if gaps is None or strip is None or strip.empty:
        return None

    def tiles(shown: Columns) -> U32:
        causes = gaps.row.name[np.maximum(shown.event, 0)].astype(np.uint8)
        return gap_tiles(shown, causes, colors)

    colors = _gap_colors(theme.current().name, picture.ground, picture.line)
    seen, grid = strip.look(tiles, picture.view), np.array(picture.grid, np.int64)
    places = gap_places(seen, colors, picture.view.first, grid)
    return None if places is None else Idle(device, strip, places)


def paint_lane_gaps(picture: Picture, idle: Idle, top: float, height: float) -> None:
    """The gaps of a device over a whole lane."""
    foot = max(round(FOOT * picture.ratio) - picture.cut_below(top + height), 0)
    _paint_gaps(picture, idle, picture.block(top, height), picture.ground, foot, top)


@dataclass(frozen=True, slots=True, eq=False)
class Busy:
    """When a device works, and its gaps; either may be None."""

    idle: Idle | None
    strip: Strip | Stretched | None
    colors: U32 | None


def busy_of(picture: Picture, scene: Scene, device: int, gaps: bool) -> Busy:
    """Work out when a device works, and with ``gaps`` what it waits for otherwise."""
    idle = idle_of(picture, scene, device) if gaps else None
    row = scene.index.busy.get(device)
    strip = picture.strips.strip(("busy", device), row, picture.view) if row is not None else None
    if row is None or strip is None or strip.empty:
        return Busy(idle, None, None)

    def colors(shown: Columns) -> U32:
        full: U32 = busy_table(theme.current()).reshape(2, -1)[:, -1][busy_classes(row, shown)]
        full[shown.event < 0] = 0
        return full

    return Busy(idle, strip, strip.look(colors, picture.view))


def strip_of(picture: Picture, scene: Scene, shown: Shown, gaps: bool) -> list[Busy]:
    """Each device's work in a folded rank, and its communication that stands alone, over its gaps."""
    group = next(each for each in scene.index.groups if each.key == shown.placed.track.group)
    return [busy_of(picture, scene, device, gaps) for device in group.devices] if shown.placed.rows else []


def paint_strip(picture: Picture, shown: Shown, devices: Sequence[Busy]) -> None:
    """The busy strip of a folded rank."""
    count = len(devices)
    for number, busy in enumerate(devices):
        place = shown.placed.rows[0]
        first, last = round(number * place.height / count), round((number + 1) * place.height / count)
        top, height = shown.top + place.top + first, max(last - first - (count > 1), 1)
        paint_busy(picture, busy, top, height, count == 1)


def paint_busy(picture: Picture, busy: Busy, top: int, height: int, footed: bool) -> None:
    """When a device works, as high as it is busy, over its gaps; ``footed``: with a line below."""
    if busy.idle is not None:
        footed = footed and height >= MIN_FOOTED
        block = picture.block(top, height + (FOOT if footed else 0))
        foot = min(round(FOOT * picture.ratio), len(block)) if footed else 0
        _paint_gaps(picture, busy.idle, block, rgb(theme.current().strip), foot, top)
    block = picture.block(top, height)
    if busy.strip is not None and busy.colors is not None and len(block):
        coverage, whole = busy.strip.coverage(picture.view), round(height * picture.ratio)
        paint_shares(block, coverage, busy.colors, whole, picture.cut_below(top + height), picture.line)


def paint_derived(picture: Picture, scene: Scene, shown: Shown) -> None:
    """Rows that are no lane of the recording; what was not recorded is paler."""
    derived, colors = scene.derived.get(shown.placed.track.key), theme.current()
    if derived is None:
        return
    if derived.curve is not None:
        _paint_curve(picture, shown, derived.curve, derived.colors(colors)[0])
        return
    ground = rgb(colors.window)
    shown_colors = [
        rgb(color if derived.recorded else theme.mixed(color, colors.window, PREDICTED))
        for color in derived.colors(colors)
    ]
    table = density_table(np.array(shown_colors, np.uint32), ground)
    for row, place in zip(derived.rows, shown.placed.rows, strict=False):
        strip = picture.strips.strip((derived.track.key, place.depth), row, picture.view)
        seen, block = strip.shown(picture.view), picture.block(shown.top + place.top, place.height)
        if seen is not None and len(block):
            classes = row.name[np.maximum(seen.event, 0)].astype(np.uint8)
            parts = seen if derived.parted else without_edges(seen)
            paint_row(block, parts, classes, table, ground, picture.line)


def paint_counter(picture: Picture, scene: Scene, shown: Shown) -> None:
    """A counter as a filled step curve."""
    number = shown.placed.track.counter
    if (stack := scene.stacks.get(number)) is not None and not shown.placed.collapsed:
        _paint_stack(picture, stack, shown)
        return
    counter = scene.trace.counters[number]
    _paint_curve(picture, shown, counter, counter_style_of(counter.unit).color(number, theme.current()))


def _paint_curve(picture: Picture, shown: Shown, counter: Counter, color: QColor) -> None:
    found = counter_columns(counter, picture.view.scale)
    block = picture.block(shown.top + 4, shown.placed.height - 6)
    if found is None or len(block) < 4:
        return
    low, high = counter_style_of(counter.unit).bounds(counter)
    value, peak = ((each - low) / (high - low) for each in found)
    fill = rgb(theme.mixed(color, theme.current().window, 0.28))
    paint_curve(block, value, peak, fill, rgb(color), picture.line)


def memory_area(shown: Shown) -> tuple[int, int]:
    """Top and height of what a lane of memory draws in, logical pixels."""
    return shown.top + 2, shown.placed.height - 3


def memory_share(placed: Placed, y: float) -> float:
    """How high a point of a lane of memory lies: 0 at the bottom of what is drawn, 1 at its top."""
    top, height = memory_area(Shown(placed, 0))
    return 1 - (y - top) / max(height, 1)


def _paint_stack(picture: Picture, stack: MemoryStack, shown: Shown) -> None:
    top, height = memory_area(shown)
    block = picture.block(top, height)
    cut = picture.cut_below(top + height)
    if len(block):
        phase = picture.view.first, max(-round(top * picture.ratio), 0)
        whole = round(height * picture.ratio)
        paint_memory(block, stack, stack.columns(picture.view.scale), picture.line, phase, whole, cut)


def without_edges(seen: Columns) -> Columns:
    """The same without marks between neighbours."""
    none = seen.wide[:0]
    return Columns(seen.coverage, seen.event, none, seen.left[:0], seen.right[:0], none, none)


def _paint_gaps(picture: Picture, idle: Idle, block: U32, ground: int, foot: int, top: float) -> None:
    colors = _gap_colors(theme.current().name, ground, picture.line)
    paint_gaps(block, idle.places, colors, foot, max(-round(top * picture.ratio), 0))


@lru_cache(maxsize=16)
def _gap_colors(_: str, ground: int, line: int) -> GapColors:
    """The colours of gaps in the theme of this name, which is the current one."""
    colors = theme.current()
    return gap_colors(
        np.array([rgb(colors.cause(cause)) for cause in Cause], np.uint32), ground, hatching(line)
    )


def busy_table(colors: Theme) -> U32:
    """The shades of a busy device by what it does: ``drawing_index.WORK`` or ``ALONE``."""
    return _two_shades(rgb(colors.family("gemm")), rgb(colors.family("communication")), rgb(colors.strip))


@lru_cache(maxsize=16)
def _two_shades(one: int, other: int, ground: int) -> U32:
    return density_table(np.array([one, other], np.uint32), ground)


def busy_classes(busy: Row, seen: Columns) -> U8:
    """What a busy device does in each column."""
    return busy.name[np.maximum(seen.event, 0)].astype(np.uint8)
