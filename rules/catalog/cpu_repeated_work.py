"""Programs on the CPU alone that order, join, copy or read far more than they use."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind, Trace
from parsers.model.arrays import among, distinct_values, rows_by
from parsers.model.late import regex
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.arithmetic.intervals import union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.names.operators import aten
from rules.findings.base import Category, Finding, rule
from rules.kernels.operator_roofs import concrete_inputs, kinds_of_calls
from rules.kernels.recorded_shapes import Shape, first_shape, inputs_in, inputs_of_events, single_tensors_in
from rules.losses.cpu_work import MIN_SHARE, MIN_STEPS, CostlyWork, with_freeing
from rules.remedies.costly_forms import DRAW_FEW, JOIN_ONCE, PICK_WITHOUT_SORTING, ROWS_IN_ORDER
from rules.terms import MAJORITY

MAX_TAKEN = 0.1  # of what was put in order
LEFT_OF_SORTING = 0.02  # for the best of a thousand; of a random order nothing remains but what is drawn
NEAR = 4  # operators: what a sort gave is read right behind it
_DRAWN = "aten::randperm"
_ORDERS = regex(r"aten::(randperm|sort|argsort|msort)$")
_TAKES = regex(r"aten::(slice|narrow|select)$")
_READS_TABLE = regex(
    r"aten::(index|index_select|gather|take|embedding)$"
)  # by an index that is handed behind it
_RESTRIDES = "aten::as_strided"
_VIEWS = aten("as_strided unsqueeze squeeze view detach alias")


@rule
class CpuOrderedForFew(CostlyWork):
    id = "cpu-ordered-for-few"
    category = Category.SLOW_OPERATOR
    explanation = f"""
What it found
    Only the CPU was recorded, and a random order of all rows is drawn, or all values are sorted, of which a few are
    used.

Why it costs time
    An order of a million rows takes several milliseconds, however few are picked.

How it decides
    The operator behind torch.randperm, sort or argsort takes a part of its result, and all parts that are taken before
    the next such call hold at most {percent(MAX_TAKEN)} of it, while nothing is handed all of it: of a random order
    until the next one, of what was sorted in the next {NEAR} operators. {percent(LEFT_OF_SORTING)} of a sort remains at
    best. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer than {MIN_STEPS} steps were found.
    Shapes must be recorded.

What to try
    torch.randint for a random few, torch.topk for the best few.

When it is wrong
    If the whole order is used outside PyTorch.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        trace, table, operators = time.trace, time.trace.events, time.operators
        places = np.flatnonzero(named(trace, operators, _ORDERS.match))
        places = places[places + 1 < len(operators)]
        places = places[named(trace, operators[places + 1], _TAKES.match)]
        kinds = np.concatenate(
            (kinds_of_calls(trace, operators[places]), kinds_of_calls(trace, operators[places + 1])), axis=1
        )
        found, largest = [], 0
        for _, rows in rows_by(kinds):
            all_of_it = _taken_for_few(time, places[rows])
            if all_of_it:
                found.append(operators[places[rows]])
                largest = max(largest, all_of_it)
        if not found:
            return
        mine = np.concatenate(found)
        drawn = trace.name(int(mine[0])) == _DRAWN
        yield from self.told_of(
            time,
            union(*table.spans(mine)),
            0.0 if drawn else LEFT_OF_SORTING,
            "All rows are shuffled to pick a few" if drawn else "All values are sorted to pick a few",
            f"{largest:,} numbers are {'shuffled' if drawn else 'sorted'}, of which at most {percent(MAX_TAKEN)} are "
            "taken.",
            remedy=DRAW_FEW if drawn else PICK_WITHOUT_SORTING,
        )


def _taken_for_few(time: CpuTime, places: I64) -> int:
    """How many numbers the first of these calls puts in order, if few of them are taken and nothing else is; else 0."""
    trace, operators, first = time.trace, time.operators, int(places[0])
    part = int(operators[first + 1])
    shape = first_shape(trace, part)
    taken = _part_of(shape, trace.name(part), concrete_inputs(trace, part))
    drawn = trace.name(int(operators[first])) == _DRAWN
    behind = operators[first + 1 : int(places[1]) if len(places) > 1 else len(operators)]
    takes = named(trace, behind, _TAKES.match)
    times = int((_are_handed(trace, behind, shape, "long int" if drawn else "") & takes).sum())
    others = _called_in(time, behind) if drawn else behind[:NEAR][~takes[:NEAR]]
    if not taken or taken * times > MAX_TAKEN or _are_handed(trace, others, shape, "long int" * drawn).any():
        return 0
    return math.prod(shape)


def _called_in(time: CpuTime, operators: I64) -> I64:
    """All that is called in the time of some operators, but for what takes a part or makes a view of one."""
    trace, table, events = time.trace, time.trace.events, time.activity.of_kind(EventKind.CPU_OP)
    within = (table.start[events] >= table.start[operators[0]]) & (
        table.end[events] <= table.end[operators[-1]]
    )
    events = events[within]
    return np.asarray(events[~named(trace, events, lambda name: bool(_TAKES.match(name)) or name in _VIEWS)])


def _are_handed(trace: Trace, events: I64, shape: list[int], kind: str) -> BOOL:
    """Which operators are handed a tensor of this shape, and of this type if one is given, that is no table."""
    texts = trace.attribute(Attribute.INPUT_TYPES, events, -1).tolist()
    types = {each: json.loads(trace.strings[each]) if each >= 0 else [] for each in set(texts)}
    tables = named(trace, events, _READS_TABLE.match).tolist()
    return np.array(
        [
            any(
                one == shape and (not kind or of[place : place + 1] == [kind])
                for place, one in enumerate(handed)
                if place or not table
            )
            for handed, of, table in zip(
                inputs_of_events(trace, events), map(types.__getitem__, texts), tables, strict=True
            )
        ],
        bool,
    )


def _part_of(shape: list[int], name: str, asked: Any) -> float:
    """Which part of a side slice, narrow or select take; 0 where that was not recorded."""
    try:
        side = shape[int(asked[1] or 0)]
        if name.endswith("select"):
            return 1 / side
        if name.endswith("narrow"):
            return int(asked[3]) / side
        begin, end = (int(asked[place] or other) for place, other in ((2, 0), (3, side)))
        begin, end = (min(max(each + side if each < 0 else each, 0), side) for each in (begin, end))
        return (end - begin) / side
    except (IndexError, ValueError, TypeError, ZeroDivisionError):
        return 0.0


MIN_GROWS = 8  # times a step
_JOINS = regex(r"aten::(cat|concat|concatenate|hstack|vstack|column_stack)$")


@rule
class CpuGrowingTensors(CostlyWork):
    id = "cpu-growing-tensors"
    category = Category.MEMORY_BOUND_KERNELS
    explanation = f"""
What it found
    Only the CPU was recorded, and a tensor grows in a loop: each round joins a part to all that was joined before.

Why it costs time
    Each time all of it is copied into new memory: for twice as many rounds four times as long.

How it decides
    A tensor is joined (torch.cat, hstack ...) with at most as many other numbers, it is as large as what was joined
    before it in the same step, and no other operator is handed that. This happens at least {MIN_GROWS} times a step.
    The time until the next operator counts, too, where it is no longer than they are: large tensors are freed in it.
    The last join remains. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer
    than {MIN_STEPS} steps were found. Shapes must be recorded.

What to try
    Append the parts to a list, and join them once behind the loop.

When it is wrong
    If code outside PyTorch reads the tensor in each round.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        mine = _grown_again(time)
        if len(mine) < MIN_GROWS * time.steps:
            return
        yield from self.told_of(
            time,
            with_freeing(time, mine),
            0.0,
            "A tensor grows by copying all of it",
            f"{len(mine) / time.steps:,.0f} times a step a part is joined to all that was joined before.",
            remedy=JOIN_ONCE,
        )


def _grown_again(time: CpuTime) -> I64:
    """The operators that join parts to what was joined before and only is joined again."""
    trace, operators = time.trace, time.operators
    joins = named(trace, operators, _JOINS.match)
    events, others = operators[joins], operators[~joins]
    if not len(events):
        return events
    texts = distinct_values(trace.attribute(Attribute.INPUT_DIMS, others, -1)).tolist()
    handed = {each for text in texts if text >= 0 for each in single_tensors_in(trace.strings[text])}
    sizes = {
        text: _grows(inputs_in(trace.strings[text]), handed) if text >= 0 else (0, 0)
        for text in distinct_values(trace.attribute(Attribute.INPUT_DIMS, events, -1)).tolist()
    }
    before, behind = np.array(
        [sizes[each] for each in trace.attribute(Attribute.INPUT_DIMS, events, -1).tolist()], np.int64
    ).T
    step = np.searchsorted(time.step_begins, trace.events.start[events], side="right")
    number = step * (int(behind.max(initial=0)) + 1)
    is_read_again = among(number + behind, np.sort((number + before)[before > 0])) & (behind > 0)
    return np.asarray(events[is_read_again])


def _grows(inputs: list[Any], handed: set[Shape]) -> tuple[int, int]:
    """How many numbers the largest of what is joined has, and all; (0, 0) where it is no part appended to much.

    The second is 0 where another operator is handed such a tensor.
    """
    shapes = [tuple(each) for each in (inputs[0] if inputs else []) if isinstance(each, list)]
    if len(shapes) < 2 or len({len(each) for each in shapes}) != 1:
        return 0, 0
    largest, every = max(shapes, key=math.prod), sum(map(math.prod, shapes))
    differ = [side for side in range(len(largest)) if len({each[side] for each in shapes}) > 1]
    sides = differ or range(len(largest))  # where all are alike, nobody knows along which they are joined
    joined = {(*largest[:side], sum(each[side] for each in shapes), *largest[side + 1 :]) for side in sides}
    if math.prod(largest) < MAJORITY * every:
        return 0, 0
    return math.prod(largest), 0 if joined & handed else every


MIN_PICKED = 16  # numbers for each index, each from another line of the cache
MIN_TABLE = 1 << 22  # bytes: smaller ones stay in the cache
LEFT_OF_COLUMNS = 0.02
_PICKS = "aten::index"


@rule
class CpuPickedColumns(CostlyWork):
    id = "cpu-picked-columns"
    category = Category.SLOW_OPERATOR
    explanation = f"""
What it found
    Only the CPU was recorded, and columns are picked by index from a large table that lies in memory row by row.

Why it costs time
    Each number of a column lies in another line of the cache, of which the rest is read for nothing. A row is read as a
    whole.

How it decides
    aten::index picks along the last side, by the strides that it was recorded to use, of a table of at least
    {MIN_TABLE >> 20} MiB, at least {MIN_PICKED} numbers for each index. {percent(LEFT_OF_COLUMNS)} of the time remains
    at best. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer than {MIN_STEPS} steps were found.
    Shapes must be recorded.

What to try
    Keep the table turned: a sample in a row.

When it is wrong
    If other code reads the table row by row far more often.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        trace, table = time.trace, time.trace.events
        events = time.operators[named(trace, time.operators, _PICKS.__eq__)]
        found, shown = [], ""
        for _, rows in rows_by(kinds_of_calls(trace, events)):
            mine = events[rows]
            shape = first_shape(trace, int(mine[0]))
            if len(shape) > 1 and 4 * math.prod(shape) >= MIN_TABLE and _picks_columns(time, int(mine[0])):
                found.append(mine)
                shown = shown or "x".join(map(str, shape))
        if not found:
            return
        yield from self.told_of(
            time,
            union(*table.spans(np.concatenate(found))),
            LEFT_OF_COLUMNS,
            "Columns are picked from a table of rows",
            f"aten::index picks columns of a table of {shown} numbers.",
            remedy=ROWS_IN_ORDER,
        )


def _picks_columns(time: CpuTime, event: int) -> bool:
    """Whether an index runs along the last side only: the table is then strided by 0 there, and by more elsewhere."""
    trace, table = time.trace, time.trace.events
    inner = time.activity.of_kind(EventKind.CPU_OP)
    inner = inner[(table.start[inner] >= table.start[event]) & (table.end[inner] <= table.end[event])]
    inner = inner[named(trace, inner, _RESTRIDES.__eq__)]
    asked = concrete_inputs(trace, int(inner[0])) if len(inner) else ()
    try:
        sizes, strides = json.loads(asked[1]), json.loads(asked[2])
    except (IndexError, ValueError, TypeError):
        return False
    return bool(strides[-1:] == [0] and all(strides[:-1]) and math.prod(sizes[:-1]) >= MIN_PICKED)
