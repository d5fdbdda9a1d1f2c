"""What shows that rounds of a loop on the CPU have an item each, although they pick none and may have own weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from parsers.model import I64, EventKind
from parsers.model.late import regex
from parsers.model.names.per_name import named
from rules.analysis.arithmetic.rounds import Rounds
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.names.operators import PICKED, is_autograd_function
from rules.kernels.operator_roofs import concrete_inputs
from rules.kernels.recorded_shapes import Shape, inputs_of_event, inputs_of_events

MIN_SIZES = 3  # of what one layer is handed: of two, one may be the last batch
# from growing to shrinking or back: pictures that convolutions halve and double again turn once
MIN_TURNS = 4
MIN_APART = 4  # rounds of which nothing is handed on: fewer heads, experts or members are hardly worth it
_MODULE = "nn.Module: "
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
_PARTS = regex(r"aten::(select|unbind)$")  # along one side
_LESS = regex(
    r"aten::(slice|narrow|diagonal|sum|mean|amax|amin|argmax|argmin|var|std|norm|linalg_vector_norm|logsumexp"
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
    calls = _Calls(time, operators[rounds.first : rounds.first + MIN_APART * body], body)
    if not calls.products(0, body) or calls.unknown:
        return False
    return all(
        min(calls.made_for(at, begin), default=begin) >= begin
        for begin in range(body, len(calls), body)
        for at in calls.products(begin, begin + body)
    )


def hand_on_a_state(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    """Whether a product takes what the same product of the round before led to, as in layers of a model.

    By how many elements all that has: where a size is unknown, or a row is picked, something else may come in.
    """
    body = rounds.body
    calls = _Calls(time, operators[rounds.first : rounds.first + 3 * body], body)
    return any(
        at - body in calls.made_for(at, body, surely=True) for at in calls.products(2 * body, 3 * body)
    )


def take_as_many_as_they_make(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    """Whether the operators of a round take as many tensors as large as its result as they make.

    One that nothing in a round takes is left over as its result, unless the next round takes it.
    """
    body = rounds.body
    calls = _Calls(time, operators[rounds.first : rounds.first + body], body)
    made, taken = calls.as_large_as_the_last()
    return taken >= made > 1


def lead_to_the_next(time: CpuTime, operators: I64, starts: I64) -> bool:
    """The same of rounds that are not all alike, and begin with what they pick: whether a product led to another."""
    first, second, third, end = (starts[:4] - starts[0]).tolist()
    longest = int(np.diff(starts).max())
    calls = _Calls(time, operators[starts[0] : starts[0] + end], longest)
    before = set(calls.products(first, third))
    return any(before & calls.made_for(at, second, surely=True) for at in calls.products(third, end))


class _Made(NamedTuple):
    """How many elements the result of an operator may have, or, where that is not known, has at most."""

    sizes: frozenset[int] = frozenset()
    most: float = -1.0


class _Calls:
    """Operators of some rounds of a ``body`` each, with how many elements they take and give."""

    def __init__(self, time: CpuTime, operators: I64, body: int) -> None:
        self._body = body
        self._names = [time.trace.name(each) for each in operators.tolist()]
        self._handed = [_shapes(one) for one in inputs_of_events(time.trace, operators)]
        self._makes = [_makes(name, shapes) for name, shapes in zip(self._names, self._handed, strict=True)]

    def __len__(self) -> int:
        return len(self._names)

    @property
    def unknown(self) -> bool:
        """Whether the size of any result is unknown."""
        return any(math.isinf(each.most) for each in self._makes)

    def products(self, begin: int, end: int) -> list[int]:
        """The matrix products among some calls."""
        return [at for at in range(begin, min(end, len(self))) if _multiplies(self._names[at])]

    def as_large_as_the_last(self) -> tuple[int, int]:
        """How many tensors as large as the last one are made, and how many are taken."""
        size = next((each.sizes for each in self._makes[::-1] if each.sizes), frozenset())
        taken = zip(self._names, self._handed, strict=True)
        return (
            sum(each.sizes == size for each in self._makes),
            sum(one in size for name, shapes in taken for one in _sizes(name, shapes)),
        )

    def made_for(self, at: int, since: int, *, surely: bool = False) -> set[int]:
        """The calls, not long before ``since``, that make what a call takes, or what these take in turn.

        ``surely``: none whose result is only known to be no larger than something.
        """
        found: set[int] = set()
        left = [at]
        while left:
            for maker in self._makers(left.pop(), surely):
                if maker not in found:
                    found.add(maker)
                    if maker >= since:
                        left.append(maker)
        return found

    def _makers(self, at: int, surely: bool) -> list[int]:
        """The last calls within a round before one that can have made what it takes, another for each tensor."""
        found: list[int] = []
        for size in _sizes(self._names[at], self._handed[at]):
            for each in range(at - 1, max(at - self._body, 0) - 1, -1):
                made = self._makes[each]
                if each in found or not (size in made.sizes or made.most >= size):
                    continue
                if size in made.sizes or not surely:
                    found.append(each)
                elif not math.isinf(made.most):
                    continue
                break
        return found


def are_weighed(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    """Whether each round takes a column of a table that has one for each: how much an expert counts for each row."""
    body = operators[rounds.first : rounds.first + rounds.body].tolist()
    picked = [each for each in body if PICKED.match(time.trace.name(each))]
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


def _makes(name: str, shapes: Sequence[Shape]) -> _Made:
    if is_autograd_function(name):
        return _Made()
    elements = max(map(math.prod, shapes), default=1)
    if _PARTS.match(name):
        return _Made(frozenset(elements // side for side in shapes[0] if side > 1) if shapes else frozenset())
    try:
        size = _size_of_result(name, shapes)
    except (ValueError, IndexError):
        size = -1
    if size >= 0:
        return _Made(frozenset((size,)))
    return _Made(most=elements - 1 if _LESS.match(name) else math.inf)


def _size_of_result(name: str, shapes: Sequence[Shape]) -> int:
    """-1 where it is not known."""
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
    return -1


def _shapes(inputs: Sequence[list[Any]]) -> list[Shape]:
    """Of the tensors that are not handed over in a list."""
    return [tuple(each) for each in inputs if each and all(isinstance(side, int) for side in each)]
