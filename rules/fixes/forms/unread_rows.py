"""Products of which only some rows are read: scores of all positions where the last one is used."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from parsers.model import F64, I64, Attribute, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.fixes.backward import autograd_functions
from rules.fixes.forms.written import called_in_order
from rules.kernels.gpu_peaks import peaks_of
from rules.kernels.operator_work import inputs_of
from rules.kernels.recorded_shapes import Shape, tensors_in
from rules.kernels.slow_operators import NORMAL_SHARE
from rules.replay.origins import called_operators
from rules.replay.replay import Replay

MIN_PRODUCT = 0.02  # of the GPU's time, that products of one shape take
MAX_READ = 0.5  # of the rows
ASSUMED_SIZE = 1  # bytes of a weight, where no type was recorded
NEAR = 4  # operators from where rows are picked to where they are read: all of them is picked of other sides, too
_PRODUCTS = {"aten::linear": 0, "aten::matmul": 0, "aten::mm": 0, "aten::addmm": 1}  # where the rows stand
_PICKS = frozenset(f"aten::{name}" for name in ("select", "slice", "narrow", "index", "index_select"))
# what works on each row alone
_BY_ROW = regex(
    r"aten::(to|_to_copy|type_as|add_?|sub_?|mul_?|div_?|neg|exp|tanh_?|clamp_?|(log_)?softmax|contiguous|clone|view|"
    r"_unsafe_view|reshape|flatten|squeeze|unsqueeze|alias|detach)$"
)


@dataclass(frozen=True, slots=True, eq=False)
class UnreadRows:
    """Products, and what works on all of their rows: for each the part of these that is read in the end.

    ``weights_ns``: how long a product of few rows takes to read its weights; 0 for the others, or where nobody knows.
    """

    operators: I64
    read: F64
    weights_ns: F64


def unread_rows(analysis: Analysis, replay: Replay) -> UnreadRows:
    """Products with a matrix of weights of which half of the rows at most are read; none where gradients are computed.

    Whatever takes as many rows before the next such product works on each row alone, or picks rows. Shapes must be
    recorded.
    """
    operators, read, weights = [np.empty(0, np.int64)], [np.empty(0)], [np.empty(0)]
    if Attribute.INPUT_DIMS in analysis.trace.attributes and not (autograd_functions(analysis) >= 0).any():
        costly = _costly_products(analysis, replay)
        for called in called_in_order(analysis):
            for places, part in _of_thread(analysis, called, costly):
                operators.append(called[places])
                read.append(np.full(len(places), part))
                weights.append(np.zeros(len(places)))
                weights[-1][0] = reading_weights_ns(analysis.trace, replay, called[places[:1]])[0]
    return UnreadRows(np.concatenate(operators), np.concatenate(read), np.concatenate(weights))


def _costly_products(analysis: Analysis, replay: Replay) -> I64:
    """The shapes, as strings, of products that take a part of the GPU's time together."""
    trace, device = analysis.trace, replay.device
    operator = called_operators(analysis)[device.launch]
    mine = np.flatnonzero(operator >= 0)
    mine = mine[named(trace, operator[mine], _PRODUCTS.__contains__)]
    dims = trace.attribute(Attribute.INPUT_DIMS, operator[mine], -1)
    took = np.bincount(dims + 1, device.duration[mine])
    found = np.flatnonzero(took >= MIN_PRODUCT * max(device.duration.sum(), 1.0)) - 1
    return found[found >= 0]


def reading_weights_ns(trace: Trace, replay: Replay, operators: I64) -> F64:
    """How long each product with a matrix of weights takes to read these; 0 for other operators, or where unknown."""
    gpu = trace.devices[int(replay.device.device[0])]
    peaks = peaks_of(gpu.name)
    bandwidth = gpu.memory_bandwidth or (peaks.bandwidth if peaks else 0.0)
    found = np.zeros(len(operators))
    mine = (
        np.flatnonzero(named(trace, operators, _PRODUCTS.__contains__))
        if bandwidth
        else np.empty(0, np.int64)
    )
    dims, types = (
        trace.attribute(each, operators[mine], -1) for each in (Attribute.INPUT_DIMS, Attribute.INPUT_TYPES)
    )
    keys = list(zip(trace.events.name[operators[mine]].tolist(), dims.tolist(), types.tolist(), strict=True))
    read = {}
    for name, shape, kind in set(keys):
        sizes, of_type = (trace.strings[each] if each >= 0 else "" for each in (shape, kind))
        inputs = inputs_of(sizes, of_type, ASSUMED_SIZE)
        size = inputs.bytes_at(_PRODUCTS[trace.strings[name]] + 1) if inputs else 0
        read[name, shape, kind] = size / (NORMAL_SHARE * bandwidth) * 1e9
    found[mine] = [read[each] for each in keys]
    return found


def _of_thread(analysis: Analysis, called: I64, costly: I64) -> Iterator[tuple[I64, float]]:
    """The places of each product and of what takes all of its rows, and which part of these is read in the end."""
    trace = analysis.trace
    dims = trace.attribute(Attribute.INPUT_DIMS, called, -1)
    by_row, picks = named(trace, called, _BY_ROW.match), named(trace, called, _PICKS.__contains__)
    shapes = {
        each: tensors_in(trace.strings[each]) if each >= 0 else [] for each in distinct_values(dims).tolist()
    }
    for each in costly.tolist():
        places = np.flatnonzero(dims == each)
        places = places[named(trace, called[places], _PRODUCTS.__contains__)]
        made = _made(trace.name(int(called[places[0]])), shapes[each]) if len(places) else None
        if made is None:
            continue
        takes = [key for key, inputs in shapes.items() if made in map(_rows, inputs)]
        users = np.flatnonzero(np.isin(dims, takes))
        for place, end in zip(places, np.append(places[1:], len(called)), strict=True):
            mine = users[slice(*np.searchsorted(users, (place + 1, end)))]
            if not len(mine) or not (by_row | picks)[mine].all() or not picks[mine[-1]]:
                continue
            rows = [_rows_read(shapes, dims[pick + 1 : pick + 1 + NEAR], made) for pick in mine[picks[mine]]]
            part = sum(rows) / made[0]
            if rows[-1] and part <= MAX_READ:
                yield np.append(place, mine), part


def _rows_read(shapes: dict[int, list[Shape]], following: I64, made: tuple[int, int]) -> int:
    """How many rows are left behind an operator that picks some; 0 where it is all of them, or nobody knows."""
    for dims in following.tolist():
        found = [rows for rows, columns in map(_rows, shapes[dims]) if columns == made[1]]
        if found:
            return 0 if max(found) >= made[0] else max(found)
    return 0


def _made(name: str, inputs: list[Shape]) -> tuple[int, int] | None:
    """How many rows of how many numbers a product gives; None unless its right side is one matrix."""
    first = _PRODUCTS[name]
    if len(inputs) < first + 2 or len(inputs[first + 1]) != 2 or len(inputs[first]) < 2:
        return None
    matrix = inputs[first + 1]
    return math.prod(inputs[first][:-1]), matrix[0] if name == "aten::linear" else matrix[1]


def _rows(shape: Shape) -> tuple[int, int]:
    return math.prod(shape[:-1]), shape[-1]
