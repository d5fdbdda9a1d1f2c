"""Attention over all positions so far that runs again for each new one, as where nothing is kept of earlier ones."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from parsers.model import I64, Attribute, derived
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.fixes.backward import autograd_functions
from rules.fixes.forms.written import called_in_order
from rules.kernels.recorded_shapes import Shape, tensors_in

MIN_PASSES = 4  # in a row, each over one position more than the one before
MIN_POSITIONS = 16  # of the first: a few are computed as quickly as one
_ATTENTION = "aten::scaled_dot_product_attention"
_SOFTMAX = frozenset({"aten::softmax", "aten::_softmax"})


@dataclass(frozen=True, slots=True, eq=False)
class GrowingSequences:
    """Operators that work on all positions so far, in passes that add one: which, and on how many positions each."""

    operators: I64
    positions: I64


@derived
def growing_sequences(analysis: Analysis) -> GrowingSequences:
    """The passes of a program without gradients whose attention has a query for each position that it reads.

    The first pass of each sequence, which has to compute all of them, is not among them. Shapes must be recorded.
    """
    operators, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    if Attribute.INPUT_DIMS in analysis.trace.attributes and not (autograd_functions(analysis) >= 0).any():
        for called in called_in_order(analysis):
            for mine, count in _of_thread(analysis, called):
                operators.append(mine)
                positions.append(np.full(len(mine), count))
    return GrowingSequences(np.concatenate(operators), np.concatenate(positions))


def _of_thread(analysis: Analysis, called: I64) -> Iterator[tuple[I64, int]]:
    """The operators of each pass that has one position more than the pass before, and how many it has."""
    trace = analysis.trace
    dims = trace.attribute(Attribute.INPUT_DIMS, called, -1)
    shapes = {
        each: tensors_in(trace.strings[each]) if each >= 0 else [] for each in distinct_values(dims).tolist()
    }
    square = {each: _positions(inputs) for each, inputs in shapes.items()}
    attention = named(trace, called, lambda name: name == _ATTENTION or name in _SOFTMAX)
    places = np.flatnonzero(attention)
    count = np.array([square[each][0] for each in dims[places].tolist()], np.int64)
    places, count = places[count >= MIN_POSITIONS], count[count >= MIN_POSITIONS]
    if not len(places):
        return
    begins = np.flatnonzero(np.append(True, np.diff(count) != 0))
    length = count[begins]
    grows = np.append(False, np.diff(length) == 1)
    run = np.cumsum(~grows)
    often = np.bincount(run)[run]
    for at in np.flatnonzero(grows & (often >= MIN_PASSES)).tolist():
        ends = int(places[begins[at + 1]]) if at + 1 < len(begins) else len(called)
        mine = slice(int(places[begins[at] - 1]) + 1, ends)
        rows, sequences = int(length[at]), square[int(dims[places[begins[at]]])][1]
        wanted = [key for key, inputs in shapes.items() if _works_on(inputs, rows, sequences)]
        yield called[mine][np.isin(dims[mine], wanted)], rows


def _positions(inputs: list[Shape]) -> tuple[int, int]:
    """How many positions an attention has as queries and as keys, of how many sequences; (0, 0) where not as many."""
    first = inputs[0] if inputs else ()
    if len(first) < 3:
        return 0, 0
    keys = inputs[1][-2] if len(inputs) > 1 and len(inputs[1]) == len(first) else first[-1]
    return (first[-2], first[0]) if first[-2] == keys else (0, 0)


def _works_on(inputs: list[Shape], rows: int, sequences: int) -> bool:
    """Whether a tensor has so many positions, one sequence beside the other or one after another."""
    return any(
        each[:-1].count(rows) or (len(each) > 1 and math.prod(each[:-1]) == rows * sequences)
        for each in inputs
    )
