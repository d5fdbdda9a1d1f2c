"""How many elements kernels work on by their blocks, and tensors far larger than what they are made of."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind, Trace, derived
from parsers.model.arrays import MAX_NUMBER, per_value
from parsers.model.late import regex
from parsers.model.names.per_name import named, numbers_of
from rules.kernels.operator_roofs import launched_by
from rules.kernels.recorded_shapes import single_tensors_in

MIN_ELEMENTS = 1_000_000  # of fewer, kernels are over too soon for their memory to matter
FAR = 6  # kernels behind the first one
# threads and elements of each thread: what reads along strides, as a broadcast does, says both in its name
_STRIDED = regex(r"(?<![a-z_])elementwise_kernel<(?:\(int\))?(\d+), (?:\(int\))?(\d+)")
_POINTWISE = regex(r"(?<!index_)(?<!gather_)elementwise_kernel<")
_OTHER_BLOCKS = 512, 1024, 2048  # elements that a block of the others takes, by the size of a number
_REDUCES = regex(r"(?<![a-z_])reduce_kernel<(?:\(int\))?512, (?:\(int\))?1,")
_SUBTRACTS = regex(r"CUDAFunctor_add")  # and adds
_SQUARES = regex(r"pow_tensor_scalar|MulFunctor|square")
_SUMS, _NORMS = regex(r"sum_functor"), regex(r"Norm(?:Two)?Ops")
NEARLY = 0.01  # from a whole number


class Differences(NamedTuple):
    """Kernels that subtract along strides, square and sum, and of how many dimensions what they subtract is."""

    kernels: I64
    dimensions: int


class _Chains(NamedTuple):
    """Kernels by stream and start; chains of them begin at ``first``, and ``last`` reduces what they worked on."""

    kernels: I64
    first: I64
    last: I64
    elements: I64  # of each chain, rounded up to a whole block


def reduced_chains(trace: Trace) -> I64:
    """Kernels in chains of three or more that work on as many elements one after the other, and reduce them; sorted.

    The first of them reads along strides: mostly, smaller tensors are spread against each other.
    """
    found = _chains(trace)
    inside = np.zeros(len(found.kernels) + 1, np.int64)
    long = found.last - found.first >= 2
    np.add.at(inside, found.first[long], 1)
    np.add.at(inside, found.last[long] + 1, -1)
    return np.sort(found.kernels[np.cumsum(inside)[:-1] > 0])


def summed_differences(trace: Trace, min_dimensions: int) -> Differences:
    """What a difference is summed over says of how many dimensions it is: the smallest number of all."""
    found = _chains(trace)
    kernels, first, last = found.kernels, found.first, found.last
    apart = last - first
    subtracts = named(trace, kernels[first], _SUBTRACTS.search)
    squares = named(trace, kernels[np.minimum(first + 1, len(kernels) - 1)], _SQUARES.search)
    sums = (apart == 2) & squares & named(trace, kernels[last], _SUMS.search)
    norms = (apart == 1) & named(trace, kernels[last], _NORMS.search)
    mine = np.flatnonzero(subtracts & (sums | norms))
    each = found.elements[mine] / np.maximum(_results(trace, kernels[last[mine]]), 1)
    whole = np.rint(each).astype(np.int64)
    chosen = (whole >= min_dimensions) & (np.abs(each - whole) <= NEARLY * whole)
    mine, whole = mine[chosen], whole[chosen]
    places = np.concatenate([np.arange(first[one], last[one] + 1) for one in mine.tolist()] or [first[:0]])
    return Differences(kernels[places], int(whole.min()) if len(whole) else 0)


@derived
def _chains(trace: Trace) -> _Chains:
    events = trace.events
    kernels = events.of_kind(EventKind.KERNEL)
    kernels = kernels[np.lexsort((events.start[kernels], events.lane[kernels]))]
    grid = trace.attribute(Attribute.GRID, kernels, 0)
    elements = grid * numbers_of(trace, kernels, _in_a_block)
    pointwise, reduces = (named(trace, kernels, each.search) for each in (_POINTWISE, _REDUCES))
    first = np.flatnonzero(elements >= MIN_ELEMENTS)
    begins, ends = [first[:0]], [first[:0]]
    at = first
    for far in range(1, FAR + 1):
        inside = at + far < len(kernels)
        at = at[inside]
        behind = at + far
        same = events.lane[kernels[behind]] == events.lane[kernels[at]]
        done = same & reduces[behind]
        begins.append(at[done])
        ends.append(behind[done])
        goes_on = same & pointwise[behind] & _fits(grid, elements, at, behind)
        at = at[goes_on]
    begun, ended = np.concatenate(begins), np.concatenate(ends)
    return _Chains(kernels, begun, ended, elements[begun])


def _fits(grid: I64, elements: I64, one: I64, other: I64) -> BOOL:
    """Whether kernels may work on as many elements as others, whose number is known but for a block."""
    block = np.maximum(elements[one] // np.maximum(grid[one], 1), 1)
    strided = elements[other] > 0
    most, least = elements[one], elements[one] - block + 1
    fits = np.zeros(len(one), bool)
    for size in _OTHER_BLOCKS:
        fits |= (-(-least // size) <= grid[other]) & (grid[other] <= -(-most // size))
    return np.where(strided, np.abs(elements[other] - elements[one]) < block, fits)


def _in_a_block(name: str) -> int:
    found = _STRIDED.search(name)
    return int(found[1]) * int(found[2]) if found else 0


def _results(trace: Trace, reducing: I64) -> I64:
    """How many results a reduction along the last dimension has: a row of threads makes one."""
    texts = [trace.attribute(each, reducing, -1) for each in (Attribute.GRID_SHAPE, Attribute.BLOCK_SHAPE)]
    blocks, rows = (
        np.array(
            [_length(trace.strings[each] if each >= 0 else "", place) for each in column.tolist()], np.int64
        )
        for column, place in zip(texts, (0, 1), strict=True)
    )
    return np.asarray(blocks * rows)


def _length(shape: str, place: int) -> int:
    parts = shape.split(",")
    return int(parts[place]) if len(parts) == 3 and parts[place].strip().isdecimal() else 0


MIN_TIMES = 8  # as many elements as all inputs together have
_SUMS_UP = regex(
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
    reduces = named(trace, operator, _SUMS_UP.match)
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
