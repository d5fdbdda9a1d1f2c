"""The steps of each rank as the ruler shows them: which are in view, and which is at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from parsers.model.arrays import I64
from parsers.model.late import dataclass
from viewer.timeline.geometry.scale import Scale

if TYPE_CHECKING:
    from rules.analysis.steps.steps import Step

MIN_PIXELS = 1.5  # steps that end closer to each other are told apart by nobody


@dataclass(frozen=True, eq=False)
class StepRow:
    """The steps of one rank by time, each with its index among the steps of all ranks."""

    rank: int | None = None
    numbered: tuple[tuple[int, Step], ...] = ()
    _start: I64 = field(init=False, repr=False)
    _end: I64 = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_start", np.array([step.start for _, step in self.numbered], np.int64))
        object.__setattr__(self, "_end", np.array([step.end for _, step in self.numbered], np.int64))

    def visible(self, scale: Scale) -> Iterator[tuple[int, Step]]:
        """The steps that touch the view; of those that end on the same pixel the first alone."""
        low = int(np.searchsorted(self._end, scale.t0, side="right"))
        high = int(np.searchsorted(self._start, scale.t1, side="right"))
        if high > low:
            pixel = np.floor((self._end[low:high] - scale.t0) / (scale.ns_per_pixel * MIN_PIXELS))
            for place in np.flatnonzero(np.diff(pixel, prepend=-np.inf)).tolist():
                yield self.numbered[low + place]

    def at(self, when: float) -> int:
        """The index of the step at a time, among the steps of all ranks; -1 where there is none."""
        place = int(np.searchsorted(self._start, when, side="right")) - 1
        return self.numbered[place][0] if place >= 0 and when < self._end[place] else -1


def step_rows(steps: Sequence[Step]) -> dict[int | None, StepRow]:
    """One row for each rank that has steps."""
    numbered: dict[int | None, list[tuple[int, Step]]] = {}
    for index, step in enumerate(steps):
        numbered.setdefault(step.rank, []).append((index, step))
    return {rank: StepRow(rank, tuple(own)) for rank, own in numbered.items()}
