"""Attention, or recurrence, over all positions so far that runs again for each new one: nothing is kept of them."""

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
_RECURRENT = frozenset(f"aten::{name}" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"))


@dataclass(frozen=True, slots=True, eq=False)
class GrowingSequences:
    """Operators that work on all positions so far, in passes that add one: which, and on how many positions each."""

    operators: I64
    positions: I64
    recurrent: bool  # a state is carried, not keys and values


@derived
def growing_sequences(analysis: Analysis) -> GrowingSequences:
    """The passes of a program without gradients whose attention has a query for each position that it reads.

    Where there are none, those whose recurrent layers go through all positions. The first pass of each sequence, which
    has to compute all of them, is not among them. Shapes must be recorded.
    """
    nothing = np.empty(0, np.int64)
    if Attribute.INPUT_DIMS in analysis.trace.attributes and not (autograd_functions(analysis) >= 0).any():
        for recurrent in (False, True):
            found = [
                each
                for called in called_in_order(analysis)
                for each in _of_thread(analysis, called, recurrent)
            ]
            if found:
                return GrowingSequences(
                    np.concatenate([mine for mine, _ in found]),
                    np.concatenate([np.full(len(mine), count) for mine, count in found]),
                    recurrent,
                )
    return GrowingSequences(nothing, nothing, recurrent=False)


def _of_thread(analysis: Analysis, called: I64, recurrent: bool) -> Iterator[tuple[I64, int]]:
    """The operators of each pass that has one position more than the pass before, and how many it has."""
    trace = analysis.trace
    dims = trace.attribute(Attribute.INPUT_DIMS, called, -1)
    shapes = {
        each: tensors_in(trace.strings[each]) if each >= 0 else [] for each in distinct_values(dims).tolist()
    }
    wanted = named(trace, called, _RECURRENT.__contains__ if recurrent else _is_attention)
    places = np.flatnonzero(wanted)
    read = [shapes[each] for each in dims[places].tolist()]
    pairs = _steps_of_time(read) if recurrent else list(map(_positions, read))
    count, others = np.array(pairs, np.int64).reshape(-1, 2).T
    places, others, count = (each[count >= MIN_POSITIONS] for each in (places, others, count))
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
        rows, sequences = int(length[at]), int(others[begins[at]])
        alike = [key for key, inputs in shapes.items() if _works_on(inputs, rows, sequences)]
        yield called[mine][np.isin(dims[mine], alike)], rows


def _is_attention(name: str) -> bool:
    return name == _ATTENTION or name in _SOFTMAX


def _steps_of_time(read: list[list[Shape]]) -> list[tuple[int, int]]:
    """How many steps of time recurrent layers go through, of how many sequences: the size that differs is time."""
    first = [inputs[0] if inputs and len(inputs[0]) == 3 else (0, 0, 0) for inputs in read]
    time = int(len({each[1] for each in first}) > 1)
    return [(each[time], each[1 - time]) for each in first]


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
