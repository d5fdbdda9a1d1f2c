"""How well the clocks of several ranks agree, told by collectives, which end on all ranks at nearly the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import reduce

import numpy as np

from parsers.model import I64, Attribute, Effect, Progress, QualityNote, Trace
from parsers.model.arrays import distinct_values, median_of
from parsers.model.late import dataclass
from parsers.model.units import duration

MIN_PAIRS = 8
MIN_PAIRS_APART = 2  # of recordings that do not even overlap: any later pairing is worse than none
MAX_LAG = 128  # collectives that one rank recorded before another began to record
MIN_SAME_NAMES = 0.9
CLEAR_SKEW_NS = 50_000  # ends differ by less for reasons of their own
SKEW_TO_SPREAD = 8
ALIKE_SPREAD, ALIKE_NS = 3, 5_000  # spreads that do not tell which pairing is right


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


@dataclass(frozen=True, slots=True)
class Collectives:
    """Of one rank's collectives, in order of their start: ends on the common clock, names and groups as numbers."""

    ends: I64
    names: I64
    groups: I64

    def of(self, groups: I64) -> Collectives:
        """Those of some process groups."""
        chosen = np.isin(self.groups, groups)
        return Collectives(self.ends[chosen], self.names[chosen], self.groups[chosen])


@dataclass(frozen=True, slots=True)
class Numbers:
    """A number for each text, the same for all ranks."""

    known: dict[str, int] = field(default_factory=dict)

    def of(self, texts: Sequence[str]) -> I64:
        return np.array([self.known.setdefault(text, len(self.known)) for text in texts], np.int64)


def collectives_of(trace: Trace, zero: int, numbers: Numbers) -> Collectives:
    """The collectives of a trace; ``zero`` places it on the common clock, ``numbers`` is shared by all ranks."""
    kernels = trace.collective_kernels
    kernels = trace.events.by_start(kernels)
    distinct, which = np.unique(trace.events.name[kernels], return_inverse=True)
    groups, of_group = np.unique(trace.attribute(Attribute.GROUP, kernels, -1), return_inverse=True)
    return Collectives(
        trace.events.end[kernels] + zero,
        numbers.of([trace.strings[index] for index in distinct.tolist()])[which],
        numbers.of([trace.strings[index] if index >= 0 else "" for index in groups.tolist()])[of_group],
    )


def offset_between(first: Collectives, other: Collectives) -> ClockOffset | None:
    """How much later the other rank's clock is; None without enough collectives in common."""
    nearest = {lag: _at_lag(first, other, lag) for lag in (-1, 0, 1)}
    if (plain := nearest[0]) is not None and plain.spread_ns <= ALIKE_NS:
        # Ends ascend, and the medians with the lag: beyond a neighbour that is further off no lag is nearer.
        beside = [each for lag, each in nearest.items() if lag and each is not None]
        if len(beside) == 2 and all(abs(each.median_ns) >= abs(plain.median_ns) for each in beside):
            return plain
    lags = range(-min(MAX_LAG, len(first.ends)), min(MAX_LAG, len(other.ends)) + 1)
    likely = [found for lag in lags if (found := _at_lag(first, other, lag)) is not None]
    if not likely:
        return _of_few(first, other)
    # Steps repeat, so a pairing that is wrong by whole steps may spread as little as the right one.
    least = min(each.spread_ns for each in likely)
    alike = [each for each in likely if each.spread_ns <= ALIKE_SPREAD * least + ALIKE_NS]
    return min(alike, key=lambda each: abs(each.median_ns))


def _at_lag(first: Collectives, other: Collectives, lag: int) -> ClockOffset | None:
    """The offset if the other rank recorded so many collectives before the first one; None if these are others."""
    a, b = slice(max(-lag, 0), None), slice(max(lag, 0), None)
    count = min(len(first.ends[a]), len(other.ends[b]))
    if count < max(MIN_PAIRS, min(len(first.ends), len(other.ends)) // 2):
        return None
    same = first.names[a][:count] == other.names[b][:count]
    if same.mean() < MIN_SAME_NAMES:
        return None
    apart = (other.ends[b][:count] - first.ends[a][:count])[same]
    median = int(median_of(apart))
    return ClockOffset(median, int(median_of(np.abs(apart - median))), int(same.sum()))


def _of_few(first: Collectives, other: Collectives) -> ClockOffset | None:
    """As ``offset_between`` from fewer collectives, where the clocks cannot agree: the recordings do not overlap.

    All ranks take part in a collective at once, so recordings of the same collectives overlap.
    """
    count = len(first.ends)
    if count < MIN_PAIRS_APART or not np.array_equal(first.names, other.names):
        return None
    if first.ends[0] <= other.ends[-1] and other.ends[0] <= first.ends[-1]:
        return None
    apart = other.ends - first.ends
    median = int(median_of(apart))
    return ClockOffset(median, int(median_of(np.abs(apart - median))), count)


@dataclass(frozen=True, slots=True)
class Alignment:
    """Per trace: what to add to its times beside the wall clock's shift, and the error that remains (ns)."""

    corrections: tuple[int, ...]
    errors: tuple[int | None, ...]
    notes: tuple[QualityNote, ...]


def align(traces: Sequence[Trace], shifts: Sequence[int]) -> Alignment:
    """Compare every trace with the first one that has collectives; only a clear skew is corrected."""
    numbers = Numbers()
    return aligned(
        [collectives_of(trace, shift, numbers) for trace, shift in zip(traces, shifts, strict=True)],
        [trace.inputs[0].rank if trace.inputs else index for index, trace in enumerate(traces)],
    )


def aligned(
    ranks: Sequence[Collectives], labels: Sequence[int | None], progress: Progress | None = None
) -> Alignment:
    """The same for the collectives of each rank; ``labels`` is what to call them.

    Of process groups, those that all ranks belong to are compared: no others end on all of them together.
    """
    progress = progress or Progress()
    groups = [distinct_values(rank.groups) for rank in ranks if len(rank.groups)]
    shared = reduce(np.intersect1d, groups) if groups else np.empty(0, np.int64)
    ranks = [rank.of(shared) for rank in ranks]
    corrections = [0] * len(ranks)
    errors: list[int | None] = [None] * len(ranks)
    notes: list[QualityNote] = []
    reference = next((index for index, rank in enumerate(ranks) if len(rank.ends)), None)
    if reference is None:
        return Alignment(tuple(corrections), tuple(errors), ())
    errors[reference] = 0
    for index, rank in enumerate(ranks):
        if index == reference or not len(rank.ends):
            continue
        progress.step(index / len(ranks), "comparing the clocks of the ranks")
        found = offset_between(ranks[reference], rank)
        if found is None:
            continue
        told = (
            f"rank {labels[index]}: {duration(found.median_ns)} by {found.pairs} collectives, "
            f"+/- {duration(found.spread_ns)}"
        )
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
