"""The rows of an answer as a lane of the timeline: where they lie, and what a card says of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from parsers.model import I64, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.units import duration
from viewer.timeline.geometry.derived import ABOVE_ALL, Derived, derived_row
from viewer.timeline.geometry.tracks import Track

if TYPE_CHECKING:
    from PySide6.QtGui import QColor

    from viewer.appearance.theme import Theme

KEY = "query/"
HEIGHT = 30
POINT_NS = 1


@dataclass(frozen=True, slots=True, eq=False)
class Overlay:
    """Rows by start, ns; ``row`` is the row of the answer, ``number`` tells overlays and their colours apart.

    ``event`` is the event of a row, -1 where it is of none.
    """

    title: str
    start: I64
    end: I64
    row: I64
    event: I64
    number: int = 0

    def __len__(self) -> int:
        return len(self.start)


def places_of_rows(trace: Trace, frame: pd.DataFrame) -> tuple[I64, I64, I64]:
    """Start, end and event of each row; -1 where a row has none.

    Rows with an ``event`` lie where that does, others where their own times say.
    """
    count = len(frame)
    nowhere = np.full(count, -1, np.int64)
    event = _whole(frame, "event", nowhere)
    known = (event >= 0) & (event < len(trace.events))
    event = np.where(known, event, -1)
    start = _whole(frame, "start_ns", _whole(frame, "ts", _whole(frame, "time_ns", nowhere)))
    length = _whole(frame, "duration_ns", _whole(frame, "dur", np.zeros(count, np.int64)))
    end = _whole(frame, "end_ns", np.where(start >= 0, start + length, -1))
    if known.any():
        own = start < 0
        at = np.maximum(event, 0)
        start = np.where(known & own, trace.events.start[at], start)
        end = np.where(known & own, trace.events.end[at], end)
    return start, np.maximum(end, start), event


def _whole(frame: pd.DataFrame, name: str, otherwise: I64) -> I64:
    """A column of whole numbers; -1 where it says nothing, ``otherwise`` where there is no such column."""
    if list(frame.columns).count(name) != 1 or not pd.api.types.is_numeric_dtype(frame[name]):
        return otherwise
    return np.asarray(frame[name].fillna(-1).to_numpy(np.float64), np.int64)


def overlay_of(trace: Trace, frame: pd.DataFrame, title: str, number: int = 0) -> Overlay:
    """The rows that have a place, by start."""
    start, end, event = places_of_rows(trace, frame)
    rows = np.flatnonzero(start >= 0)
    rows = rows[np.argsort(start[rows], kind="stable")]
    return Overlay(
        title, start[rows], np.maximum(end[rows], start[rows] + POINT_NS), rows, event[rows], number
    )


def overlay_lane(overlay: Overlay) -> Derived:
    """The lane above all others that shows them."""

    def colors(theme: Theme) -> list[QColor]:
        return [theme.error if not overlay.number else theme.named(overlay.number)]

    def told(_: int, offset: int) -> tuple[str, str]:
        length = duration(int(overlay.end[offset] - overlay.start[offset]))
        return overlay.title, f"row {int(overlay.row[offset]) + 1:,} of the answer, {length}"

    return Derived(
        Track(f"{KEY}{overlay.number}", "", f"Query {overlay.number + 1}", overlay.title, derived=True),
        ABOVE_ALL,
        (derived_row(overlay.start, overlay.end, np.zeros(len(overlay), np.int64)),),
        colors,
        told,
        None,
        HEIGHT,
        recorded=True,
        events=distinct_values(overlay.event[overlay.event >= 0]),
    )
