"""Small matrices that are written element by element: each element is a launch, and a copy of all on the way back."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from parsers.model import I64, Attribute, derived
from parsers.model.arrays import per_value
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.fixes.forms.written import called_in_order
from rules.kernels.recorded_shapes import single_tensors_in

MIN_WRITES = 8  # into one tensor: fewer are edges of a field, or a pair of halves
MAX_PARTS = 64  # elements that it has: more are times or places, of which each may need the one before
_SELECT = "aten::select"
_WRITES = frozenset(("aten::copy_", "aten::fill_"))
_MAKES = regex(r"aten::(new_)?(zeros|empty|ones|full|eye|repeat|clone|rand|randn)(_like)?$")
_BESIDE = regex(
    r"aten::(select|copy_|fill_|lift_fresh|detach_?|to|slice|unsqueeze|(add|sub|rsub|mul|div|neg|exp|log|sqrt|rsqrt|pow"
    r"|abs|sin|cos|tan|atan2|sinh|cosh|tanh|square|reciprocal|addcmul|clamp|where|sigmoid)_?)$"
)


@dataclass(frozen=True, slots=True, eq=False)
class Filling:
    """A tensor that is written element by element: the writes (events), and when what computes them began and ended."""

    writes: I64
    start: int
    end: int


@derived
def fillings(analysis: Analysis) -> tuple[Filling, ...]:
    """The tensors of which at least eight elements are chosen by two indices each, computed alone and written.

    Only operators that work on single elements lie between, so none of the elements needs the others.
    """
    if Attribute.INPUT_DIMS not in analysis.trace.attributes:
        return ()
    return tuple(each for operators in called_in_order(analysis) for each in _of_thread(analysis, operators))


def _of_thread(analysis: Analysis, operators: I64) -> Iterator[Filling]:
    trace = analysis.trace
    selects = named(trace, operators, _SELECT.__eq__)
    writes = named(trace, operators, _WRITES.__contains__)
    writes[:2] = False
    places = np.flatnonzero(writes)
    places = places[selects[places - 1] & selects[places - 2]]
    if len(places) < MIN_WRITES:
        return
    dims = trace.attribute(Attribute.INPUT_DIMS, operators, -1)
    whole = dims[places - 2]
    triples = np.column_stack((whole, dims[places - 1], dims[places]))

    def is_element(triple: list[int]) -> bool:
        return min(triple) >= 0 and _is_element(*(trace.strings[each] for each in triple))

    elements = per_value(triples, is_element, bool)
    others = ~named(trace, operators, _BESIDE.match) | named(trace, operators, _MAKES.match)
    run = np.cumsum(others)[places]
    places, whole, run = places[elements], whole[elements], run[elements]
    edges = np.flatnonzero(np.concatenate(([True], (np.diff(run) != 0) | (np.diff(whole) != 0), [True])))
    breaks = np.flatnonzero(others)
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if last - first >= MIN_WRITES:
            before = int(np.searchsorted(breaks, places[first])) - 1
            begins = operators[breaks[before]] if before >= 0 else operators[0]
            yield Filling(
                operators[places[first:last]],
                int(trace.events.end[begins]),
                int(trace.events.end[operators[places[last - 1]]]),
            )


def _is_element(whole: str, row: str, written: str) -> bool:
    """Whether what is written was chosen out of a row of the whole, which has few elements of this size."""
    shapes = [single_tensors_in(each)[:1] for each in (whole, row, written)]
    if not all(shapes):
        return False
    (of_whole,), (of_row,), (of_written,) = shapes
    if not len(of_whole) - 1 == len(of_row) == len(of_written) + 1:
        return False
    return math.prod(of_written) * MIN_WRITES <= math.prod(of_whole) <= math.prod(of_written) * MAX_PARTS
