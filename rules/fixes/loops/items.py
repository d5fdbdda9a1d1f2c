"""What shows that the rounds of a loop have an item each, and do not hand one state on from round to round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model import BOOL, I64, Attribute, CopyKind, EventKind, derived_by
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import aten
from rules.fixes.backward import autograd_functions
from rules.fixes.changes import copies, of_nodes
from rules.kernels.recorded_shapes import first_shapes
from rules.replay.loops import Loop
from rules.replay.replay import Replay

MIN_CHAIN = 8  # calls of a round: a shorter one may be of a tensor of a list, which no operator takes out
MIN_STENCIL = 3  # places in a round at which nothing but slices is taken: neighbours of the same cells
MIN_ROWS = 2  # of a chunk
MIN_MORE_SIZES = 2  # of a kernel in all rounds than in one of them
_SLICE = "aten::slice"
_SELECT = "aten::select"
_TAKES = aten("select slice eq narrow index index_select index_put_ embedding gather take masked_select")
_CUTS = aten("unbind split split_with_sizes chunk tensor_split unsafe_split")
_JOINS = aten("cat stack")


@derived_by
def operators_of(analysis: Analysis, replay: Replay, thread: int) -> I64:
    """Operators of a replayed thread, by their start."""
    trace = analysis.trace
    events = np.concatenate([analysis.threads.events(each) for each in replay.host.members[thread]])
    operators: I64 = trace.events.only(events, EventKind.CPU_OP)
    return trace.events.by_start(operators)


def carry_a_state(analysis: Analysis, replay: Replay, loops: Sequence[Loop]) -> list[bool]:
    """For each loop, whether nothing shows that its rounds, or those of another one as long, have items of their own.

    A round of an item takes it out of a tensor, compares with its number or gets it from the host, or its size differs;
    or a tensor was cut into items before, or their results are put together behind. A simulation does none of that: a
    round computes the next state out of the last one, often from slices that are a cell apart. Where no operators were
    recorded, nobody knows.
    """
    sends = of_nodes(replay, copies(replay, CopyKind.H2D))
    threads = replay.host.thread[[loop.first for loop in loops]].tolist() if loops else []
    operators = {each: _Operators(analysis, replay, each) for each in set(threads)}
    stencils = [operators[thread].is_stencil(loop) for loop, thread in zip(loops, threads, strict=True)]
    known = {
        loop.times
        for loop, thread, stencil in zip(loops, threads, stencils, strict=True)
        if not stencil
        and (
            loop.body < MIN_CHAIN
            or sends[loop.first : loop.first + loop.body].any()
            or operators[thread].show_items(loop)
            or _sizes_differ(replay, loop)
        )
    }
    return [known.isdisjoint((loop.times - 1, loop.times, loop.times + 1)) for loop in loops]


def in_chunks(analysis: Analysis, replay: Replay, loops: Sequence[Loop], layers: BOOL) -> set[int]:
    """How many rounds the loops have whose results are put together, and that each take a piece of one tensor.

    Their gradients have as many. Where ``layers`` of the forward pass without such a loop are as many, nobody knows.
    """
    forward = autograd_functions(analysis) < 0
    loops = [each for each in loops if forward[each.first : each.last].all()]
    kinds = {each.kind for each in loops if _takes_pieces(analysis, replay, each)}
    found = [each for each in loops if each.kind in kinds]
    others = {
        each.times
        for each in loops
        if layers[each.first : each.last].any()
        and not any(each.first <= inner.first and inner.last <= each.last for inner in found)
    }
    return {each.times for each in found} - others


def _takes_pieces(analysis: Analysis, replay: Replay, loop: Loop) -> bool:
    """A piece is some rows of the whole, more than one: a step through time takes one, or a column of the whole batch.

    A layer takes all of what the one before gives.
    """
    trace, host = analysis.trace, replay.host
    operators = operators_of(analysis, replay, int(host.thread[loop.first]))
    begins = max(loop.first - 2 * loop.body, int(host.first[host.thread[loop.first]]))
    ends = min(loop.last + loop.body, len(host)) - 1
    second = [loop.first + loop.body - 1, loop.first + 2 * loop.body - 1]
    times = [host.start[begins], *host.end[[*second, loop.last - 1]], host.start[ends]]
    before, first, last, behind, end = np.searchsorted(trace.events.start[operators], times).tolist()
    if not named(trace, operators[behind:end], _JOINS.__contains__).any():
        return False
    cut = operators[before:last][named(trace, operators[before:last], (_CUTS | {_SLICE}).__contains__)]
    pieces = first_shapes(trace, operators[first:last])
    return any(_rows_of(each, whole, loop.times) for whole in first_shapes(trace, cut) for each in pieces)


def _rows_of(piece: tuple[int, ...], whole: tuple[int, ...], times: int) -> bool:
    if len(piece) != len(whole) or len(whole) < 2 or piece[1:] != whole[1:] or piece[0] < MIN_ROWS:
        return False
    return (times - 1) * piece[0] < whole[0] <= (times + 1) * piece[0]


class _Operators:
    """The operators of a thread, and how many of a kind begin before each of them."""

    def __init__(self, analysis: Analysis, replay: Replay, thread: int) -> None:
        trace, self._host = analysis.trace, replay.host
        self._first, self._last = self._host.first[thread : thread + 2].tolist()
        operators = operators_of(analysis, replay, thread)
        self._start = trace.events.start[operators]
        self._each = _before(np.ones(len(operators), bool))
        self._takes, self._cuts, self._joins = (
            _before(named(trace, operators, kind.__contains__)) for kind in (_TAKES, _CUTS, _JOINS)
        )
        self._slices, self._selects = (
            _before(named(trace, operators, kind.__eq__)) for kind in (_SLICE, _SELECT)
        )

    def show_items(self, loop: Loop) -> bool:
        """Whether the operators of a loop, or of a round before and behind it, do; True where there are none."""
        first, last = max(loop.first - loop.body, self._first), min(loop.last + loop.body, self._last)
        around = np.array([self._host.start[first], self._host.end[last - 1]])
        inside = np.array([self._host.end[loop.first], self._host.end[loop.last - 1]])
        rounds = loop.times - 1
        return (
            self._count(self._each, inside) < rounds
            or self._count(self._takes, inside) >= rounds
            or self._count(self._cuts, around) > 0
            or 0 < self._count(self._joins, around) < rounds
        )

    def is_stencil(self, loop: Loop) -> bool:
        """Whether the second round takes slices, and nothing else, between many of its calls."""
        begin = loop.first + loop.body - 1
        edges = self._host.start[begin : begin + loop.body + 1]
        places = np.searchsorted(self._start, edges)
        return bool(
            np.count_nonzero(np.diff(self._slices[places]) > np.diff(self._selects[places])) >= MIN_STENCIL
        )

    def _count(self, before: I64, between: I64) -> int:
        first, last = np.searchsorted(self._start, between).tolist()
        return int(before[last] - before[first])


def _before(wanted: BOOL) -> I64:
    return np.append(0, np.cumsum(wanted))


def _sizes_differ(replay: Replay, loop: Loop) -> bool:
    """Whether a kernel has more sizes in all rounds than in the second one: no state changes its size."""
    node, event = replay.device.launch, replay.device.event
    inside = np.flatnonzero((node >= loop.first) & (node < loop.last))
    trace = replay.analysis.trace
    kinds = np.column_stack(
        (trace.events.name[event[inside]], trace.attribute(Attribute.GRID, event[inside]))
    )
    begin = loop.first + loop.body
    of_second = (node[inside] >= begin) & (node[inside] < begin + loop.body)
    sizes, second = (np.unique(each, axis=0)[:, 0] for each in (kinds, kinds[of_second]))
    names, more = np.unique(sizes, return_counts=True)
    usual = np.searchsorted(second, names, side="right") - np.searchsorted(second, names)
    return bool((more - usual >= MIN_MORE_SIZES).any())
