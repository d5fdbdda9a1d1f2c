"""What an execution trace says a program computes: operations by operator, and copies between devices."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from parsers.model import EventKind, Trace, derived
from parsers.model.late import dataclass, regex
from parsers.model.results import CALLED_BY, COPIES_TITLE, OPERATORS_TITLE, Cell

_CONVOLUTION = regex(r"aten::conv[123]d")
OperationsOf = Callable[[str, str, str, Callable[[], Sequence[str]]], float]


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """One operator with inputs of one shape: the operations of all its calls."""

    name: str
    shapes: str
    types: str
    calls: int
    operations: float


@dataclass(frozen=True, slots=True)
class DeviceCopies:
    """Copies from one sort of device to another."""

    source: str
    target: str
    count: int
    megabytes: float


@dataclass(frozen=True, slots=True)
class RecordedWork:
    """Operators that multiply and add, those with most operations first; ``calls`` are those of all operators."""

    operators: tuple[OperatorWork, ...]
    calls: int
    copies: tuple[DeviceCopies, ...]
    uncounted: int = 0  # calls of convolutions of which neither strides nor what they call were recorded

    @property
    def operations(self) -> float:
        return sum(each.operations for each in self.operators)


def has_execution_trace(trace: Trace) -> bool:
    """Whether one is there, alone or beside a timeline."""
    return any(table.title == OPERATORS_TITLE for table in trace.tables)


def recorded_work(trace: Trace, operations_of: OperationsOf) -> RecordedWork:
    """The operations of all calls, 0 where they are not known; of operators that call one another the inner counts."""
    rows = [row for table in trace.tables if table.title == OPERATORS_TITLE for row in table.rows]
    known: list[tuple[OperatorWork, list[str]]] = []
    for name, callers, calls, shapes, types, numbers in rows:
        values = partial(_listed, numbers)
        count = int(calls) if isinstance(calls, float) else 0
        if (operations := operations_of(str(name), str(shapes), str(types), values)) > 0:
            each = OperatorWork(str(name), str(shapes), str(types), count, count * operations)
            known.append((each, str(callers or "").split(CALLED_BY)))
    outer = {caller for each, callers in known for caller in callers if caller != each.name}
    inner: dict[tuple[str, str, str], OperatorWork] = {}
    for each, _ in known:
        if each.name not in outer:
            key = (each.name, each.shapes, each.types)
            before = inner.get(key, replace(each, calls=0, operations=0.0))
            whole = before.operations + each.operations
            inner[key] = replace(each, calls=before.calls + each.calls, operations=whole)
    copied: dict[tuple[str, str], tuple[float, float]] = {}
    for table in trace.tables:
        for source, target, number, megabytes in table.rows if table.title == COPIES_TITLE else ():
            ends = str(source), str(target)
            so_far = copied.get(ends, (0.0, 0.0))
            copied[ends] = so_far[0] + number_in(number), so_far[1] + number_in(megabytes)
    copies = tuple(
        DeviceCopies(source, target, int(made), moved) for (source, target), (made, moved) in copied.items()
    )
    by_work = tuple(sorted(inner.values(), key=lambda each: -each.operations))
    forward = any("conv" in each.name and "backward" not in each.name for each in by_work)
    uncounted = (
        0 if forward else sum(number_in(row[2]) for row in rows if _CONVOLUTION.fullmatch(str(row[0])))
    )
    return RecordedWork(by_work, int(sum(number_in(row[2]) for row in rows)), copies, int(uncounted))


@derived
def _called(trace: Trace) -> dict[str, int]:
    """How often the timeline has each operator."""
    names = trace.events.name[trace.events.of_kind(EventKind.CPU_OP)]
    count = np.bincount(names, minlength=len(trace.strings))
    return {trace.strings[each]: int(count[each]) for each in np.flatnonzero(count).tolist()}


def is_of_this_timeline(trace: Trace, work: RecordedWork) -> bool:
    """Whether the timeline has each operator with arithmetic exactly as often: then both are of the same stretch."""
    calls: dict[str, int] = {}
    for each in work.operators:
        calls[each.name] = calls.get(each.name, 0) + each.calls
    timeline = _called(trace)
    return bool(calls) and all(timeline.get(name) == count for name, count in calls.items())


def kernel_time(trace: Trace) -> int:
    """All kernels of a trace, ns, those at the same time counted each."""
    kernels = trace.events.of_kind(EventKind.KERNEL)
    return int(trace.events.duration[kernels].sum())


def _listed(numbers: Cell) -> Sequence[str]:
    try:
        found = json.loads(numbers) if isinstance(numbers, str) else []
    except ValueError:
        return ()
    return [str(each) for each in found] if isinstance(found, list) else ()


def number_in(cell: Cell) -> float:
    """0 where there is none."""
    return cell if isinstance(cell, float) else 0.0
