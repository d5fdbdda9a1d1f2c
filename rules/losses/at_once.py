"""What of the time of a loop's operators remains at best when its items are computed at once, on the CPU."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, EventKind, Trace
from parsers.model.arrays import percentile_of, rows_by
from parsers.model.late import regex
from parsers.model.names.per_name import named
from parsers.model.nesting import depths, parents
from rules.analysis.arithmetic.innermost import outer_first
from rules.analysis.cpu.cpu_time import MAX_CALL_NS, CpuTime
from rules.analysis.names.operators import is_autograd_function
from rules.kernels.operator_roofs import concrete_inputs, is_known, kinds_of_calls, work_of
from rules.kernels.operator_work import PRODUCTS
from rules.kernels.recorded_shapes import Shape, inputs_in, inputs_of_events, single_tensors_in

QUICK_PERCENTILE = 25  # of operators' durations for each call inside: how long one takes that computes little
MAX_INNER_NS = 2_000  # what an operator takes to call another one, which does not pass through Python
MAX_OF_A_CORE = 100e9  # operations a second of a product that is no longer held up by reading weights
SLOW_CORE = 25e9  # the same of one that takes four times as long
FASTEST_READ = 20e9  # bytes a second that a core reads and writes in operators that compute little
HALF_AS_QUICK = 12  # uses of each element, at which a product is half as quick as it can be
LARGE_BYTES = 128 << 10  # of an item's tensor: its operator is as quick alone as it is for all items
MUCH_MORE = 4  # what is joined has so many times as many elements as what is appended
_JOINS = "aten::cat"
_COPIES = frozenset({"aten::clone", "aten::copy_"})
_LAYERS = regex(r"aten::(linear|conv1d|conv2d|conv3d)$")
_LOOKS = "aten::nonzero"  # among all rows for those of an item, in what picks them
# that compute nothing, or write a tensor as large as all items have together for the sake of one
_FREE = regex(
    r"(Index|MaskedSelect)Backward\d*$|aten::(view|_unsafe_view|reshape|_reshape_alias|as_strided|select|slice|narrow|t|transpose|permute|unsqueeze"
    r"|squeeze|expand|expand_as|unbind|split\w*|chunk|detach|detach_|alias|empty|empty_like|empty_strided|new_empty|to"
    r"|resize_|result_type|lift_fresh|movedim|unfold|swapaxes|numel|is_nonzero|item|_local_scalar_dense"
    r"|embedding_dense_backward|select_backward|slice_backward|masked_select|nonzero\w*"
    r"|index_add|index_copy|index_put|masked_scatter|scatter|scatter_add|slice_scatter|select_scatter)$"
)


def remaining_ns(time: CpuTime, operators: I64, *, own_weights: bool = False) -> F64:
    """For each of these outermost operators what it computes that takes as long for all items at once, in ns.

    Calling an operator, reading weights and writing what belongs to all items does not. What computes on less than
    ``LARGE_BYTES`` becomes quicker, too, the more the smaller they are: to the speed of a core at best. An operator
    of which nothing is known takes what it did beyond the longest call, and a product without shapes nothing. Where
    each item has ``own_weights``, these are read for all.
    """
    trace = time.trace
    events, owner = _inside(time, operators)
    weights = _weights_in(trace, events)
    computes, unclear = _computed(time, events)
    found, counted = np.zeros(len(operators)), np.flatnonzero(_counted(trace, events))
    for _, alike in rows_by(kinds_of_calls(trace, events[counted])):
        rows = counted[alike]
        limits = _limits(trace, int(events[rows[0]]), own_weights, weights)
        remains = unclear[rows] if limits is None else limits.remaining(computes[rows], unclear[rows])
        np.add.at(found, owner[rows], remains)
    return found


def _inside(time: CpuTime, operators: I64) -> tuple[I64, I64]:
    """What these operators call and they themselves, by start, and the index of the one that each belongs to."""
    table, order = time.trace.events, np.argsort(time.trace.events.start[operators], kind="stable")
    starts, ends = table.spans(operators[order])
    events = outer_first(time.trace, time.activity.of_kind(EventKind.CPU_OP))
    owner = np.searchsorted(starts, table.start[events], side="right") - 1
    inside = (owner >= 0) & (table.end[events] <= ends[owner])
    return events[inside], order[owner[inside]]


def _computed(time: CpuTime, events: I64) -> tuple[F64, F64]:
    """How long each event, by start, computes at most: beyond its quickest call, and beyond the longest one, in ns."""
    start, end = time.trace.events.spans(events)
    calls = np.searchsorted(start, end) - np.arange(len(start))
    call = _call_ns(time)
    took, quick = end - start, call + (calls - 1) * min(call, MAX_INNER_NS)
    return np.maximum(took - quick, 0.0), np.maximum(took - np.maximum(quick, MAX_CALL_NS), 0.0)


def _counted(trace: Trace, events: I64) -> BOOL:
    """Of events by start: the outermost ones that are known, and what else calls nothing and is in none of them."""
    free = named(trace, events, _FREE.match)
    start, end = trace.events.spans(events)
    parent = parents(start, end, depths(start, end))
    by_mask = parent[named(trace, events, _LOOKS.__eq__)]  # rows of an item, which nobody picks for all items
    free[by_mask[by_mask >= 0]] = True
    known = named(trace, events, is_known) & ~free
    called = parent >= 0
    calls = np.zeros(len(events), bool)
    calls[parent[called]] = True
    function = named(trace, events, is_autograd_function)
    gathers = called & known & function[parent]  # gradients of a tensor that is used again and again
    stands_for_all = free | known | gathers
    inside = np.zeros(len(events), bool)
    for _ in range(len(events)):
        deeper = called & (stands_for_all[parent] | inside[parent])
        if (deeper == inside).all():
            break
        inside = deeper
    return ~inside & ~gathers & (known | (~calls & ~free))


def _call_ns(time: CpuTime) -> float:
    """What calling an operator takes, with the recorder, if it computes nothing."""
    table = time.trace.events
    begins = np.sort(table.start[time.activity.of_kind(EventKind.CPU_OP)])
    mine = time.operators
    calls = np.searchsorted(begins, table.end[mine]) - np.searchsorted(begins, table.start[mine])
    each = table.duration[mine] / np.maximum(calls, 1)
    return min(float(percentile_of(each, QUICK_PERCENTILE)), MAX_CALL_NS)


class _Limits(NamedTuple):
    """What bounds how long an operator takes for one item where all are computed at once, times in ns.

    ``large`` and ``efficient`` say, from 0 to 1, what part of its time is as long at once: because an item is large,
    and because a product uses each element often; the latter of at most ``most``.
    """

    least: float = 0.0
    most: float = 0.0
    large: float = 0.0
    efficient: float = 0.0

    def remaining(self, computes: F64, unclear: F64) -> F64:
        """What remains of calls that compute for so long, and for so long beyond the longest call, in ns."""
        efficient = self.efficient * np.minimum(unclear, self.most)
        remains = np.maximum(np.maximum(self.large * computes, efficient), self.least)
        return np.minimum(remains, computes)


def _weights_in(trace: Trace, events: I64) -> set[Shape]:
    """The shapes of the matrices that layers multiply by, which all items share."""
    layers = events[named(trace, events, _LAYERS.match)]
    return {tuple(each[1]) for each in inputs_of_events(trace, layers) if len(each) > 1 and len(each[1]) > 1}


def _limits(trace: Trace, event: int, own_weights: bool, weights: set[Shape]) -> _Limits | None:
    """None if nothing is known of this operator; copies of ``weights`` are made once for all items."""
    name = trace.name(event)
    if not is_known(name):
        return None
    dims, types = (
        trace.text_attribute(each, event) for each in (Attribute.INPUT_DIMS, Attribute.INPUT_TYPES)
    )
    if name == _JOINS and dims and _grows(dims):
        return _Limits()
    if name in _COPIES and not own_weights and weights & set(single_tensors_in(dims)[:1]):
        return _Limits()
    work = work_of(name, dims, types, values=lambda: concrete_inputs(trace, event)) if dims else None
    if name.partition("::")[2] not in PRODUCTS:
        if work is None:
            return None
        return _Limits(work.moved / FASTEST_READ * 1e9, large=min(work.moved / 2 / LARGE_BYTES, 1.0))
    if work is None:
        return _Limits()
    shapes = single_tensors_in(dims)
    inputs = sorted(4.0 * math.prod(each) for each in shapes)[-2:]
    sizes = sorted([*inputs, max(work.moved - sum(inputs), 0.0)])
    # the largest of three may be weights, which all items share
    item = (sizes[-1] if own_weights else sizes[1]) if len(sizes) > 2 else 0.0
    uses = work.operations / 2 / max(sizes[-1] / 4, 1.0)
    return _Limits(
        work.operations / MAX_OF_A_CORE * 1e9,
        math.inf if "conv" in name else work.operations / SLOW_CORE * 1e9,
        min(item / LARGE_BYTES, 1.0),
        uses / (uses + HALF_AS_QUICK),
    )


def _grows(dims: str) -> bool:
    """Whether a little is joined to a lot, as in a loop that appends: all items at once are joined once."""
    sizes = [math.prod(shape) for shape in inputs_in(dims)[0]]
    return len(sizes) > 1 and sizes[0] >= MUCH_MORE * sum(sizes[1:])
