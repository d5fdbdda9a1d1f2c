"""Rows that are no lane of the recording: the step as it would be after some fixes, the critical path, answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from parsers.model import I64, Counter
from parsers.model.late import dataclass
from viewer.timeline.geometry.row_index import Row, row_index
from viewer.timeline.geometry.tracks import Track

if TYPE_CHECKING:
    from PySide6.QtGui import QColor

    from viewer.appearance.theme import Theme

ABOVE_ALL = -1
# keys of tracks: predicted steps begin with the one, the critical path has the other
GHOST, PATH = ("ghost/", "path")


@dataclass(frozen=True, slots=True)
class Frame:
    """What is predicted, from ``start`` to ``end``, and until when it was recorded (ns); ``caption`` says so."""

    start: int
    end: int
    recorded_end: int
    caption: str


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """A track below the first lane of ``device``, or above all lanes. A row's ``name`` is its colour in ``colors``.

    ``told`` gives title and body for the card of an entry, by row and offset. What was ``recorded`` is drawn as such.
    ``legend`` says what the colours are, ``parted`` leaves a line between neighbours. A track with a ``curve`` shows
    that in its first colour, instead of rows. While a track that stands for ``events`` is shown, other events are pale.
    ``item`` numbers what an entry stands for, where one can choose that; the chosen one has an ``outline``: its row,
    start and end.
    """

    track: Track
    device: int
    rows: tuple[Row, ...]
    colors: Callable[[Theme], list[QColor]]
    told: Callable[[int, int], tuple[str, str]]
    frame: Frame | None = None
    height: int = 40
    recorded: bool = False
    legend: tuple[str, ...] = ()
    events: I64 | None = None
    curve: Counter | None = None
    parted: bool = False
    item: Callable[[int, int], int] | None = None
    outline: tuple[int, int, int] | None = None

    def at(self, row: int, when: float) -> int:
        """The entry of a row that is open at a time; -1 where there is none."""
        if not 0 <= row < len(self.rows):
            return -1
        place = int(np.searchsorted(self.rows[row].start, when, side="right")) - 1
        return place if place >= 0 and when < self.rows[row].end[place] else -1


def derived_row(start: I64, end: I64, color: npt.NDArray[np.integer[Any]]) -> Row:
    """Entries by start; where two would overlap by rounding, the earlier one ends."""
    ends = end.copy()
    ends[:-1] = np.minimum(ends[:-1], start[1:])
    return row_index(start, np.maximum(ends, start), color.astype(np.int32))
