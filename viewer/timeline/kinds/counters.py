"""Counters whose unit says how they are drawn: shares of a whole, bytes, bytes a second."""

from __future__ import annotations

from typing import ClassVar

from parsers.model.units import percent, rate, size
from viewer.timeline.kinds.base import CounterStyle, counter_style


@counter_style
class Shares(CounterStyle):
    """Percentages: drawn up to a hundred."""

    units: ClassVar[frozenset[str]] = frozenset({"%", "percent"})
    full: ClassVar[float | None] = 100.0

    def written(self, value: float, unit: str) -> str:
        return percent(value / 100)


@counter_style
class Sizes(CounterStyle):
    """Bytes, such as memory in use."""

    units: ClassVar[frozenset[str]] = frozenset({"B", "bytes", "byte"})

    def written(self, value: float, unit: str) -> str:
        return size(value)


@counter_style
class Rates(CounterStyle):
    """Bytes a second over a link or a bus."""

    units: ClassVar[frozenset[str]] = frozenset({"B/s", "bytes/s", "byte/s", "byte/second"})

    def written(self, value: float, unit: str) -> str:
        return rate(value)
