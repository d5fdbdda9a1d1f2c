"""How far off the predictions of a fix were in programs that no constant was fitted on."""

from __future__ import annotations

import json
from functools import cache

import resources
from parsers.model.late import dataclass

FILE = "measured_gains.json"


@dataclass(frozen=True, slots=True)
class MeasuredGains:
    """Measured gains of ``programs``: four of five are ``low`` to ``high`` times the predicted ones."""

    programs: int
    low: float
    high: float


@cache
def measured_gains() -> dict[str, MeasuredGains]:
    """By the id of the fix; only of fixes that were measured in enough programs."""
    told = json.loads(resources.path(FILE).read_text("utf-8"))
    return {
        fix: MeasuredGains(int(each["programs"]), each["low"], each["high"]) for fix, each in told.items()
    }
