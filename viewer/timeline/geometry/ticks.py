"""Where the marks of a time ruler lie, and what they are called."""

from __future__ import annotations

import math

from parsers.model.late.dataclass import dataclass
from parsers.model.units import TIMES
from viewer.timeline.geometry.scale import Scale

_UNITS = tuple((size, unit) for unit, size in reversed(TIMES.items()))
MAX_DECIMALS = 3  # of a mark; finer ones count from an anchor


@dataclass(frozen=True, slots=True)
class Ticks:
    """Marks at ``times`` (ns) with ``labels``; where labels are relative, ``anchor`` says to what time."""

    times: tuple[float, ...]
    labels: tuple[str, ...]
    step: float
    anchor: str = ""


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below ``least``."""
    if least <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-12))


def unit_of(step: float) -> tuple[float, str]:
    """The unit (ns in one, name) in which steps of this size are written."""
    return next((unit for unit in _UNITS if step >= unit[0]), _UNITS[-1])


def ticks(scale: Scale, origin: float = 0.0, least_pixels: float = 88.0) -> Ticks:
    """Marks at least ``least_pixels`` apart, counted from ``origin``."""
    step = nice_step(scale.ns_per_pixel * least_pixels)
    first = math.ceil((scale.t0 - origin) / step - 1e-9)
    last = math.floor((scale.t1 - origin) / step + 1e-9)
    numbers = range(first, min(last, first + 400) + 1)
    farthest = max((abs(number) for number in (first, last)), default=0) * step
    size, unit = unit_of(max(farthest, step))
    decimals = _decimals(size, step)
    times = tuple(origin + number * step for number in numbers)
    if decimals <= MAX_DECIMALS:
        labels = tuple(f"{number * step / size:,.{decimals}f} {unit}" for number in numbers)
        return Ticks(times, labels, step)
    coarse = 10.0 ** math.ceil(math.log10(max(scale.span, 1.0)))
    base = math.floor((scale.t0 - origin) / coarse) * coarse
    size, unit = unit_of(max(last * step - base, step))
    decimals = _decimals(size, step)
    relative = tuple(f"+{(number * step - base) / size:,.{decimals}f} {unit}" for number in numbers)
    return Ticks(times, relative, step, exact(base, coarse))


def _decimals(size: float, resolution: float) -> int:
    """How many decimals a value in units of ``size`` needs to show steps of ``resolution``."""
    return max(0, math.ceil(math.log10(size / max(resolution, 1.0)) - 1e-9)) if size > resolution else 0


def exact(when: float, resolution: float) -> str:
    """A time written so that two times ``resolution`` ns apart look different: "31.204 ms"."""
    size, unit = next((unit for unit in _UNITS if abs(when) >= unit[0]), _UNITS[-1])
    return f"{when / size:,.{min(_decimals(size, resolution), 9)}f} {unit}"
