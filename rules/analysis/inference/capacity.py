"""What larger batches than those tried may decode, as far as the time of a step follows its batch size."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import median_of
from parsers.model.late import dataclass
from rules.analysis.inference.engine_steps import EngineSteps

_MIN_STEPS = 3  # of one size
_MIN_SIZES = 4
_SPREADS = 2.0  # of the medians around the line: about 95 % of them
_FURTHEST = 2  # times the largest batch: a line of what was tried tells nothing of more


@dataclass(frozen=True, slots=True)
class Capacity:
    """A line through the median times of decode steps: ``base_ns`` and so much more for each request.

    ``spread_ns`` is the standard deviation of the medians around it, ``largest`` the largest batch that was tried.
    """

    base_ns: float
    per_request_ns: float
    spread_ns: float
    largest: int

    @property
    def furthest(self) -> int:
        """The largest batch of which anything is said."""
        return self.largest * _FURTHEST

    def rate(self, batch: float) -> float:
        """Tokens a second, if each further request takes as long as those that were tried."""
        return batch / (self.base_ns + self.per_request_ns * batch) * 1e9

    def band(self, batch: float) -> tuple[float, float]:
        """From no gain beyond the largest batch at all, to what the spread of the medians allows."""
        ns = self.base_ns + self.per_request_ns * batch
        fastest = max(ns - _SPREADS * self.spread_ns, ns / 2)
        return min(self.rate(self.largest), self.rate(batch)), batch / fastest * 1e9


def capacity_of(decode: EngineSteps) -> Capacity | None:
    """None where too few sizes were tried, or where the smallest batches take no time of their own."""
    sizes, which, counts = np.unique(decode.decoded, return_inverse=True, return_counts=True)
    often = np.flatnonzero((sizes > 0) & (counts >= _MIN_STEPS))
    if len(often) < _MIN_SIZES:
        return None
    taken = (decode.end - decode.start).astype(np.float64)
    medians = np.array([median_of(taken[which == place]) for place in often.tolist()])
    tried, weights = sizes[often].astype(np.float64), np.sqrt(counts[often])
    slope, base = np.polyfit(tried, medians, 1, w=weights).tolist()
    if slope < 0:
        slope, base = 0.0, float(np.average(medians, weights=weights**2))
    if base <= 0:
        return None
    spread = float(np.sqrt(np.average((medians - base - slope * tried) ** 2, weights=weights**2)))
    return Capacity(base, slope, spread, int(tried.max()))
