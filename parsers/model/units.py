"""Units: quantities as people read and write them, and the base unit of what a recording states."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from parsers.model.late import regex

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}  # ns
_LONGER_WORDS = {
    "µs": 1e3, "nsecond": 1.0, "usecond": 1e3, "msecond": 1e6, "sec": 1e9, "second": 1e9, "minute": 60e9
}  # fmt: skip
_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_PREFIXES = _DECIMAL | _BINARY
_COUNTED = r"byte|bytes|B|hz|Hz|cycle|cycles|inst|sector|sectors|request|requests|warp|thread|block|flop"
_SCALED = regex(rf"(?P<prefix>[kKMGTP]?|Ki|Mi|Gi|Ti)(?P<unit>{_COUNTED})")
_SAME = {
    "bytes": "byte",
    "B": "byte",
    "Hz": "hz",
    "cycles": "cycle",
    "sectors": "sector",
    "requests": "request",
}
BYTES = {f"{prefix}B": _DECIMAL[prefix] for prefix in ("", "K", "M", "G", "T")}
_OPERATIONS = {f"{prefix}flop/s": _DECIMAL[prefix] for prefix in ("", "M", "G", "T", "P")}


def average_count(value: float) -> str:
    """A number of things, or the mean of such numbers: "12", "1,531", "2.5"."""
    return f"{value:,.0f}" if abs(value - round(value)) < 0.005 else three_digits(value)


def three_digits(value: float) -> str:
    """``value`` with three significant digits and no exponent: 1.24, 26.5, 132."""
    magnitude = abs(value)
    if magnitude >= 99.95 or value == 0:
        return f"{value:,.0f}"
    if magnitude >= 9.995:
        return f"{value:.1f}"
    if magnitude >= 0.9995:
        return f"{value:.2f}"
    return f"{value:.3g}"


def _scaled(value: float, scale: Mapping[str, float]) -> str:
    fitting = [unit for unit, factor in scale.items() if abs(value) >= factor * 0.9995]
    unit = fitting[-1] if fitting else next(iter(scale))
    if scale[unit] == 1.0 and value == round(value):  # of the smallest unit there are no parts
        return f"{value:,.0f} {unit}"
    return f"{three_digits(value / scale[unit])} {unit}"


def duration(ns: float) -> str:
    """Nanoseconds as "9.20 us", "26.5 ms" or "1.24 s"."""
    return _scaled(ns, TIMES)


def clock_time(epoch_ns: int) -> str:
    """A wall clock (ns since 1970) as "09:41:07 UTC": recordings do not state a time zone."""
    return datetime.fromtimestamp(epoch_ns // NS_PER_S, UTC).strftime("%H:%M:%S UTC")


def size(byte_count: float) -> str:
    """Bytes in decimal units, as "1.24 GB"."""
    return _scaled(byte_count, BYTES)


def rate(bytes_per_second: float) -> str:
    """Bandwidth in decimal units, as "3.35 TB/s"."""
    return f"{size(bytes_per_second)}/s"


def operations(per_second: float) -> str:
    """Arithmetic in decimal units, as "66.9 Tflop/s"."""
    return _scaled(per_second, _OPERATIONS)


def percent(fraction: float) -> str:
    """A fraction of one as "57 %", "4.5 %" or "0.04 %": only nothing reads as 0."""
    value = fraction * 100
    if abs(value) >= 9.95 or value == 0:
        return f"{value:.0f} %"
    if abs(value) >= 0.05:
        return f"{value:.1f} %"
    return f"{value:.2f} %" if abs(value) >= 0.005 else "<0.01 %"


def capital(text: str) -> str:
    """The text with a capital in front."""
    return text[:1].upper() + text[1:]


def how_many(count: int, singular: str) -> str:
    """ "1 step", "1,204 steps"."""
    return f"{count:,} {singular}{'' if count == 1 else 's'}"


def quantity(value: float | None, unit: str) -> str:
    """A value in a base unit as people read it, as time, size or rate where it is one; a dash for None."""
    if value is None:
        return "–"
    written = _QUANTITIES.get(unit)
    return f"{three_digits(value)} {unit}".strip() if written is None else written(value)


_QUANTITIES: dict[str, Callable[[float], str]] = {
    "ns": duration,
    "count": "{:,.0f}".format,
    "B": size, "byte": size, "bytes": size,
    "B/s": rate, "byte/s": rate, "bytes/s": rate, "byte/second": rate,
}  # fmt: skip
_WRITTEN = regex(r"\s*(-?\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)?\s*", re.IGNORECASE)
_WRITTEN_SIZE = regex(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)b?\s*", re.IGNORECASE)


def parse_duration(text: str) -> int | None:
    """ "31.2ms" as ns (milliseconds where no unit is given); None when it is not a time."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    return round(float(match[1]) * base_unit((match[2] or "ms").lower())[0])


def parse_size(text: str) -> float | None:
    """ "2 MB" as bytes, in decimal units; None when it is no size."""
    match = _WRITTEN_SIZE.fullmatch(text)
    return None if match is None else float(match[1]) * _DECIMAL[match[2].upper()]


@lru_cache(maxsize=4096)
def base_unit(unit: str) -> tuple[float, str]:
    """Factor and name of the base unit: ("Kbyte/block") -> (1000, "byte/block"), ("ms") -> (1e6, "ns").

    Times become ns, rates become per second, amounts lose their prefix; unknown units stay as they are.
    """
    unit = unit.strip()
    numerator, slash, denominator = unit.partition("/")
    factor, name = _amount(numerator)
    if not slash:
        return factor, name
    if (time := _time(denominator)) is not None:
        return factor * 1e9 / time, f"{name}/s"
    below, below_name = _amount(denominator)
    if numerator == "%":  # the tool multiplies here, so that its own reports and its pages agree
        below = 1.0 / below
    return factor / below, f"{name}/{below_name}"


def _amount(unit: str) -> tuple[float, str]:
    if (time := _time(unit)) is not None:
        return time, "ns"
    if scaled := _SCALED.fullmatch(unit):
        return _PREFIXES[scaled["prefix"]], _SAME.get(scaled["unit"], scaled["unit"])
    return 1.0, unit


def _time(unit: str) -> float | None:
    return TIMES.get(unit, _LONGER_WORDS.get(unit))


def name_and_unit(text: str) -> tuple[str, str]:
    """("SMs Active", "%") for "SMs Active [%]"; the text and no unit where none stands in brackets at its end."""
    bare = text.rstrip()
    name, bracket, unit = bare[:-1].rpartition("[") if bare.endswith("]") else ("", "", "")
    return (name.rstrip(), unit) if bracket and "]" not in unit else (text, "")
