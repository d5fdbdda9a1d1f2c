"""How far the bands of a fix have to reach to hold in programs that they were not made from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache

import resources
from parsers.model.late.dataclass import dataclass

FILE = "measured_bands.json"
NARROWEST = 1.15  # a band reaches at least this factor to either side: docs/predictions.md
UNCERTAIN = 1.33  # ... and this one as far as the gain is one: half of the time saved may or may not be


@dataclass(frozen=True, slots=True)
class Reach:
    """By how many margins of the gain a band goes down and up beyond what the replay says; less far where negative."""

    lower: float = 0.0
    upper: float = 0.0

    def applied(self, low: float, expected: float, high: float) -> tuple[float, float]:
        """The band of a gain, moved."""
        return low / margin(expected) ** self.lower, high * margin(expected) ** self.upper


def margin(gain: float) -> float:
    """By which factor a gain may be missed: small gains by little, large ones by ``UNCERTAIN``."""
    return max(NARROWEST, min(UNCERTAIN, 1.0 + 0.5 * (gain - 1.0)))


@cache
def measured_reaches() -> dict[str, Reach]:
    """By the id of the fix; only of fixes that were measured in enough programs."""
    told = json.loads(resources.path(FILE).read_text("utf-8"))
    return {fix: Reach(each["lower"], each["upper"]) for fix, each in told.items()}


def widest(reaches: Mapping[str, Reach], fixes: Iterable[str]) -> Reach:
    """What the band of these fixes together reaches: as far as that of the one that is known least."""
    known = [reaches.get(each, Reach()) for each in fixes]
    return Reach(
        max((each.lower for each in known), default=0.0), max((each.upper for each in known), default=0.0)
    )
