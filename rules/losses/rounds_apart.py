"""What shows that rounds of a loop on the CPU have an item each, although they pick none and may have own weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from parsers.model import I64, EventKind
from parsers.model.late import regex
from parsers.model.names.per_name import named
from rules.analysis.arithmetic.rounds import Rounds
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.names.operators import is_autograd_function
from rules.kernels.operator_roofs import concrete_inputs
from rules.kernels.recorded_shapes import Shape, inputs_of_event, inputs_of_events

MIN_SIZES = 3  # of what one layer is handed: of two, one may be the last batch
MIN_TURNS = (
    4  # from growing to shrinking or back: pictures that convolutions halve and double again turn once
)
MIN_APART = 4  # rounds of which nothing is handed on: fewer heads, experts or members are hardly worth it
_MODULE = "nn.Module: "
_PICKED = regex(r"aten::(select|slice)$")
_ROWS = regex(r"aten::linear$")  # by weights
_MATRICES = regex(r"aten::(mm|bmm|matmul)$")
_ADDED = regex(r"aten::(addmm|baddbmm)$")
_ATTENTION = regex(r"aten::scaled_dot_product_attention$")
_SAME_SIZE = regex(
    r"aten::(relu|gelu|silu|elu|celu|selu|leaky_relu|prelu|hardswish|hardtanh|mish|softplus|tanh|sigmoid|softmax"
    r"|log_softmax|dropout|feature_dropout|layer_norm|rms_norm|batch_norm|group_norm|instance_norm|mul|add|sub|div|rsub"
    r"|pow|neg|exp|log|sqrt|rsqrt|abs|square|clamp\w*|masked_fill|where|clone|contiguous|to|_to_copy|detach|view"
    r"|reshape|transpose|permute|unsqueeze|squeeze|flatten|unflatten|t|movedim|lerp|addcmul|ones_like|zeros_like"
    r"|rand_like|randn_like|bernoulli|broadcast_tensors)_?$"
)
_LESS = regex(
    r"aten::(select|slice|narrow|diagonal|sum|mean|amax|amin|argmax|argmin|var|std|norm|linalg_vector_norm|logsumexp"
    r"|\w+_loss|cross_entropy\w*|nll_loss\w*|binary_cross_entropy\w*|cosine_similarity|item|_local_scalar_dense)$"
)


def differ_in_size(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    """Whether weights of one size meet data of several sizes, which grow and shrink again and again.

    A state that rounds hand on has one size, or grows; layers that differ have weights that differ.
    """
    mine = operators[rounds.first : rounds.first + rounds.times * rounds.body].reshape(rounds.times, -1)
    for column in mine.T:
        calls = [_shapes(one) for one in inputs_of_events(time.trace, column)]
        if len({len(one) for one in calls}) != 1:
            continue
        places = [set(each) for each in zip(*calls, strict=True)]
        same = any(len(each) == 1 and len(next(iter(each))) > 1 for each in places)
        for place, sizes in enumerate(places):
            grows = np.sign(np.diff([math.prod(one[place]) for one in calls]))
            turns = np.count_nonzero(np.diff(grows[grows != 0]))
            if same and len(sizes) >= MIN_SIZES and turns >= MIN_TURNS:
                return True
    return False


def need_nothing_before(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    """Whether no product of a round takes what the round before can have made, by how many elements all that has.

    What is as large as a result of the same round is taken for that. Where a size is unknown, nobody knows.
    """
    body = rounds.body
    mine = operators[rounds.first : rounds.first + MIN_APART * body]
    names = [time.trace.name(each) for each in mine.tolist()]
    handed = [_shapes(one) for one in inputs_of_events(time.trace, mine)]
    makes = [_makes(name, shapes) for name, shapes in zip(names, handed, strict=True)]
    if not any(map(_multiplies, names[:body])) or any(math.isinf(least) for _, least in makes):
        return False
    for begin in range(body, len(mine), body):
        open_now = [at for at in range(begin, begin + body) if _multiplies(names[at])]
        looked: set[int] = set()
        while open_now:
            at = open_now.pop()
            if at in looked:
                continue
            looked.add(at)
            for maker in _makers(_sizes(names[at], handed[at]), makes, at, body):
                if maker < begin:
                    return False
                if not _multiplies(names[maker]):
                    open_now.append(maker)
    return True


def are_weighed(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    """Whether each round takes a column of a table that has one for each: how much an expert counts for each row."""
    body = operators[rounds.first : rounds.first + rounds.body].tolist()
    picked = [each for each in body if _PICKED.match(time.trace.name(each))]
    for event in picked:
        shapes, numbers = inputs_of_event(time.trace, event), concrete_inputs(time.trace, event)
        sides = shapes[0] if shapes else []
        last = len(sides) > 1 and abs(sides[-1] - rounds.times) <= 1
        if last and len(numbers) > 1 and numbers[1] in (str(len(sides) - 1), "-1"):
            return True
    return False


def own_modules(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    """Whether each round calls modules that no other round calls, where frames with their names were recorded."""
    table, frames = time.trace.events, time.activity.of_kind(EventKind.PYTHON)
    frames = frames[named(time.trace, frames, lambda name: name.startswith(_MODULE))]
    edges = table.start[operators[rounds.first : rounds.first + rounds.times * rounds.body : rounds.body]]
    last = table.end[operators[rounds.first + rounds.times * rounds.body - 1]]
    # the frame of a module begins before its first operator, and ends behind it
    within = (table.end[frames] > edges[0]) & (table.start[frames] < last)
    frames = frames[within]
    of_round = np.searchsorted(edges, table.end[frames], side="right") - 1
    pairs = {
        (name, number) for name, number in zip(table.name[frames].tolist(), of_round.tolist(), strict=True)
    }
    modules = {name for name, _ in pairs}
    return len(pairs) == len(modules) > 0 and len({number for _, number in pairs}) >= rounds.times - 1


def _multiplies(name: str) -> bool:
    return any(each.match(name) for each in (_ROWS, _MATRICES, _ADDED, _ATTENTION))


def _sizes(name: str, shapes: Sequence[Shape]) -> list[int]:
    """How many elements each tensor has that an operator is handed, weights and biases left out."""
    if _ROWS.match(name):
        shapes = shapes[:1]
    elif _ADDED.match(name):
        shapes = shapes[1:]
    return [math.prod(each) for each in shapes]


def _makers(sizes: Sequence[int], makes: Sequence[tuple[float, float]], at: int, body: int) -> list[int]:
    """The last operators within a round before one that can have made tensors of these sizes, another for each."""
    found: list[int] = []
    for size in sizes:
        before = [each for each in range(at - 1, max(at - body, 0) - 1, -1) if each not in found]
        exact = next((each for each in before if makes[each][0] == size), -1)
        at_most = next((each for each in before if makes[each][1] >= size), -1)
        if max(exact, at_most) >= 0:
            found.append(max(exact, at_most))
    return found


def _makes(name: str, shapes: Sequence[Shape]) -> tuple[float, float]:
    """How many elements the result of an operator has, and the most that it may have where that is not known."""
    if is_autograd_function(name):
        return -1.0, -1.0
    try:
        size = _size_of_result(name, shapes)
    except (ValueError, IndexError):
        size = math.nan
    if not math.isnan(size):
        return size, -1.0
    most = max(map(math.prod, shapes), default=1)
    return -1.0, most if _LESS.match(name) else math.inf


def _size_of_result(name: str, shapes: Sequence[Shape]) -> float:
    if _SAME_SIZE.match(name):
        return math.prod(np.broadcast_shapes(*(each for each in shapes if math.prod(each) > 1)))
    if _ROWS.match(name):
        return math.prod(shapes[0][:-1]) * shapes[1][0]
    if _ADDED.match(name):
        return math.prod(shapes[1][:-1]) * shapes[2][-1]
    if _MATRICES.match(name) and min(map(len, shapes)) > 1:
        return math.prod(np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])) * shapes[0][-2] * shapes[1][-1]
    if _ATTENTION.match(name):
        return math.prod(shapes[0][:-1]) * shapes[2][-1]
    return math.nan


def _shapes(inputs: Sequence[list[Any]]) -> list[Shape]:
    """Of the tensors that are not handed over in a list."""
    return [tuple(each) for each in inputs if each and all(isinstance(side, int) for side in each)]
