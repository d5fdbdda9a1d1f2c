"""Rows in pixel columns, kept while the view moves: only what comes into view is worked out."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Set
from functools import cached_property
from typing import ClassVar

import numpy as np

from parsers.model.arrays import BOOL, F64, I64, U32
from parsers.model.late import dataclass
from viewer.timeline.geometry.columns import WIDE, Columns, Grid, columns
from viewer.timeline.geometry.row_index import Row

BEYOND = 8  # columns on either side of a view: what begins or ends there shows at its edge
BEYOND_HURRIED = 96  # while zooming out: the next zooms are then covered
NEAR_ZOOM = 1.35
TURNS = 20  # while zooming: at most so many frames after the first ones until each row was worked out
FIRST_FRAMES = 2  # of a zoom
SPARED = 1 / 8  # of how far a strip serves: only slower zooms spare their first frames
AHEAD = 3  # a row that has to grow grows by the view's width over this
NEAR = 4  # a row may grow in good time when less than the view's width over this is left
MAX_VIEWS = 3  # widths of the view that a row keeps at most
MAX_ROWS = 600
_NONE = np.empty(0, np.int64)
_NO_EDGE = np.empty(0, np.float64)


@dataclass(slots=True, eq=False)
class Strip:
    """Columns [first, last) of a row on the lattice of ``zoom``, and what they look like once somebody asked."""

    row: Row
    zoom: Grid
    first: int
    last: int
    columns: Columns
    empty: bool = False
    looks: U32 | None = None
    make: Callable[[Columns], U32] | None = None  # who was asked for them
    times: I64 | None = None  # what ``spans`` says

    rough: ClassVar[bool] = False

    @classmethod
    def of(cls, row: Row, view: Grid, first: int, last: int) -> Strip:
        """These columns of the lattice of ``view``."""
        found = columns(row, view if (first, last) == (view.first, view.last) else view.part(first, last))
        return cls(
            row, view, first, last, found if found is not None else _nothing(last - first), found is None
        )

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

    def look(self, make: Callable[[Columns], U32], view: Grid) -> U32:
        """What the columns of the view look like; ``make`` is asked once for the whole strip."""
        return self.whole_look(make)[self._part(view)]

    def draw(self, make: Callable[[Columns], U32], view: Grid, line: U32) -> None:
        line[:] = self.whole_look(make)[self._part(view)]

    def coverage(self, view: Grid) -> F64:
        """The share of each column of the view that is busy."""
        return self.columns.coverage[self._part(view)]

    def _part(self, view: Grid) -> slice:
        return slice(view.first - self.first, view.first - self.first + view.width)

    def whole_look(self, make: Callable[[Columns], U32]) -> U32:
        """The same of all columns of the strip."""
        if self.looks is None:
            self.looks, self.make = make(self.columns), make
        return self.looks

    @property
    def spans(self) -> I64:
        """When each wide event begins and ends: 2 x n ns; asked for in many frames of a zoom."""
        if self.times is None:
            wide = self.columns.wide
            self.times = np.stack((self.row.start[wide], self.row.end[wide]))
        return self.times

    def joined(self, other: Strip) -> Strip:
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
        return Strip(self.row, self.zoom, self.first, other.last, made, self.empty and other.empty)

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
        return Strip(self.row, self.zoom, low, high, made, self.empty)


@dataclass(slots=True, eq=False)
class Stretched:
    """A row about as the strip of a zoom near this one says: each column of the view as ``place`` of the strip."""

    source: Strip
    empty: bool
    place: I64
    name: Hashable
    others: Stretching

    rough: ClassVar[bool] = True  # to be worked out when there is time

    def shown(self, _: Grid) -> Columns | None:
        """The columns of the view; what is wide has its exact edges. None when nothing is in the whole strip."""
        if self.empty:
            return None
        columns = self.source.columns
        return Columns(
            columns.coverage.take(self.place), columns.event.take(self.place), *self.others.wide(self.name)
        )

    def look(self, make: Callable[[Columns], U32], _: Grid) -> U32:
        return self.source.whole_look(make).take(self.place)

    def draw(self, make: Callable[[Columns], U32], _: Grid, line: U32) -> None:
        looks = self.source.looks
        (self.source.whole_look(make) if looks is None else looks).take(self.place, None, line, "wrap")

    def coverage(self, _: Grid) -> F64:
        """The share of each column of the view that is busy."""
        return self.source.columns.coverage.take(self.place)


class Stretching:
    """Rows of a zoom as they were worked out for zooms near it."""

    def __init__(self, exact: Mapping[Hashable, Strip], view: Grid, before: float) -> None:
        """``before`` is the distance of the last frame's columns."""
        self.goes_out = view.step > before
        self._view = view
        self._exact = exact
        self._turn = self._whose_turn(before)

    def rows(self) -> dict[Hashable, Stretched]:
        """All rows but those whose turn has come, or whose strip is of no zoom near this one or does not reach far."""
        alike: dict[tuple[float, float, int, int], list[Hashable]] = {}  # what was worked out together
        for name, exact in self._exact.items():
            zoom = exact.zoom
            if name not in self._turn and 1 / NEAR_ZOOM < self._view.step * zoom.rate < NEAR_ZOOM:
                alike.setdefault((zoom.rate, zoom.phase, exact.first, exact.last), []).append(name)
        if not alike:
            return {}
        rate, phase, first, last = np.array(list(alike), np.float64).T[:, :, None]
        place = (self._view.times[:-1] + self._view.step / 2) * rate
        place -= phase + first
        reaches = ((place[:, :1] >= 0) & (place[:, -1:] < last - first)).tolist()
        nearest = zip(place.astype(np.int64), alike.values(), reaches, strict=True)
        return {
            name: Stretched(self._exact[name], self._exact[name].empty, found, name, self)
            for found, names, (does_reach,) in nearest
            for name in (names if does_reach else ())
        }

    def _whose_turn(self, before: float) -> Set[Hashable]:
        """So many of the rows of the farthest zooms that each is worked out while its strip still serves.

        None in the first frames of a zoom, which take long as it is: what they need is in no cache of the processor.
        """
        view, zoomed = self._view, abs(math.log(self._view.step / before))
        reach = math.log(1 + 2 * BEYOND_HURRIED / view.width if self.goes_out else NEAR_ZOOM)
        names, steps = list(self._exact), [strip.zoom.step for strip in self._exact.values()]
        farthest = sorted(range(len(names)), key=steps.__getitem__, reverse=not self.goes_out)
        spared = FIRST_FRAMES * zoomed if FIRST_FRAMES * zoomed < reach * SPARED else 0.0
        if spared and abs(math.log(view.step / steps[farthest[0]])) < spared + zoomed / 2:
            return frozenset()
        turns = min(max(int((reach - spared) / max(zoomed, reach / 2 / TURNS)), 1), TURNS)
        return frozenset([names[place] for place in farthest[: -(-len(names) // turns)]])

    @cached_property
    def _edges(self) -> tuple[Mapping[Hashable, slice], BOOL, F64, F64, I64, I64]:
        """Of the wide events of all rows together: where a row's are, which can be seen, left, right, begin, end."""
        spans = [strip.spans for strip in self._exact.values()]
        ends = np.cumsum([each.shape[1] for each in spans]).tolist()
        part = {name: slice(b, e) for name, b, e in zip(self._exact, [0, *ends], ends, strict=False)}
        left, right = self._view.place(np.concatenate(spans, axis=1))
        begin = np.maximum(np.ceil(left), 0).astype(np.int64)
        end = np.minimum(np.floor(right), self._view.width).astype(np.int64)
        seen = (right > 0) & (left < self._view.width) & (right - left >= WIDE)
        return part, seen, left, right, begin, np.maximum(end, begin + 1)

    def wide(self, name: Hashable) -> tuple[I64, F64, F64, I64, I64]:
        """A row's wide events with their exact edges in the view, as ``Columns`` has them."""
        parts, seen, left, right, begin, end = self._edges
        part, wide = parts[name], self._exact[name].columns.wide
        some = seen[part].nonzero()[0]
        return (
            wide.take(some),
            left[part].take(some),
            right[part].take(some),
            begin[part].take(some),
            end[part].take(some),
        )


class Strips:
    """The rows of one zoom by name; they grow while the view moves, a few of them ahead of time in every frame."""

    def __init__(self) -> None:
        self._exact: dict[Hashable, Strip] = {}  # as they were worked out, for this zoom or one before
        self._stretched: dict[Hashable, Stretched] = {}  # those of one before
        self.is_rough = False  # whether a row of the last frame was stretched
        self._beyond = BEYOND
        self._zoom: tuple[object, ...] = ()
        self._view: Grid | None = None
        self._around: Grid | None = None
        self._moved = 0
        self._spare = 0

    def begin(self, view: Grid, *look: object, hurried: bool = False) -> None:
        """A new frame; another zoom, width or ``look`` (compared by ==) forgets everything.

        When ``hurried``, and the zoom is near the last one, some rows are worked out, in the next frame others, and the
        rest is stretched from what it was then; the next frame at the same zoom works all out.
        """
        zoom = (view.step, view.phase, view.width, *look)
        self._beyond = BEYOND
        if zoom != self._zoom or len(self._exact) > MAX_ROWS:
            self._stretched = {}
            if hurried and self._exact and self._view is not None and self._is_near(view, look):
                stretching = Stretching(self._exact, view, self._view.step)
                self._beyond = BEYOND_HURRIED if stretching.goes_out else BEYOND
                self._stretched = stretching.rows()
            self._exact = {name: each.source for name, each in self._stretched.items()}
            self._zoom = zoom
            self._around = None
        else:
            self._let_go_of_stretched()
        self.is_rough = False
        self._moved = view.first - self._view.first if self._view is not None else 0
        self._view = view
        self._spare = max(len(self._exact) // 5, 2)

    def _let_go_of_stretched(self) -> None:
        for name in self._stretched:
            if self._exact[name] is self._stretched[name].source:
                del self._exact[name]
        self._stretched = {}

    def _is_near(self, view: Grid, look: tuple[object, ...]) -> bool:
        _, _, width, *before = self._zoom
        return width == view.width and tuple(before) == look

    def strip(self, name: Hashable, row: Row, view: Grid) -> Strip | Stretched:
        """A row with at least the columns of ``view``."""
        stretched = self._stretched.get(name)
        if stretched is not None and stretched.source.row is row:
            self.is_rough = True
            return stretched
        kept = self._exact.get(name)
        first, last = view.first - self._beyond, view.first + view.width + self._beyond
        if kept is None or kept.row is not row or kept.last < first or kept.first > last:
            kept = Strip.of(row, self._fresh(view, first, last), first, last)
        elif first < kept.first or last > kept.last or self._should_grow(kept, first, last):
            kept = self._grown(kept, view, first, last)
        self._exact[name] = kept
        return kept

    def _fresh(self, view: Grid, first: int, last: int) -> Grid:
        """The columns of a row that is not kept yet: the same for all of them in a frame."""
        if self._around is None or self._around.first != first or self._around.last != last:
            self._around = view.part(first, last)
        return self._around

    def look_ahead(self, most: int) -> bool:
        """Let up to so many rows grow on both sides while nothing moves; whether there is more to do."""
        view = self._view
        if view is None or self.is_rough:
            return False
        self._let_go_of_stretched()
        near = view.width // NEAR + BEYOND
        first, last = view.first - near, view.first + view.width + near
        short = [
            (name, kept)
            for name, kept in self._exact.items()
            if kept.first <= view.first < view.first + view.width <= kept.last
            and (kept.first > first or kept.last < last)
        ]
        for name, kept in short[:most]:
            make = kept.make
            if kept.first > first:
                kept = Strip.of(kept.row, view, first, kept.first).joined(kept)
            if kept.last < last:
                kept = kept.joined(Strip.of(kept.row, view, kept.last, last))
            if make is not None:
                kept.whole_look(make)  # or the first frame of a zoom would ask for it in all rows
            self._exact[name] = kept
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
        most = (last - first) * MAX_VIEWS
        if kept.last - kept.first > most:
            spare = (most - (last - first)) // 2
            kept = kept.cut(first - spare, last + spare)
        return kept


def _nothing(width: int) -> Columns:
    return Columns(np.zeros(width), np.full(width, -1, np.int64), _NONE, _NO_EDGE, _NO_EDGE, _NONE, _NONE)
