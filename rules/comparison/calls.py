"""The GPU operations of one step as columns that two recordings share: names, operators, shapes, regions as codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import field

import numpy as np

from parsers.model import BOOL, I32, I64, Attribute, EventKind, LaneKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.names.kernels import base_name, comparable_name
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost, outermost
from rules.analysis.names.families import classify
from rules.analysis.names.regions import RegionRole, roles_of
from rules.analysis.steps.steps import Step, launched_operations

NONE = -1
MAIN = 2  # tensors whose shapes tell how much an operator has to do
BACKWARD = "autograd::engine"  # what runs inside is the backward pass, also where nobody annotated it
OPTIMIZER = "Optimizer.step#"
_NO_EVENTS = np.empty(0, np.int64)


@dataclass(slots=True)
class Codes:
    """One number for each text, the same for both recordings."""

    of: dict[str, int] = field(default_factory=dict)

    def code(self, text: str) -> int:
        return self.of.setdefault(text, len(self.of))

    def mapped(self, trace: Trace, names: I64, write: Callable[[str], str] = str) -> I64:
        """The code of ``write`` of each string of the trace; NONE where there is no string (-1)."""
        found = np.full(len(trace.strings) + 1, NONE, np.int64)
        for name in distinct_values(names[names >= 0]).tolist():
            found[name] = self.code(write(trace.strings[name]))
        return found[names]

    def texts(self) -> list[str]:
        return list(self.of)


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """GPU operations in the order of their launches, as equal columns; NONE where something is not known.

    ``name`` is a spelling that all tools share, ``base`` the function's own name, ``operator`` the innermost operator
    around the launch, ``outer`` the outermost one, ``dims`` its shapes, ``region`` the outermost range of the step.
    """

    event: I64
    name: I64
    base: I64
    family: I64
    operator: I64
    outer: I64
    dims: I64
    region: I64
    ns: I64
    kernel: BOOL  # a kernel that is no collective: it can be joined with others

    def __len__(self) -> int:
        return len(self.event)


def calls_of(analysis: Analysis, step: Step | None, codes: Codes) -> Calls:
    """The operations that start inside a step, on its rank's GPUs; without one, those of the analysed window."""
    trace = analysis.trace
    rank = None if step is None else step.rank
    span = analysis.window if step is None else (step.start, step.end)
    ranks = [rank] if step is not None else sorted({device.rank for device in trace.devices}, key=str)
    found = [launched_operations(trace, NONE if each is None else each)[0] for each in ranks]
    operations: I64 = np.concatenate([_NO_EVENTS, *found])
    start = trace.events.start[operations]
    operations = operations[(start >= span[0]) & (start < span[1])]
    names = trace.events.name[operations].astype(np.int64)
    operator, outer = _operators(trace, operations)
    text = np.where(operator < 0, NONE, trace.events.name[operator])
    outermost = np.where(outer < 0, NONE, trace.events.name[outer])
    dims = np.where(operator < 0, NONE, trace.attribute(Attribute.INPUT_DIMS, np.maximum(operator, 0), NONE))
    return Calls(
        event=operations,
        name=codes.mapped(trace, names, comparable_name),
        base=codes.mapped(trace, names, base_name),
        family=codes.mapped(trace, names, lambda name: classify(name).family.label),
        operator=codes.mapped(trace, text),
        outer=codes.mapped(trace, outermost),
        dims=codes.mapped(trace, dims, main_shapes),
        region=_regions(analysis, operations, outermost, codes),
        ns=trace.events.duration[operations],
        kernel=(trace.events.kind[operations] == EventKind.KERNEL) & ~trace.communicates[operations],
    )


def main_shapes(dims: str) -> str:
    """The shapes of an operator's first two tensors, of a JSON list: compilers hand over more of them."""
    try:
        shapes = json.loads(dims)
    except ValueError:
        return dims
    if not isinstance(shapes, list):
        return dims
    return json.dumps([shape for shape in shapes if isinstance(shape, list) and shape][:MAIN])


def _operators(trace: Trace, operations: I64) -> tuple[I64, I64]:
    """For each operation the innermost and the outermost operator around its launch, as events; -1 without one."""
    launch = trace.links.launch_of(operations)
    inner, outer = np.full(len(operations), NONE), np.full(len(operations), NONE)
    lane = np.where(launch < 0, NONE, trace.events.lane[np.maximum(launch, 0)])
    of_thread: dict[tuple[int | None, int | None, int | None], list[int]] = {}
    for index in distinct_values(lane[lane >= 0]).tolist():
        each = trace.lanes[index]
        of_thread.setdefault((each.rank, each.process, each.thread), []).append(index)
    for thread, lanes in of_thread.items():
        mine = np.isin(lane, lanes)
        at = trace.events.start[launch[mine]]
        around = _operators_of(trace, thread, int(at.min()), int(at.max()) + 1)
        inner[mine] = Innermost.of(trace, around).at(at)
        outer[mine] = _open_at(trace, outermost(trace, around), at)
    return inner, outer


def _operators_of(trace: Trace, thread: tuple[int | None, int | None, int | None], t0: int, t1: int) -> I64:
    """The operators of one thread that touch [t0, t1)."""
    found = [
        np.arange(inside.start, inside.stop, dtype=np.int64)
        for index, lane in enumerate(trace.lanes)
        if lane.kind is LaneKind.CPU_THREAD and (lane.rank, lane.process, lane.thread) == thread
        for depth in trace.events.rows(index)
        for inside in [trace.events.window(index, depth, t0, t1)]
    ]
    events: I64 = np.concatenate([_NO_EVENTS, *found])
    return np.asarray(trace.events.only(events, EventKind.CPU_OP), np.int64)


def _open_at(trace: Trace, events: I64, times: I64) -> I64:
    """The last of ``events``, by start, that is open at each time; -1 for none."""
    if not len(events):
        return np.full(len(times), NONE)
    place = np.searchsorted(trace.events.start[events], times, side="right") - 1
    found = events[np.maximum(place, 0)]
    return np.asarray(np.where((place >= 0) & (trace.events.end[found] > times), found, NONE), np.int64)


def _regions(analysis: Analysis, operations: I64, outermost_operator: I64, codes: Codes) -> I64:
    """The outermost range below the step that was open on its rank when each operation was launched.

    What autograd launches outside of any is the backward pass.
    """
    trace = analysis.trace
    launch = trace.links.launch_of(operations)
    at = trace.events.start[np.where(launch < 0, operations, launch)]
    rank = trace.lane_rank[trace.events.lane[operations]]
    regions = trace.events.of_kind(EventKind.REGION)
    regions = regions[_tells_a_phase(trace, trace.events.name[regions])]
    names = np.full(len(operations), NONE)
    for each in distinct_values(rank).tolist():
        mine = rank == each
        top = _busiest(trace, regions[trace.lane_rank[trace.events.lane[regions]] == each])
        found = _open_at(trace, top, at[mine])
        names[mine] = np.where(found < 0, NONE, trace.events.name[found])
    coded = codes.mapped(trace, names)
    backward = names < 0
    in_autograd = _strings(trace, outermost_operator, lambda name: name.startswith(BACKWARD))
    return np.asarray(np.where(backward & in_autograd, codes.code("backward"), coded), np.int64)


def _tells_a_phase(trace: Trace, names: I32) -> BOOL:
    """Whether a range is the user's, or the optimizer's step, which torch annotates by itself."""
    told = roles_of(trace) == RegionRole.USER
    for name in distinct_values(names).tolist():
        told[name] |= trace.strings[name].startswith(OPTIMIZER)
    return np.asarray(told[names])


def _busiest(trace: Trace, regions: I64) -> I64:
    """The outermost ranges of the lane that has most of them, by time."""
    best = _NO_EVENTS
    for lane in distinct_values(trace.events.lane[regions]).tolist():
        top = outermost(trace, regions[trace.events.lane[regions] == lane])
        if trace.events.duration[top].sum() > trace.events.duration[best].sum():
            best = top
    return best


def _strings(trace: Trace, names: I64, test: Callable[[str], bool]) -> BOOL:
    found = np.zeros(len(trace.strings) + 1, bool)
    known: Iterable[int] = distinct_values(names[names >= 0]).tolist()
    for name in known:
        found[name] = test(trace.strings[name])
    return found[names] & (names >= 0)
