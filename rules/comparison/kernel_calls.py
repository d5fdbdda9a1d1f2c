"""Two kernels of one timeline side by side: their calls, how they are launched, and which roof is above each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from parsers.model import I64, Attribute, KernelProfile, Trace
from parsers.model.arrays import median_of
from parsers.model.late import dataclass
from parsers.model.units import duration, three_digits
from rules.comparison.kernels import NOTICEABLE_CHANGE, Row, compare_kernels
from rules.kernels.join import kernel_join
from rules.kernels.operator_roofs import estimated_roofline
from rules.kernels.roofline import Distance, distance, nearest_roof

LAUNCH = {
    "Blocks in the grid": Attribute.GRID,
    "Threads in a block": Attribute.BLOCK,
    "Registers per thread": Attribute.REGISTERS,
}


@dataclass(frozen=True, slots=True)
class CallsComparison:
    """``limits`` say how near each comes to the roof above it; empty where that is unknown."""

    rows: tuple[Row, ...]
    why: str
    limits: tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Side:
    duration: I64
    launch: tuple[int | None, ...]  # as LAUNCH names them
    profile: KernelProfile | None
    roof: Distance | None

    @property
    def mean(self) -> float:
        return float(self.duration.mean())

    def measured(self, whole_ns: float) -> Iterator[tuple[str, float | None, str, bool | None]]:
        """Label, value in a base unit, unit, and whether less of it is better."""
        total = float(self.duration.sum())
        yield "Calls", float(len(self.duration)), "count", None
        yield "Total", total, "ns", True
        yield "Mean", self.mean, "ns", True
        yield "p50", float(median_of(self.duration)), "ns", True
        yield "Share of GPU time", 100 * total / max(whole_ns, 1.0), "%", True
        for label, number in zip(LAUNCH, self.launch, strict=True):
            yield label, None if number is None else float(number), "count", None
        yield "Of the roof above", None if self.roof is None else 100 * self.roof.share, "%", False

    @property
    def limit(self) -> str:
        if self.roof is None:
            return ""
        return self.roof.text + (", estimated from shapes" if self.profile is None else "")


def compare_calls(trace: Trace, first: I64, second: I64, whole_ns: float) -> CallsComparison:
    """``first`` and ``second`` are the calls (events, at least one) of a kernel each; shares are of ``whole_ns``.

    Grid, block and registers are those of the longest call. The roof is that of the profiled launch where a kernel
    report was opened with the timeline, else the one above the operator whose longest kernel this is.
    """
    one, other = _side(trace, first), _side(trace, second)
    measured = zip(one.measured(whole_ns), other.measured(whole_ns), strict=True)
    rows = [
        Row(label, before, after, unit, lower) for (label, before, unit, lower), (_, after, *_) in measured
    ]
    why = _why(one, other)
    if one.profile is not None and other.profile is not None:
        profiled = compare_kernels(one.profile, other.profile)
        known = {row.label for row in rows}
        rows += [
            replace(row, label="Time under the profiler") if row.label == "Time" else row
            for row in profiled.rows
            if row.label not in known
        ]
        why = f"{why} {profiled.why}"
    shown = tuple(row for row in rows if row.before is not None or row.after is not None)
    return CallsComparison(shown, why, (one.limit, other.limit))


def _side(trace: Trace, calls: I64) -> _Side:
    durations = trace.events.duration[calls]
    longest = int(calls[int(np.argmax(durations))])
    joined = kernel_join(trace).profile_of(longest) if trace.kernels else None
    profile = joined[0] if joined is not None else None
    roof = nearest_roof(profile) if profile is not None else _estimated(trace, trace.name(longest))
    event = np.array([longest], np.int64)
    launch = (int(trace.attribute(which, event, -1)[0]) for which in LAUNCH.values())
    return _Side(durations, tuple(number if number >= 0 else None for number in launch), profile, roof)


def _estimated(trace: Trace, kernel: str) -> Distance | None:
    """From the shape that takes longest among those of the operators that a kernel does most of."""
    drawn = estimated_roofline(trace, kernel)
    return distance(drawn.points[0], drawn.roofs) if drawn.points else None


def _why(first: _Side, second: _Side) -> str:
    times = f"{duration(first.mean)} and {duration(second.mean)}"
    factor = max(first.mean, second.mean) / max(min(first.mean, second.mean), 1.0)
    if factor - 1 < NOTICEABLE_CHANGE:
        text = f"Calls of both take about as long ({times})."
    else:
        which = "first" if first.mean < second.mean else "second"
        text = f"A call of the {which} is {three_digits(factor)} times faster ({times})."
    if first.roof and second.roof and first.roof.roof != second.roof.roof:
        text += f" They have different limits: {first.roof.roof} above the first, {second.roof.roof} above the second."
    return text
