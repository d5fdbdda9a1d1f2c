"""In which steps a loss lies: in all of them alike, or only in a few, as saving or an evaluation would."""

from __future__ import annotations

import numpy as np

from parsers.model.late.dataclass import dataclass
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, measure
from rules.terms.shares import MAJORITY, NEARLY_ALL
from rules.wording.headline import Part
from rules.wording.phrases import counted, part_of, part_of_step, share


@dataclass(frozen=True, slots=True)
class Extent:
    """``few`` of ``steps`` steady steps hold nearly all of a loss; ``few`` is 0 where many steps share it."""

    analysis: Analysis
    few: int
    steps: int

    @property
    def text(self) -> str:
        """ "in 2 of 12 steps"; empty where many steps share the loss."""
        return f"in {self.few} of {self.steps} steps" if self.few else ""

    def share(self, ns: int) -> Part:
        """ "57 % of every step", or "30 % of the time, in 2 of 12 steps"."""
        steps = self.steps if self.few else self.analysis.steps_in_window
        return Part(share(self.analysis, ns), steps, self.few)

    def part(self, ns: int) -> str:
        """ "26.5 of the 46.4 ms of a step", or "120 of the 396 ms of all steps"."""
        if not self.few:
            return part_of_step(self.analysis, ns)
        return f"{part_of(ns, self.analysis.window_ns)} of all steps"

    @property
    def sharing(self) -> int:
        """How many steps an amount of the whole window is divided by when it is told for one of them."""
        return self.few or max(self.analysis.steps_in_window, 1)

    def each(self, amount: float) -> float:
        """An amount of the whole window for one step, or all of it where it lies in a few."""
        return amount if self.few else amount / self.sharing

    def told(self, ns: float) -> str:
        """ "11.1 ms", as ``each`` has it."""
        return duration(self.each(ns))

    def counted(self, count: int, singular: str, plural: str) -> str:
        """ "6 copies a step", or "80 copies" where they lie in a few steps."""
        if not self.few:
            return counted(self.analysis, count, singular, plural)
        return f"{count:,} {singular if count == 1 else plural}"


def extent(analysis: Analysis, intervals: Intervals, device: int) -> Extent:
    """The extent of a loss on one device, given as disjoint intervals."""
    rank = analysis.trace.devices[device].rank if device >= 0 else None
    steps = [step for step in analysis.steady_steps if step.rank == rank]
    edges = np.array([(step.start, step.end) for step in steps], np.int64).reshape(-1, 2)
    lost = measure(intervals, edges[:, 0], edges[:, 1])
    if len(steps) < 2 or not lost.any():
        return Extent(analysis, 0, len(steps))
    largest = np.cumsum(np.sort(lost)[::-1])
    few = int(np.searchsorted(largest, NEARLY_ALL * largest[-1])) + 1
    return Extent(analysis, few if few <= MAJORITY * len(steps) else 0, len(steps))
