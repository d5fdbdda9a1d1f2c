"""Iterations whose parts are annotated: a thread's outermost regions that take turns, forward, backward and so on."""

from __future__ import annotations

import re

import numpy as np

from parsers.model import BOOL, I64, EventKind, Trace
from parsers.model.names.per_name import named
from rules.analysis.names.regions import RegionRole, is_loader, role_of

LEAST_CYCLES = 3
_OPTIMIZER_STEP = re.compile(r"Optimizer\.step#")
LEAST_MATCH = 0.95  # share of regions that equal the one a cycle later


def cycles_of_regions(trace: Trace, lanes: BOOL) -> tuple[I64, I64, I64] | None:
    """Starts and ends of cycles and the regions they consist of, where a thread's outermost regions repeat in turn.

    Where several threads run the same regions they serve requests side by side, and none is the run's cycle.
    """
    regions = trace.events.of_kind(EventKind.REGION)
    regions = regions[lanes[trace.events.lane[regions]] & (trace.events.depth[regions] == 0)]
    regions = regions[
        named(trace, regions, lambda name: role_of(name) in (RegionRole.USER, RegionRole.INPUT))
    ]
    regions = regions[np.argsort(trace.events.start[regions], kind="stable")]
    of_lanes = [regions[trace.events.lane[regions] == lane] for lane in np.unique(trace.events.lane[regions])]
    best: tuple[I64, I64, I64] | None = None
    for mine in of_lanes:
        names = trace.events.name[mine]
        firsts = np.flatnonzero(names == names[0])
        period = int(np.median(np.diff(firsts))) if len(firsts) > 1 else 0
        if len(firsts) < LEAST_CYCLES or period < 2 or len(np.unique(names)) < 2:
            continue
        if np.mean(names[period:] == names[:-period]) < LEAST_MATCH or (best and len(firsts) <= len(best[0])):
            continue
        if sum(bool(np.isin(names[0], trace.events.name[other])) for other in of_lanes) > 1:
            continue
        starts = trace.events.start[mine[firsts]]
        best = starts, np.append(starts[1:], trace.events.end[mine].max()), mine
    return best


def cycles_of_loops(trace: Trace, lanes: BOOL) -> tuple[I64, I64] | None:
    """Starts and ends of iterations by what PyTorch itself annotates once in each: the optimizer's step, which ends it,
    else the data loader's next batch, which begins it; None where neither comes often enough on one thread.
    """
    events = trace.events.of_kind(EventKind.REGION, EventKind.CPU_OP)
    events = events[lanes[trace.events.lane[events]]]
    for wanted, ends_it in ((lambda name: bool(_OPTIMIZER_STEP.match(name)), True), (is_loader, False)):
        marks = _rarest_that_repeats(trace, events[named(trace, events, wanted)])
        if marks is None:
            continue
        same = events[trace.events.lane[events] == trace.events.lane[marks[0]]]
        if ends_it:
            ends = trace.events.end[marks]
            return np.concatenate(([trace.events.start[same].min()], ends[:-1])), ends
        starts = trace.events.start[marks]
        return starts, np.append(starts[1:], trace.events.end[same].max())
    return None


def _rarest_that_repeats(trace: Trace, events: I64) -> I64 | None:
    """Of events of one name on one lane that come often enough, those that come least often, by time."""
    key = trace.events.lane[events].astype(np.int64) << 32 | trace.events.name[events]
    found, counts = np.unique(key, return_counts=True)
    often = counts >= LEAST_CYCLES
    if not often.any():
        return None
    mine: I64 = events[key == found[often][counts[often].argmin()]]
    by_time: I64 = mine[np.argsort(trace.events.start[mine], kind="stable")]
    return by_time
