"""Distances between all pairs come from one matrix product instead of a tensor of all differences."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times
from rules.fixes.forms.written import called_in_order, costly_calls
from rules.kernels.pair_distances import MIN_DIMENSIONS, pair_distances
from rules.remedies.distances import DISTANCES_BY_PRODUCT
from rules.replay.replay import Replay

# passes over the distances that are left: the product and what is added to it, of points of so many dimensions
PASSES, PASSES_AT_MOST, PASSES_AT_LEAST = 2.0, 4.0, 1.25


@fix
class MultiplyForDistances:
    """Differences of all pairs that are squared and summed."""

    id = "multiply-for-distances"
    explanation = """
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
            remedy=DISTANCES_BY_PRODUCT,
            expected=durations_times(operations, left),
            low=durations_times(operations, most),
            high=durations_times(operations, least),
            depends_on="what is added to the product",
        )


def _differences(analysis: Analysis) -> tuple[I64, int]:
    """The operators that subtract all pairs, square and sum, and of how many dimensions the points are."""
    found = [pair_distances(analysis.trace, operators) for operators in called_in_order(analysis)]
    sizes = [each.dimensions for each in found if len(each.operators)]
    operators = np.concatenate([np.empty(0, np.int64), *(each.operators for each in found)])
    return operators, min(sizes, default=MIN_DIMENSIONS)
