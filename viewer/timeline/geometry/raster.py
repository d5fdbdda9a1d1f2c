"""Paints rows, gaps and counters into an array of pixels (0xffRRGGBB), a whole row at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from viewer.timeline.geometry.columns import Columns

U32 = npt.NDArray[np.uint32]
U8 = npt.NDArray[np.uint8]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Tiles = npt.NDArray[np.bool_]

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


def put_row(block: U32, columns: Columns, colors: U32, ground: int, line: int) -> None:
    """Write the colours of a row into every line of ``block``, and take away the corners of wide events."""
    present = columns.event >= 0
    if present.all():
        block[:] = colors
    else:
        np.copyto(block, colors, where=present)
    if len(columns.wide) and block.shape[0] >= ROUNDED_ROW * line:
        width = columns.right - columns.left
        _round_corners(block, columns.left[width >= ROUNDED], columns.right[width >= ROUNDED], ground, line)


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
    """For every class of gap the tint, the hatching and the foot line, each at ``STEPS`` shares of a column."""

    plain: U32
    dark: U32
    foot: U32


def gap_colors(colors: U32, ground: int) -> GapColors:
    """Colours of gaps over ``ground``."""
    share = np.arange(1, STEPS + 1) / STEPS
    return GapColors(
        blended(colors, ground, TINT * share),
        blended(colors, ground, HATCHING * share),
        blended(colors, ground, 0.4 + 0.6 * share),
    )


def paint_gaps(
    block: U32,
    columns: Columns,
    classes: U8,
    colors: GapColors,
    tiles: Tiles,
    foot: int,
    phase: tuple[int, int] = (0, 0),
) -> None:
    """Hatch the idle columns of a lane in the colour of their cause, over a tint, with a solid line of ``foot`` pixels.

    ``tiles`` says for every class which pixels are hatched; ``phase`` (columns, rows) moves them with the picture.
    """
    present = columns.event >= 0
    height, width = block.shape
    if not height or not present.any():
        return
    share = np.minimum((columns.coverage * STEPS).astype(np.int64), STEPS - 1)
    kind = classes.astype(np.int64)
    plain, dark = colors.plain[kind, share], colors.dark[kind, share]
    period = tiles.shape[1]
    everywhere = bool(present.all())
    place = kind * (period * period) + (np.arange(width) + phase[0]) % period
    for row in range(min(period, height)):
        line = np.where(tiles.ravel()[place + (row + phase[1]) % period * period], dark, plain)
        np.copyto(block[row : height - foot : period], line, where=True if everywhere else present)
    np.copyto(block[height - foot :], colors.foot[kind, share], where=True if everywhere else present)


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
