"""Embedding tables whose gradients are as large as they, though a step looks up few of their rows."""

from __future__ import annotations

import math

import numpy as np

from parsers.model import Attribute, EventKind
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.arithmetic.intervals import Intervals, clip, union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.kernels.recorded_shapes import Shape, inputs_in, tensors_in
from rules.terms import MAJORITY

# of a table's rows are looked up in a step: sparse gradients of many rows cost more than dense ones
MAX_USED = 0.1
LOOKED_UP = "aten::embedding"
DENSE = "aten::embedding_dense_backward"
_PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::matmul", "aten::linear"})
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
    """None where there are none, or shapes were not recorded."""
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
    products = events[named(trace, events, _PRODUCTS.__contains__)]
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


def _is_of(shapes: list[Shape], tables: dict[Shape, int]) -> bool:
    """Whether most of the elements that an operator is handed are of tables."""
    every = sum(map(math.prod, shapes))
    return every > 0 and sum(math.prod(each) for each in shapes if each in tables) >= MAJORITY * every
