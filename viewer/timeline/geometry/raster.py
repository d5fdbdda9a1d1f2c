"""Paints rows, gaps and counters into an array of pixels (0xffRRGGBB), a whole row at a time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from parsers.model.arrays import BOOL, F64, I64, U8, U32
from parsers.model.late.dataclass import dataclass
from viewer.timeline.geometry.columns import Columns

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
    put_row(block, columns, row_colors(columns, classes, table, ground, line), ground, line)


def row_colors(columns: Columns, classes: U8, table: U32, ground: int, line: int) -> U32:
    """The colour of every column of a row."""
    level = (columns.coverage * LEVELS + 0.5).astype(np.int64)
    level += classes * np.int64(LEVELS + 1)
    colors: U32 = table[level]
    if len(columns.wide):
        _set_apart(colors, columns, ground, line)
    return colors


def put_row(block: U32, columns: Columns, colors: U32, ground: int, line: int, alike: bool = False) -> None:
    """Write the colours of a row into every line of ``block``, and take away the corners of wide events.

    ``alike``: the lines of ``block`` are, which is faster.
    """
    present = columns.event >= 0
    if present.all():
        block[:] = colors
    elif alike:
        block[:] = np.where(present, colors, block[0])
    else:
        _put(block, colors, present)
    if len(columns.wide) and block.shape[0] >= ROUNDED_ROW * line:
        width = columns.right - columns.left
        _round_corners(block, columns.left[width >= ROUNDED], columns.right[width >= ROUNDED], ground, line)


def paint_shares(block: U32, columns: Columns, colors: U32, height: int, cut: int, least: int) -> None:
    """Fill columns from their foot up to the share of them that is busy, at least ``least`` pixels of ``height``.

    ``colors`` is one for each column; ``cut`` pixels of the foot lie outside of ``block``.
    """
    filled = np.maximum(np.rint(columns.coverage * height).astype(np.int32), least)
    filled[columns.event < 0] = 0
    above_foot = np.arange(len(block) + cut, cut, -1, dtype=np.int32)[:, None]
    _put(block, colors, above_foot <= filled)


def _put(block: U32, colors: U32, where: BOOL) -> None:
    """As ``np.copyto``, which takes several times as long where neighbours differ in whether they are copied."""
    changed = np.bitwise_xor(block, colors)
    changed &= np.negative(where.astype(np.uint32))
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

    ``tile`` has a row for each row of a tile, and in it the columns of all tiles: class, then share, then column. The
    last column, and the last of ``foot`` (class, then share), is the ground.
    """

    tile: U32
    foot: U32


def gap_colors(colors: U32, ground: int, tiles: BOOL) -> GapColors:
    """Colours of gaps over ``ground``; ``tiles`` (classes x rows x columns) says which of their pixels are hatched."""
    share = np.arange(1, STEPS + 1) / STEPS
    plain, dark = (blended(colors, ground, each * share)[:, None, :, None] for each in (TINT, HATCHING))
    tile = np.where(tiles[:, :, None, :], dark, plain).swapaxes(0, 1)
    tile = np.pad(tile.reshape(len(tile), -1), ((0, 0), (0, 1)), constant_values=ground)
    return GapColors(tile, np.append(blended(colors, ground, 0.4 + 0.6 * share), np.uint32(ground)))


def paint_gaps(
    block: U32,
    columns: Columns,
    classes: U8,
    colors: GapColors,
    foot: int,
    phase: tuple[int, int] = (0, 0),
) -> None:
    """Hatch the idle columns of a lane in the colour of their cause, over a tint, with a solid line of ``foot`` pixels.

    All lines of ``block`` are alike before. ``phase`` (columns, rows) moves the hatching with the picture.
    """
    present = columns.event >= 0
    height, width = block.shape
    if not height or not present.any():
        return
    share = np.minimum((columns.coverage * STEPS).astype(np.int64), STEPS - 1)
    share += classes * np.int64(STEPS)
    period = len(colors.tile)
    place = share * period + _column_of_tile(width, phase[0] % period, period)
    kept = np.empty(0, np.int64)
    if not present.all():
        absent = ~present
        place -= (place - (colors.tile.shape[1] - 1)) * absent
        share -= (share - (len(colors.foot) - 1)) * absent
        kept = (absent & (block[0] != colors.foot[-1])).nonzero()[0]
    under = block[0, kept]
    for row in range(min(period, height - foot)):
        colors.tile[(row + phase[1]) % period].take(place, out=block[row], mode="clip")
    for row in range(period, height - foot, period):
        some = block[row : min(row + period, height - foot)]
        some[:] = block[: len(some)]
    if foot:
        block[height - foot :] = colors.foot.take(share)
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
