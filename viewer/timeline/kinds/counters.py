"""Counters whose unit says how they are drawn: shares of a whole."""

from __future__ import annotations

from parsers.model.units import percent
from viewer.timeline.kinds.base import CounterStyle, counter_style


@counter_style
class Shares(CounterStyle):
    """Percentages: drawn up to a hundred."""

    units = frozenset({"%", "percent"})
    full = 100.0

    def written(self, value: float, unit: str) -> str:
        return percent(value / 100)
