"""Programs on the CPU alone that fill large tensors where few numbers, or those of the step before, would do."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from parsers.model import Attribute, EventKind
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.arithmetic.intervals import EMPTY, Intervals, clip, contains, length, measure, union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.names.operators import FILLS, PRODUCTS
from rules.findings.base import Category, Finding, Need, rule
from rules.kernels.pair_distances import (
    BETWEEN,
    LEFT,
    MIN_DIMENSIONS,
    MIN_RATIO,
    one_hot_by_names,
    one_hot_products,
    pair_distances,
)
from rules.kernels.recorded_shapes import Shape, inputs_in, tensors_in
from rules.losses.built_constants import MAX_LENGTH, Built, built
from rules.losses.cpu_work import (
    MAX_NAMED,
    MIN_SHARE,
    MIN_STEPS,
    CpuRule,
    gradients_of,
    line_or_operator,
    longest_of,
    unknown_lines,
    with_freeing,
)
from rules.remedies.costly_forms import BUILT_ONCE, DISTANCES_BY_PRODUCT, ROWS_BY_INDEX
from rules.remedies.gradients import SPARSE_GRADIENTS
from rules.terms import MAJORITY, Culprit, CulpritKind
from rules.wording.words import for_pytorch, listed

_WITH_SHAPES = frozenset({Need.CPU_EVENTS, Need.SHAPES})
# of a table's rows are looked up in a step: sparse gradients of many rows cost more than dense ones
MAX_USED = 0.1
LOOKED_UP = "aten::embedding"
DENSE = "aten::embedding_dense_backward"
_STEPS = regex(r"Optimizer\.step")
_ON_ALL = regex(
    r"aten::(_foreach_\w+|_fused_\w+|\w+_|zeros_like|clone|sqrt|square|mul|add|div|lerp|norm|linalg_vector_norm)$"
)


@dataclass(frozen=True, slots=True, eq=False)
class DenseTables:
    """``rows`` of all such tables, how many of them a step looks up at most, and when all rows are worked on."""

    rows: int
    used: int
    spans: Intervals


def dense_tables(time: CpuTime) -> DenseTables | None:
    """None where there are none; shapes must be recorded."""
    trace = time.trace
    events = time.activity.of_kind(EventKind.CPU_OP)
    dense = events[named(trace, events, DENSE.__eq__)]
    if not len(dense):
        return None
    looked_up = events[named(trace, events, LOOKED_UP.__eq__)]
    used: dict[Shape, int] = {}
    for dims, count in zip(
        *np.unique(trace.attribute(Attribute.INPUT_DIMS, looked_up, -1), return_counts=True), strict=True
    ):
        shapes = inputs_in(trace.strings[dims]) if dims >= 0 else []
        if len(shapes) > 1 and len(shapes[0]) == 2:
            table = tuple(shapes[0])
            used[table] = used.get(table, 0) + math.prod(shapes[1]) * count
    tables = {table: count // max(time.steps, 1) for table, count in used.items()}
    products = events[named(trace, events, PRODUCTS.__contains__)]
    factors = {
        shape
        for each in distinct_values(trace.attribute(Attribute.INPUT_DIMS, products, -1)).tolist()
        if each >= 0
        for shape in tensors_in(trace.strings[each])
    }
    tables = {
        table: count
        for table, count in tables.items()
        if count <= MAX_USED * table[0] and not {table, table[::-1]} & factors
    }
    if not tables:
        return None
    candidates = events[named(trace, events, _ON_ALL.match)]
    of = trace.attribute(Attribute.INPUT_DIMS, candidates, -1)
    known = [
        each
        for each in distinct_values(of[of >= 0]).tolist()
        if _is_of(tensors_in(trace.strings[each]), tables)
    ]
    mine = np.concatenate((candidates[np.isin(of, known)], dense))
    spans = clip(union(*trace.events.spans(mine)), *time.window)
    return DenseTables(sum(table[0] for table in tables), sum(tables.values()), spans)


MIN_UPDATE = 0.5  # times what filling a table takes


def filled_tables(time: CpuTime) -> Intervals:
    """When gradients of tables are filled with zeros, if that takes most of the time that they are made in.

    With what the optimizer does to as much: its operators that take half as long as filling one, or longer. What is
    filled is new memory, which costs more to write than what was there before.
    """
    trace, table = time.trace, time.trace.events
    events = time.activity.of_kind(EventKind.CPU_OP)
    dense = union(*table.spans(events[named(trace, events, DENSE.__eq__)]))
    fills = events[named(trace, events, FILLS.__contains__)]
    filled = clip(union(*table.spans(fills[contains(dense, table.start[fills])])), *time.window)
    if not len(filled[0]) or length(filled) < MAJORITY * length(clip(dense, *time.window)):
        return EMPTY
    regions = time.activity.of_kind(EventKind.REGION)
    stepping = union(*table.spans(regions[named(trace, regions, _STEPS.match)]))
    updates = events[named(trace, events, _ON_ALL.match) & contains(stepping, table.start[events])]
    updates = updates[table.duration[updates] >= MIN_UPDATE * np.median(filled[1] - filled[0])]
    updated = clip(union(*table.spans(updates)), *time.window)
    return union(np.concatenate((filled[0], updated[0])), np.concatenate((filled[1], updated[1])))


def _is_of(shapes: list[Shape], tables: dict[Shape, int]) -> bool:
    """Whether most of the elements that an operator is handed are of tables."""
    every = sum(map(math.prod, shapes))
    return every > 0 and sum(math.prod(each) for each in shapes if each in tables) >= MAJORITY * every


@rule
class CpuOneHot(CpuRule):
    id = "cpu-one-hot"
    category = Category.SLOW_OPERATOR
    explanation = f"""
What it found
    Only the CPU was recorded, and vectors that are one in a single place and zero everywhere else are multiplied by a
    matrix.

Why it costs time
    The product is a row of the matrix. Multiplying reads all of it for each vector, and the vectors are as large as
    there are rows.

How it decides
    One-hot vectors are made, and as many vectors are multiplied by a matrix at most {BETWEEN} operators later. What
    the gradients of these products take counts, too, where sequence numbers were recorded; {percent(LEFT)} of it all
    remains. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer than {MIN_STEPS} steps were found.
    Without shapes, the vectors must be converted and go straight into aten::matmul.

What to try
    Index the matrix: weight[ids], F.embedding(ids, weight) or nn.Embedding.

When it is wrong
    If what is multiplied is something else than the vectors that were made, but as large.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        with_shapes = Attribute.INPUT_DIMS in time.trace.attributes
        forward = (one_hot_products if with_shapes else one_hot_by_names)(time.trace, time.operators)
        if not len(forward):
            return
        operators = np.concatenate((forward, gradients_of(time, forward)))
        spans = union(*time.trace.events.spans(operators))
        took = time.without_recorder(spans)
        lost = round(took * (1 - LEFT))
        if lost < MIN_SHARE * time.step_ns:
            return
        yield self.lost(
            time,
            lost,
            "Rows are looked up by products with one-hot vectors",
            took=took,
            account="Making one-hot vectors and multiplying them by a matrix, with the gradients of that, takes "
            f"{duration(took / time.steps)} of the {duration(time.step_ns / time.steps)} of a step.",
            remedy=ROWS_BY_INDEX,
            culprit=line_or_operator(time, "aten::one_hot", spans),
            evidence=longest_of(time, spans, "products with one-hot vectors"),
            confidence="high" if with_shapes else "medium",
        )


@rule
class CpuPairDistances(CpuRule):
    id = "cpu-pair-distances"
    category = Category.SLOW_OPERATOR
    needs = _WITH_SHAPES
    explanation = f"""
What it found
    Only the CPU was recorded, and two tensors are subtracted or multiplied so that each row of one meets each row of
    the other; the products, or the squares of the differences, are summed.

Why it costs time
    What is summed is as many times larger than the result as a point has dimensions, and is written and read several
    times. A matrix product computes the same without them.

How it decides
    A subtraction whose result has at least {MIN_RATIO} times as many numbers as either side, of points of at least
    {MIN_DIMENSIONS} dimensions, followed by a square and a sum, or by a norm; such a product, followed by a sum; or
    cosine_similarity and pairwise_distance of such sides. The time until the next operator counts,
    too, where it is no longer than they are: large tensors are freed in it. So do the gradients, where sequence numbers
    were recorded. One part of as many as a point has dimensions remains. Below {percent(MIN_SHARE)} of the step nothing
    is reported, nor if fewer than {MIN_STEPS} steps were found. Shapes must be recorded.

What to try
    torch.cdist, or the squares of both sides less twice their product.

When it is wrong
    If distances are small beside the numbers themselves: the product then loses digits.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        table, (operators, dimensions) = time.trace.events, pair_distances(time.trace, time.operators)
        (begins, ends), gradients = with_freeing(time, operators), table.spans(gradients_of(time, operators))
        spans = union(np.append(begins, gradients[0]), np.append(ends, gradients[1]))
        took = time.without_recorder(spans)
        lost = round(took * (1 - 1 / dimensions))
        if lost < MIN_SHARE * time.step_ns:
            return
        yield self.lost(
            time,
            lost,
            "All pairs are compared by broadcasting",
            took=took,
            account=f"All pairs of points of {dimensions:,} dimensions or more are compared number by number. "
            f"With the gradients that takes {duration(took / time.steps)} of the "
            f"{duration(time.step_ns / time.steps)} of a step.",
            remedy=DISTANCES_BY_PRODUCT,
            culprit=line_or_operator(time, "aten::sub", spans),
            evidence=longest_of(time, spans, "differences of all pairs"),
        )


@rule
class CpuDenseTables(CpuRule):
    id = "cpu-dense-tables"
    category = Category.SLOW_OPERATOR
    explanation = f"""
What it found
    Only the CPU was recorded, and each step looks up few rows of an embedding table, but makes a gradient of all its
    rows, and updates all of them.

Why it costs time
    The gradient is filled with zeros, and the optimizer reads and writes the whole table, however few rows changed.

How it decides
    The lookups of a step (aten::embedding) have at most {percent(MAX_USED)} of a table's rows, and its gradient is
    dense (aten::embedding_dense_backward). The time in that operator, and in those of the optimizer that are handed
    mostly such tables, is counted, less the part of the rows that are looked up. A table that is also a factor of a
    matrix product, as the output layer of a language model may be, gets a dense gradient from that anyway. Below
    {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer than {MIN_STEPS} steps were found. Without
    shapes, the time in which these gradients are filled with zeros counts, if most of the operator's time goes into
    that, and operators of the optimizer that take half of it, or more.

What to try
    nn.Embedding(..., sparse=True), with SGD, Adagrad or SparseAdam.

When it is wrong
    If the optimizer must change all rows in each step, as with momentum or weight decay.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        if Attribute.INPUT_DIMS not in time.trace.attributes:
            yield from self._of_fills(time)
            return
        found = dense_tables(time)
        if found is None:
            return
        lost = round(time.without_recorder(found.spans) * (1 - found.used / found.rows))
        if lost < MIN_SHARE * time.step_ns:
            return
        yield self.lost(
            time,
            lost,
            "All rows of an embedding table are updated",
            account=f"A step looks up at most {found.used:,} of {found.rows:,} rows, and makes and adds gradients of "
            f"all of them. That takes {duration(lost / time.steps)} of the {duration(time.step_ns / time.steps)} of a "
            "step more than those of the rows that were looked up.",
            remedy=SPARSE_GRADIENTS,
            culprit=Culprit(CulpritKind.OPERATOR, DENSE),
            evidence=longest_of(time, found.spans, "all rows of a table"),
            unknown=("Whether the optimizer must change all rows in each step.",),
        )

    def _of_fills(self, time: CpuTime) -> Iterable[Finding]:
        filled = filled_tables(time)
        lost = time.without_recorder(filled)
        if lost < MIN_SHARE * time.step_ns or not len(filled[0]):
            return
        yield self.lost(
            time,
            lost,
            "The gradient of an embedding table is mostly zeros",
            account="Most rows were not looked up. Making the gradients of all of them, and updating all, takes "
            f"{duration(lost / time.steps)} of the {duration(time.step_ns / time.steps)} of a step.",
            remedy=SPARSE_GRADIENTS,
            culprit=Culprit(CulpritKind.OPERATOR, DENSE),
            evidence=longest_of(time, filled, "all rows of a table"),
            unknown=(
                for_pytorch(
                    "Whether the output layer shares the table, whose gradient is dense anyway: record with "
                    "record_shapes=True."
                ),
            ),
            confidence="medium",
        )


@rule
class CpuBuiltConstants(CpuRule):
    id = "cpu-built-constants"
    needs = _WITH_SHAPES
    explanation = f"""
What it found
    Only the CPU was recorded, and each step builds the same tensors again from sizes alone: a table of positions, a
    mask, a window, a grid of coordinates.

Why it costs time
    The result is the same each time. Such tables are often computed with sines, powers and copies that cost as much as
    a layer.

How it decides
    From an operator that is handed no tensor (arange, linspace, full, eye, hann_window ...) on, the following ones that
    are handed nothing but tensors of the shapes made so far, at most {MAX_LENGTH} of them, and none that autograd
    numbers in between. At least one must be more than an allocation: zeros alone do not count, as they may hold
    state or results, nor do random numbers. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if fewer
    than {MIN_STEPS} steps were found, or a step builds none. Shapes must be recorded.

What to try
    Build them once and keep them: register_buffer in __init__, or functools.cache on a function of the sizes.

When it is wrong
    If sizes are new in each call, as with batches of other lengths: keep the largest and slice it.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        trace, steps = time.trace, time.steps
        made = built(trace, time.operators)
        if not len(made.operators) or (measure(made.spans, *_steps(time)) == 0).any():
            return
        # few records in much time: less of it is the profiler's than of other operators
        as_recorded = length(made.spans) / max(time.window_ns, 1) * time.step_ns
        lost = max(time.without_recorder(made.spans), round(as_recorded))
        if lost < MIN_SHARE * time.step_ns:
            return
        yield self.lost(
            time,
            lost,
            "Constants are built again in each step",
            account=(
                f"{len(made.operators) / steps:,.0f} operators a step, such as {_longest(time, made)}, are handed "
                f"no data: they build the same tensors again. That takes {duration(lost / steps)} of the "
                f"{duration(time.step_ns / steps)} of a step."
            ),
            remedy=BUILT_ONCE,
            culprit=line_or_operator(time, trace.name(int(made.operators[0])), made.spans),
            evidence=longest_of(time, made.spans, "builds a constant"),
            unknown=unknown_lines(time.trace, "build them"),
        )


def _steps(time: CpuTime) -> Intervals:
    begins = time.step_begins
    return begins, np.append(begins[1:], time.window[1])


def _longest(time: CpuTime, made: Built) -> str:
    table = time.trace.events
    names, which = np.unique(table.name[made.operators], return_inverse=True)
    spent = np.bincount(which.reshape(-1), table.duration[made.operators])
    order = np.argsort(-spent, kind="stable")[:MAX_NAMED]
    return listed([time.trace.strings[names[each]] for each in order.tolist()])
