"""Iterations whose parts are annotated: a thread's outermost regions that take turns, forward, backward and so on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.model import EventKind, Trace
from parsers.model.names.per_name import named
from rules.analysis.names.regions import RegionRole, role_of

I64 = npt.NDArray[np.int64]

LEAST_CYCLES = 3
LEAST_MATCH = 0.95  # share of regions that equal the one a cycle later


def cycles_of_regions(trace: Trace, lanes: npt.NDArray[np.bool_]) -> tuple[I64, I64, I64] | None:
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
