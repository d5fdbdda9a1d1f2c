"""Iterations without any annotation: the steady period in the sequence of a GPU's operations."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from parsers.model import Attribute, CopyKind, EventKind, Trace
from rules.analysis.names.families import Family, classify
from rules.analysis.names.per_name import named
from rules.analysis.names.regions import RegionRole, role_of

I64 = npt.NDArray[np.int64]

LEAST_REPETITIONS = 4
LEAST_CYCLES = 3  # of regions
LEAST_MATCH = 0.95  # share of operations that equal the one a period later
LEAST_SPAN = 0.9  # of the recording that the repetitions must cover: less is a part of a step
LEAST_WAIT_SHARE = 0.5  # of a cycle's idle time that must lie at its boundary: a model's layers repeat, too
LONGEST_SEQUENCE = 200_000
LEAST_OF_CYCLES = 0.5  # a step runs every layer, so a layer's region comes in every cycle that is a step
_LAYER = re.compile(r"(?<![a-z])(layers?|blocks?|h)[._ \[]*\d+(?!\d)", re.IGNORECASE)


def repetitions(trace: Trace, operations: I64) -> list[tuple[int, int]]:
    """(start, end) of each cycle on the busiest device; none where nothing repeats from end to end."""
    order = _of_busiest_device(trace, operations)
    order = order[np.argsort(trace.events.start[order], kind="stable")][:LONGEST_SEQUENCE]
    if len(order) < 2 * LEAST_REPETITIONS:
        return []
    whole = int(trace.events.end[order].max() - trace.events.start[order[0]])
    names = trace.events.name[order]
    values, counts = np.unique(names, return_counts=True)
    for value in values[np.lexsort((values, counts))].tolist():
        places = np.flatnonzero(names == value)
        if len(places) < LEAST_REPETITIONS:
            continue
        spacing = np.diff(places)
        period = int(np.median(spacing))
        if period < 2 or np.mean(spacing == period) < LEAST_MATCH:
            continue
        body = names[places[0] : places[-1]]
        if len(body) <= period or np.mean(body[period:] == body[:-period]) < LEAST_MATCH:
            continue
        found = _cut_at_widest_gap(trace, order, places, period)
        if not found or found[-1][1] - found[0][0] < LEAST_SPAN * whole or _are_layers(trace, len(found)):
            return []
        return found
    return []


def _are_layers(trace: Trace, cycles: int) -> bool:
    """Whether what repeats are a model's layers: ranges number them, and each number comes in few of the cycles."""
    ranges = trace.events.of_kind(EventKind.REGION, EventKind.CPU_OP)
    lanes, names = trace.events.lane[ranges].astype(np.int64), trace.events.name[ranges]
    of_layers = np.array([_LAYER.search(text) is not None for text in trace.strings], bool)[names]
    counts = np.unique(lanes[of_layers] << 32 | names[of_layers], return_counts=True)[1]
    return len(counts) > 1 and float(np.median(counts)) < LEAST_OF_CYCLES * cycles


def _of_busiest_device(trace: Trace, operations: I64) -> I64:
    device = trace.lane_device[trace.events.lane[operations]]
    found, counts = np.unique(device, return_counts=True)
    return operations[device == found[counts.argmax()]] if len(found) else operations


def _cut_at_widest_gap(trace: Trace, order: I64, places: I64, period: int) -> list[tuple[int, int]]:
    """Cut where the GPU waits longest in each cycle; nothing where no such wait, copy or optimizer marks it."""
    starts = trace.events.start[order]
    reach = np.maximum.accumulate(trace.events.end[order])
    idle = np.maximum(np.concatenate(([0], starts[1:] - reach[:-1])), 0)
    first, cycles = int(places[0]), len(places) - 1
    wait = idle[first : first + cycles * period].reshape(cycles, period).mean(axis=0)
    copies = trace.attribute(Attribute.COPY_KIND, order[first : first + period])
    with_host = np.isin(copies, (CopyKind.H2D.value, CopyKind.D2H.value)).any()
    names = np.unique(trace.events.name[order[first : first + period]]).tolist()
    optimizes = any(classify(trace.strings[name]).family is Family.OPTIMIZER for name in names)
    if wait.max() < LEAST_WAIT_SHARE * wait.sum() and not with_host and not optimizes:
        return []
    begin = (first + int(wait.argmax())) % period
    edges = np.arange(begin, len(order), period)
    times = starts[edges].tolist()
    if len(order) - int(edges[-1]) == period:
        times.append(int(reach[-1]))
    return list(pairwise(times))


def cycles_of_regions(trace: Trace, lanes: npt.NDArray[np.bool_]) -> tuple[I64, I64] | None:
    """Starts and ends of cycles, where a thread's outermost regions repeat in turn: forward, backward ..."""
    regions = trace.events.of_kind(EventKind.REGION)
    regions = regions[lanes[trace.events.lane[regions]] & (trace.events.depth[regions] == 0)]
    best: tuple[I64, I64] | None = None
    for lane in np.unique(trace.events.lane[regions]).tolist():
        mine = regions[trace.events.lane[regions] == lane]
        mine = mine[named(trace, mine, lambda name: role_of(name) in (RegionRole.USER, RegionRole.INPUT))]
        mine = mine[np.argsort(trace.events.start[mine], kind="stable")]
        names = trace.events.name[mine]
        firsts = np.flatnonzero(names == names[0]) if len(mine) else mine
        period = int(np.median(np.diff(firsts))) if len(firsts) > 1 else 0
        if len(firsts) < LEAST_CYCLES or period < 2 or len(np.unique(names)) < 2:
            continue
        if np.mean(names[period:] == names[:-period]) < LEAST_MATCH or (best and len(firsts) <= len(best[0])):
            continue
        starts = trace.events.start[mine[firsts]]
        best = starts, np.append(starts[1:], trace.events.end[mine].max())
    return best
