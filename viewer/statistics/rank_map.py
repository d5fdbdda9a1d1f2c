"""What a map of ranks and steps shows: values, their order, their scale, and many rows as one of pixels; no Qt."""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from parsers.model.arrays import BOOL, F64, I64, median_of
from parsers.model.late import dataclass
from parsers.model.units import duration, quantity, size
from rules.analysis.ranks.late import Ranks
from rules.analysis.ranks.run import COMPUTE

TOP_SHARE = 0.999  # of the values: what is beyond has the last colour
_STEPS_COMPARED = 128  # evenly chosen
# of a direction towards the main one: a component of 0.95 of its size is by then 1 / 30,000 as large
_TURNS = 200
AGAIN_SHARE = 0.9  # of the steps of a rank: what is worse in one of ten comes again and again


class Measure(Enum):
    """What the cells show: the key, what it is called, and what it means."""

    LATENESS = "lateness", "after the median rank of the same stage and step"
    WAIT = "wait", "exposed inside collectives, before the transfer could start"
    COMPUTE = "compute", "kernels other than collectives"
    CLOCK = "clock", "mean of the step, in MHz; low is bright"
    POWER = "power", "mean of the step, in W"
    MEMORY = "memory", "allocated"

    def __init__(self, key: str, meaning: str) -> None:
        self.key, self.meaning = key, meaning

    @property
    def low_is_worse(self) -> bool:
        return self is Measure.CLOCK

    def said(self, value: float) -> str:
        if not np.isfinite(value):
            return "not recorded"
        if self is Measure.MEMORY:
            return size(value)
        if self in (Measure.CLOCK, Measure.POWER):
            return quantity(value, "MHz" if self is Measure.CLOCK else "W")
        return duration(value)


class Order(Enum):
    """How the rows are sorted."""

    RANK = "rank"
    NODE = "node"
    SIMILARITY = "similarity"
    WORST = "worst first"


@dataclass(frozen=True, eq=False)
class RankMap:
    """Values are (rows, steps), not a number where a rank lacks a step or a counter."""

    facts: Ranks[Any]

    @property
    def rows(self) -> int:
        return len(self.facts.run.rows)

    @property
    def steps(self) -> int:
        return len(self.facts.run.step_numbers)

    @cached_property
    def _missing(self) -> BOOL:
        missing: BOOL = self.facts.run.by_step.sum(axis=2) == 0
        return missing

    @cached_property
    def _values(self) -> dict[Measure, F64]:
        lateness = self.facts.lateness
        found = {
            Measure.LATENESS: lateness.late,
            Measure.WAIT: lateness.waited,
            Measure.COMPUTE: self.facts.run.by_step[:, :, COMPUTE].astype(np.float64),
        }
        counted = {Measure.CLOCK: "clock", Measure.POWER: "power", Measure.MEMORY: "memory"}
        found |= {measure: self.facts.run.reading(name) for measure, name in counted.items()}
        return {
            measure: np.where(self._missing, np.nan, values)
            for measure, values in found.items()
            if values.size and np.isfinite(values).any()
        }

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Those that were recorded."""
        return tuple(each for each in Measure if each in self._values)

    def values(self, measure: Measure) -> F64:
        return self._values[measure]

    def scale(self, measure: Measure) -> tuple[float, float]:
        """The values of the first and the last colour, over all cells: it stays while one pans.

        One rank of thousands that is worse again and again has the last colour, and what all others do stays pale.
        """
        values = self.values(measure)
        known = values[np.isfinite(values)]
        low = 0.0 if measure in (Measure.LATENESS, Measure.WAIT, Measure.COMPUTE) else float(known.min())
        high = float(np.quantile(known, TOP_SHARE)) if len(known) else 1.0
        if len(known) and not measure.low_is_worse:
            again = np.quantile(np.where(np.isfinite(values), values, low), AGAIN_SHARE, axis=1)
            high = max(high, float(again.max()))
        return low, max(high, low + 1e-9)

    def shades(self, measure: Measure) -> F64:
        """The cells as 0 (sound) to 1 (worst), not a number where nothing is known."""
        if (known := self._shades.get(measure)) is not None:
            return known
        low, high = self.scale(measure)
        shade: F64 = np.clip((self.values(measure) - low) / (high - low), 0.0, 1.0)
        self._shades[measure] = 1.0 - shade if measure.low_is_worse else shade
        return self._shades[measure]

    @cached_property
    def _shades(self) -> dict[Measure, F64]:
        return {}

    def order(self, order: Order, measure: Measure) -> I64:
        """The rows in the order in which they stand."""
        if order is Order.NODE:
            nodes = [row.node for row in self.facts.run.rows]
            place = {node: index for index, node in enumerate(dict.fromkeys(nodes))}
            return np.argsort([place[node] for node in nodes], kind="stable")
        if order is Order.RANK:
            numbers = [row.rank if row.rank is not None else self.rows for row in self.facts.run.rows]
            return np.argsort(numbers, kind="stable")
        shade = np.nan_to_num(self.shades(measure))
        return np.argsort(-shade.sum(axis=1), kind="stable") if order is Order.WORST else by_similarity(shade)


def by_similarity(shade: F64) -> I64:
    """Rows that change alike next to one another: by their angle in the plane of the two main components."""
    if min(shade.shape) < 2:
        return np.arange(len(shade))
    chosen = shade[:, :: -(-shade.shape[1] // _STEPS_COMPARED)]
    centred = chosen - chosen.mean(axis=0)
    product = np.einsum("ri,rj->ij", centred, centred)
    first = _main_direction(product)
    second = _main_direction(product - np.outer(first, np.einsum("i,ij->j", first, product)))
    plane = np.stack([np.einsum("ri,i->r", centred, each) for each in (first, second)], axis=1)
    # Rows near the middle have no angle of their own: they follow after all that stand out.
    far = np.hypot(plane[:, 0], plane[:, 1])
    clear = far > median_of(far) * 3
    return np.lexsort((np.arctan2(plane[:, 1], plane[:, 0]), ~clear))


def _main_direction(product: F64) -> F64:
    """The direction that a symmetric matrix stretches most; without the library whose threads wait for busy cores."""
    found: F64 = product[np.argmax(product.diagonal())]
    for _ in range(_TURNS):
        found = np.einsum("ij,j->i", product, found)
        found = found / max(float(np.sqrt(np.square(found).sum())), 1e-300)
    return found


def worst_of(shade: F64, rows: int, steps: int) -> F64:
    """(rows, steps) at most: where several cells share a pixel it shows the worst of them."""
    return _worst(_worst(shade, rows, 0), steps, 1)


def _worst(shade: F64, most: int, axis: int) -> F64:
    count = shade.shape[axis]
    if count <= most or not most:
        return shade
    edges = np.arange(most) * count // most
    lowest = np.where(np.isnan(shade), -1.0, shade)
    found: F64 = np.maximum.reduceat(lowest, edges, axis=axis)
    return np.where(found < 0, np.nan, found)


def zoomed(span: tuple[int, int], factor: float, share: float, most: int, least: int) -> tuple[int, int]:
    """``span`` made longer or shorter around what lies at a share of it."""
    length = span[1] - span[0]
    wanted = min(max(round(length * factor), min(least, most)), most)
    if wanted == length and factor != 1:
        wanted = min(max(length + (1 if factor > 1 else -1), min(least, most)), most)
    first = round(span[0] + (length - wanted) * min(max(share, 0.0), 1.0))
    first = min(max(first, 0), most - wanted)
    return first, first + wanted
