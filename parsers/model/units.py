"""Quantities as people read them: a space before the unit and three significant digits."""

from __future__ import annotations

import re

_TIME = ((1, "ns"), (1_000, "us"), (1_000_000, "ms"), (1_000_000_000, "s"))
_BYTES = ((1, "B"), (1_000, "KB"), (1_000_000, "MB"), (1_000_000_000, "GB"), (1_000_000_000_000, "TB"))


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


def _scaled(value: float, scale: tuple[tuple[int, str], ...]) -> str:
    factor, unit = scale[0]
    for candidate, name in scale:
        if abs(value) >= candidate * 0.9995:
            factor, unit = candidate, name
    return f"{three_digits(value / factor)} {unit}"


def duration(ns: float) -> str:
    """Nanoseconds as "9.20 us", "26.5 ms" or "1.24 s"."""
    return _scaled(ns, _TIME)


def size(byte_count: float) -> str:
    """Bytes in decimal units, as "1.24 GB"."""
    return _scaled(byte_count, _BYTES)


def rate(bytes_per_second: float) -> str:
    """Bandwidth in decimal units, as "3.35 TB/s"."""
    return f"{size(bytes_per_second)}/s"


def percent(fraction: float) -> str:
    """A fraction of one as "57 %", with a decimal below ten percent."""
    value = fraction * 100
    return f"{value:.1f} %" if abs(value) < 9.95 and value != 0 else f"{value:.0f} %"


_WRITTEN = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)?\s*", re.IGNORECASE)
_FACTOR = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def parse_duration(text: str) -> int | None:
    """ "31.2ms" as ns (milliseconds where no unit is given); None when it is not a time."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    return round(float(match[1]) * _FACTOR[(match[2] or "ms").lower()])
