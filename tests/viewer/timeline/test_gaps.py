"""Idle time joined into gaps as they are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage, QPainter

from rules.analysis.idle.causes import Cause, IdleTable
from rules.terms import Culprit, CulpritKind
from viewer.appearance import theme
from viewer.timeline.gap_labels import BOX_HEIGHT, GapLabels
from viewer.timeline.geometry.columns import columns, grid
from viewer.timeline.geometry.gaps import device_gaps
from viewer.timeline.geometry.scale import Scale

Row = tuple[int, int, int, Cause, int]


def idle(*rows: Row) -> IdleTable:
    """From (start, end, device, cause, culprit)."""
    start, end, device, cause, culprit = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    none = np.full(len(start), -1, np.int64)
    return IdleTable(
        start,
        end,
        device,
        cause.astype(np.uint8),
        culprit.astype(np.int32),
        none,
        none,
        tuple(Culprit(CulpritKind.REGION, name) for name in "abc"),
    )


def test_touching_intervals_of_one_cause_are_one_gap_with_its_heaviest_culprit() -> None:
    table = idle(
        (0, 10, 0, Cause.ALLOCATOR, 0),
        (10, 40, 0, Cause.ALLOCATOR, 1),
        (40, 45, 0, Cause.ALLOCATOR, 0),
        (45, 50, 0, Cause.HOST, 2),
        (60, 70, 0, Cause.HOST, 2),
    )
    gaps = device_gaps(table)[0]
    assert gaps.row.start.tolist() == [0, 45, 60]
    assert gaps.row.end.tolist() == [45, 50, 70]
    assert gaps.row.name.tolist() == [Cause.ALLOCATOR, Cause.HOST, Cause.HOST]
    assert gaps.culprit.tolist() == [1, 2, 2]
    assert gaps.several.tolist() == [True, False, False]
    assert gaps.first.tolist() == [0, 3, 4]


def test_devices_keep_to_themselves() -> None:
    gaps = device_gaps(idle((0, 10, 0, Cause.HOST, 0), (10, 20, 1, Cause.HOST, 0)))
    assert gaps[0].row.end.tolist() == [10]
    assert gaps[1].row.start.tolist() == [10]
    assert gaps[1].first.tolist() == [1]


def test_gaps_too_narrow_for_labels_of_their_own_share_one_that_counts_them(qapp: object) -> None:
    table = idle(*((place * 100, place * 100 + 99, 0, Cause.HOST, 0) for place in range(100)))
    gaps = device_gaps(table)[0]
    seen = columns(gaps.row, grid(Scale(0.0, 10_000.0, 400.0)))
    assert seen is not None
    labels = GapLabels(theme.font(), theme.font())
    labels.collect(table, gaps, seen, QRectF(0, 0, 400, 40), 0.0, 1.0, 25.0)
    (label,) = labels._labels
    assert label.time.endswith(" in 100 gaps")


@pytest.mark.parametrize(("below", "boxes"), [(40.0, 1), (BOX_HEIGHT, 1), (BOX_HEIGHT - 1.0, 0)])
def test_no_label_of_a_gap_is_cut_where_its_lane_is(qapp: object, below: float, boxes: int) -> None:
    table = idle((0, 10_000, 0, Cause.HOST, 0))
    gaps = device_gaps(table)[0]
    seen = columns(gaps.row, grid(Scale(0.0, 10_000.0, 400.0)))
    assert seen is not None
    labels = GapLabels(theme.font(), theme.font())
    labels.collect(table, gaps, seen, QRectF(0, 60, 400, 60), 0.0, 1.0, 25.0)
    picture = QImage(400, 200, QImage.Format.Format_RGB32)
    painter = QPainter(picture)
    shown = QRectF(0, 0, 400, 60 + below)
    labels.draw(painter, shown)
    painter.end()
    assert len(labels.boxes) == boxes
    assert all(shown.contains(box) for box in labels.boxes)
