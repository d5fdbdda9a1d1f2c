"""Thresholds of the rules that a user may change: meaning, default, bounds and source of each, and chosen values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from parsers.model.catalogs import load_all
from parsers.model.late.dataclass import dataclass
from parsers.model.late.regex import regex
from parsers.model.units import duration, parse_duration, parse_size, size, three_digits


class Unit(Enum):
    """How a threshold is counted; the value is what is written behind the number, times are ns."""

    SHARE = "%"
    TIMES = "x"
    TIME = "ns"
    BYTES = "B"
    COUNT = ""


@dataclass(frozen=True, slots=True)
class Threshold:
    """One number that a rule decides by. ``meaning`` completes "the limit for ..."; shares are fractions of one."""

    key: str
    meaning: str
    unit: Unit
    default: float
    least: float
    most: float
    source: str

    def written(self, value: float) -> str:
        """A value as people read it, and as ``parsed`` takes it."""
        if self.unit is Unit.SHARE:
            return f"{three_digits(value * 100)} %"
        if self.unit is Unit.TIMES:
            return f"{three_digits(value)}x"
        if self.unit is Unit.TIME:
            return duration(value)
        return size(value) if self.unit is Unit.BYTES else f"{value:,.0f}"

    def told(self, value: float) -> str:
        """A value inside a sentence: "1 %", "0.5 ms", "1 MB", and "1.5" for "1.5 times"."""
        if self.unit is Unit.SHARE:
            return f"{value * 100:g} %"
        if self.unit is Unit.TIME:
            return f"{value / 1e6:g} ms" if value >= 100_000 else f"{value / 1e3:g} us"
        if self.unit is Unit.BYTES:
            return f"{value / 1e6:g} MB"
        return f"{value:g}"

    def parsed(self, text: str) -> float | None:
        """ "5 %", "1.5x", "20 us", "2 MB" or "20" as a value inside the bounds; None where it is none."""
        value = _number(text.strip().replace(",", ""), self.unit)
        return value if value is not None and self.least <= value <= self.most else None


_FACTORS = {Unit.SHARE: {"%": 0.01, "": 1.0}, Unit.TIMES: {"x": 1.0, "": 1.0}, Unit.COUNT: {"": 1.0}}
_WRITTEN = regex(r"(\d+(?:\.\d+)?)\s*([a-z%]*)", re.IGNORECASE)


def _number(text: str, unit: Unit) -> float | None:
    if unit is Unit.TIME:
        return parse_duration(text)
    if unit is Unit.BYTES:
        return parse_size(text)
    found = _WRITTEN.fullmatch(text)
    factor = _FACTORS[unit].get(found[2].lower()) if found is not None else None
    return round(float(found[1]) * factor, 9) if found is not None and factor is not None else None


_KNOWN: dict[str, Threshold] = {}


def threshold(
    key: str, meaning: str, unit: Unit, default: float, *, least: float, most: float, source: str
) -> Threshold:
    """Declare a threshold beside the code that decides by it."""
    made = _KNOWN[key] = Threshold(key, meaning, unit, default, least, most, source)
    return made


def known_thresholds() -> tuple[Threshold, ...]:
    """Every threshold that rules and their analyses declare, by key."""
    load_all(f"{__package__.rpartition('.')[0]}.catalog")
    return tuple(_KNOWN[key] for key in sorted(_KNOWN))


@dataclass(frozen=True)
class Thresholds:
    """Chosen values by key; a threshold that is not among them, or out of bounds, has its default."""

    chosen: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, wanted: Threshold) -> float:
        value = self.chosen.get(wanted.key, wanted.default)
        return value if wanted.least <= value <= wanted.most else wanted.default

    def changed(self) -> tuple[str, ...]:
        """A phrase for each threshold that is not at its default: "... 5 % instead of 1 %"."""
        return tuple(
            f"{each.meaning}: {each.written(self[each])} instead of {each.written(each.default)}"
            for each in (known_thresholds() if self.chosen else ())
            if self[each] != each.default
        )


DEFAULTS = Thresholds()
MIN_SHARE = threshold(
    "least-share",
    "the smallest share of the analysed time for which a loss is reported",
    Unit.SHARE,
    0.01,
    least=0.0001,
    most=0.5,
    source="below 1 % it is lost in noise (HTA); Kineto's plugin and TraceLens report from 5 %",
)
