"""Loops whose rounds multiply matrices and yet need nothing from the round before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from parsers.model import BOOL, I64, Attribute, CopyKind
from parsers.model.arrays import distinct_rows
from parsers.model.events import of_kinds
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.fixes.changes import copies, of_nodes
from rules.fixes.loops.items import operators_of
from rules.kernels.recorded_shapes import inputs_of_events
from rules.replay.loops import Loop
from rules.replay.replay import Replay

MIN_SIZES = 3  # of the same product in a loop: fewer are two ways of the same size
ITEM_SIZES = (2, 4, 8)  # bytes of an element that a matrix may have
MIN_ROUNDS = 16  # that pick rows and put others back: networks over graphs have fewer layers
OPERATORS_OF_A_ROW = 2  # that cutting it off calls
NEAR_OPERATORS = 64  # in front of a loop, with those of its first call
_VECTOR = "aten::mv"
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", _VECTOR)
_LAYER = regex(r"aten::(conv[123]d|conv_transpose[123]d|linear)$")
_SELECT = "aten::select"
_UNBIND = "aten::unbind"
_SLICE = "aten::slice"
_ACCUMULATE = "torch::autograd::AccumulateGrad"


def independent_rounds(analysis: Analysis, replay: Replay, loops: Sequence[Loop], products: BOOL) -> set[int]:
    """How many rounds the loops have that no layers and no recurrence can make; their backward passes have as many.

    Matrices of different sizes follow one another in no model. Rounds that pick rows, multiply, and add the result to
    other rows go through relations or experts, unless they sample, as each token of a text does. Where a round ends
    with another size than it begins with, or takes its input out of a stack, it is no layer, and where each has weights
    of its own, it is no step of a recurrence. A batch may be cut into chunks that go through the same network, and of
    a stack each row may be, whose results are read back. What the CPU sends in each round is no weight of a layer, and
    what comes of it is no state where it has another size than what it multiplies.
    """
    reads = of_nodes(replay, copies(replay, CopyKind.D2H))
    picks = of_nodes(replay, named(analysis.trace, replay.device.event, picks_rows))
    puts = of_nodes(replay, named(analysis.trace, replay.device.event, _puts))
    family = analysis.family_of_string[analysis.trace.events.name[replay.device.event]]
    samples = of_nodes(replay, of_kinds(family, Family.SORT, Family.SOFTMAX, Family.RANDOM))
    found = set()
    for loop in loops:
        body = slice(loop.first, loop.first + loop.body)
        if loop.times in found or not products[body].any():
            continue
        moves_rows = (
            loop.times >= MIN_ROUNDS and picks[body].any() and puts[body].any() and not samples[body].any()
        )
        if moves_rows or _sizes_differ(replay, loop, products):
            found.add(loop.times)
            continue
        thread = int(replay.host.thread[loop.first])
        read_back = loop.times >= MIN_ROUNDS and bool(reads[body].any())
        if _is_no_chain(analysis, replay, loop, operators_of(analysis, replay, thread), read_back):
            found.add(loop.times)
    return found


def networks(analysis: Analysis, replay: Replay, loops: Sequence[Loop]) -> set[int]:
    """How many rounds the loops have that send an item each through a network of convolutions.

    Each layer takes as many channels as the one before gives, but the first one of a round does not take what the last
    one of the round before gives, and works on pictures of another size: these rounds are no layers of one network. A
    step that refines a picture may give twice the channels, a scale and a shift, but of the same size.
    """
    family = analysis.family_of_string[analysis.trace.events.name[replay.device.event]]
    convolves = of_nodes(replay, of_kinds(family, Family.CONVOLUTION))
    meets = of_nodes(replay, of_kinds(family, Family.COLLECTIVE) | (replay.device.meeting >= 0))
    found = set()
    for loop in loops:
        body = slice(loop.first, loop.first + loop.body)
        if loop.times in found or not convolves[body].any() or meets[body].any():
            continue
        inside = _of_second_round(
            replay, loop, operators_of(analysis, replay, int(replay.host.thread[loop.first]))
        )
        layers = _layers(analysis, inside[named(analysis.trace, inside, _LAYER.match)])
        if not layers or any(before.gives != after.takes for before, after in pairwise(layers)):
            continue
        if layers[0].takes != layers[-1].gives and layers[0].size != layers[-1].size:
            found.add(loop.times)
    return found


@dataclass(frozen=True, slots=True)
class _Layer:
    """How many channels a layer takes and gives, and the size of the pictures that it takes."""

    takes: int
    gives: int
    size: tuple[int, ...]


def _layers(analysis: Analysis, operators: I64) -> list[_Layer]:
    """None where a shape is unknown."""
    found = []
    names = [analysis.trace.name(each) for each in operators.tolist()]
    for name, shapes in zip(names, inputs_of_events(analysis.trace, operators), strict=True):
        if len(shapes) < 2 or len(shapes[1]) < 2 or len(shapes[0]) < len(shapes[1]) - 1:
            return []
        data, weight = shapes[:2]
        channels = len(data) - max(len(weight) - 1, 1)
        gives = weight[1] if "transpose" in name else weight[0]
        found.append(_Layer(data[channels], gives, tuple(data[channels + 1 :])))
    return found


def picks_rows(name: str) -> bool:
    """Whether a kernel of this name reads the rows that an index says."""
    return "gather" in name or "indexSelect" in name or "index_elementwise" in name


def _puts(name: str) -> bool:
    return "indexFunc" in name or "scatter" in name or "indexing_backward" in name


def _sizes_differ(replay: Replay, loop: Loop, products: BOOL) -> bool:
    """Whether the rounds multiply matrices of different sizes: a library chooses its kernel by them."""
    node = replay.device.launch
    mine = (node >= loop.first) & (node < loop.last) & products[node]
    name = replay.analysis.trace.events.name[replay.device.event[mine]]
    place = (node[mine] - loop.first) % loop.body
    kinds = distinct_rows(np.column_stack((place, name)))
    return bool(np.bincount(kinds[:, 0]).max(initial=0) >= MIN_SIZES)


@dataclass(frozen=True, slots=True)
class _Product:
    """How many elements the two matrices of a product have; their last dimensions are ``come`` and ``go``.

    Of a matrix and a vector, the vector is the left one.
    """

    come: int
    go: int
    left: int
    right: int

    @property
    def result(self) -> int:
        return self.left // max(self.come, 1) * self.go


def _is_no_chain(analysis: Analysis, replay: Replay, loop: Loop, operators: I64, read_back: bool) -> bool:
    """Whether no round takes what the one before gives: chunks of a batch, or, by the sizes of products, own weights.

    Nor does one of whose results some are ``read_back`` and that multiplies nothing but a row of a stack, and what
    comes of it.

    The second round is looked at: a product before the loop can stand for one of its first round.
    """
    trace, host = analysis.trace, replay.host
    starts = trace.events.start[operators]
    inside = _of_second_round(replay, loop, operators)
    products = _products(analysis, inside[named(trace, inside, _PRODUCTS.__contains__)])
    if not products:
        return False
    if _by_what_was_sent(replay, loop, products):
        return True
    slices = inside[named(trace, inside, _SLICE.__eq__)]
    if _are_chunks(analysis, slices, products[0], loop.times):
        return True
    chosen = _chosen(analysis, inside[named(trace, inside, _SELECT.__eq__)], loop.times)
    if read_back and products[0].left in chosen | _chosen(
        analysis, np.concatenate((slices, _cut_before(analysis, loop, replay, operators))), loop.times
    ):
        return all(after.left == before.result for before, after in pairwise(products))
    weights = [each.right for each in products]
    own = sum(weights) in chosen or chosen.issuperset(weights)
    if own and any(each.left in chosen for each in products):
        return True
    if any(before.go != after.come for before, after in pairwise(products)):
        return False
    if products[0].come == products[-1].go:
        return False
    span = replay.spans[int(host.span_of_thread[host.thread[loop.first]])]
    ends = int(span.edges[host.step[loop.first] + 1])
    after = operators[slice(*np.searchsorted(starts, (int(host.end[loop.last - 1]), ends)).tolist())]
    accumulated = after[named(trace, after, lambda name: name.startswith(_ACCUMULATE))]
    if len(products) == 1:  # a cell that takes its state and its input as one has one weight for all rounds
        of_weight = [math.prod((each or [[]])[0]) for each in inputs_of_events(trace, accumulated)]
        return own or of_weight.count(weights[0]) >= loop.times
    return own or len(accumulated) >= loop.times * len(products)


def _by_what_was_sent(replay: Replay, loop: Loop, products: Sequence[_Product]) -> bool:
    """Whether a round multiplies by nothing but what it sends, and no result is as large as what is multiplied."""
    begin = loop.first + loop.body
    device = replay.device
    mine = copies(replay, CopyKind.H2D) & (device.launch >= begin) & (device.launch < begin + loop.body)
    sent = set(replay.analysis.trace.attribute(Attribute.BYTES, device.event[mine]).tolist())
    data = [_data(each, sent) for each in products]
    return min(data) > 0 and not {each.result for each in products} & set(data)


def _data(product: _Product, sent: set[int]) -> int:
    """How many elements the matrix has that a product takes beside one that was sent; 0 where none was."""
    for matrix, other in ((product.left, product.right), (product.right, product.left)):
        if any(matrix * size in sent for size in ITEM_SIZES):
            return other
    return 0


def _of_second_round(replay: Replay, loop: Loop, operators: I64) -> I64:
    last = replay.host.end[[loop.first + loop.body - 1, loop.first + 2 * loop.body - 1]]
    return operators[slice(*np.searchsorted(replay.analysis.trace.events.start[operators], last).tolist())]


def _cut_before(analysis: Analysis, loop: Loop, replay: Replay, operators: I64) -> I64:
    """What cuts a tensor into its rows in front of a loop, as going through one in Python does."""
    place = int(np.searchsorted(analysis.trace.events.start[operators], replay.host.end[loop.first]))
    before = operators[max(place - OPERATORS_OF_A_ROW * loop.times - NEAR_OPERATORS, 0) : place]
    return before[named(analysis.trace, before, _UNBIND.__eq__)]


def _are_chunks(analysis: Analysis, slices: I64, product: _Product, rounds: int) -> bool:
    """Whether each round multiplies as many rows as a tensor cut into so many pieces has in each of them.

    A step through time takes one row of time, or a column of the whole batch.
    """
    rows = product.left // max(product.come, 1)
    cut = [shapes[0][0] for shapes in inputs_of_events(analysis.trace, slices) if shapes and shapes[0]]
    return rows > 1 and any((rounds - 1) * rows < whole <= (rounds + 1) * rows for whole in cut)


def _products(analysis: Analysis, operators: I64) -> list[_Product]:
    """The matrices of each product; none where a shape is unknown."""
    found = []
    is_vector = named(analysis.trace, operators, _VECTOR.__eq__)
    for vector, shapes in zip(is_vector.tolist(), inputs_of_events(analysis.trace, operators), strict=True):
        if vector and len(shapes) == 2 and len(shapes[0]) == 2:
            rows, columns = shapes[0]
            found.append(_Product(columns, rows, columns, rows * columns))
            continue
        matrices = [each for each in shapes if len(each) >= 2]
        if len(matrices) < 2:
            return []
        left, right = matrices[-2:]
        found.append(_Product(left[-1], right[-1], math.prod(left), math.prod(right)))
    return found


def _chosen(analysis: Analysis, selections: I64, rounds: int) -> set[int]:
    """How many elements each choice from a stack has, of which there is one for each round at least.

    A stack lies along the first dimension, or along one of just as many as there are rounds, as heads do.
    """
    stacks = [shapes[0] for shapes in inputs_of_events(analysis.trace, selections) if shapes]
    return {
        math.prod(each) // length
        for each in stacks
        if len(each) >= 2
        for place, length in enumerate(each)
        if length == rounds or (place == 0 and length > rounds)
    }
