"""The axis of gains: logarithmic, so that twice as fast and half as fast are equally far from no difference."""

from __future__ import annotations

import math
from collections.abc import Iterable

from parsers.model.late import dataclass

# the first are marked first
MARKS = (1.0, 2.0, 1.5, 3.0, 5.0, 10.0, 0.5, 1.2, 2.5, 0.8, 1.1, 0.9, 4.0, 7.0, 0.2)
MIN_APART = 0.11  # of the axis, between two marks
MARK_PX = 36  # what the number of a mark needs
MIN_GAIN, MAX_GAIN = 0.1, 12.0  # what is beyond ends at the end
MARGIN = 1.06
NARROWEST = (0.9, 1.4)


@dataclass(frozen=True, slots=True)
class GainAxis:
    """From ``least`` to ``most`` times as fast."""

    least: float
    most: float

    @classmethod
    def around(cls, gains: Iterable[float]) -> GainAxis:
        """An axis that holds all of these, and 1."""
        known = [min(max(gain, MIN_GAIN), MAX_GAIN) for gain in gains]
        least, most = NARROWEST
        return cls(
            min([least, *(gain / MARGIN for gain in known)]), max([most, *(gain * MARGIN for gain in known)])
        )

    def share(self, gain: float) -> float:
        """Where a gain lies, from 0 to 1."""
        return math.log(min(max(gain, self.least), self.most) / self.least) / math.log(self.most / self.least)

    def marks(self, pixels: float) -> tuple[float, ...]:
        """Gains to mark on an axis of so many pixels, in their order, none too near to another."""
        chosen: list[float] = []
        least = max(MIN_APART, MARK_PX / max(pixels, 1.0))
        for mark in MARKS:
            apart = all(abs(self.share(mark) - self.share(each)) >= least for each in chosen)
            if self.least <= mark <= self.most and apart:
                chosen.append(mark)
        return tuple(sorted(chosen))


OF_CARDS = GainAxis(0.9, MAX_GAIN)  # the same for all fixes
MARKED_ON_CARDS = (1.0, 2.0, 3.0, 5.0)
