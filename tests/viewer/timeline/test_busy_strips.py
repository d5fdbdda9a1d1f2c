"""The strip of a folded rank tells its own work from communication that stands alone."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model import Trace
from tests.rules.builder import TinyTrace
from viewer.appearance import theme
from viewer.timeline.geometry.columns import columns, grid
from viewer.timeline.geometry.drawing_index import ALONE, WORK, build_index
from viewer.timeline.geometry.raster import paint_shares
from viewer.timeline.geometry.scale import Scale
from viewer.timeline.pixels import busy_classes, busy_table


def of_rank(*work: tuple[float, float], communication: tuple[tuple[float, float], ...] = ()) -> Trace:
    trace = TinyTrace(rank=0)
    for start, end in work:
        trace.operation(start, end, "gemm")
    for start, end in communication:
        trace.collective(start, end)
    return trace.build()


def intervals(trace: Trace) -> list[tuple[int, int, int]]:
    row = build_index(trace).busy[0]
    return list(zip((row.start // 1000).tolist(), (row.end // 1000).tolist(), row.name.tolist(), strict=True))


def test_communication_stands_alone_only_where_nothing_else_runs() -> None:
    trace = of_rank((0, 100), (150, 200), communication=((50, 300),))
    assert intervals(trace) == [(0, 100, WORK), (100, 150, ALONE), (150, 200, WORK), (200, 300, ALONE)]


def test_without_communication_all_of_it_is_work() -> None:
    assert intervals(of_rank((0, 100), (50, 200))) == [(0, 200, WORK)]


def test_a_rank_that_only_communicates_is_shown_so() -> None:
    assert intervals(of_rank(communication=((0, 100),))) == [(0, 100, ALONE)]


@pytest.mark.parametrize("colors", [theme.DARK, theme.LIGHT, theme.CONTRAST])
def test_both_have_a_colour_of_their_own(colors: theme.Theme) -> None:
    table = busy_table(colors).reshape(2, -1)
    assert (table[WORK] != table[ALONE])[1:].all()


def test_a_column_shows_what_takes_most_of_it() -> None:
    row = build_index(of_rank((0, 100), communication=((0, 1000),))).busy[0]
    seen = columns(row, grid(Scale(0, 1_000_000, 10)))
    assert seen is not None
    assert np.asarray(busy_classes(row, seen)).tolist() == [WORK, *[ALONE] * 9]


def test_a_column_is_filled_as_high_as_it_is_busy_so_that_the_gaps_behind_it_are_seen() -> None:
    row = build_index(of_rank((0, 100), (100, 125), (200, 201))).busy[0]
    seen = columns(row, grid(Scale(0, 400_000, 4)))
    assert seen is not None
    block = np.zeros((8, 4), np.uint32)
    colors = np.where(seen.event < 0, 0, 7).astype(np.uint32)
    paint_shares(block, seen.coverage, colors, 10, 2, 3)
    assert (block == 7).sum(axis=0).tolist() == [8, 1, 1, 0]
    assert block[-1].tolist() == [7, 7, 7, 0]
