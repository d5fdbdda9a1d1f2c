"""Low-rank updates of weights, such as adapters, that are multiplied out in each call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from parsers.model import BOOL, Attribute
from parsers.model.arrays import distinct_values
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import MIN_GPU_SHARE, Proposal, fix
from rules.fixes.changes import MIN_NS, durations_times, share_of
from rules.fixes.forms.written import called_in_order
from rules.kernels.recorded_shapes import Shape, inputs_in, single_tensors_in
from rules.remedies.remedy import pytorch_remedy
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

MIN_THINNER = 8  # times: the rank is so much smaller than both sides of the weights
NEAR = 4  # operators between multiplying out and the product with the weights: scaling, adding, converting
_PRODUCTS = frozenset({"aten::mm", "aten::matmul"})
_WEIGHTED = frozenset({"aten::linear", *_PRODUCTS})

_CODE = """y = F.linear(x, weight) + scale * F.linear(F.linear(x, a), b)   # two thin products
# not in each call: F.linear(x, weight + scale * (b @ a))

weight += scale * (b @ a)                                        # or once, when nothing is trained any more"""


@fix
class FactorsInTurn:
    id = "factors-in-turn"
    explanation = f"""
When it applies
    A product gives a matrix from two whose common side is at most an eighth of its own ones, and behind at most {NEAR}
    operators that work on a matrix of its shape there is a product with such a matrix as weights. Nothing updates a
    matrix of that shape. Work on matrices of that shape, and on their gradients, takes at least 5 % of the GPU's time.
    Shapes must be recorded.

What is changed in the replay
    What makes, scales, adds and differentiates matrices of that shape takes 4 us at most. The product with the weights,
    and that for the gradient of its data, stay.

What makes it more or less
    How many rows are multiplied: with more than the weights have, multiplying out may be quicker.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        device = replay.device
        mine = _multiplied_out(analysis)[device.launch]
        share = share_of(replay, mine)
        if share < MIN_GPU_SHARE:
            return
        factor = np.minimum(MIN_NS / np.maximum(device.duration, 1.0), 1.0)
        yield Proposal(
            title=(
                f"Multiply by the factors of a low-rank update in turn: {percent(share)} of the GPU's time multiplies "
                "them out and adds them to the weights"
            ),
            categories=(Category.RECOMPUTATION, Category.SLOW_OPERATOR, Category.MEMORY_BOUND_KERNELS),
            culprit="low-rank updates",
            problem="A low-rank update is multiplied out in each call",
            remedy=pytorch_remedy(
                "Multiply the data by one factor after the other, and add that to the layer's result.",
                "For inference, add the update to the weights once (merge_and_unload in peft).",
                code=_CODE,
            ),
            expected=durations_times(mine, factor),
        )


def _multiplied_out(analysis: Analysis) -> BOOL:
    """The calls that make such a matrix, change it, or compute gradients by way of its own."""
    trace, operator = analysis.trace, surroundings_of(analysis).whole_operator
    found = np.zeros(len(operator), bool)
    if Attribute.INPUT_DIMS not in trace.attributes:
        return found
    known = np.flatnonzero(operator >= 0)
    dims = trace.attribute(Attribute.INPUT_DIMS, operator[known], -1)
    keys = distinct_values(dims[dims >= 0]).tolist()
    inputs = {each: inputs_in(trace.strings[each]) for each in keys}
    updated = {tuple(one) for each in inputs.values() for many in each if _is_list(many) for one in many}
    made = {each for each in _low_rank(analysis) if each[:2] not in updated}
    if not made:
        return found
    for each in keys:
        shapes = single_tensors_in(trace.strings[each])
        if any(_is_of(shapes, *sizes) for sizes in made):
            found[known[dims == each]] = True
    return found


def _low_rank(analysis: Analysis) -> Iterator[tuple[int, int, int]]:
    """The sides of weights to which a product of two thin matrices is added, and how thin these are."""
    trace = analysis.trace
    for called in called_in_order(analysis):
        dims = trace.attribute(Attribute.INPUT_DIMS, called, -1)
        name = trace.events.name[called]
        thin = {
            key: sizes
            for key in distinct_values(dims[dims >= 0]).tolist()
            if (sizes := _thin(single_tensors_in(trace.strings[key])))
        }
        for at in np.flatnonzero(np.isin(dims, list(thin))).tolist():
            rows, columns, rank = thin[int(dims[at])]
            if trace.strings[int(name[at])] not in _PRODUCTS:
                continue
            for place in range(at + 1, min(at + 2 + NEAR, len(called))):
                shapes = single_tensors_in(trace.strings[int(dims[place])]) if dims[place] >= 0 else []
                if trace.strings[int(name[place])] in _WEIGHTED and _is_layer(shapes, *thin[int(dims[at])]):
                    yield rows, columns, rank
                if (rows, columns) not in shapes:
                    break


def _thin(shapes: list[Shape]) -> tuple[int, int, int] | None:
    """The sides of what a product of two matrices gives, and the one that they share, if that is much smaller."""
    if len(shapes) != 2 or any(len(each) != 2 for each in shapes) or shapes[0][1] != shapes[1][0]:
        return None
    (rows, rank), (_, columns) = shapes
    return (rows, columns, rank) if MIN_THINNER * rank <= min(rows, columns) else None


def _is_layer(shapes: list[Shape], rows: int, columns: int, rank: int) -> bool:
    """Whether data of another number of rows is multiplied by weights of these sides."""
    if len(shapes) < 2 or shapes[1] not in ((rows, columns), (columns, rows)):
        return False
    return math.prod(shapes[0][:-1]) not in (rows, columns, rank) and shapes[0][-1] in (rows, columns)


def _is_of(shapes: list[Shape], rows: int, columns: int, rank: int) -> bool:
    """Whether an operator makes such a matrix, changes it, or multiplies it by one of the thin ones."""
    whole = (rows, columns)
    if len(shapes) == 2 and all(len(each) == 2 for each in shapes) and shapes[0] != shapes[1]:
        (first, _), (_, last) = shapes
        return (first, last) == whole or (whole in shapes and rank in (first, last))
    return bool(shapes) and all(each == whole for each in shapes)


def _is_list(sizes: list[object]) -> bool:
    return bool(sizes) and isinstance(sizes[0], list)
