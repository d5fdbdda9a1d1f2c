"""Quantities as people read them: a space before the unit and three significant digits."""

from __future__ import annotations

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
