"""Distances between all pairs come from one matrix product instead of a tensor of all differences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from parsers.model import I64
from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import durations_times
from rules.fixes.forms.written import Shapes, called_in_order, costly_calls, elements, fitting
from rules.replay.replay import Replay
from rules.wording.words import for_pytorch

MIN_DIMENSIONS = 8  # of a point: the differences of fewer take hardly more room than the distances
MIN_RATIO = 4  # times as many differences as numbers in the larger of the two
# passes over the distances that are left: the product and what is added to it, of points of so many dimensions
PASSES, PASSES_AT_MOST, PASSES_AT_LEAST = 2.0, 4.0, 1.25
_SQUARES = frozenset({"aten::pow", "aten::square", "aten::mul"})
_SUMS = frozenset({"aten::sum", "aten::mean"})
_NORMS = frozenset({"aten::linalg_vector_norm", "aten::norm", "aten::linalg_norm"})

_CODE = """squares = x.square().sum(1, keepdim=True) + y.square().sum(1) - 2 * x @ y.T
# or torch.cdist(x, y), instead of ((x[:, None] - y[None]) ** 2).sum(-1)"""


@fix
class MultiplyForDistances:
    """Differences of all pairs that are squared and summed."""

    id: ClassVar[str] = "multiply-for-distances"
    explanation: ClassVar[str] = """
When it applies
    Two tensors are subtracted so that each row of one meets each row of the other, and the differences, at least four
    times as many as either has numbers and of at least 8 dimensions, are squared and summed, or their norm is taken.
    That takes at least 5 % of the GPU's time, with its gradients. Shapes must be recorded.

What is changed in the replay
    The differences are never written: of this time, 2 of as many parts as a point has dimensions are left.

What makes it more or less
    What is added to the product, 1.25 to 4 parts. Distances that are small beside the numbers themselves need single
    precision in the product: without TF32.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        operators, dimensions = _differences(analysis)
        nodes, share = costly_calls(analysis, replay, operators)
        if not share:
            return
        operations = nodes[replay.device.launch]
        left, most, least = (
            min(each / dimensions, 1.0) for each in (PASSES, PASSES_AT_MOST, PASSES_AT_LEAST)
        )
        yield Proposal(
            title=f"Compute distances by a matrix product: differences take {percent(share)} of the GPU's time",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR),
            culprit="aten::sub",
            problem="Distances are computed by broadcasting",
            remedy=remedy(
                for_pytorch(
                    "The square of a difference is the sum of both squares less twice the product: one matrix product "
                    "and two short sums, and no tensor of all differences."
                ),
                for_pytorch("torch.cdist does it in one call, for the 1-norm as well."),
                code=for_pytorch(_CODE),
            ),
            expected=durations_times(operations, left),
            low=durations_times(operations, most),
            high=durations_times(operations, least),
            depends_on="what is added to the product",
        )


def _differences(analysis: Analysis) -> tuple[I64, int]:
    """The operators that subtract all pairs, square and sum, and of how many dimensions the points are."""
    trace, found = analysis.trace, [np.empty(0, np.int64)]
    sizes: list[int] = []

    def all_pairs(subtracted: Shapes, following: Shapes) -> bool:
        one, other = subtracted[0], subtracted[1]
        between = np.broadcast_shapes(tuple(one), tuple(other))
        larger = max(elements(one), elements(other))
        mine = one[-1] == other[-1] >= MIN_DIMENSIONS and len(between) > 2
        if not mine or list(between) != following[0] or elements(list(between)) < MIN_RATIO * larger:
            return False
        sizes.append(one[-1])
        return True

    for operators in called_in_order(analysis):
        subtracts = np.flatnonzero(named(trace, operators, "aten::sub".__eq__))
        subtracts = subtracts[subtracts + 1 < len(operators)]
        subtracts = subtracts[fitting(trace, operators[subtracts], operators[subtracts + 1], fits=all_pairs)]
        norms = subtracts[named(trace, operators[subtracts + 1], _NORMS.__contains__)]
        squares = subtracts[subtracts + 2 < len(operators)]
        squares = squares[
            named(trace, operators[squares + 1], _SQUARES.__contains__)
            & named(trace, operators[squares + 2], _SUMS.__contains__)
            & fitting(trace, operators[squares + 1], operators[squares + 2], fits=_alike)
        ]
        found += [operators[norms], operators[norms + 1], *(operators[squares + place] for place in range(3))]
    return np.concatenate(found), min(sizes, default=MIN_DIMENSIONS)


def _alike(one: Shapes, other: Shapes) -> bool:
    return one[0] == other[0]
