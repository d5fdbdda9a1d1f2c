"""Paints rows, gaps and counters into an array of pixels (0xffRRGGBB), a whole row at a time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from parsers.model.arrays import BOOL, F64, I32, I64, U8, U32
from parsers.model.late import dataclass
from viewer.timeline.geometry.columns import Columns


class Lines:
    """The lines of one picture (0xffRRGGBB). What is 0 in one of them shows the ground, which is the first."""

    def __init__(self) -> None:
        self._kept: U32 = np.empty((0, 0), np.uint32)
        self._seen: U32 = self._kept  # room for the same over the ground
        self._shown: I64 = np.empty(0, np.int64)  # which line each of the picture's shows
        self._used = 0

    def begin(self, shown: I64, used: int, width: int, most: int) -> U32:
        """The first lines of another picture, to be filled: so many are ``used``, and ``most`` follow.

        ``shown`` is which of them each line of the picture shows, but for those that follow.
        """
        if self._kept.shape[1] != width or len(self._kept) < used + most:
            self._kept = np.empty((used + most, width), np.uint32)
            self._seen = np.empty_like(self._kept)
        self._shown = shown.copy()
        self._used = used
        first: U32 = self._kept[:used]
        return first

    def add(self, place: slice) -> U32:
        self._shown[place] = self._used
        line: U32 = self._kept[self._used]
        self._used += 1
        return line

    def put(self, pixels: U32) -> None:
        """Write the whole picture."""
        lines, seen = self._kept[: self._used], self._seen[: self._used]
        # with bits, as np.where takes up to fifty times as long where neighbours differ in what they show
        np.invert(_opaque(lines, seen), out=seen)
        seen &= lines[0]
        seen |= lines
        seen.take(self._shown, axis=0, out=pixels, mode="clip")


LEVELS = 24
FAINTEST = 0.38  # opacity of a column that is hardly busy: what is there is never invisible
SEPARATED = 4.0  # columns: events at least this wide are set apart from their neighbour
ROUNDED = 7.0  # columns: events at least this wide lose their corner pixels
ROUNDED_ROW = 13  # pixels: in rows at least this high
STEPS = 4  # shares of a column that can be told apart in a gap
TINT, HATCHING = 0.20, 0.42  # opacity


def blended(colors: U32, ground: int, opacity: F64) -> U32:
    """``colors`` (n) over ``ground`` with each opacity (m): n x m opaque colours."""
    found = np.full((len(colors), len(opacity)), 0xFF000000, np.uint32)
    for shift in (0, 8, 16):
        over = ((colors >> np.uint32(shift)) & np.uint32(255)).astype(np.float64)[:, None]
        under = float((ground >> shift) & 255)
        mixed = over * opacity[None, :] + under * (1.0 - opacity[None, :])
        found |= np.round(mixed).astype(np.uint32) << np.uint32(shift)
    return found


def density_table(colors: U32, ground: int) -> U32:
    """For each colour its shades from hardly busy to full, ``LEVELS + 1`` of them, flattened."""
    return blended(colors, ground, FAINTEST + (1.0 - FAINTEST) * np.arange(LEVELS + 1) / LEVELS).ravel()


def paint_row(block: U32, columns: Columns, classes: U8, table: U32, ground: int, line: int = 1) -> None:
    """Paint one row into ``block`` (height x columns); ``classes`` is the colour class of ``columns.event``.

    ``line`` is the width, in pixels, of the gap between neighbours.
    """
    _put(block, row_colors(columns, classes, table, ground, line), columns.event >= 0)
    round_corners(block, columns, ground, line)


def row_colors(columns: Columns, classes: U8, table: U32, ground: int, line: int) -> U32:
    """The colour of every column of a row."""
    level = (columns.coverage * LEVELS + 0.5).astype(np.int64)
    level += classes * np.int64(LEVELS + 1)
    colors: U32 = table.take(level)
    if len(columns.wide):
        _set_apart(colors, columns, ground, line)
    return colors


def visible_colors(columns: Columns, classes: U8, table: U32, ground: int, line: int) -> U32:
    """The same, and 0 where nothing is."""
    colors = row_colors(columns, classes, table, ground, line)
    colors *= columns.event >= 0
    return colors


def round_corners(block: U32, columns: Columns, ground: int, line: int) -> None:
    """Take away the corners of wide events, where ``block`` is high enough for it."""
    if len(columns.wide) and block.shape[0] >= ROUNDED_ROW * line:
        wide = columns.right - columns.left >= ROUNDED
        _round_corners(block, columns.left[wide], columns.right[wide], ground, line)


def paint_shares(block: U32, coverage: F64, colors: U32, height: int, cut: int, least: int) -> None:
    """Fill columns from their foot up to the share of them that is busy, at least ``least`` pixels of ``height``.

    ``colors`` is one for each column, 0 where nothing is; ``cut`` pixels of the foot lie outside of ``block``.
    """
    filled = np.maximum(np.rint(coverage * height).astype(np.int16), least)
    filled *= colors != 0
    above_foot = np.arange(len(block) + cut, cut, -1, dtype=np.int16)[:, None]
    _put(block, colors, above_foot <= filled)


def put_over(block: U32, colors: U32) -> None:
    """Write colours into every line of ``block``, but for those that are 0."""
    block &= ~_opaque(colors)
    block |= colors


def _opaque(colors: U32, out: U32 | None = None) -> U32:
    """All bits where there is a colour, and none where it is 0."""
    sign: I32 = np.right_shift(colors.view(np.int32), 31, out=None if out is None else out.view(np.int32))
    return sign.view(np.uint32)


def _put(block: U32, colors: U32, where: BOOL) -> None:
    """As ``np.copyto``, which takes several times as long where neighbours differ in whether they are copied."""
    changed = block ^ colors
    changed *= where
    block ^= changed


def _set_apart(colors: U32, columns: Columns, ground: int, line: int) -> None:
    """A gap of ``line`` columns where a wide event begins."""
    edge = columns.left[columns.right - columns.left >= SEPARATED]
    first = np.floor(edge).astype(np.int64)
    for offset in range(line):
        place = first + offset
        colors[place[(place >= 0) & (place < len(colors))]] = ground


def _round_corners(block: U32, left: F64, right: F64, ground: int, line: int) -> None:
    first = np.floor(left[left >= 0]).astype(np.int64)
    last = np.ceil(right[right <= block.shape[1]]).astype(np.int64) - 1
    for inset in range(line):
        top, bottom = block[inset], block[-1 - inset]
        for offset in range(line - inset):
            begin = np.minimum(first + (line + offset), block.shape[1] - 1)
            end = np.maximum(last - offset, 0)
            top[begin] = top[end] = bottom[begin] = bottom[end] = ground


@dataclass(frozen=True, slots=True, eq=False)
class GapColors:
    """For every class of gap, at ``STEPS`` shares of a column, the tile of its hatching and its foot line.

    ``tile`` has a row for each row of a tile, and in it the columns of all tiles: class, then share, then column.
    ``foot`` is one row of tiles that have one colour each. The tile behind the last is the ground.
    """

    tile: U32
    foot: U32


def gap_colors(colors: U32, ground: int, tiles: BOOL) -> GapColors:
    """Colours of gaps over ``ground``; ``tiles`` (classes x rows x columns) says which of their pixels are hatched."""
    share, period = np.arange(1, STEPS + 1) / STEPS, tiles.shape[2]
    plain, dark = (blended(colors, ground, each * share)[:, None, :, None] for each in (TINT, HATCHING))
    tile = np.where(tiles[:, :, None, :], dark, plain).swapaxes(0, 1).reshape(tiles.shape[1], -1)
    foot = np.repeat(blended(colors, ground, 0.4 + 0.6 * share), period)[None]
    tile, foot = (np.pad(each, ((0, 0), (0, period)), constant_values=ground) for each in (tile, foot))
    return GapColors(tile, foot[0])


def gap_tiles(columns: Columns, classes: U8, colors: GapColors) -> U32:
    """Where in ``colors`` the tile of every column begins."""
    period, width = colors.tile.shape
    share = np.minimum((columns.coverage * STEPS).astype(np.int64), STEPS - 1)
    begin: I64 = (share + classes * np.int64(STEPS)) * period
    begin[columns.event < 0] = width - period
    return begin.astype(np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class GapPlaces:
    """Where in a ``tile`` of ``GapColors`` each column of a picture is, and which of its ``marks`` no gap covers."""

    column: I64
    marks: I64


def gap_places(tiles: U32, colors: GapColors, first: int, marks: I64) -> GapPlaces | None:
    """``first`` is the number of the first column, with which the hatching moves; None where nothing is idle."""
    period, none = len(colors.tile), colors.tile.shape[1] - len(colors.tile)
    if int(np.minimum.reduce(tiles)) == none:
        return None
    return GapPlaces(
        tiles + _column_of_tile(len(tiles), first % period, period), marks[tiles.take(marks) == none]
    )


def paint_gaps(block: U32, places: GapPlaces, colors: GapColors, foot: int, cut: int = 0) -> None:
    """Hatch the idle columns of a lane in the colour of their cause, over a tint, with a solid line of ``foot`` pixels.

    All lines of ``block`` are alike before, and of the colour of the ground but for the marks. Of the hatching ``cut``
    lines lie above it.
    """
    height = len(block)
    if not height:
        return
    period, place, kept = len(colors.tile), places.column, places.marks
    under = block[0].take(kept)
    some = min(period, height - foot)
    if some > 0:
        first = cut % period
        tile = np.roll(colors.tile, -first, axis=0) if first else colors.tile
        tile[:some].take(place, axis=1, out=block[:some], mode="wrap")  # the quickest: all lie inside
    for row in range(period, height - foot, period):
        more = block[row : min(row + period, height - foot)]
        more[:] = block[: len(more)]
    if foot:
        block[height - foot :] = colors.foot.take(place)
    if len(kept):
        block[:, kept] = under


@lru_cache(maxsize=16)
def _column_of_tile(width: int, first: int, period: int) -> I64:
    """Of each column, which one of a tile it is; the same for all lanes of a frame."""
    return (np.arange(width) + first) % period


def paint_curve(block: U32, level: F64, peak: F64, fill: int, edge: int, line: int) -> None:
    """A step curve, filled up to ``level`` (0 to 1 a column, NaN where unknown), with its line and each ``peak``."""
    height = block.shape[0]
    known = ~np.isnan(level)
    top = np.where(known, np.round((1.0 - np.nan_to_num(level)) * (height - line)), height).astype(np.int64)
    crest = np.where(known, np.round((1.0 - np.nan_to_num(peak)) * (height - line)), height).astype(np.int64)
    previous = np.concatenate((top[:1], top[:-1]))
    upper = np.minimum(np.minimum(top, crest), np.where(previous < height, previous, top))
    lower = np.maximum(top, np.where(previous < height, previous, top))
    row = np.arange(height)[:, None]
    np.copyto(block, np.uint32(fill), where=(row >= top[None, :]) & known[None, :])
    stroke = (row >= upper[None, :]) & (row < lower[None, :] + line) & known[None, :]
    np.copyto(block, np.uint32(edge), where=stroke)
