"""Where a part of a bridge, or a row of kernels, lies in the two steps that are shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model import BOOL, I64, EventKind, Trace
from rules.analysis.idle.causes import Cause
from rules.comparison.bridge import BUDGET, REGIONS, BridgePart
from rules.comparison.matched_steps import MatchedSteps
from rules.comparison.side import Side
from rules.findings.base import Evidence
from rules.losses.lost_time import evidence_of

MAX_PLACES = 400  # places: the longest ones


def places_of_row(
    steps: MatchedSteps, sides: tuple[Side, Side], row: int
) -> tuple[list[Evidence], list[Evidence]]:
    """The calls of a row of kernels on both sides."""
    rows = steps.rows.row_before, steps.rows.row_after
    found = [
        _evidence(side.trace, calls.event[of_call == row])
        for side, calls, of_call in zip(sides, steps.calls, rows, strict=True)
    ]
    return found[0], found[1]


def places_of_part(
    title: str, part: BridgePart, steps: MatchedSteps, sides: tuple[Side, Side]
) -> tuple[list[Evidence], list[Evidence]]:
    """The operations, or the gaps, of a part of a bridge on both sides."""
    found = [_of_part(title, part, steps, number, side) for number, side in enumerate(sides)]
    return found[0], found[1]


def _of_part(title: str, part: BridgePart, steps: MatchedSteps, number: int, side: Side) -> list[Evidence]:
    calls = steps.calls[number]
    if title == REGIONS and not side.gpus:
        return _ranges(side, steps, number, part.label)
    causes = [cause for cause in Cause if cause.key == part.key]
    if title == BUDGET and causes:
        return _gaps(side, steps, number, causes)
    if title not in (BUDGET, REGIONS) and part.key == "dependency":
        return _gaps(side, steps, number, list(Cause))
    code = steps.texts.index(part.label) if part.label in steps.texts else -1
    if title == REGIONS:
        return _evidence(side.trace, calls.event[calls.region == code])
    if title == BUDGET:
        return _evidence(side.trace, calls.event[_in_budget(side.trace, calls.event, calls.kernel, part.key)])
    return _evidence(side.trace, calls.event[calls.family == code])


def _ranges(side: Side, steps: MatchedSteps, number: int, name: str) -> list[Evidence]:
    trace, step = side.trace, steps.steps[number]
    t0, t1 = side.analysis.window if step is None else (step.start, step.end)
    ranges = trace.events.of_kind(EventKind.REGION)
    start = trace.events.start[ranges]
    code = trace.strings.index(name) if name in trace.strings else -1
    return _evidence(trace, ranges[(trace.events.name[ranges] == code) & (start >= t0) & (start < t1)])


def _in_budget(trace: Trace, events: I64, kernels: BOOL, key: str) -> BOOL:
    kind = trace.events.kind[events]
    chosen = {
        "compute": kernels | (kind == EventKind.GRAPH),
        "communication": (kind == EventKind.KERNEL) & ~kernels,
        "copy": kind == EventKind.MEMCPY,
        "other": kind == EventKind.MEMSET,
    }
    return np.asarray(chosen.get(key, np.zeros(len(events), bool)))


def _gaps(side: Side, steps: MatchedSteps, number: int, causes: Sequence[Cause]) -> list[Evidence]:
    """Idle time of these causes inside the step, on the GPUs that it uses."""
    idle, step = side.analysis.idle, steps.steps[number]
    t0, t1 = side.analysis.window if step is None else (step.start, step.end)
    devices = [
        device
        for device in side.analysis.active_devices
        if step is None or side.trace.devices[device].rank == step.rank
    ]
    lanes = {
        device: next(
            (i for i, lane in enumerate(side.trace.lanes) if lane.is_gpu and lane.device == device), -1
        )
        for device in devices
    }
    mine = np.isin(idle.cause, [int(cause) for cause in causes]) & np.isin(idle.device, devices)
    rows = np.flatnonzero(mine & (idle.start >= t0) & (idle.start < t1))
    rows = rows[np.argsort(idle.start[rows] - idle.end[rows], kind="stable")][:MAX_PLACES]
    return [
        Evidence(lanes[int(idle.device[row])], int(idle.start[row]), int(idle.end[row]), "")
        for row in np.sort(rows).tolist()
    ]


def _evidence(trace: Trace, events: I64) -> list[Evidence]:
    longest = events[np.argsort(-trace.events.duration[events], kind="stable")][:MAX_PLACES]
    return list(evidence_of(trace, np.sort(longest)))
