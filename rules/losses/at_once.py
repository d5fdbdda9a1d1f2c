"""What of the time of a loop's operators remains at best when its items are computed at once, on the CPU."""

from __future__ import annotations

import json
import math
from typing import NamedTuple

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, EventKind, Trace
from parsers.model.late.regex import regex
from parsers.model.names.per_name import named
from parsers.model.nesting import depths, parents
from rules.analysis.cpu.cpu_time import MAX_CALL_NS, CpuTime
from rules.analysis.names.operators import AUTOGRAD_FUNCTION
from rules.kernels.operator_roofs import concrete_inputs, is_known, work_of
from rules.kernels.operator_work import PRODUCTS

QUICK_PERCENTILE = 25  # of operators' durations for each call inside: how long one takes that computes little
MAX_INNER_NS = 2_000  # what an operator takes to call another one, which does not pass through Python
MAX_OF_A_CORE = 100e9  # operations a second of a product that is no longer held up by reading weights
SLOW_CORE = 25e9  # the same of one that takes four times as long
FASTEST_READ = 20e9  # bytes a second that a core reads and writes in operators that compute little
HALF_AS_QUICK = 12  # uses of each element, at which a product is half as quick as it can be
LARGE_BYTES = 128 << 10  # of an item's tensor: its operator is as quick alone as it is for all items
MUCH_MORE = 4  # what is joined has so many times as many elements as what is appended
_JOINS = "aten::cat"
_LOOKS = "aten::nonzero"  # among all rows for those of an item, in what picks them
_FREE = regex(
    r"(Index|MaskedSelect)Backward\d*$|aten::(view|_unsafe_view|reshape|_reshape_alias|as_strided|select|slice|narrow|t|transpose|permute|unsqueeze"
    r"|squeeze|expand|expand_as|unbind|split\w*|chunk|detach|detach_|alias|empty|empty_like|empty_strided|new_empty|to"
    r"|resize_|result_type|lift_fresh|movedim|unfold|swapaxes|numel|is_nonzero|item|_local_scalar_dense"
    r"|embedding_dense_backward|select_backward|slice_backward|masked_select|nonzero\w*"
    r"|index_add|index_copy|index_put|masked_scatter|scatter|scatter_add|slice_scatter|select_scatter)$"
)  # that compute nothing, or write a tensor as large as all items have together for the sake of one


def remaining_ns(time: CpuTime, operators: I64) -> F64:
    """For each of these outermost operators what it computes that takes as long for all items at once, in ns.

    Calling an operator, reading weights and writing what belongs to all items does not. What computes on less than
    ``LARGE_BYTES`` becomes quicker, too, the more the smaller they are: to the speed of a core at best. An operator
    of which nothing is known takes what it did beyond the longest call, and a product without shapes nothing.
    """
    trace, table = time.trace, time.trace.events
    events = time.activity.events[time.activity.kind == EventKind.CPU_OP]
    order = np.argsort(table.start[operators], kind="stable")
    events = events[np.lexsort((-table.end[events], table.start[events]))]
    owner = np.searchsorted(table.start[operators][order], table.start[events], side="right") - 1
    inside = (owner >= 0) & (table.end[events] <= table.end[operators][order][owner])
    events, owner = events[inside], order[owner[inside]]
    start, end = table.start[events], table.end[events]
    calls = np.searchsorted(start, end) - np.arange(len(start))
    call = _call_ns(time)
    took, quick = end - start, call + (calls - 1) * min(call, MAX_INNER_NS)
    computes = np.maximum(took - quick, 0.0)
    unclear = np.maximum(took - np.maximum(quick, MAX_CALL_NS), 0.0)
    found, counted = np.zeros(len(operators)), _counted(trace, events)
    rows: dict[tuple[int, int, int], list[int]] = {}
    columns = (Attribute.INPUT_DIMS, Attribute.INPUT_TYPES)
    dims, types = (trace.attribute(each, events[counted], -1).tolist() for each in columns)
    for place, *key in zip(
        np.flatnonzero(counted).tolist(), table.name[events[counted]].tolist(), dims, types, strict=True
    ):
        rows.setdefault((key[0], key[1], key[2]), []).append(place)
    for places in rows.values():
        limits = _limits(trace, int(events[places[0]]))
        if limits is None:
            remains = unclear[places]
        else:
            efficient = limits.efficient * np.minimum(unclear[places], limits.most)
            remains = np.maximum(np.maximum(limits.large * computes[places], efficient), limits.least)
            remains = np.minimum(remains, computes[places])
        np.add.at(found, owner[places], remains)
    return found


def _counted(trace: Trace, events: I64) -> BOOL:
    """Of events by start: the outermost ones that are known, and what else calls nothing and is in none of them."""
    free = named(trace, events, lambda name: _FREE.match(name) is not None)
    function = named(trace, events, lambda name: name.startswith(AUTOGRAD_FUNCTION))
    start, end = trace.events.start[events], trace.events.end[events]
    parent = parents(start, end, depths(start, end))
    by_mask = parent[named(trace, events, _LOOKS.__eq__)]  # rows of an item, which nobody picks for all items
    free[by_mask[by_mask >= 0]] = True
    known = named(trace, events, is_known) & ~free
    holds = np.zeros(len(events), bool)
    holds[parent[parent >= 0]] = True
    below = free | known
    has = parent >= 0
    gathers = np.zeros(len(events), bool)  # gradients of a tensor that is used again and again
    gathers[has] = function[parent[has]] & known[has]
    below |= gathers
    inside = np.zeros(len(events), bool)
    for _ in range(len(events)):
        deeper = has & (below[parent] | inside[parent])
        if (deeper == inside).all():
            break
        inside = deeper
    return ~inside & ~gathers & (known | (~holds & ~free))


def _call_ns(time: CpuTime) -> float:
    """What calling an operator takes, with the recorder, if it computes nothing."""
    table = time.trace.events
    begins = np.sort(table.start[time.activity.events[time.activity.kind == EventKind.CPU_OP]])
    mine = time.operators
    calls = np.searchsorted(begins, table.end[mine]) - np.searchsorted(begins, table.start[mine])
    each = table.duration[mine] / np.maximum(calls, 1)
    return min(float(np.percentile(each, QUICK_PERCENTILE)), MAX_CALL_NS)


class _Limits(NamedTuple):
    """What bounds how long an operator takes for one item where all are computed at once, times in ns.

    ``large`` and ``efficient`` say, from 0 to 1, what part of its time is as long at once: because an item is large,
    and because a product uses each element often; the latter of at most ``most``.
    """

    least: float = 0.0
    most: float = 0.0
    large: float = 0.0
    efficient: float = 0.0


def _limits(trace: Trace, event: int) -> _Limits | None:
    """None if nothing is known of this operator."""
    name = trace.name(event)
    if not is_known(name):
        return None
    dims, types = (
        trace.text_attribute(each, event) for each in (Attribute.INPUT_DIMS, Attribute.INPUT_TYPES)
    )
    if name == _JOINS and dims and _grows(dims):
        return _Limits()
    work = work_of(name, dims, types, values=lambda: concrete_inputs(trace, event)) if dims else None
    if name.partition("::")[2] not in PRODUCTS:
        if work is None:
            return None
        return _Limits(work.moved / FASTEST_READ * 1e9, large=min(work.moved / 2 / LARGE_BYTES, 1.0))
    if work is None:
        return _Limits()
    shapes = [each for each in json.loads(dims) if each and isinstance(each[0], int)]
    inputs = sorted(4.0 * math.prod(each) for each in shapes)[-2:]
    sizes = sorted([*inputs, max(work.moved - sum(inputs), 0.0)])
    item = sizes[1] if len(sizes) > 2 else 0.0  # the largest of three may be weights, which all items share
    uses = work.operations / 2 / max(sizes[-1] / 4, 1.0)
    return _Limits(
        work.operations / MAX_OF_A_CORE * 1e9,
        math.inf if "conv" in name else work.operations / SLOW_CORE * 1e9,
        min(item / LARGE_BYTES, 1.0),
        uses / (uses + HALF_AS_QUICK),
    )


def _grows(dims: str) -> bool:
    """Whether a little is joined to a lot, as in a loop that appends: all items at once are joined once."""
    sizes = [math.prod(shape) for shape in json.loads(dims)[0]]
    return len(sizes) > 1 and sizes[0] >= MUCH_MORE * sum(sizes[1:])
