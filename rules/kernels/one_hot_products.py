"""Products with one-hot vectors, which only look rows of a matrix up."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, Trace
from parsers.model.arrays import distinct_values, without
from parsers.model.names.per_name import named
from rules.kernels.fitting_shapes import Shapes, fitting
from rules.kernels.operator_work import PRODUCTS

# of the time of such a product and its gradient: a look-up reads and writes a row for each vector. One table of 4,000
# rows, on one core: a twelfth of the time of a step that did nothing else remained
LEFT, MAX_LEFT, MIN_LEFT = 0.02, 0.1, 0.005
BETWEEN = 2  # operators: vectors are converted, and views are taken of them
_MAKES = "aten::one_hot"
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
