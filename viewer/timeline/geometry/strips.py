"""Rows in pixel columns, kept while the view moves: only what comes into view is worked out."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from viewer.timeline.geometry.columns import Columns, Grid, columns
from viewer.timeline.geometry.row_index import Row

U32 = npt.NDArray[np.uint32]

BEYOND = 8  # columns on either side of a view: what begins or ends there shows at its edge
AHEAD = 3  # a row that has to grow grows by the view's width over this
NEAR = 4  # a row may grow in good time when less than the view's width over this is left
MOST_VIEWS = 3  # widths of the view that a row keeps at most
MOST_ROWS = 600
_NONE = np.empty(0, np.int64)
_NO_EDGE = np.empty(0, np.float64)


@dataclass(slots=True, eq=False)
class Strip:
    """Columns [first, last) of a row, and their colours once somebody asked for them."""

    row: Row
    first: int
    last: int
    columns: Columns
    empty: bool = False
    colors: U32 | None = None

    @classmethod
    def of(cls, row: Row, view: Grid, first: int, last: int) -> Strip:
        """These columns of the lattice of ``view``."""
        found = columns(row, view if (first, last) == (view.first, view.last) else view.part(first, last))
        return cls(row, first, last, found if found is not None else _nothing(last - first), found is None)

    def shown(self, view: Grid) -> Columns | None:
        """The columns of the view; None when nothing is in the whole strip."""
        if self.empty:
            return None
        shift, whole = view.first - self.first, self.columns
        here = slice(shift, shift + view.width)
        if not len(whole.wide):
            return Columns(whole.coverage[here], whole.event[here], _NONE, _NO_EDGE, _NO_EDGE, _NONE, _NONE)
        some = slice(
            int(whole.end.searchsorted(shift, side="right")),
            int(whole.begin.searchsorted(shift + view.width, side="left")),
        )
        return Columns(
            whole.coverage[here],
            whole.event[here],
            whole.wide[some],
            whole.left[some] - shift,
            whole.right[some] - shift,
            whole.begin[some] - shift,
            whole.end[some] - shift,
        )

    def joined(self, other: Strip) -> Strip:
        """With the columns of the strip that begins where this one ends."""
        one, two, shift = self.columns, other.columns, other.first - self.first
        both = bool(len(one.wide) and len(two.wide) and one.wide[-1] == two.wide[0])
        end = one.end[:-1] if both else one.end
        rest = slice(1 if both else 0, None)
        made = Columns(
            np.concatenate((one.coverage, two.coverage)),
            np.concatenate((one.event, two.event)),
            np.concatenate((one.wide, two.wide[rest])),
            np.concatenate((one.left, two.left[rest] + shift)),
            np.concatenate((one.right, two.right[rest] + shift)),
            np.concatenate((one.begin, two.begin[rest] + shift)),
            np.concatenate((end, two.end + shift)),
        )
        return Strip(self.row, self.first, other.last, made, self.empty and other.empty)

    def cut(self, first: int, last: int) -> Strip:
        """Columns [first, last) alone, where there are more."""
        low, high = max(first, self.first), min(last, self.last)
        if (low, high) == (self.first, self.last):
            return self
        here, shift, whole = slice(low - self.first, high - self.first), low - self.first, self.columns
        some = slice(
            int(whole.end.searchsorted(shift, side="right")),
            int(whole.begin.searchsorted(high - self.first, side="left")),
        )
        made = Columns(
            whole.coverage[here],
            whole.event[here],
            whole.wide[some],
            whole.left[some] - shift,
            whole.right[some] - shift,
            np.maximum(whole.begin[some] - shift, 0),
            np.minimum(whole.end[some] - shift, high - low),
        )
        return Strip(self.row, low, high, made, self.empty)


class Strips:
    """The rows of one zoom by name; they grow while the view moves, a few of them ahead of time in every frame."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Strip] = {}
        self._zoom: tuple[object, ...] = ()
        self._view: Grid | None = None
        self._around: Grid | None = None
        self._moved = 0
        self._spare = 0

    def begin(self, view: Grid, *look: object) -> None:
        """A new frame; another zoom, width or ``look`` (compared by ==) forgets everything."""
        zoom = (view.step, view.phase, view.width, *look)
        if zoom != self._zoom or len(self._kept) > MOST_ROWS:
            self._kept.clear()
            self._zoom = zoom
            self._around = None
        self._moved = view.first - self._view.first if self._view is not None else 0
        self._view = view
        self._spare = max(len(self._kept) // 5, 2)

    def strip(self, name: Hashable, row: Row, view: Grid) -> Strip:
        """A row with at least the columns of ``view``."""
        first, last = view.first - BEYOND, view.first + view.width + BEYOND
        kept = self._kept.get(name)
        if kept is None or kept.row is not row or kept.last < first or kept.first > last:
            kept = Strip.of(row, self._fresh(view, first, last), first, last)
        elif first < kept.first or last > kept.last or self._should_grow(kept, first, last):
            kept = self._grown(kept, view, first, last)
        self._kept[name] = kept
        return kept

    def _fresh(self, view: Grid, first: int, last: int) -> Grid:
        """The columns of a row that is not kept yet: the same for all of them in a frame."""
        if self._around is None or self._around.first != first or self._around.last != last:
            self._around = view.part(first, last)
        return self._around

    def look_ahead(self, most: int) -> bool:
        """Let up to so many rows grow on both sides while nothing moves; whether there is more to do."""
        view = self._view
        if view is None:
            return False
        near = view.width // NEAR + BEYOND
        first, last = view.first - near, view.first + view.width + near
        short = [
            name
            for name, kept in self._kept.items()
            if kept.first <= view.first < view.first + view.width <= kept.last
            and (kept.first > first or kept.last < last)
        ]
        for name in short[:most]:
            kept = self._kept[name]
            if kept.first > first:
                kept = Strip.of(kept.row, view, first, kept.first).joined(kept)
            if kept.last < last:
                kept = kept.joined(Strip.of(kept.row, view, kept.last, last))
            self._kept[name] = kept
        return len(short) > most

    def _should_grow(self, kept: Strip, first: int, last: int) -> bool:
        near = (last - first) // NEAR
        left = last + near > kept.last if self._moved > 0 else self._moved < 0 and first - near < kept.first
        if left and self._spare > 0:
            self._spare -= 1
            return True
        return False

    def _grown(self, kept: Strip, view: Grid, first: int, last: int) -> Strip:
        ahead = (last - first) // AHEAD
        if first < kept.first or self._moved < 0:
            kept = Strip.of(kept.row, view, min(first, kept.first) - ahead, kept.first).joined(kept)
        if last > kept.last or self._moved > 0:
            kept = kept.joined(Strip.of(kept.row, view, kept.last, max(last, kept.last) + ahead))
        most = (last - first) * MOST_VIEWS
        if kept.last - kept.first > most:
            spare = (most - (last - first)) // 2
            kept = kept.cut(first - spare, last + spare)
        return kept


def colored(strip: Strip, make: Callable[[Columns], U32], view: Grid) -> U32:
    """The colours of the columns of ``view``; ``make`` is asked once for the whole strip."""
    if strip.colors is None:
        strip.colors = make(strip.columns)
    return strip.colors[view.first - strip.first : view.first - strip.first + view.width]


def _nothing(width: int) -> Columns:
    return Columns(np.zeros(width), np.full(width, -1, np.int64), _NONE, _NO_EDGE, _NO_EDGE, _NONE, _NONE)
