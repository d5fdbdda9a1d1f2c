"""Tensors as large as all classes, or all rows of a table, where a batch names few of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from parsers.model import I64, Attribute, EventKind, Trace, derived
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import FILLS, PRODUCTS, aten
from rules.analysis.names.regions import is_optimizer_step
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times, host_time_times, together, without_calls, without_operations
from rules.fixes.forms.written import called_in_order, calls_of, costly_calls
from rules.kernels.recorded_shapes import Shapes, elements, fitting, inputs_of_event
from rules.remedies.gradients import SPARSE_GRADIENTS
from rules.remedies.remedy import pytorch_remedy
from rules.replay.origins import called_operators
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

FAR = 32  # operators from writing the labels' places to the loss: padding is found and cleared meanwhile
BEFORE = 8  # operators from making the tensor to that
_LOSSES = frozenset({"aten::kl_div", "aten::cross_entropy_loss"})
_WRITES_LABELS = frozenset({"aten::scatter_", "aten::scatter"})
_FILLS_TARGETS = (
    aten("clone full_like zeros_like fill_ zero_ index_fill_ masked_fill_ masked_fill") | _WRITES_LABELS
)


_FINDS_PADDING = aten("eq nonzero masked_select item")


class DenseTargets(NamedTuple):
    """Operators, ascending and each once: that build a distribution or compare with it, and that look for padding."""

    distribution: I64
    padding: I64


@derived
def dense_targets(analysis: Analysis) -> DenseTargets:
    """Where a program builds one before a loss."""
    trace = analysis.trace
    found, padding = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for operators in called_in_order(analysis):
        losses = np.flatnonzero(named(trace, operators, _LOSSES.__contains__))
        fills = named(trace, operators, _FILLS_TARGETS.__contains__)
        looks = named(trace, operators, _FINDS_PADDING.__contains__)
        writes = np.flatnonzero(named(trace, operators, _WRITES_LABELS.__contains__))
        following = np.searchsorted(losses, writes)
        writes, following = writes[following < len(losses)], following[following < len(losses)]
        loss = losses[following]
        fits = (loss - writes <= FAR) & fitting(trace, operators[writes], operators[loss], fits=_are_labels)
        writes, loss = writes[fits], loss[fits]
        found.append(operators[loss])
        for far in range(-BEFORE, FAR):
            near = (writes + far >= 0) & (writes + far < loss)
            place, behind = writes[near] + far, loss[near]
            if far > 0:
                padding.append(operators[place[looks[place]]])
            place, behind = place[fills[place]], behind[fills[place]]
            same = fitting(trace, operators[place], operators[behind], fits=_is_target)
            found.append(operators[place[same]])
    return DenseTargets(*(distinct_values(np.concatenate(each)) for each in (found, padding)))


def _are_labels(written: Shapes, loss: Shapes) -> bool:
    """Whether one place of each row is written in a tensor of the target's sizes."""
    target, index = loss[1], next((each for each in written[1:] if each), [])
    return (
        len(target) == 2
        and target == loss[0] == written[0]
        and elements(index) == target[0] < elements(target)
    )


def _is_target(filled: Shapes, loss: Shapes) -> bool:
    return filled[0] == loss[1]


# of the time of building the distribution, comparing it and its gradients, once labels are smoothed by the loss: it
# still reads all scores for their sum, and adds two gradients. One translation model of 37,000 words: 4.9 ms to 0.9
LEFT, LEFT_AT_MOST = 0.2, 0.5

_SMOOTHING_CODE = """loss = torch.nn.functional.cross_entropy(scores, labels, label_smoothing=0.1, ignore_index=padding)
# not F.kl_div(scores.log_softmax(-1), distribution), with a number for each class of each row"""


@fix
class SmoothLabelsInLoss:
    id = "smooth-labels-in-loss"
    explanation = f"""
When it applies
    At most 32 operators before a loss (kl_div, cross_entropy), one place of each row is written in a tensor of the
    sizes of its target. With what fills that tensor, the loss and its gradients take at least 5 % of the GPU's time.
    Shapes must be recorded.

What is changed in the replay
    Of this time, {percent(LEFT)} remains: a loss that takes the labels still reads all scores. Nothing looks for rows
    of padding before it.

What makes it more or less
    How the distribution was made, and compared: {percent(LEFT_AT_MOST)} remains at most, and so does what looks for
    padding.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = dense_targets(analysis)
        nodes, share = costly_calls(analysis, replay, found.distribution)
        if not share:
            return
        looks = without_calls(replay, calls_of(analysis, found.padding), gaps=0.0)
        operations = nodes[replay.device.launch]
        yield Proposal(
            title=f"Smooth labels in the loss: {percent(share)} of the GPU's time builds a distribution from them",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR),
            culprit="a distribution over all classes",
            problem="A distribution is built from labels for the loss",
            remedy=pytorch_remedy(
                "Pass the labels: cross_entropy smooths them itself (label_smoothing), and leaves out padding "
                "(ignore_index).",
                code=_SMOOTHING_CODE,
            ),
            expected=together(durations_times(operations, LEFT), looks),
            low=durations_times(operations, LEFT_AT_MOST),
            depends_on="how the distribution is made",
        )


MAX_USED = 0.1  # of a table's rows, that a batch may name: with more, a dense gradient costs little more
MIN_ELEMENTS = 4_000_000  # of a table: filling and updating fewer takes some microseconds
# a sparse update takes about 6 launches of the 24 that a dense gradient takes (docs/predictions.md)
LEFT_OF_CALLS = 0.25

_DENSE = frozenset(("aten::embedding_dense_backward", "aten::_embedding_bag_dense_backward"))
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
        fills = nodes & around.inside(FILLS.__contains__)
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
    return {tuple(sorted(each)) for shapes, _ in _by_shapes(trace, PRODUCTS) for each in shapes}


def _share(trace: Trace, tables: set[tuple[int, ...]]) -> float:
    """The part of all elements of gradients that is of parameters with these shapes; 0 where none is gathered."""
    sizes = [
        (shapes[0], times * elements(shapes[0]))
        for shapes, times in _by_shapes(trace, frozenset((_GATHERS,)))
    ]
    of_tables = sum(size for shape, size in sizes if tuple(shape) in tables)
    return of_tables / max(sum(size for _, size in sizes), 1)
