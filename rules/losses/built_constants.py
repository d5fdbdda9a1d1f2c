"""Operators that build the same constants in each step, from sizes alone: tables of positions, masks, windows."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from parsers.model import I64, Attribute, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import regex
from rules.analysis.arithmetic.intervals import Intervals
from rules.kernels.recorded_shapes import Shape, tensors_in

MAX_CALL_NS = 50_000  # until the next operator: what takes longer is something else
MAX_LENGTH = 64  # operators that build one constant
MAX_LOOKED_INTO = 20_000  # operators that begin one: enough of the steps to see what each of them does
_STARTS = regex(
    r"aten::(arange|linspace|logspace|eye|full|ones|zeros|empty|tril_indices|triu_indices|fft_r?fftfreq|\w+_window)$"
)
_TELLS = regex(  # that nobody calls for a state or for room to write results in
    r"aten::(arange|linspace|logspace|eye|tril_indices|triu_indices|fft_r?fftfreq|\w+_window|tril_?|triu_?)$"
)
_LINE = regex(r"aten::(arange|linspace|logspace|fft_r?fftfreq|\w+_window)$")
_SAME = regex(  # as large as their tensors spread over each other
    r"aten::(to|_to_copy|copy_|clone|contiguous|unsqueeze|squeeze|permute|transpose|t|numpy_T|flip|roll|cumsum|cumprod"
    r"|softmax|deg2rad|detach|alias|lift_fresh|resolve_conj|resolve_neg"
    r"|(add|sub|rsub|mul|div|neg|exp|exp2|log|log2|log10|sqrt|rsqrt|pow|abs|sin|cos|tan|atan2|clamp|clamp_min|clamp_max"
    r"|maximum|minimum|masked_fill|where|sign|round|floor|ceil|reciprocal|square|erf|log1p|expm1|remainder|fmod"
    r"|floor_divide|bitwise_\w+|logical_\w+|eq|ne|lt|gt|le|ge|tril|triu|fill|zero|sigmoid|tanh|relu)_?)$"
)
_VIEWS = regex(r"aten::(view|_unsafe_view|reshape|flatten|unflatten)$")
_JOINS = regex(r"aten::(stack|cat)$")
_SPREADS = regex(r"aten::(outer|ger|meshgrid|cartesian_prod)$")
_REPEATS = regex(r"aten::(expand|expand_as|repeat|tile|repeat_interleave)$")
_PARTS = regex(
    r"aten::(slice|select|narrow|chunk|split\w*|unbind|diff|diagonal|index|sum|mean|amax|amin|max|min|norm|prod"
    r"|linalg_vector_norm)$"
)


class Built(NamedTuple):
    """The operators that build constants, and the disjoint times of each row of them, until what follows is called."""

    operators: I64
    spans: Intervals


def built(trace: Trace, operators: I64) -> Built:
    """Of outermost operators of one thread, by start, those that build constants.

    From an operator that is handed no tensor on, while what follows is handed nothing but tensors of the shapes made
    so far, and calls nothing that autograd numbers. A shape that is not known, such as that of a slice, is known by
    what it is handed to. Shapes must be recorded.
    """
    shapes = _Shapes(trace)
    dims = trace.attribute(Attribute.INPUT_DIMS, operators, -1)
    sequence = trace.attribute(Attribute.SEQUENCE, operators, -1)
    first: list[int] = []
    until: list[int] = []
    for begin in _starts(trace, operators)[:MAX_LOOKED_INTO].tolist():
        if (until and begin < until[-1]) or dims[begin] < 0 or any(shapes.of(int(dims[begin]))):
            continue
        last = min(begin + MAX_LENGTH, len(operators))
        numbers = sequence[begin:last]
        stated = np.flatnonzero(numbers >= 0)
        others = stated[numbers[stated] != numbers[stated[:1]].sum()]
        last = begin + int(others[0]) if len(others) else last
        long = _chain(
            [trace.name(each) for each in operators[begin:last].tolist()],
            [shapes.of(each) if each >= 0 else None for each in dims[begin:last].tolist()],
        )
        if long:
            first.append(begin)
            until.append(begin + long)
    places = [np.arange(*each) for each in zip(first, until, strict=True)]
    begin, behind = np.array(first, np.int64), np.array(until, np.int64)
    start, end = trace.events.spans(operators)
    next_start = np.append(start, end[-1:])[behind]
    called = np.where(next_start - end[behind - 1] < MAX_CALL_NS, next_start, end[behind - 1])
    return Built(operators[np.concatenate(places)] if places else operators[:0], (start[begin], called))


def _starts(trace: Trace, operators: I64) -> I64:
    names = trace.events.name[operators]
    known = distinct_values(names)
    begin = [each for each in known.tolist() if _STARTS.match(trace.strings[each])]
    return np.flatnonzero(np.isin(names, begin))


class _Shapes:
    """The shapes of the tensors that operators are handed."""

    def __init__(self, trace: Trace) -> None:
        self._strings = trace.strings
        self.of = cache(self._of)

    def _of(self, text: int) -> tuple[Shape, ...]:
        return tuple(tensors_in(self._strings[text]))


class _Made(NamedTuple):
    """A tensor whose shape is not known yet: its elements, and how many sides longer than 1 it has at most."""

    least: int = 0
    most: int = 0  # 0: unknown
    multiple: int = 1
    sides: int = 9

    def fits(self, shape: Shape) -> bool:
        elements = math.prod(shape)
        return (
            self.least <= elements <= (self.most or elements)
            and elements % self.multiple == 0
            and len(shape) <= self.sides
        )


def _chain(names: list[str], handed: list[tuple[Shape, ...] | None]) -> int:
    """How many of these operators build constants; 0 where none of them tells that it is one."""
    made: set[Shape] = set()
    pending: list[_Made] = []
    tells = False
    for place, (name, shapes) in enumerate(zip(names, handed, strict=True)):
        if shapes is None:
            return place * tells
        if _STARTS.match(name) and not shapes:
            pending.append(_Made(sides=1 if _LINE.match(name) else 3))
        elif not _follows(name, shapes, made, pending):
            return place * tells
        tells |= _TELLS.match(name) is not None
    return len(names) * tells


def _sides(shape: Shape) -> Shape:
    """Without sides of 1 and in no order, which views change."""
    return tuple(sorted(side for side in shape if side != 1))


def _follows(name: str, shapes: tuple[Shape, ...], made: set[Shape], pending: list[_Made]) -> bool:
    """Whether an operator makes more of what was made; then that is counted as made, too."""
    for each in map(_sides, shapes):
        if each not in made:
            # what is repeated is most often put together with data
            exact = _JOINS.match(name) is not None
            of = next((one for one in reversed(pending) if one.fits(each) and (one.most or not exact)), None)
            if of is None:
                return False
            pending.remove(of)
            made.add(each)
    all_of_them = sum(map(math.prod, shapes))
    if _SAME.match(name):
        made.add(_sides(_spread(shapes)))
    elif _VIEWS.match(name) or _JOINS.match(name):
        pending.append(_Made(all_of_them, all_of_them))
    elif _SPREADS.match(name):
        elements = math.prod(map(math.prod, shapes))
        pending.append(_Made(elements, elements))
    elif _REPEATS.match(name):
        pending.append(_Made(all_of_them, multiple=max(all_of_them, 1)))
    elif _PARTS.match(name):
        pending.append(_Made(most=all_of_them))
    else:
        return False
    return True


def _spread(shapes: tuple[Shape, ...]) -> Shape:
    """The shape of all of these spread over each other."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return max(shapes, key=math.prod)
