"""Whether two recordings look like runs of one program, by what ran in them; cheap enough to ask before comparing."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, Attribute, EventKind, Trace, derived
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.names.kernels import comparable_name
from rules.analysis.names.regions import RegionRole, role_of
from rules.comparison.comparable import Incomparable, refuse_incomparable

MIN_OPERATORS = 10  # with shapes: fewer tell nothing
# of the calls with shapes that the smaller recording makes; other models share up to a third
OPERATORS_ALIKE = 0.4
KERNELS_ALIKE = 0.7  # of the kernel time of both; other models on the same libraries share up to two thirds
MIN_REGIONS, REGIONS_ALIKE = 3, 0.75  # of the names in the recording with fewer


@dataclass(frozen=True, slots=True)
class _Contents:
    """What ran: operators with the shapes of their inputs, kernels with their time (ns), the user's own regions."""

    operators: frozenset[tuple[str, str]]
    kernels: dict[str, float]
    regions: frozenset[str]


@derived
def _contents(trace: Trace) -> _Contents:
    return _Contents(_operators(trace), _kernels(trace), _regions(trace))


def _operators(trace: Trace) -> frozenset[tuple[str, str]]:
    events = trace.events.of_kind(EventKind.CPU_OP)
    shapes = trace.attribute(Attribute.INPUT_DIMS, events, -1)
    events, shapes = events[shapes >= 0], shapes[shapes >= 0]
    calls = distinct_values(trace.events.name[events].astype(np.int64) * (len(trace.strings) + 1) + shapes)
    names, dims = np.divmod(calls, len(trace.strings) + 1)
    return frozenset(
        (trace.strings[name], trace.strings[dim])
        for name, dim in zip(names.tolist(), dims.tolist(), strict=True)
    )


def _kernels(trace: Trace) -> dict[str, float]:
    events = trace.events.of_kind(EventKind.KERNEL, EventKind.GRAPH)
    times: dict[str, float] = {}
    for name, ns in _sums(trace, events):
        key = comparable_name(trace.strings[name])
        times[key] = times.get(key, 0.0) + ns
    return times


def _regions(trace: Trace) -> frozenset[str]:
    names = distinct_values(trace.events.name[trace.events.of_kind(EventKind.REGION)])
    return frozenset(
        text for name in names.tolist() if role_of(text := trace.strings[name]) is RegionRole.USER
    )


def _sums(trace: Trace, events: I64) -> list[tuple[int, float]]:
    names = trace.events.name[events]
    spent = np.bincount(names, trace.events.duration[events], len(trace.strings))
    used = np.flatnonzero(spent)
    return list(zip(used.tolist(), spent[used].tolist(), strict=True))


def related(before: Trace, after: Trace) -> bool:
    """Whether comparing the two is worth offering: they can be compared, and most of one also ran in the other."""
    try:
        refuse_incomparable(before, after)
    except Incomparable:
        return False
    if not len(before.events) or not len(after.events):
        return (
            True  # kernel reports and memory snapshots that can be compared at all have something in common
        )
    one, other = _contents(before), _contents(after)
    return (
        _of_smaller(one.operators, other.operators, MIN_OPERATORS) >= OPERATORS_ALIKE
        or _of_both(one.kernels, other.kernels) >= KERNELS_ALIKE
        or _of_smaller(one.regions, other.regions, MIN_REGIONS) >= REGIONS_ALIKE
    )


def _of_smaller(one: frozenset[object], other: frozenset[object], least: int) -> float:
    fewest = min(len(one), len(other))
    return len(one & other) / fewest if fewest >= least else 0.0


def _of_both(one: dict[str, float], other: dict[str, float]) -> float:
    common = one.keys() & other.keys()
    if not common:
        return 0.0
    return min(sum(side[name] for name in common) / sum(side.values()) for side in (one, other))
