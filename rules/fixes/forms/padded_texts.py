"""Texts that are padded to one length, far beyond the longest of their batch."""

from __future__ import annotations

import numpy as np

from parsers.model import F64, I64, Attribute
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.fixes.forms.written import called_in_order
from rules.kernels.recorded_shapes import Shape, inputs_of_event, tensors_in

MIN_LONGER = 1.5  # times the length before: less is a round number, or a few texts that are longer
NEAR = 12  # operators from padding to looking the rows up
_PADS = frozenset({"aten::pad", "aten::constant_pad_nd"})
_LOOKS_UP = "aten::embedding"


@dataclass(frozen=True, slots=True, eq=False)
class PaddedTexts:
    """Operators on padded texts, by event, and the part of their positions that there were before."""

    operators: I64
    left: F64
    before: int = 0  # the longest text of the batch that was padded most, and the length that it got
    length: int = 0


def padded_texts(analysis: Analysis) -> PaddedTexts:
    """What works on ids that were padded to more than they were, up to the next batch. Shapes must be recorded."""
    trace = analysis.trace
    found: list[I64] = []
    left: list[F64] = []
    worst = (1.0, 0, 0)
    if Attribute.INPUT_DIMS in trace.attributes:
        for called in called_in_order(analysis):
            pads = np.flatnonzero(named(trace, called, _PADS.__contains__))
            looks = np.flatnonzero(named(trace, called, _LOOKS_UP.__eq__))
            dims = trace.attribute(Attribute.INPUT_DIMS, called, -1)
            shapes = {
                each: tensors_in(trace.strings[each]) if each >= 0 else []
                for each in (distinct_values(dims).tolist() if len(pads) else [])
            }
            for place, end in zip(pads.tolist(), [*pads[1:].tolist(), len(called)], strict=False):
                near = looks[slice(*np.searchsorted(looks, (place + 1, min(place + NEAR + 1, end))))]
                before = _only(inputs_of_event(trace, int(called[place])))
                ids = [shapes[each][1] for each in dims[near].tolist() if len(shapes[each]) > 1]
                lengths = [each[1] for each in ids if len(each) == len(before) == 2 and each[0] == before[0]]
                if not lengths or lengths[0] < MIN_LONGER * before[1]:
                    continue
                mine = np.arange(near[0], end)
                longer = [
                    each
                    for each, taken in shapes.items()
                    if any(lengths[0] in one[:-1] or one == ids[0] for one in taken)
                ]
                mine = called[mine[np.isin(dims[mine], longer)]]
                part = before[1] / lengths[0]
                found.append(mine)
                left.append(np.full(len(mine), part))
                worst = min(worst, (part, before[1], lengths[0]))
    operators, parts = np.concatenate([np.empty(0, np.int64), *found]), np.concatenate([np.empty(0), *left])
    order = np.argsort(operators)
    return PaddedTexts(operators[order], parts[order], *worst[1:])


def _only(inputs: list[list[int]]) -> Shape:
    return tuple(inputs[0]) if inputs else ()
