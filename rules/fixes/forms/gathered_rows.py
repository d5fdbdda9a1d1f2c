"""Work on rows that need not be: gathered several times each before it, or never read behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from parsers.model import F64, I64, Attribute, Trace
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import aten
from rules.fixes.backward import autograd_functions
from rules.fixes.forms.written import called_in_order
from rules.kernels.gpu_peaks import peaks_of
from rules.kernels.operator_work import inputs_of
from rules.kernels.recorded_shapes import Shape, inputs_in, tensors_by_dims
from rules.kernels.slow_operators import NORMAL_SHARE
from rules.replay.origins import called_operators
from rules.replay.replay import Replay, replay_of

MIN_TIMES = 2.0  # as many gathered rows as there are
FAR = 12  # operators from a gather to the product: differences, what else an edge has, and joining them
# reading two products and writing their sum, beside reading and writing the rows that were joined
ADDING = 1.5
MAX_PASS = 2_000  # operators
_PRODUCTS = {"aten::linear": 0, "aten::matmul": 0, "aten::mm": 0, "aten::addmm": 1}  # where the rows stand
_BY_INDEX = "aten::index"  # its indices are a list of which no sizes are recorded
_GATHERS = frozenset({_BY_INDEX, "aten::index_select", "aten::embedding"})
_VIEWS = regex(
    r"aten::(to|view|reshape|flatten|unsqueeze|squeeze|contiguous|alias|detach|expand|t|transpose|permute|select|slice)$"
)
_COMBINES = regex(r"aten::(sub|rsub|add|neg)_?$")
_JOINS = "aten::cat"
# what works on each row of its input alone, where all the other tensors are parameters
_BY_ROW = regex(
    r"aten::(conv[123]d|linear|batch_norm|layer_norm|group_norm|instance_norm|relu6?_?|gelu|silu_?|hardswish_?|sigmoid_?"
    r"|tanh_?|leaky_relu_?|(adaptive_)?(max|avg)_pool[123]d|mean|add_?|mul_?|flatten|view|reshape|contiguous|to|dropout"
    r"|scaled_dot_product_attention|transpose|permute|unbind|chunk|split|select|pad)$"
)
_HEAVY = regex(r"aten::(conv[123]d|linear)$")


@dataclass(frozen=True, slots=True, eq=False)
class GatheredRows:
    """Operators, and the part of their time that remains; ``rows`` are gathered ``times`` times each in the largest."""

    operators: I64
    left: F64
    rows: int = 0
    times: float = 0.0


def _joined(found: list[tuple[I64, F64]], rows: int, times: float) -> GatheredRows:
    operators = np.concatenate([np.empty(0, np.int64), *(each for each, _ in found)])
    left = np.concatenate([np.empty(0), *(each for _, each in found)])
    order = np.argsort(operators, kind="stable")  # a gather may serve two products: the first one counts
    operators, left = operators[order], left[order]
    first = np.append(True, np.diff(operators) > 0)[: len(operators)]
    return GatheredRows(operators[first], left[first], rows, times)


def products_of_gathered(analysis: Analysis) -> GatheredRows:
    """Products of gathered rows with a matrix of weights, joined or subtracted before at most.

    A product of the rows themselves, gathered then, is the same: of rows that stand beside one another it is the sum of
    each one's with its columns of the weights. Shapes must be recorded.
    """
    found, rows, most = [], 0, 0.0
    if Attribute.INPUT_DIMS in analysis.trace.attributes:
        for called in called_in_order(analysis):
            shapes = _Shapes(analysis.trace, called)
            products = np.flatnonzero(named(analysis.trace, called, _PRODUCTS.__contains__))
            gathers = np.flatnonzero(named(analysis.trace, called, _GATHERS.__contains__))
            near = np.searchsorted(gathers, products) > np.searchsorted(gathers, products - FAR)
            for place in products[near].tolist():
                made = _of_product(shapes, place)
                if made is not None:
                    places, left, few, many = made
                    found.append((called[places], left))
                    rows, most = max((rows, most), (few, many / few))
    return _joined(found, rows, most)


class _Shapes:
    """Names and shapes of the operators that a thread calls."""

    def __init__(self, trace: Trace, called: I64) -> None:
        self._trace, self._called = trace, called
        self._dims = trace.attribute(Attribute.INPUT_DIMS, called, -1)
        self._read: dict[int, tuple[list[Shape], list[Shape]]] = {}

    def __len__(self) -> int:
        return len(self._called)

    def name(self, place: int) -> str:
        return self._trace.name(int(self._called[place]))

    def are_alike(self, one: int, other: int) -> bool:
        """Whether two operators have one name and one set of shapes."""
        return bool(self._dims[one] == self._dims[other]) and self.name(one) == self.name(other)

    def inputs(self, place: int) -> list[Shape]:
        """The sizes of each input; () of what is no single tensor."""
        return self._at(place)[0]

    def listed(self, place: int) -> list[Shape]:
        """The sizes of the tensors of the first list that is handed over."""
        return self._at(place)[1]

    def _at(self, place: int) -> tuple[list[Shape], list[Shape]]:
        dims = int(self._dims[place])
        if dims not in self._read:
            inputs = inputs_in(self._trace.strings[dims]) if dims >= 0 else []
            lists = [each for each in inputs if each and isinstance(each[0], list)]
            single = [() if each in lists else tuple(each) for each in inputs]
            self._read[dims] = single, [tuple(each) for each in lists[0]] if lists else []
        return self._read[dims]


@dataclass(frozen=True, slots=True)
class _Gather:
    """Where so many rows of a width are gathered from."""

    place: int
    rows: int
    width: int


def _of_product(shapes: _Shapes, place: int) -> tuple[I64, F64, int, int] | None:
    """Which operators a product and what makes its rows are, what is left of them, and of how many rows how many."""
    first = _PRODUCTS[shapes.name(place)]
    inputs = shapes.inputs(place)
    if len(inputs) < first + 2 or len(inputs[first + 1]) != 2 or len(inputs[first]) < 2:
        return None
    given, weights = inputs[first : first + 2]
    wide, many = given[-1], math.prod(given[:-1])
    out = weights[0] if shapes.name(place) == "aten::linear" else weights[1]
    joins, parts, combined = -1, [wide], 0
    gathers: list[_Gather] = []
    for at in range(place - 1, max(place - 1 - FAR, -1), -1):
        name = shapes.name(at)
        if shapes.are_alike(at, place):
            break  # the one before
        if name == _JOINS and joins < 0 and not combined and not gathers:
            listed = shapes.listed(at)
            parts = [each[-1] for each in listed if each and math.prod(each[:-1]) == many]
            if sum(parts) != wide or len(parts) < 2:
                return None
            joins = at
        elif name in _GATHERS:
            source = _gathered(shapes, at, many)
            if source is not None and source.width in parts:
                gathers.append(source)
        elif _COMBINES.match(name):
            combined += _touches(shapes, at, many, parts)
        elif not _VIEWS.match(name) and _touches(shapes, at, many, parts):
            break  # what is no sum of rows
        if joins < 0 and gathers:
            break
    few = max((each.rows for each in gathers), default=0)
    if not gathers or (joins < 0 and combined):
        return None
    # each part is one of the gathered ones or a difference of some: there are no more of them than were gathered
    widths = {each.width for each in gathers}
    mine = [each for each in parts if each in widths][: len(gathers)]
    share = sum(mine) / wide
    operators = [place, *(each.place for each in gathers)]
    left = [1.0 - share * (1.0 - few / many), *(out / each.width for each in gathers)]
    if joins >= 0:
        sums = len(mine) - (len(mine) == len(parts))
        operators.append(joins)
        left.append(0.0 if combined >= sums else ADDING * out / wide)
    return np.array(operators), np.array(left), few, many


def _touches(shapes: _Shapes, place: int, many: int, widths: list[int]) -> bool:
    """Whether an operator takes as many rows as were gathered, of the width of one part."""
    return any(
        len(each) > 1 and each[-1] in widths and math.prod(each[:-1]) == many for each in shapes.inputs(place)
    )


def _gathered(shapes: _Shapes, place: int, many: int) -> _Gather | None:
    """What a gather takes so ``many`` rows from; None for another one."""
    inputs = shapes.inputs(place)
    if not inputs or len(inputs[0]) != 2 or many < MIN_TIMES * inputs[0][0]:
        return None
    name = shapes.name(place)
    if name != _BY_INDEX:
        index = inputs[2 if name == "aten::index_select" else 1] if len(inputs) > 2 else ()
        if math.prod(index) != many:
            return None
    return _Gather(place, *inputs[0])


_ADDS = regex(r"aten::(index_add|scatter_add|scatter_reduce|index_put)_?$")
_MAY_ADD = regex(
    r"aten::(scatter_reduce|index_put)_?$"
)  # or assign, or find the largest: their kernels say so
_ADDING = regex(r"indexing_backward|ReduceAdd|reduce_add")
_SCALES = regex(r"aten::mul_?$")
# a row is written once more for each of them, and read again; adding reads the sum as well, and writes it
_PASSES, _PASSES_OF_ADDING = 2, 3


def messages_of_gathered(analysis: Analysis) -> GatheredRows:
    """Rows that are gathered, times a number each at most, and added up where they belong, with what does that.

    That is a product with a sparse matrix, which reads each gathered row once. Shapes must be recorded.
    """
    found, rows, most = [], 0, 0.0
    device = replay_of(analysis).device
    adding = called_operators(analysis)[device.launch[named(analysis.trace, device.event, _ADDING.search)]]
    if Attribute.INPUT_DIMS in analysis.trace.attributes:
        for called in called_in_order(analysis):
            shapes = _Shapes(analysis.trace, called)
            adds = named(analysis.trace, called, _ADDS.match)
            adds &= ~named(analysis.trace, called, _MAY_ADD.match) | np.isin(called, adding)
            for place in np.flatnonzero(adds).tolist():
                made = _added_up(shapes, place)
                if made is not None:
                    gather, places = made
                    many = max(shapes.inputs(place), key=math.prod)[0]
                    left = 1.0 / (_PASSES_OF_ADDING + _PASSES * (len(places) - 1))
                    found.append((called[places], np.full(len(places), left)))
                    rows, most = max((rows, most), (gather.rows, many / gather.rows))
    return _joined(found, rows, most)


def _added_up(shapes: _Shapes, place: int) -> tuple[_Gather, list[int]] | None:
    """The gather of rows that are added up here, and the places of all operators on them."""
    inputs = shapes.inputs(place)
    added = max(inputs, key=math.prod, default=())
    if len(added) != 2 or len(inputs[0]) != 2 or inputs[0][1] != added[1]:
        return None
    many, width = added
    places = [place]
    for at in range(place - 1, max(place - 1 - FAR, -1), -1):
        name, taken = shapes.name(at), shapes.inputs(at)
        if name in _GATHERS and (gather := _gathered(shapes, at, many)) is not None:
            return (gather, [*places, at]) if gather.width == width else None
        if added not in taken or _VIEWS.match(name):
            continue
        if not _SCALES.match(name) or any(math.prod(each) > many for each in taken if each != added):
            return None
        if taken.count(added) > 1:
            return None  # by the numbers of another row
        places.append(at)
    return None


def passes_over_gathered(analysis: Analysis) -> GatheredRows:
    """What works on each of many gathered rows alone, from the gather on, with a convolution or a product among it.

    A row is whatever one number of the first dimension selects, such as a picture. Nothing else has as many before the
    gather, and none is joined by another on its way. No gradients are computed. Shapes must be recorded.
    """
    found, rows, most = [], 0, 0.0
    if Attribute.INPUT_DIMS in analysis.trace.attributes and not (autograd_functions(analysis) >= 0).any():
        for called in called_in_order(analysis):
            shapes = _Shapes(analysis.trace, called)
            gathers = np.flatnonzero(named(analysis.trace, called, _GATHERS.__contains__))
            end = 0
            for place in gathers.tolist():
                if place < end:
                    continue
                made = _pass(shapes, place, end)
                if made is not None:
                    few, many, end = made
                    places = np.arange(place, end)
                    found.append((called[places], np.full(len(places), few / many)))
                    rows, most = max((rows, most), (few, many / few))
    return _joined(found, rows, most)


def _pass(shapes: _Shapes, place: int, begin: int) -> tuple[int, int, int] | None:
    """Of how many rows how many were gathered, and the place behind the last operator that works on each alone.

    ``begin``: where the pass before ended, if there was one.
    """
    source = next(iter(shapes.inputs(place)), ())
    if place + 1 >= len(shapes) or len(source) < 3:
        return None  # single numbers and vectors: a product of those is another matter
    given = next(iter(shapes.inputs(place + 1)), ())
    many = given[0] if given else 0
    if given[1:] != source[1:] or many < MIN_TIMES * source[0]:
        return None
    end, heavy = place + 1, False
    while end < min(len(shapes), place + MAX_PASS):
        rows = [each for each in shapes.inputs(end) if len(each) > 1 and each[0] == many]
        if not rows or not _BY_ROW.match(shapes.name(end)) or len(set(rows)) > 1:
            break
        heavy = heavy or bool(_HEAVY.match(shapes.name(end)))
        end += 1
    if not heavy or _knows_as_many(shapes, max(place - FAR, begin), place, many):
        return None
    return source[0], many, end


def _knows_as_many(shapes: _Shapes, begin: int, place: int, many: int) -> bool:
    """Whether something between these two places already has as many rows."""
    between = range(begin, place)
    return any(len(each) > 1 and each[0] == many for at in between for each in shapes.inputs(at))


MIN_PRODUCT = 0.02  # of the GPU's time, that products of one shape take
MAX_READ = 0.5  # of the rows
ASSUMED_SIZE = 1  # bytes of a weight, where no type was recorded
NEAR = 4  # operators from where rows are picked to where they are read: all of them is picked of other sides, too
_PICKS = aten("select slice narrow index index_select")
# what works on each row alone
_BY_ROW_READ = regex(
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
    by_row, picks = named(trace, called, _BY_ROW_READ.match), named(trace, called, _PICKS.__contains__)
    shapes = tensors_by_dims(trace, dims)
    for each in costly.tolist():
        places = np.flatnonzero(dims == each)
        places = places[named(trace, called[places], _PRODUCTS.__contains__)]
        made = _made(trace.name(int(called[places[0]])), shapes[each]) if len(places) else None
        if made is None:
            continue
        takes = [key for key, inputs in shapes.items() if made in map(_rows, inputs)]
        users = np.flatnonzero(np.isin(dims, takes))
        first, last = (
            users.searchsorted(places, "right"),
            users.searchsorted(np.append(places[1:], len(called))),
        )
        others = np.append(0, np.cumsum(~(by_row | picks)[users]))
        # all of its users work on each row alone, and the last one of them picks
        alone = (first < last) & (others[first] == others[last]) & np.append(picks[users], False)[last - 1]
        for place, begin, end in zip(*(each[alone].tolist() for each in (places, first, last)), strict=True):
            mine = users[begin:end]
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
