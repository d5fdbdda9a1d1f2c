"""Which time is at which pixel, and how zooming and panning change that."""

from __future__ import annotations

import math

import numpy as np

from parsers.model.arrays import I64
from parsers.model.late import dataclass
from parsers.model.units import TIMES

MIN_SPAN_NS = 40.0
MARGIN = 0.02  # how far beyond the recording one can pan, as a share of the recording or of the view


@dataclass(frozen=True, slots=True)
class Scale:
    """Times ``t0`` to ``t1`` (ns, fractions allowed) over ``width`` pixels."""

    t0: float
    t1: float
    width: float

    @property
    def span(self) -> float:
        return self.t1 - self.t0

    @property
    def ns_per_pixel(self) -> float:
        return self.span / max(self.width, 1.0)

    def x(self, when: float) -> float:
        """The pixel of a time; may lie outside."""
        return (when - self.t0) / self.ns_per_pixel

    def time(self, x: float) -> float:
        return self.t0 + x * self.ns_per_pixel

    def zoomed(self, x: float, factor: float) -> Scale:
        """Shows ``factor`` times as much time; what is at pixel ``x`` stays there."""
        span = max(self.span * factor, MIN_SPAN_NS)
        at = self.time(x)
        t0 = at - span * (x / max(self.width, 1.0))
        return Scale(t0, t0 + span, self.width)

    def panned(self, pixels: float) -> Scale:
        """Moves the view right by ``pixels``, so that the contents move left."""
        shift = pixels * self.ns_per_pixel
        return Scale(self.t0 + shift, self.t1 + shift, self.width)

    def resized(self, width: float) -> Scale:
        """The same times over another width."""
        return Scale(self.t0, self.t1, width)

    def within(self, end: float) -> Scale:
        """Moved and shrunk so that it stays on a recording that lasts from 0 to ``end``, with a small margin."""
        whole = max(end, MIN_SPAN_NS)
        span = min(max(self.span, MIN_SPAN_NS), whole * (1 + 2 * MARGIN))
        margin = max(whole * MARGIN, (span - whole) / 2)
        t0 = min(max(self.t0, -margin), whole + margin - span)
        return Scale(t0, t0 + span, self.width)

    def between(self, other: Scale, share: float) -> Scale:
        """A view on the way to ``other``: spans change by equal ratios, so that a flight feels even.

        Where the span stays, a flight goes by whole pixels, so that what is painted can be painted again.
        """
        if share >= 1.0:
            return other
        span = self.span * (other.span / self.span) ** share
        if abs(other.span - self.span) < 1e-9 * self.span:
            return self.panned(round((other.t0 - self.t0) * share / self.ns_per_pixel))
        else:
            progress = (span - self.span) / (other.span - self.span)
            t0 = self.t0 + (other.t0 - self.t0) * progress
        return Scale(t0, t0 + span, self.width)


def fitted(start: float, end: float, width: float, air: float = 0.04) -> Scale:
    """A view of [start, end] with a little air on both sides, a share of the span."""
    span = max(end - start, MIN_SPAN_NS)
    return Scale(start - span * air, start + span * (1 + air), width)


def covered_pixels(start: I64, end: I64, scale: Scale) -> list[tuple[int, int]]:
    """Runs of pixels, as [left, right), that entries touch; never more than the scale is wide."""
    width = max(int(scale.width), 1)
    first = np.clip(((start - scale.t0) / scale.ns_per_pixel).astype(np.int64), 0, width - 1)
    last = np.clip(((end - scale.t0) / scale.ns_per_pixel).astype(np.int64), first, width - 1)
    change = np.bincount(first, minlength=width + 1) - np.bincount(last + 1, minlength=width + 1)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], np.cumsum(change) > 0, [0])).astype(np.int8)))
    return [(int(left), int(right)) for left, right in edges.reshape(-1, 2)]


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


def tick_numbers(scale: Scale, origin: float, least_pixels: float) -> tuple[float, range]:
    """The step of marks at least ``least_pixels`` apart, and how many of them from ``origin`` each mark in view is."""
    step = nice_step(scale.ns_per_pixel * least_pixels)
    first = math.ceil((scale.t0 - origin) / step - 1e-9)
    last = math.floor((scale.t1 - origin) / step + 1e-9)
    return step, range(first, min(last, first + 400) + 1)


def ticks(scale: Scale, origin: float = 0.0, least_pixels: float = 88.0) -> Ticks:
    """Marks at least ``least_pixels`` apart, counted from ``origin``."""
    step, numbers = tick_numbers(scale, origin, least_pixels)
    first, last = numbers.start, numbers.stop - 1
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
