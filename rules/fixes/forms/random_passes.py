"""Passes through a network that differ only in what a dropout at its end draws."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from parsers.model import I64, Attribute, EventKind
from parsers.model.late import regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import holding
from rules.fixes.backward import autograd_functions
from rules.fixes.forms.written import called_in_order
from rules.kernels.operator_work import PRODUCTS
from rules.kernels.recorded_shapes import inputs_of_events
from rules.replay.origins import called_operators
from rules.replay.replay import Replay

MIN_AHEAD = 8  # operators of a pass before the first dropout: fewer are a layer
MAX_DROPOUTS = 64  # of a pass
_DROPOUT = regex(r"aten::(native_|feature_|alpha_|feature_alpha_)?dropout_?$")
_DRAWS = regex(r"aten::(bernoulli_?|native_dropout)$")
_PRODUCTS = frozenset(f"aten::{name}" for name in PRODUCTS)
_PRODUCT = regex(r"aten::(_?conv\w*|matmul|linear|embedding|einsum)$")
# a next word, or a part of a batch: what a pass begins with is then something else than before
_CHOOSES = frozenset(
    f"aten::{name}" for name in ("argmax", "max", "topk", "sort", "multinomial", "categorical")
)
_TAKES = regex(
    r"aten::(slice|select|narrow|index\w*|unbind|split\w*|chunk|gather|copy_|to|rand\w*|normal_|uniform_|bernoulli_?)$"
)


def random_passes(analysis: Analysis, replay: Replay) -> tuple[I64, int]:
    """The operators that passes of a step repeat before their first dropout, but for the first; and how many passes.

    The passes call the same operators with the same shapes, one behind the other; nothing is trained. Nothing is taken
    or copied for a pass before its first product, and nothing that it does behind the first dropout has the shape of
    what it begins with: so it begins with what the one before began with. Shapes must be recorded.
    """
    found, passes = [np.empty(0, np.int64)], 0
    if Attribute.INPUT_DIMS in analysis.trace.attributes and not (autograd_functions(analysis) >= 0).any():
        draws = analysis.trace.events.of_kind(EventKind.CPU_OP)
        draws = draws[named(analysis.trace, draws, _DRAWS.match)]
        for operators in called_in_order(analysis):
            for mine in _of_steps(analysis, replay, operators):
                for first, period, times, ahead in _repeated(analysis, mine, draws):
                    again = first + period * np.arange(1, times)[:, None] + np.arange(ahead)
                    found.append(mine[again.reshape(-1)])
                    passes = max(passes, times)
    return np.concatenate(found), passes


def _of_steps(analysis: Analysis, replay: Replay, operators: I64) -> list[I64]:
    """The operators of each step; what launches nothing belongs to the step of what launches before."""
    calls = called_operators(analysis)
    mine = np.isin(calls, operators)
    called, first = np.unique(calls[mine], return_index=True)
    step = np.zeros(len(operators), np.int64)
    step[np.isin(operators, called)] = 1 + replay.host.step[mine][first]
    step = np.maximum.accumulate(step)
    return np.split(operators, np.flatnonzero(np.diff(step)) + 1)


def _repeated(analysis: Analysis, operators: I64, draws: I64) -> Iterator[tuple[int, int, int, int]]:
    """Where the first of such passes begins, how many operators each has, how many there are, and those ahead."""
    trace = analysis.trace
    drops = np.flatnonzero(named(trace, operators, _DROPOUT.match))
    if len(drops) < 2 or len(operators) <= MIN_AHEAD:
        return
    drops = drops[holding(trace, operators[drops], draws)] if len(draws) else drops[:0]
    dims = trace.attribute(Attribute.INPUT_DIMS, operators, -1)
    key = trace.events.name[operators].astype(np.int64) * (len(trace.strings) + 1) + dims
    before = _called_before(key, drops)
    differs: dict[int, I64] = {}  # by how many operators a pass has
    behind = 0  # the last one that was found
    for at, drop in enumerate(drops.tolist()):
        if drop < max(behind, MIN_AHEAD):
            continue
        near = slice(at + 1, at + 1 + MAX_DROPOUTS)
        for other in drops[near][before[near] == before[at]].tolist():
            if (period := other - drop) not in differs:
                differs[period] = np.flatnonzero(key[:-period] != key[period:])
            made = _run(differs[period], len(key), drop, period)
            if made is not None and at and drops[at - 1] >= made[0]:
                break  # another dropout comes before
            if made is not None and _begin_alike(analysis, operators, *made):
                yield made
                first, _, times, _ = made
                behind = first + period * times
                break


def _called_before(key: I64, drops: I64) -> I64:
    """A number for each dropout and the operators before it, as many as a pass has at least: the same for the same.

    Others hardly ever have the same number; of dropouts before which fewer are called it says nothing.
    """
    window = np.lib.stride_tricks.sliding_window_view(key, MIN_AHEAD + 1)
    factors = np.power(np.int64(1_000_003), np.arange(MIN_AHEAD + 1))  # it may overflow
    return np.asarray((window[np.maximum(drops - MIN_AHEAD, 0)] * factors).sum(axis=1))


def _run(differs: I64, count: int, drop: int, period: int) -> tuple[int, int, int, int] | None:
    """The row of equal passes of which one has its first dropout here; ``differs``: which operators the next one lacks.

    There are ``count`` operators, ``period`` in a pass.
    """
    place = int(np.searchsorted(differs, drop))
    begin = int(differs[place - 1]) + 1 if place else 0
    end = (int(differs[place]) if place < len(differs) else count - period) + period
    times = (end - begin) // period
    first = end - times * period
    ahead = drop - first
    return (first, period, times, ahead) if times >= 2 and MIN_AHEAD <= ahead < period else None


def _begin_alike(analysis: Analysis, operators: I64, first: int, period: int, times: int, ahead: int) -> bool:
    trace = analysis.trace
    mine = operators[first : first + period]
    product = np.flatnonzero(named(trace, mine, lambda name: name in _PRODUCTS or bool(_PRODUCT.match(name))))
    if not len(product) or product[0] >= ahead or named(trace, mine[: product[0]], _TAKES.match).any():
        return False
    if named(trace, mine[ahead:], _CHOOSES.__contains__).any():
        return False
    shapes = inputs_of_events(trace, mine)
    given = next((each[0] for each in shapes if each and each[0]), None)
    return given is not None and not any(given in each for each in shapes[ahead:])
