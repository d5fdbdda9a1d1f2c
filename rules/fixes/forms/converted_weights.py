"""Weights that are converted to another type, or dequantised, before each product with them."""

from __future__ import annotations

import math

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind, Trace
from parsers.model.arrays import per_value
from parsers.model.names.per_name import named, numbers_of
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost, outermost
from rules.analysis.names.operators import aten
from rules.fixes.changes import of_nodes
from rules.fixes.forms.written import called_in_order
from rules.kernels.recorded_shapes import Shape, inputs_in, tensors_by_dims
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

# operators before a product: converting its data, its weights and its bias, scaling them, and views of them in groups
FAR = 8
_WEIGHTS_OF = {"aten::linear": 1, "aten::conv1d": 1, "aten::conv2d": 1, "aten::conv3d": 1, "aten::addmm": 2}
_CONVERTS = aten("to _to_copy dequantize")
_VIEWS = aten("view view_as reshape unflatten flatten unsqueeze")
_BESIDE = _CONVERTS | _VIEWS | {"aten::mul", "aten::sub", "aten::add", "aten::div"}


def converts_weights(analysis: Analysis, replay: Replay) -> BOOL:
    """Which calls are made inside of conversions of weights that need no gradient."""
    trace, host = analysis.trace, replay.host
    found = np.zeros(len(host), bool)
    calls = np.flatnonzero(surroundings_of(analysis).whole_operator >= 0)
    for activity, mine in analysis.threads.by_thread(host.event[calls]):
        converting = np.append(
            of_weights(trace, activity.whole_operators),
            _in_products(trace, activity.whole_operators, activity.of_kind(EventKind.CPU_OP)),
        )
        found[calls[mine]] = Innermost.of(trace, converting).at(host.start[calls[mine]]) >= 0
    return found


def normalises_weights(replay: Replay) -> BOOL:
    """Which calls normalise weights, as torch.nn.utils.weight_norm does."""
    return of_nodes(
        replay, named(replay.analysis.trace, replay.device.event, lambda name: "weight_norm_fwd" in name)
    )


def of_weights(trace: Trace, operators: I64) -> I64:
    """The operators, in order, that make the weights of the product behind them out of others of their size."""
    product = named(trace, operators, _WEIGHTS_OF.__contains__)
    converts, beside = (named(trace, operators, each.__contains__) for each in (_CONVERTS, _BESIDE))
    if not product.any() or not converts.any():
        return operators[:0]
    sequence = trace.attribute(Attribute.SEQUENCE, operators, -1)
    place = numbers_of(trace, operators[product], _WEIGHTS_OF.__getitem__)
    count = len(operators)
    shape = _shapes(
        trace,
        np.concatenate((operators, operators[product])),
        np.concatenate((np.zeros(count, np.int64), place)),
    )
    first, weights = shape[:count], np.full(count, -1)
    weights[product] = shape[count:]
    found, at = np.zeros(len(operators), bool), np.flatnonzero(product & (weights >= 0))
    makes, behind = np.zeros(len(at), bool), at
    parts: list[BOOL] = []
    for _ in range(FAR):
        near = behind > 0
        at, behind, makes = at[near], behind[near] - 1, makes[near]
        parts = [each[near] for each in parts]
        near = beside[behind]
        at, behind, makes = at[near], behind[near], makes[near]
        parts = [each[near] for each in parts]
        mine = (first[behind] == weights[at]) & (sequence[behind] == sequence[at])
        makes |= mine & converts[behind]
        parts.append(mine)
        for back, part in enumerate(reversed(parts)):
            found[behind[part & makes] + back] = True
    return operators[found]


_LAYERS = aten("linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d")
_PRODUCTS = _LAYERS | aten("mm matmul bmm addmm baddbmm einsum")


def makes_weights(analysis: Analysis) -> tuple[I64, I64]:
    """The operators right before a layer that compute its weights of others and work on no data, and the last of each.

    The last one is given a tensor of the weights' sizes, and those before it are given parts of as many elements; the
    data has another number of these. Conversions and products, as of low-rank updates, are told by themselves.
    """
    trace = analysis.trace
    found, lasts = [np.empty(0, np.int64)], [-1]
    for called in called_in_order(analysis):
        dims = trace.attribute(Attribute.INPUT_DIMS, called, -1)
        tensors = tensors_by_dims(trace, dims)
        given = [tensors[each] for each in dims.tolist()]
        views, others = (
            named(trace, called, each.__contains__).tolist() for each in (_VIEWS, _CONVERTS | _PRODUCTS)
        )
        for layer in np.flatnonzero(named(trace, called, _LAYERS.__contains__)).tolist():
            begin, last = _making(given, views, others, layer)
            if begin < layer:
                found.append(called[begin:layer])
                lasts.append(int(called[last]))
    return np.concatenate(found), np.array(lasts[1:], np.int64)


def _making(given: list[list[Shape]], views: list[bool], others: list[bool], layer: int) -> tuple[int, int]:
    """The first and the last of the operators before a layer that make its weights; the layer itself if none do."""
    if len(given[layer]) < 2:
        return layer, layer
    weights, data, size = given[layer][1], math.prod(given[layer][0]), math.prod(given[layer][1])
    last = layer - 1
    while last >= 0 and views[last] and given[last][:1] != given[layer][:1]:
        last -= 1
    if last < 0 or weights not in given[last] or data == size or others[last]:
        return layer, layer
    first = last + 1
    while first > 0 and _are_parts(given[first - 1], size, data):
        first -= 1
        if others[first]:
            return layer, layer
    return first, last


def _are_parts(shapes: list[Shape], size: int, data: int) -> bool:
    """Whether all tensors have a part of so many elements, and none as many as the data."""
    sizes = [math.prod(each) for each in shapes]
    return bool(sizes) and all(each and size % each == 0 and each != data for each in sizes)


def _in_products(trace: Trace, operators: I64, every: I64) -> I64:
    """The conversions inside of a product with weights, of the outermost operators, that make its weights.

    So does autocast. Nothing there gets a number of autograd's between a conversion and what follows it.
    """
    products = operators[named(trace, operators, _WEIGHTS_OF.__contains__)]
    if not len(products):
        return products
    begin, end = trace.events.spans(products)
    start, stop = trace.events.spans(every)
    mine = np.searchsorted(begin, start, side="right") - 1
    inside = (mine >= 0) & (stop <= end[mine]) & ~np.isin(every, products)
    parts = outermost(trace, every[inside])
    of = np.searchsorted(begin, trace.events.start[parts], side="right") - 1
    place = numbers_of(trace, products, _WEIGHTS_OF.__getitem__)
    shape = _shapes(trace, np.append(parts, products), np.append(np.zeros(len(parts), np.int64), place))
    made, weights = shape[: len(parts)], shape[len(parts) :]
    sequence = trace.attribute(Attribute.SEQUENCE, parts, -1)
    goes_on = np.append((of[1:] == of[:-1]) & (sequence[1:] == sequence[:-1]), False)[: len(parts)]
    converts = named(trace, parts, _CONVERTS.__contains__) & (weights[of] >= 0) & (made == weights[of])
    return np.asarray(parts[converts & goes_on])


def _shapes(trace: Trace, operators: I64, place: I64) -> I64:
    """Numbers of the sizes of an input of each operator, -1 without two dimensions.

    They are alike for as many elements in as many rows: a scale may stand for a group of columns.
    """
    dims = trace.attribute(Attribute.INPUT_DIMS, operators, -1)
    known: dict[tuple[int, int], int] = {}

    def number_of(row: list[int]) -> int:
        text, index = row
        inputs = inputs_in(trace.strings[text]) if text >= 0 else []
        shape = inputs[index] if index < len(inputs) else []
        is_tensor = len(shape) > 1 and all(isinstance(length, int) for length in shape)  # else a list of them
        size = (shape[0], math.prod(shape)) if is_tensor else None
        return -1 if size is None else known.setdefault(size, len(known))

    return per_value(np.stack((dims, place), axis=1), number_of)
