"""How well the clocks of several ranks agree, told by collectives, which end on all ranks at nearly the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from parsers.model import Effect, QualityNote, Trace
from parsers.model.units import duration

I64 = npt.NDArray[np.int64]

LEAST_PAIRS = 8
MOST_LAG = 128  # collectives that one rank recorded before another began to record
LEAST_SAME_NAMES = 0.9
CLEAR_SKEW_NS = 50_000  # ends differ by less for reasons of their own
SKEW_TO_SPREAD = 8


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How much later a rank's clock is than the first rank's: median and spread over ``pairs`` collectives (ns)."""

    median_ns: int
    spread_ns: int
    pairs: int

    @property
    def is_clear_skew(self) -> bool:
        """Whether the offset is the clocks' and not the collectives' own."""
        return abs(self.median_ns) > max(CLEAR_SKEW_NS, SKEW_TO_SPREAD * self.spread_ns)


def offset_between(first: Trace, first_zero: int, other: Trace, other_zero: int) -> ClockOffset | None:
    """Compare two ranks; the zeros place each trace on the common clock. None without enough common collectives."""
    ends, names = _collectives(first, first_zero)
    other_ends, other_names = _collectives(other, other_zero)
    best: ClockOffset | None = None
    for lag in range(-min(MOST_LAG, len(ends)), min(MOST_LAG, len(other_ends)) + 1):
        a, b = slice(max(-lag, 0), None), slice(max(lag, 0), None)
        count = min(len(ends[a]), len(other_ends[b]))
        if count < max(LEAST_PAIRS, min(len(ends), len(other_ends)) // 2):
            continue
        same = names[a][:count] == other_names[b][:count]
        if same.mean() < LEAST_SAME_NAMES:
            continue
        apart = (other_ends[b][:count] - ends[a][:count])[same]
        median = int(np.median(apart))
        spread = int(np.median(np.abs(apart - median)))
        if best is None or (spread, abs(median)) < (best.spread_ns, abs(best.median_ns)):
            best = ClockOffset(median, spread, int(same.sum()))
    return best


def _collectives(trace: Trace, zero: int) -> tuple[I64, npt.NDArray[np.str_]]:
    """End times on the common clock and names of a trace's collectives, in order of their start."""
    kernels = trace.collective_kernels
    kernels = kernels[np.argsort(trace.events.start[kernels], kind="stable")]
    names = np.array([trace.strings[index] for index in trace.events.name[kernels].tolist()], np.str_)
    return trace.events.end[kernels] + zero, names


@dataclass(frozen=True, slots=True)
class Alignment:
    """Per trace: what to add to its times beside the wall clock's shift, and the error that remains (ns)."""

    corrections: tuple[int, ...]
    errors: tuple[int | None, ...]
    notes: tuple[QualityNote, ...]


def align(traces: Sequence[Trace], shifts: Sequence[int]) -> Alignment:
    """Compare every trace with the first one that has collectives; only a clear skew is corrected."""
    corrections = [0] * len(traces)
    errors: list[int | None] = [None] * len(traces)
    notes: list[QualityNote] = []
    reference = next((index for index, trace in enumerate(traces) if len(trace.collective_kernels)), None)
    if reference is None:
        return Alignment(tuple(corrections), tuple(errors), ())
    errors[reference] = 0
    for index, trace in enumerate(traces):
        if index == reference or not len(trace.collective_kernels):
            continue
        found = offset_between(traces[reference], shifts[reference], trace, shifts[index])
        if found is None:
            continue
        rank = trace.inputs[0].rank if trace.inputs else index
        told = f"rank {rank}: {duration(found.median_ns)} by {found.pairs} collectives, +/- {duration(found.spread_ns)}"
        if found.is_clear_skew:
            corrections[index] = -found.median_ns
            errors[index] = found.spread_ns
            reason = (
                "clocks of ranks were corrected, so that the same collective ends together on all of them"
            )
            notes.append(QualityNote("clock-skew", 1, Effect.REPAIRED, reason, told))
        else:
            errors[index] = abs(found.median_ns) + found.spread_ns
            reason = (
                "how far the clocks of ranks are apart, by the ends of the same collectives; not corrected"
            )
            notes.append(QualityNote("clock-offset", 1, Effect.NOTED, reason, told))
    return Alignment(tuple(corrections), tuple(errors), tuple(notes))
