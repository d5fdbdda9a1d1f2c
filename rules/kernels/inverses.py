"""Matrices that are inverted only to be multiplied by a vector or by few columns."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, Attribute, Trace
from parsers.model.late import regex
from parsers.model.names.per_name import named
from rules.kernels.recorded_shapes import first_shape, single_tensors_in

BEHIND = 4  # operators: the inverse is turned or scaled before it is multiplied
MIN_ROWS = 64  # of a matrix: of smaller ones, calling operators takes most of the time
MAX_COLUMNS = 0.5  # of as many as the matrix has: with more, solving takes as long
_INVERTS = regex(r"aten::(inverse|linalg_inv|linalg_inv_ex|pinverse|linalg_pinv)$")
_APPLIES = regex(r"aten::(matmul|mm|mv|addmm|addmv|bmm|baddbmm|einsum|dot)$")
_DETERMINANTS = regex(r"aten::(logdet|slogdet|linalg_slogdet|det|linalg_det)$")


def multiplied_inverses(trace: Trace, operators: I64) -> tuple[I64, I64, set[int]]:
    """The operators that invert a matrix which a vector or few columns meet right behind.

    They are some of those of a thread that lie inside no other, by start. Then the determinants of matrices as large,
    and how many rows these have.
    """
    applies = named(trace, operators, _APPLIES.match)
    found, sizes = [], set()
    for place in np.flatnonzero(named(trace, operators, _INVERTS.match)).tolist():
        shape = first_shape(trace, int(operators[place]))
        if len(shape) < 2 or shape[-2] < MIN_ROWS:
            continue
        for behind in range(place + 1, min(place + 1 + BEHIND, len(operators))):
            if applies[behind] and _meets_few(
                single_tensors_in(trace.text_attribute(Attribute.INPUT_DIMS, int(operators[behind]))),
                (shape[-1], shape[-2]),
            ):
                found.append(int(operators[place]))
                sizes.add(int(shape[-1]))
                break
    determinants = operators[named(trace, operators, _DETERMINANTS.match)] if found else operators[:0]
    same = [bool(shape := first_shape(trace, each)) and shape[-1] in sizes for each in determinants.tolist()]
    return np.array(found, np.int64), determinants[np.array(same, bool)], sizes


def _meets_few(shapes: list[tuple[int, ...]], inverse: tuple[int, int]) -> bool:
    """Whether a matrix as large as the inverse is multiplied by a vector, or by few rows or columns."""
    large = [each for each in shapes if each[-2:] == inverse]
    small = [each for each in shapes if each[-2:] != inverse]
    most = MAX_COLUMNS * min(inverse)
    return bool(large) and any(len(each) == 1 or min(each[-2:]) <= most for each in small)
