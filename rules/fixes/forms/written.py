"""What a program does in order: operators of each thread, or kernels in their place, and the calls that they make."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, EventKind
from parsers.model.arrays import distinct_values, numbered_rows, rows_by
from parsers.model.late import dataclass
from parsers.model.names.kernels import kernel_name
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family, classify
from rules.fixes.base import MIN_GPU_SHARE
from rules.fixes.changes import MIN_NS, share_of
from rules.replay.origins import called_operators
from rules.replay.replay import Replay

_OF_FAMILIES = {Family.GEMM: "aten::mm", Family.CONVOLUTION: "aten::conv2d"}


def called_in_order(analysis: Analysis) -> Iterator[I64]:
    """The operators that lie inside no other, by start, of each thread that makes calls of the replay."""
    found = called_operators(analysis)
    for activity, _ in analysis.threads.by_thread(distinct_values(found[found >= 0])):
        yield activity.whole_operators


def of_steps(analysis: Analysis, replay: Replay, operators: I64) -> list[I64]:
    """The operators of each step; what launches nothing belongs to the step of what launches before."""
    calls = called_operators(analysis)
    mine = np.isin(calls, operators)
    called, first = np.unique(calls[mine], return_index=True)
    step = np.zeros(len(operators), np.int64)
    step[np.isin(operators, called)] = 1 + replay.host.step[mine][first]
    step = np.maximum.accumulate(step)
    return np.split(operators, np.flatnonzero(np.diff(step)) + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What a thread has done in order: operators that lie inside no other; without operators, a stream's kernels.

    ``kind`` is the same for the same operator on tensors of the same sizes, as a kernel's launch says, too. ``ns`` is
    how long the GPU works for each, with gradients.
    """

    events: I64
    kind: I64
    ns: F64
    operators: list[str]  # "aten::add", by the name of a kernel that does what such an operator does


def work_in_order(analysis: Analysis, replay: Replay) -> Iterator[Work]:
    """The work of each thread or stream; none where operators were recorded without their shapes."""
    trace, device = analysis.trace, replay.device
    if Attribute.INPUT_DIMS in trace.attributes:
        operator = called_operators(analysis)[device.launch] + 1
        took: F64 = np.bincount(operator, device.duration, minlength=len(trace.events) + 1).astype(np.float64)
        for called in called_in_order(analysis):
            kind = numbered_rows(trace.events.name[called], trace.attribute(Attribute.INPUT_DIMS, called, -1))
            names = trace.events.name[called].tolist()
            yield Work(called, kind, took[called + 1], [trace.strings[each] for each in names])
    elif EventKind.CPU_OP not in trace.kinds:
        as_operator: dict[int, str] = {}
        for _, mine in rows_by(device.stream):
            mine = mine[trace.events.kind[device.event[mine]] == EventKind.KERNEL]
            kernels = device.event[mine]
            names = trace.events.name[kernels].tolist()
            for each in set(names) - set(as_operator):
                as_operator[each] = _as_operator(trace.strings[each])
            launch = (trace.attribute(each, kernels) for each in (Attribute.GRID, Attribute.BLOCK))
            kind = numbered_rows(trace.events.name[kernels], *launch)
            yield Work(kernels, kind, device.duration[mine], [as_operator[each] for each in names])


def _as_operator(kernel: str) -> str:
    family = classify(kernel).family
    return _OF_FAMILIES.get(family) or f"aten::{kernel_name(kernel).partition(' ')[0].lower()}"


def calls_of(analysis: Analysis, operators: I64) -> BOOL:
    """The host nodes of these operators, and of what computes their gradients."""
    return np.isin(called_operators(analysis), operators)


def operations_of(analysis: Analysis, replay: Replay, operators: I64) -> tuple[BOOL, I64]:
    """Which operations of the GPU belong to these operators and their gradients, and to which place among them each."""
    events, operator = replay.device.event, called_operators(analysis)[replay.device.launch]
    operator = np.where(np.isin(events, operators), events, operator)  # kernels in their place
    mine, order = np.isin(operator, operators), np.argsort(operators, kind="stable")
    return mine, order[np.searchsorted(operators, operator[mine], sorter=order)]


def left_of(
    analysis: Analysis, replay: Replay, operators: I64, left: F64, least_ns: float | F64 = MIN_NS
) -> tuple[BOOL, F64]:
    """Which operations belong to these operators, and for all operations the part of their time that remains.

    ``left`` is that of each operator; no operation that does not vanish gets shorter than ``least_ns``.
    """
    device = replay.device
    mine, place = operations_of(analysis, replay, operators)
    least = np.broadcast_to(least_ns, left.shape)[place] / np.maximum(device.duration[mine], 1.0)
    factor = np.ones(len(device))
    factor[mine] = np.where(left[place] > 0, np.maximum(left[place], np.minimum(least, 1.0)), 0.0)
    return mine, factor


def costly_calls(analysis: Analysis, replay: Replay, operators: I64) -> tuple[BOOL, float]:
    """The host nodes as ``calls_of`` has them, and the part of the GPU's time in what they launch.

    It is 0 where that is too little for a fix.
    """
    nodes, device = calls_of(analysis, operators), replay.device
    nodes[device.launch[np.isin(device.event, operators)]] = True  # kernels in their place
    share = share_of(replay, nodes[device.launch])
    return nodes, share if share >= MIN_GPU_SHARE else 0.0
