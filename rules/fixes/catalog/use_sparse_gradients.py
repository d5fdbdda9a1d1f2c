"""Gradients of large embedding tables hold only the rows that a batch used."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, Attribute, EventKind, Trace, derived
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.regions import is_optimizer_step
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times, host_time_times, together, without_operations
from rules.kernels.recorded_shapes import Shapes, elements, fitting, inputs_of_event
from rules.remedies.gradients import SPARSE_GRADIENTS
from rules.replay.origins import called_operators
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

MAX_USED = 0.1  # of a table's rows, that a batch may name: with more, a dense gradient costs little more
MIN_ELEMENTS = 4_000_000  # of a table: filling and updating fewer takes some microseconds
# a sparse update takes about 6 launches of the 24 that a dense gradient takes (docs/predictions.md)
LEFT_OF_CALLS = 0.25

_DENSE = frozenset(("aten::embedding_dense_backward", "aten::_embedding_bag_dense_backward"))
_FILLS = frozenset(("aten::zeros", "aten::zero_", "aten::fill_"))
_PRODUCTS = frozenset(("aten::mm", "aten::addmm", "aten::matmul", "aten::linear"))
_GATHERS = "torch::autograd::AccumulateGrad"
_ADDS_ROWS = "Optimizer.step#SGD."  # adds sparse gradients as they are; others add up those of each row first


@dataclass(frozen=True, slots=True, eq=False)
class DenseTables:
    """What is done for gradients of whole tables: in which operator, -1 for none, each call of the replay is made.

    ``tables`` are the most that a step has, ``rows`` those of the largest, ``used`` the most that a batch names of one,
    and ``share`` the part of all elements of gradients that they are.
    """

    operator: I64
    tables: int
    rows: int
    used: int
    share: float


@fix
class UseSparseGradients:
    id = "use-sparse-gradients"
    explanation = """
When it applies
    The backward pass makes gradients for all rows of embedding tables with at least 4 million elements, of which a
    batch names at most a tenth. Shapes must have been recorded. A table that is also a factor of a matrix product, as
    the output layer of a language model may be, gets a dense gradient from that anyway.

What is changed in the replay
    The gradients are not computed for all rows: what that launches takes no time, and a quarter of its launching is
    left. The optimizer takes less time by the tables' part of all gradients. Where that is not SGD, the zeros and
    that time are saved at least.

What makes it more or less
    SparseAdam sorts and adds up the rows in each step, SGD without momentum does not.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = dense_tables(analysis)
        nodes = found.operator >= 0
        if not nodes.any():
            return
        around, launch = surroundings_of(analysis), replay.device.launch
        optimizer = around.around(is_optimizer_step)[launch]
        updates = durations_times(optimizer >= 0, 1.0 - found.share)
        largest = np.bincount(
            optimizer[optimizer >= 0], replay.device.duration[optimizer >= 0], minlength=1
        ).argmax()
        sorts = not analysis.trace.name(int(largest)).startswith(_ADDS_ROWS)
        fills = nodes & around.inside(_FILLS.__contains__)
        several = f"{found.tables:,} embedding tables" if found.tables > 1 else "an embedding table"
        yield Proposal(
            title=(
                f"Use sparse gradients for {several}: a step writes and updates {found.rows:,} rows"
                f"{' of each' if found.tables > 1 else ''}, and uses at most {found.used:,}"
            ),
            categories=(
                Category.SLOW_OPERATOR,
                Category.MEMORY_BOUND_KERNELS,
                Category.GPU_BOUND,
                Category.LAUNCH_BOUND,
            ),
            culprit="dense gradients of embedding tables",
            problem="Embedding tables get dense gradients",
            remedy=SPARSE_GRADIENTS,
            expected=together(
                updates,
                without_operations(fills[launch] | nodes[launch]),
                host_time_times(nodes, LEFT_OF_CALLS),
            ),
            low=together(updates, without_operations(fills[launch])) if sorts else None,
            depends_on="how long the optimizer takes for the rows that were used" if sorts else "",
        )


@derived
def dense_tables(analysis: Analysis) -> DenseTables:
    """The tables of which a batch uses few rows, and all of whose rows get a gradient."""
    trace, around = analysis.trace, surroundings_of(analysis)
    operator = around.around(_DENSE.__contains__)
    inside = np.flatnonzero(operator >= 0)
    dense, first = np.unique(operator[inside], return_index=True)
    lookup = called_operators(analysis)[inside[first]]
    kept = fitting(trace, dense, lookup, fits=_uses_few_rows)
    dense, lookup = dense[kept], lookup[kept]
    shapes = [inputs_of_event(trace, each) for each in lookup.tolist()]
    in_products = _in_products(trace)
    kept = np.array([tuple(sorted(each[0])) not in in_products for each in shapes], bool)
    dense, shapes = dense[kept], [each for each, keep in zip(shapes, kept.tolist(), strict=True) if keep]
    if not len(dense):
        return DenseTables(np.full(len(operator), -1, np.int64), 0, 0, 0, 0.0)
    steps = max(around.replay.steps * len(around.replay.spans), 1)
    return DenseTables(
        operator=np.where(np.isin(operator, dense), operator, -1),
        tables=max(round(len(dense) / steps), 1),
        rows=max(each[0][0] for each in shapes),
        used=max(elements(inputs_of_event(trace, each)[1]) for each in dense.tolist()),
        share=_share(trace, {tuple(each[0]) for each in shapes}),
    )


def _uses_few_rows(backward: Shapes, lookup: Shapes) -> bool:
    rows, width = lookup[0]
    used = elements(backward[1])
    return rows * width >= MIN_ELEMENTS and backward[0][-1] == width and 0 < used <= MAX_USED * rows


def _by_shapes(trace: Trace, names: frozenset[str]) -> list[tuple[Shapes, int]]:
    """What is handed to operators of these names, and how often."""
    operators = trace.events.of_kind(EventKind.CPU_OP)
    operators = operators[named(trace, operators, names.__contains__)]
    dims = trace.attribute(Attribute.INPUT_DIMS, operators, -1)
    _, first, count = np.unique(dims[dims >= 0], return_index=True, return_counts=True)
    return [
        (inputs_of_event(trace, event), times)
        for event, times in zip(operators[dims >= 0][first].tolist(), count.tolist(), strict=True)
    ]


def _in_products(trace: Trace) -> set[tuple[int, ...]]:
    """The shapes of matrices that are multiplied, whichever way they lie."""
    return {tuple(sorted(each)) for shapes, _ in _by_shapes(trace, _PRODUCTS) for each in shapes}


def _share(trace: Trace, tables: set[tuple[int, ...]]) -> float:
    """The part of all elements of gradients that is of parameters with these shapes; 0 where none is gathered."""
    sizes = [
        (shapes[0], times * elements(shapes[0]))
        for shapes, times in _by_shapes(trace, frozenset((_GATHERS,)))
    ]
    of_tables = sum(size for shape, size in sizes if tuple(shape) in tables)
    return of_tables / max(sum(size for _, size in sizes), 1)
