"""Numbers as Nsight Compute prints them: with thousands separators, instance lists, and in any locale."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers.model.kernels import MetricValue
from parsers.model.late import dataclass, regex

_SIMPLE = regex(r"\d{1,30}(?:\.\d{1,30})?", re.ASCII)
_PLAIN = regex(r"[+-]?\d+")
_DOT_DECIMAL = regex(r"[+-]?(\d+|\d{1,3}(,\d{3})+)\.\d+(?!\d|[.,])")
_COMMA_DECIMAL = regex(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+(?!\d|[.,])")
_COMMA_THOUSANDS = regex(r"[+-]?\d{1,3}(,\d{3})+")
_DOT_THOUSANDS = regex(r"[+-]?\d{1,3}(\.\d{3})+")
_NUMBER = regex(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_SPACES_IN_NUMBERS = str.maketrans("", "", "\u00a0\u202f\u2009'\u2019")
_NO_VALUE = frozenset({"", "nan", "-nan", "n/a", "na", "inf", "-inf", "no data", "none", "<error>"})

Instances = tuple[tuple[int | str, float], ...]


@dataclass(frozen=True, slots=True)
class NumberStyle:
    """Which character of a file separates decimals; the other one groups thousands."""

    decimal: str = "."

    def number(self, text: str) -> int | float | None:
        """The number that ``text`` states, int where it has no decimals; None when it states none."""
        if self.decimal == "." and _SIMPLE.fullmatch(text):
            return int(text) if text.isdecimal() else float(text)
        text = text.strip().translate(_SPACES_IN_NUMBERS)
        if _PLAIN.fullmatch(text):
            return int(text) if len(text) < 40 else None
        grouping = "," if self.decimal == "." else "."
        if (grouping == "," and _COMMA_THOUSANDS.fullmatch(text)) or (
            grouping == "." and _DOT_THOUSANDS.fullmatch(text)
        ):
            return int(text.replace(grouping, ""))
        text = text.replace(grouping, "").replace(self.decimal, ".")
        return float(text) if _NUMBER.fullmatch(text) else None


def style_of(cells: Iterable[str]) -> NumberStyle:
    """The style most cells speak for; a dot decides when nothing speaks for either.

    "1.234" and "1,234" can be read both ways and count for neither.
    """
    dots = commas = 0
    for cell in cells:
        if _DOT_DECIMAL.fullmatch(cell) and not _DOT_THOUSANDS.fullmatch(cell):
            dots += 1
        elif _COMMA_DECIMAL.fullmatch(cell) and not _COMMA_THOUSANDS.fullmatch(cell):
            commas += 1
    return NumberStyle("," if commas > dots else ".")


def is_missing(text: str) -> bool:
    """Whether a cell says that there is no value ("n/a", "(!) nan", "no data", empty)."""
    return _without_mark(text).lower() in _NO_VALUE


def whole_number(value: MetricValue | None) -> int | None:
    """A metric that counts something; None where it is no number, not finite, or larger than any count."""
    return int(value) if isinstance(value, (int, float)) and abs(value) < 2**62 else None


def metric_value(text: str, style: NumberStyle) -> tuple[MetricValue | None, Instances]:
    """A cell's value and its instances ("2338 (8; 8; 16)"); None when there is no value."""
    value = style.number(text)
    if value is not None:
        return value, ()
    text = _without_mark(text)
    if text.lower() in _NO_VALUE:
        return None, ()
    value = style.number(text)
    if value is not None:
        return value, ()
    total, opening, listed = text.partition("(")
    if opening and text.endswith(")") and (value := style.number(total)) is not None:
        instances = _instances(listed[:-1], style)
        if instances is not None:
            return value, instances
    return text, ()


def _instances(text: str, style: NumberStyle) -> Instances | None:
    found: list[tuple[int | str, float]] = []
    for index, part in enumerate(text.split(";")):
        key, _, number = part.rpartition(":")
        value = style.number(number)
        if value is None:
            if part.strip() and not is_missing(number):
                return None
            continue
        found.append((key.strip() or index, float(value)))
    return tuple(found)


def _without_mark(text: str) -> str:
    text = text.strip()
    return text[3:].strip() if text.startswith("(!)") else text
