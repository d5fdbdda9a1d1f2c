"""Idle time joined into gaps as they are drawn."""

from __future__ import annotations

import numpy as np

from rules.analysis.idle.causes import Cause, IdleTable
from rules.culprit import Culprit, CulpritKind
from viewer.timeline.geometry.gaps import device_gaps
from viewer.timeline.scene import heavy_culprits

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


def test_names_behind_little_idle_time_and_mere_launching_are_no_culprits() -> None:
    table = idle(
        (0, 1000, 0, Cause.HOST, 0), (1000, 1020, 0, Cause.HOST, 1), (1020, 2000, 0, Cause.LAUNCH, 2)
    )
    assert heavy_culprits(table) == {"a": Cause.HOST}
