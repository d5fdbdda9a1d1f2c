"""What the analysis, the rules and their words have in common: culprits, thresholds, and what "most of it" means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import Enum, StrEnum

from parsers.model.catalogs import load_all
from parsers.model.late import dataclass, regex
from parsers.model.units import duration, parse_duration, parse_size, size, three_digits

_PLAIN_WORDS = regex(r"[A-Za-z][a-z]*(?: [A-Za-z][a-z]*)*|\d[\d.,]*")


def quoted(name: str) -> str:
    """A recorded name inside a sentence: in quotes where it would be read as a word or number of it, such as “data”."""
    name = name.strip()
    return f"“{name}”" if _PLAIN_WORDS.fullmatch(name) else name


class CulpritKind(StrEnum):
    """What sort of thing a culprit is. ``OUTSIDE`` and ``REASON`` are words of ours, all others names."""

    NOBODY = "nobody"
    REGION = "region"
    OPERATOR = "operator"
    CALL = "API call"
    FRAME = "Python frame"
    OUTSIDE = "outside any region"
    REASON = "reason"
    RANK = "rank"
    KERNEL = "kernel"
    WORK = "kind of work on the GPU"
    COPY = "copy"
    COLLECTIVE = "collective"
    STEP = "step"
    COUNTER = "counter"


_NAMED_BY_PEOPLE = (CulpritKind.REGION, CulpritKind.OPERATOR)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's own code, or the first line of the function where no more is known: ``is_call`` is false."""

    file: str
    line: int
    function: str = ""
    is_call: bool = True

    @staticmethod
    def of(place: str, function: str = "", *, is_call: bool = True) -> SourceLine | None:
        """From a recorded "train.py:12"; None for anything else."""
        file, _, line = place.rpartition(":")
        return SourceLine(file, int(line), function, is_call) if file and line.isdecimal() else None

    @property
    def text(self) -> str:
        """ "train.py:12", as compilers and editors write it."""
        return f"{self.file}:{self.line}"

    @property
    def told(self) -> str:
        """ "train.py:12, in load" or "load, which begins at train.py:12"."""
        if not self.function:
            return self.text
        return (
            f"{self.text}, in {self.function}"
            if self.is_call
            else f"{self.function}, which begins at {self.text}"
        )


@dataclass(frozen=True, slots=True)
class Culprit:
    """One culprit; ``place`` is what it stands in, such as the operator around a call, ``at`` the line to open."""

    kind: CulpritKind
    name: str
    place: Culprit | None = None
    note: str = ""  # what its name does not say, in a word or two
    at: SourceLine | None = None

    @property
    def text(self) -> str:
        """ "cudaLaunchKernel in aten::mm": as it is shown everywhere."""
        name = f"{self.name} ({self.note})" if self.note else self.name
        return f"{name} in {self.place.text}" if self.place is not None else name

    @property
    def said(self) -> str:
        """ "cudaMemcpyAsync in “data”": the same inside a sentence."""
        name = quoted(self.name) if self.kind in _NAMED_BY_PEOPLE else self.name
        name = f"{name} ({self.note})" if self.note else name
        return f"{name} in {self.place.said}" if self.place is not None else name

    def __str__(self) -> str:
        return self.text

    @property
    def names(self) -> tuple[str, ...]:
        """Its own name and those of its places."""
        return (self.name, *(self.place.names if self.place is not None else ()))

    def is_in(self, kind: CulpritKind, prefix: str = "") -> bool:
        """Whether it, or what it stands in, is of a kind and has a name that begins so."""
        mine = self.kind is kind and self.name.startswith(prefix)
        return mine or (self.place is not None and self.place.is_in(kind, prefix))


NOBODY = Culprit(CulpritKind.NOBODY, "")


def reason(words: str) -> Culprit:
    """What stands in for a culprit where nobody can be named."""
    return Culprit(CulpritKind.REASON, words)


MAJORITY = 0.5
NEARLY_ALL = 0.9


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
