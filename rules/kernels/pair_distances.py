"""Operators that compute the distances of all pairs of points by a tensor of all differences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parsers.model import I64, Trace
from parsers.model.names.per_name import named
from rules.kernels.fitting_shapes import Shapes, elements, fitting

MIN_DIMENSIONS = 8  # of a point: the differences of fewer take hardly more room than the distances
MIN_RATIO = 4  # times as many differences as numbers in the larger of the two
_SQUARES = frozenset({"aten::pow", "aten::square", "aten::mul"})
_SUMS = frozenset({"aten::sum", "aten::mean"})
_NORMS = frozenset({"aten::linalg_vector_norm", "aten::norm", "aten::linalg_norm"})


class PairDistances(NamedTuple):
    """The operators that subtract all pairs, square and sum, and of how many dimensions the points are at least."""

    operators: I64
    dimensions: int


def pair_distances(trace: Trace, operators: I64) -> PairDistances:
    """Of the outermost operators of one thread, by start. Shapes must be recorded."""
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
    places = np.concatenate((norms, norms + 1, *(squares + place for place in range(3))))
    return PairDistances(operators[places], min(sizes, default=MIN_DIMENSIONS))


def _alike(one: Shapes, other: Shapes) -> bool:
    return one[0] == other[0]
