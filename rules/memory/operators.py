"""Which operator of the timeline asked for each allocation, and what the memory is for as far as operators tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from parsers.model import BOOL, I8, I64, EventKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.memory import AFTER, BEFORE, Memory
from parsers.model.names.per_name import named
from rules.analysis.arithmetic.innermost import Innermost
from rules.analysis.arithmetic.intervals import Intervals, contains, union
from rules.analysis.names.operators import is_autograd_function
from rules.analysis.names.regions import is_optimizer_step
from rules.memory.kinds import KINDS, Kind

_SAME_NS = 1_000_000  # between the clocks of a snapshot and of a timeline; they were seen to differ by 2 us
MODULE = "nn.Module: "  # before the names of modules, as PyTorch records them
_CALLED = (EventKind.CPU_OP, EventKind.REGION)


def operators_of(trace: Trace, memory: Memory) -> I64:
    """The innermost operator or region around each allocation, as an event; -1 where none is known."""
    return innermost_of(trace, memory, _CALLED, lambda _: True)


def modules_of(trace: Trace, memory: Memory) -> I64:
    """The innermost module around each allocation, as an event; -1 where none is known."""
    return innermost_of(trace, memory, (EventKind.PYTHON,), lambda name: name.startswith(MODULE))


def innermost_of(
    trace: Trace, memory: Memory, kinds: Sequence[EventKind], wanted: Callable[[str], bool]
) -> I64:
    """The innermost event of some kinds, with a name that is ``wanted``, around each allocation; -1 for none."""
    table = memory.allocations
    thread = threads_of(trace, memory)
    found = np.full(len(table.start), -1, np.int64)
    for rank, number in _threads(trace, memory, thread):
        mine = (thread == number) & (table.start != BEFORE) & _of_rank(trace, memory, rank)
        events = _events(trace, rank, number, kinds)
        events = events[named(trace, events, wanted)]
        found[mine] = Innermost.of(trace, events).at(table.start[mine])
    return found


def threads_of(trace: Trace, memory: Memory) -> I64:
    """The thread that asked for each allocation; where a snapshot does not say, the timeline's own record does."""
    table = memory.allocations
    thread = table.thread.copy()
    unknown = (thread < 0) & (table.start != BEFORE)
    for other in trace.memory:
        if other is memory or not unknown.any() or not (other.allocations.thread >= 0).any():
            continue
        theirs = other.allocations
        for device in distinct_values(table.device[unknown]).tolist():
            mine = np.flatnonzero(unknown & (table.device == device))
            known = np.flatnonzero((theirs.thread >= 0) & (theirs.device == device))
            same = _same_allocation(
                table.address[mine], table.start[mine], theirs.address[known], theirs.start[known]
            )
            thread[mine[same >= 0]] = theirs.thread[known[same[same >= 0]]]
    return thread


def _same_allocation(address: I64, start: I64, other_address: I64, other_start: I64) -> I64:
    """For each allocation the one at its address that was made at nearly its time; -1 where there is none."""
    _, code = np.unique(np.concatenate([other_address, address]), return_inverse=True)
    first = int(min(other_start.min(initial=0), start.min(initial=0)))
    span = int(max(other_start.max(initial=0), start.max(initial=0))) - first + 4 * _SAME_NS
    if len(other_address) == 0 or span > (1 << 62) // max(int(code.max(initial=0)) + 1, 1):
        return np.full(len(address), -1, np.int64)
    theirs = code[: len(other_address)] * span + (other_start - first)
    mine = code[len(other_address) :] * span + (start - first)
    order = np.argsort(theirs)
    after = np.minimum(np.searchsorted(theirs[order], mine), len(order) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.abs(theirs[order][before] - mine) < np.abs(theirs[order][after] - mine)
    at = np.where(nearer, before, after)
    return np.where(np.abs(theirs[order][at] - mine) <= _SAME_NS, order[at], -1)


def kinds_by_operators(trace: Trace, memory: Memory) -> I8:
    """The kind of each allocation, as an index into ``KINDS``, where no stacks were recorded.

    What the optimizer makes and keeps is its state. What the backward pass makes is a gradient if it outlives the pass.
    What other operators make is an activation if the backward pass finds it alive; only after a first backward
    pass is it known that what stays is none of the parameters.
    """
    table = memory.allocations
    kind = np.full(len(table.start), KINDS.index(Kind.UNKNOWN), np.int8)

    def assign(where: BOOL, which: Kind) -> None:
        kind[where] = KINDS.index(which)

    thread = threads_of(trace, memory)
    freed, known = table.end != AFTER, table.start != BEFORE
    for rank in sorted({rank for rank, _ in _threads(trace, memory, thread)}, key=lambda each: each or 0):
        mine = known & _of_rank(trace, memory, rank)
        backward = _inside(trace, rank, is_autograd_function)
        if not len(backward[0]):
            continue
        begins = backward[0]
        met = np.searchsorted(begins, table.end) > np.searchsorted(begins, table.start)
        forward = mine & (thread >= 0)
        assign(forward & freed, Kind.TEMPORARIES)
        assign(forward & met & (freed | (table.start > begins[0])), Kind.ACTIVATIONS)
        made_there = mine & contains(backward, table.start)
        assign(made_there, Kind.GRADIENTS)
        assign(made_there & freed & contains(backward, table.end), Kind.TEMPORARIES)
        optimizer = _inside(trace, rank, is_optimizer_step)
        of_optimizer = mine & contains(optimizer, table.start)
        assign(of_optimizer, Kind.OPTIMIZER)
        assign(of_optimizer & freed, Kind.TEMPORARIES)
    assign(~known, Kind.OLDER)
    return kind


def _threads(trace: Trace, memory: Memory, thread: I64) -> list[tuple[int | None, int]]:
    """Rank and number of every thread that asked for memory."""
    ranks = sorted(
        {trace.devices[each].rank for each in distinct_values(memory.allocations.device).tolist()},
        key=lambda each: each or 0,
    )
    return [(rank, number) for rank in ranks for number in distinct_values(thread[thread >= 0]).tolist()]


def _of_rank(trace: Trace, memory: Memory, rank: int | None) -> BOOL:
    wanted = np.array([each.rank == rank for each in trace.devices], bool)
    chosen: BOOL = wanted[memory.allocations.device]
    return chosen


def _events(trace: Trace, rank: int | None, thread: int | None, kinds: Sequence[EventKind] = _CALLED) -> I64:
    """Operators and regions, or events of other kinds, of a thread or of all threads of a rank."""
    lanes = [
        index
        for index, lane in enumerate(trace.lanes)
        if not lane.is_gpu and lane.rank == rank and thread in (None, lane.thread)
    ]
    places = [trace.events.lane_slice(lane) for lane in lanes]
    events = np.concatenate([np.zeros(0, np.int64), *(np.arange(each.start, each.stop) for each in places)])
    chosen: I64 = events[np.isin(trace.events.kind[events], kinds)]
    return chosen


def _inside(trace: Trace, rank: int | None, wanted: Callable[[str], bool]) -> Intervals:
    events = _events(trace, rank, None)
    chosen = events[named(trace, events, wanted)]
    return union(*trace.events.spans(chosen))
