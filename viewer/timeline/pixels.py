"""Paints tracks as pixels: rows of events, gaps, the strips of folded ranks, counters."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from PySide6.QtGui import QColor

from parsers.model import U8, U32, Counter
from parsers.model.late.dataclass import dataclass
from rules.analysis.idle.causes import Cause
from viewer.appearance import theme
from viewer.appearance.theme import Theme
from viewer.timeline.event_colors import rgb
from viewer.timeline.geometry.columns import Columns, Grid, counter_columns
from viewer.timeline.geometry.hatching import hatching
from viewer.timeline.geometry.layout import FOOT, Placed
from viewer.timeline.geometry.raster import (
    GapColors,
    density_table,
    gap_colors,
    paint_curve,
    paint_gaps,
    paint_row,
    paint_shares,
    put_row,
    row_colors,
)
from viewer.timeline.geometry.row_index import Row
from viewer.timeline.geometry.strips import Strips, colored
from viewer.timeline.geometry.ticks import ticks
from viewer.timeline.geometry.tracks import Track
from viewer.timeline.kinds.base import counter_style_of
from viewer.timeline.memory.painting import paint_memory
from viewer.timeline.memory.stack import MemoryStack
from viewer.timeline.scene import Scene

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

    @property
    def line(self) -> int:
        """Width of a fine line in device pixels."""
        return max(round(self.ratio), 1)

    def block(self, top: float, height: float) -> U32:
        """The part of the picture from ``top`` on (logical) that lies inside it."""
        return self.pixels[max(round(top * self.ratio), 0) : max(round((top + height) * self.ratio), 0)]

    def cut_below(self, bottom: float) -> int:
        """How many device pixels of something that ends at ``bottom`` (logical) lie outside."""
        return max(round(bottom * self.ratio) - len(self.pixels), 0)


def paint_ground(picture: Picture, shown: list[Shown], origin: float) -> None:
    """The ground, the grid of the ruler, headings, and the lines between tracks."""
    colors = theme.current()
    picture.pixels.fill(rgb(colors.window))
    line, grid = np.uint32(rgb(colors.line)), np.uint32(rgb(colors.grid))
    scale = picture.view.scale
    for when in ticks(scale, origin, 88.0 * picture.ratio).times:
        x = round(scale.x(when))
        if 0 <= x < picture.view.width:
            picture.pixels[:, x : x + picture.line] = grid
    for each in shown:
        if each.placed.track.is_heading or each.placed.track.busy:
            picture.block(each.top, each.placed.height)[:] = rgb(colors.strip)
        bottom = round((each.top + each.placed.height) * picture.ratio)
        picture.pixels[max(bottom - picture.line, 0) : max(bottom, 0)] = line


def paint_events(
    picture: Picture, scene: Scene, track: Track, depth: int, top: float, height: float, over_gaps: bool
) -> Columns | None:
    """One row of a lane; returns what it shows, None where nothing is visible."""
    block, row, lane = picture.block(top, height), scene.index.row(track, depth), track.lane
    if not len(block) or row is None:
        return None
    ground = rgb(theme.current().window)
    strip = picture.strips.strip((lane, depth), row, picture.view)
    seen = strip.shown(picture.view)

    def colors(shown: Columns) -> U32:
        classes = scene.colors.classes(lane, row, np.maximum(shown.event, 0))
        return row_colors(shown, classes, scene.colors.shades(lane, depth).table, ground, picture.line)

    if seen is not None:
        shades = colored(strip, colors, picture.view)
        put_row(block, seen, shades, ground, picture.line, alike=not over_gaps)
    return seen


def paint_lane_gaps(picture: Picture, device: int, row: Row, top: float, height: float) -> Columns | None:
    """The gaps of a device over a whole lane; returns what is shown."""
    seen = picture.strips.strip(("gaps", device), row, picture.view).shown(picture.view)
    if seen is not None:
        colors = theme.current()
        foot = max(round(FOOT * picture.ratio) - picture.cut_below(top + height), 0)
        _paint_gaps(picture, row, seen, picture.block(top, height), rgb(colors.window), foot, top)
    return seen


def paint_strip(picture: Picture, scene: Scene, shown: Shown, gaps: bool) -> None:
    """The busy strip of a folded rank: each device's work, and its communication that stands alone, over its gaps."""
    group = next(each for each in scene.index.groups if each.key == shown.placed.track.group)
    if not shown.placed.rows or not group.devices:
        return
    place, count = shown.placed.rows[0], len(group.devices)
    for number, device in enumerate(group.devices):
        first, last = round(number * place.height / count), round((number + 1) * place.height / count)
        top, height = shown.top + place.top + first, max(last - first - (count > 1), 1)
        paint_busy(picture, scene, device, top, height, gaps, count == 1)


def paint_busy(
    picture: Picture, scene: Scene, device: int, top: int, height: int, gaps: bool, footed: bool
) -> None:
    """When a device works, as high as it is busy, and with ``gaps`` what it waits for otherwise.

    ``footed``: with a line below.
    """
    idle, colors, view = scene.gaps.get(device), theme.current(), picture.view
    ground = rgb(colors.strip)
    seen = picture.strips.strip(("gaps", device), idle.row, view).shown(view) if gaps and idle else None
    if idle is not None and seen is not None:
        footed = footed and height >= MIN_FOOTED
        block = picture.block(top, height + (FOOT if footed else 0))
        foot = min(round(FOOT * picture.ratio), len(block)) if footed else 0
        _paint_gaps(picture, idle.row, seen, block, ground, foot, top)
    busy = scene.index.busy.get(device)
    seen = picture.strips.strip(("busy", device), busy, view).shown(view) if busy is not None else None
    block = picture.block(top, height)
    if busy is not None and seen is not None and len(block):
        full = busy_table(colors).reshape(2, -1)[:, -1][busy_classes(busy, seen)]
        whole = round(height * picture.ratio)
        paint_shares(block, seen, full, whole, picture.cut_below(top + height), picture.line)


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


def _paint_gaps(
    picture: Picture, row: Row, seen: Columns, block: U32, ground: int, foot: int, top: float
) -> None:
    colors = _gap_colors(theme.current().name, ground, picture.line)
    phase = picture.view.first, max(-round(top * picture.ratio), 0)
    classes = row.name[np.maximum(seen.event, 0)].astype(np.uint8)
    paint_gaps(block, seen, classes, colors, foot, phase)


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
