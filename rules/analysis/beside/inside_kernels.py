"""Where warps spend the time of a kernel whose author marked its parts."""

from __future__ import annotations

import numpy as np

from parsers.model import F64, I64, LaneKind, Trace, derived
from parsers.model.arrays import distinct_values, last_of_group, median_of, rows_by
from parsers.model.late import dataclass
from parsers.model.names.kernels import kernel_of_block
from parsers.model.names.per_name import judged
from rules.analysis.arithmetic.innermost import Innermost


@dataclass(frozen=True, slots=True, eq=False)
class KernelInside:
    """One kernel. ``parts`` holds the time in which each is the innermost one, the largest first; ``""`` is none."""

    name: str
    warps: I64  # events: what one warp did in one block
    times: I64  # how long each took
    units: int  # multiprocessors that ran it
    parts: tuple[tuple[str, float], ...]

    @property
    def whole(self) -> int:
        return int(self.times.sum())

    @property
    def slowest(self) -> float:
        """The longest time of a warp, over the median one."""
        median = float(median_of(self.times))
        return float(self.times.max()) / median if median > 0 else 1.0


@derived
def inside_kernels(trace: Trace) -> tuple[KernelInside, ...]:
    """The kernels whose parts were measured, the one with most time in its warps first."""
    lanes = np.array([lane.kind is LaneKind.INSIDE_KERNEL for lane in trace.lanes], bool)
    events = np.flatnonzero(lanes[trace.events.lane]) if lanes.any() else np.empty(0, np.int64)
    if not len(events):
        return ()
    table = trace.events
    warps, part, length = _stretches(trace, events)
    kernels = list(
        dict.fromkeys(
            kernel_of_block(trace.strings[each]) for each in distinct_values(table.name[warps]).tolist()
        )
    )
    number = {name: index for index, name in enumerate(kernels)}
    kernel = judged(table.name[warps], trace.strings, lambda name: number.get(kernel_of_block(name), -1))
    of_stretch = _kernel_of(trace, warps, kernel, part)
    found = []
    stretches = dict(rows_by(of_stretch))
    for index, rows in rows_by(kernel):
        name, mine = kernels[index], warps[rows]
        inside = stretches.get(index, np.empty(0, np.int64))
        parts_of_it, which = np.unique(table.name[part[inside]], return_inverse=True)
        spent = np.bincount(which, length[inside], len(parts_of_it))
        is_warp = np.isin(parts_of_it, table.name[mine])
        named = [
            (trace.strings[each], ns)
            for each, ns in zip(parts_of_it[~is_warp].tolist(), spent[~is_warp].tolist(), strict=True)
            if ns
        ]
        parts = sorted([*named, ("", float(spent[is_warp].sum()))], key=lambda each: -each[1])
        units = len({trace.lanes[lane].process for lane in distinct_values(table.lane[mine]).tolist()})
        found.append(KernelInside(name, mine, table.duration[mine], units, tuple(parts)))
    return tuple(sorted(found, key=lambda each: -each.whole))


def _stretches(trace: Trace, events: I64) -> tuple[I64, I64, F64]:
    """What warps did as a whole; and for each stretch of time on one lane the innermost event and its length."""
    table = trace.events
    moments = distinct_values(np.concatenate(table.spans(events)))
    begin = table.lane[events].astype(np.int64) * len(moments)
    innermost = Innermost.nested(
        begin + np.searchsorted(moments, table.start[events]),
        begin + np.searchsorted(moments, table.end[events]),
        events,
    )
    moment = moments[innermost.edges % len(moments)]
    length = np.diff(moment, append=0).astype(np.float64)
    is_open = innermost.event >= 0
    return events[table.depth[events] == 0], innermost.event[is_open].astype(np.int64), length[is_open]


def _kernel_of(trace: Trace, warps: I64, kernel: I64, part: I64) -> I64:
    """The kernel of each event, by the warp that is open on its lane when it begins."""
    order = np.lexsort((trace.events.start[warps], trace.events.lane[warps]))
    warps, kernel = warps[order], kernel[order]
    lane, start = trace.events.lane, trace.events.start
    return kernel[last_of_group(lane[warps], start[warps], lane[part], start[part])]
