"""The phases of a step as its busiest GPU or, without one, its busiest thread ran them; no Qt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model import I64, Trace
from parsers.model.late import dataclass
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration
from rules.analysis.cpu.cpu_time import CpuTime
from rules.comparison.calls import Calls

MIN_PHASE = 0.01  # of the step: shorter ones belong to what surrounds them
MAX_PHASES = 24
REST, WHOLE = "the rest of the step", "all of it"


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of one region, ns; ``number`` counts the stretches of that region."""

    label: str
    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class StepRun:
    """The operations of a step on its busiest GPU, by start; ``region`` is a code, -1 outside of any.

    Without a GPU: the ranges of the program on its busiest thread, one in place of each operation.
    """

    trace: Trace
    event: I64
    start: I64
    end: I64
    region: I64
    texts: Sequence[str]
    title: str = "Phases on the GPU"

    @classmethod
    def on_cpu(cls, time: CpuTime, span: tuple[int, int]) -> StepRun:
        """Of the innermost ranges between two times."""
        trace, column = time.trace, time.activity.user_regions
        inside = (column.event >= 0) & (column.edges >= span[0]) & (column.edges < span[1])
        event, start = column.event[inside].astype(np.int64), column.edges[inside]
        end = np.append(column.edges, span[1])[1:][inside]
        names, region = np.unique(trace.events.name[event], return_inverse=True)
        texts = [trace.strings[name] for name in names.tolist()]
        return cls(trace, event, start, end, region, texts, "Phases")

    @classmethod
    def of(cls, trace: Trace, calls: Calls, texts: Sequence[str]) -> StepRun:
        """Of one step's calls; ``texts`` belong to their codes."""
        device = trace.lane_device[trace.events.lane[calls.event]]
        busiest = np.bincount(device, calls.ns).argmax() if len(device) else -1
        event, region = calls.event[device == busiest], calls.region[device == busiest]
        order = np.argsort(trace.events.start[event], kind="stable")
        event, region = event[order], region[order]
        return cls(trace, event, *trace.events.spans(event), region, texts)

    def said_at(self, when: float) -> str:
        place = int(np.searchsorted(self.start, when, side="right")) - 1
        if place < 0 or not len(self.event) or when > self.end.max():
            return "outside of this step"
        region = int(self.region[place])
        named = f"{self.texts[region]}, " if region >= 0 else ""
        if when >= self.end[place]:
            following = self.start[place + 1] if place + 1 < len(self.start) else self.end[place]
            return f"{named}nothing runs for {duration(float(max(following - self.end[place], 0)))}"
        ns = float(self.end[place] - self.start[place])
        name = kernel_name(self.trace.name(int(self.event[place])))
        return f"{named.removesuffix(f'{name}, ')}{name}, {duration(ns)}"

    def phases(self) -> tuple[Phase, ...]:
        """Stretches of one region after the other; the whole step is one where no region is known."""
        if not len(self.event):
            return ()
        reached = np.maximum.accumulate(self.end)
        length = max(int(reached[-1] - self.start[0]), 1)
        region = self.region
        for _ in range(2):  # what is left after short stretches were taken away may be one stretch
            first = np.flatnonzero(np.concatenate(([True], region[1:] != region[:-1])))
            last = np.append(first[1:], len(region)) - 1
            begins = self.start[first]
            ends = np.append(begins[1:], reached[-1])
            long = ends - begins >= MIN_PHASE * length
            if long.all() or not long.any():
                break
            owner = np.maximum.accumulate(np.where(long, np.arange(len(first)), int(long.argmax())))
            region = np.repeat(region[first][owner], last - first + 1)
        if len(first) > MAX_PHASES or not (region >= 0).any():
            return (Phase(WHOLE, 0, int(self.start[0]), int(reached[-1])),)
        seen: dict[str, int] = {}
        found = []
        for code, begin, place in zip(region[first].tolist(), begins.tolist(), last.tolist(), strict=True):
            label = self.texts[code] if code >= 0 else REST
            found.append(Phase(label, seen.get(label, 0), begin, int(reached[place])))
            seen[label] = seen.get(label, 0) + 1
        return tuple(found)


def paired(before: Sequence[Phase], after: Sequence[Phase]) -> list[tuple[Phase, Phase]]:
    """The n-th stretch of each region on both sides."""
    known = {(each.label, each.number): each for each in after}
    return [(each, known[each.label, each.number]) for each in before if (each.label, each.number) in known]
