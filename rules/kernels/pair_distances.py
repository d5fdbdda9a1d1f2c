"""Products with one-hot vectors, which only look rows up, and all pairs compared by a tensor of all differences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parsers.model import I64, Trace
from parsers.model.arrays import distinct_values, without
from parsers.model.names.per_name import named
from rules.analysis.names.operators import aten
from rules.kernels.operator_work import PRODUCTS
from rules.kernels.recorded_shapes import Shapes, begin_alike, elements, fitting

MIN_DIMENSIONS = 8  # of a point: the differences of fewer take hardly more room than the distances
MIN_RATIO = 4  # times as many differences as numbers in the larger of the two
_WHOLE = frozenset({"aten::cosine_similarity", "aten::pairwise_distance"})  # in one call
_SUBTRACTS, _MULTIPLIES_PAIRS = "aten::sub", "aten::mul"
_SQUARES = aten("pow square mul")
_SUMS = frozenset({"aten::sum", "aten::mean"})
_NORMS = aten("linalg_vector_norm norm linalg_norm")


class PairDistances(NamedTuple):
    """The operators that compare all pairs by broadcasting, and of how many dimensions the points are at least."""

    operators: I64
    dimensions: int


def pair_distances(trace: Trace, operators: I64) -> PairDistances:
    """Of the outermost operators of one thread, by start: differences, products or angles. Shapes must be recorded."""
    sizes: list[int] = []

    def all_pairs(compared: Shapes, *following: Shapes) -> bool:
        one, other = compared[0], compared[1]
        between = np.broadcast_shapes(tuple(one), tuple(other))
        larger = max(elements(one), elements(other))
        mine = one[-1] == other[-1] >= MIN_DIMENSIONS and len(between) > 2
        alike = all(each[0] == list(between) for each in following)
        if not mine or not alike or elements(list(between)) < MIN_RATIO * larger:
            return False
        sizes.append(one[-1])
        return True

    whole = np.flatnonzero(named(trace, operators, _WHOLE.__contains__))
    whole = whole[fitting(trace, operators[whole], fits=all_pairs)]
    pairs = np.flatnonzero(named(trace, operators[:-1], {_SUBTRACTS, _MULTIPLIES_PAIRS}.__contains__))
    products = named(trace, operators[pairs], _MULTIPLIES_PAIRS.__eq__)
    reduced = np.where(
        products,
        named(trace, operators[pairs + 1], _SUMS.__contains__),
        named(trace, operators[pairs + 1], (_NORMS | _SQUARES).__contains__),
    )
    pairs = pairs[reduced]
    pairs = pairs[fitting(trace, operators[pairs], operators[pairs + 1], fits=all_pairs)]
    squared = named(trace, operators[pairs + 1], _SQUARES.__contains__)
    squares = pairs[squared & (pairs + 2 < len(operators))]
    squares = squares[
        named(trace, operators[squares + 2], _SUMS.__contains__)
        & fitting(trace, operators[squares + 1], operators[squares + 2], fits=begin_alike)
    ]
    at_once = pairs[~squared]
    places = np.concatenate((whole, at_once, at_once + 1, *(squares + place for place in range(3))))
    return PairDistances(operators[places], min(sizes, default=MIN_DIMENSIONS))


# of the time of such a product and its gradient: a look-up reads and writes a row for each vector. One table of 4,000
# rows, on one core: a twelfth of the time of a step that did nothing else remained
LEFT, MAX_LEFT, MIN_LEFT = 0.02, 0.1, 0.005
BETWEEN = 2  # operators: vectors are converted, and views are taken of them
_MAKES = "aten::one_hot"
_CONVERTS = aten("to _to_copy type_as")
_TWO_TENSORS = aten("matmul mm")
_MULTIPLIES = frozenset(f"aten::{name}" for name in (*PRODUCTS, "matmul", "linear"))


def one_hot_products(trace: Trace, operators: I64) -> I64:
    """The operators that make one-hot vectors, convert them, and multiply them by a matrix.

    Of the outermost operators of one thread, by start. Shapes must be recorded.
    """

    def rows_of(made: Shapes, multiplied: Shapes) -> bool:
        """Whether as many vectors are multiplied as were made, each as long as a side of the matrix."""
        vectors, matrix = multiplied[0], multiplied[1]
        return bool(made[0]) and vectors[:-1] == made[0] and len(matrix) == 2 and vectors[-1] in matrix

    multiplies = named(trace, operators, _MULTIPLIES.__contains__)
    makes = np.flatnonzero(named(trace, operators, _MAKES.__eq__))
    found = [np.empty(0, np.int64)]
    for behind in range(1, BETWEEN + 2):
        pairs = makes[makes + behind < len(operators)]
        pairs = pairs[multiplies[pairs + behind]]
        pairs = pairs[fitting(trace, operators[pairs], operators[pairs + behind], fits=rows_of)]
        found += [pairs + place for place in range(behind + 1)]
        makes = without(makes, pairs)
    return operators[distinct_values(np.concatenate(found))]


def one_hot_by_names(trace: Trace, operators: I64) -> I64:
    """The same where shapes were not recorded: vectors that are converted and go straight into a product of tensors.

    A layer of its own (aten::linear) may stand behind labels that are made for a loss.
    """
    makes = named(trace, operators[:-2], _MAKES.__eq__)
    makes &= named(trace, operators[1:-1], _CONVERTS.__contains__)
    places = np.flatnonzero(makes & named(trace, operators[2:], _TWO_TENSORS.__contains__))
    return operators[np.concatenate((places, places + 1, places + 2))]
