"""Tensors that are far larger than what they are made of, such as all differences between two lists of points."""

from __future__ import annotations

import math

import numpy as np

from parsers.model import BOOL, I64, Attribute, Trace, derived
from parsers.model.arrays import MAX_NUMBER, per_value
from parsers.model.late import regex
from parsers.model.names.per_name import named
from rules.kernels.launched_elements import reduced_chains
from rules.kernels.operator_roofs import launched_by
from rules.kernels.recorded_shapes import single_tensors_in

MIN_TIMES = 8  # as many elements as all inputs together have
_REDUCES = regex(
    r"aten::(sum|mean|amin|amax|min|max|any|all|prod|norm|linalg_vector_norm|logsumexp|arg(min|max))$"
)


@derived
def spread_out(trace: Trace) -> I64:
    """Kernels that make a tensor by spreading smaller ones against each other, work on it, and reduce it; sorted.

    Fused, they read what was spread only, an eighth of the elements at most: no such tensor is ever written. They
    follow one another on a stream, and the operators around them say so by their shapes; without shapes, what their
    blocks say of their number of elements has to do.
    """
    pairs = launched_by(trace)
    if not len(pairs.kernel):
        return reduced_chains(trace)
    order = np.lexsort((trace.events.start[pairs.kernel], trace.events.lane[pairs.kernel]))
    kernel, operator = pairs.kernel[order], pairs.operator[order]
    dims = trace.attribute(Attribute.INPUT_DIMS, operator, -1)
    read, made = (
        per_value(dims, lambda text: _sizes(trace.strings[text] if text >= 0 else "")).reshape(-1, 2).T
    )
    spreads = made // MIN_TIMES >= np.maximum(read, 1)
    reduces = named(trace, operator, _REDUCES.match)
    apart = (np.diff(made) != 0) | (np.diff(trace.events.lane[kernel]) != 0) | reduces[:-1]
    run = np.cumsum(np.append(True, apart)) if len(kernel) else kernel
    return np.sort(kernel[_begins_and_ends(run, spreads, reduces)])


def _begins_and_ends(run: I64, first: BOOL, last: BOOL) -> BOOL:
    """The members, from such a first one on, of runs that end with such a last one."""
    if not len(run):
        return first
    ends = np.append(run[1:] != run[:-1], True)
    ended = np.bincount(run, ends & last) > 0
    begun = np.full(int(run[-1]) + 1, len(run))
    np.minimum.at(begun, run[first], np.flatnonzero(first))
    return np.asarray(ended[run] & (np.arange(len(run)) >= begun[run]))


def _sizes(dims: str) -> tuple[int, int]:
    """How many elements the inputs have, and how many they have spread against each other; 0 where unknown."""
    shapes = single_tensors_in(dims)
    try:
        made = math.prod(np.broadcast_shapes(*shapes)) if shapes else 0
    except ValueError:
        return 0, 0
    return min(sum(map(math.prod, shapes)), MAX_NUMBER), min(made, MAX_NUMBER)
