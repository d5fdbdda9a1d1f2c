"""Loops whose rounds multiply matrices and yet need nothing from the round before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.fixes.changes import of_nodes
from rules.replay.loops import Loop
from rules.replay.replay import Replay

MIN_SIZES = 3  # of the same product in a loop: fewer are two ways of the same size
MIN_ROUNDS = 16  # that pick rows and put others back: networks over graphs have fewer layers
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
_ACCUMULATE = "torch::autograd::AccumulateGrad"


def independent_rounds(analysis: Analysis, replay: Replay, loops: Sequence[Loop], products: BOOL) -> set[int]:
    """How many rounds the loops have that no layers and no recurrence can make; their backward passes have as many.

    Matrices of different sizes follow one another in no model. Rounds that pick rows, multiply, and add the result to
    other rows go through relations or experts, unless they sample, as each token of a text does. Where a round ends
    with another size than it begins with, it is no layer, and where each has weights of its own, it is no step of a
    recurrence.
    """
    picks = of_nodes(replay, named(analysis.trace, replay.device.event, _picks))
    puts = of_nodes(replay, named(analysis.trace, replay.device.event, _puts))
    family = analysis.family_of_string[analysis.trace.events.name[replay.device.event]]
    samples = of_nodes(replay, np.isin(family, (Family.SORT, Family.SOFTMAX, Family.RANDOM)))
    found = set()
    for loop in loops:
        body = slice(loop.first, loop.first + loop.body)
        if not products[body].any():
            continue
        moves_rows = (
            loop.times >= MIN_ROUNDS and picks[body].any() and puts[body].any() and not samples[body].any()
        )
        if moves_rows or _sizes_differ(replay, loop, products) or _is_no_chain(analysis, replay, loop):
            found.add(loop.times)
    return found


def _picks(name: str) -> bool:
    return "gather" in name or "indexSelect" in name or "index_elementwise" in name


def _puts(name: str) -> bool:
    return "indexFunc" in name or "scatter" in name or "indexing_backward" in name


def _sizes_differ(replay: Replay, loop: Loop, products: BOOL) -> bool:
    """Whether the rounds multiply matrices of different sizes: a library chooses its kernel by them."""
    node = replay.device.launch
    mine = (node >= loop.first) & (node < loop.last) & products[node]
    name = replay.analysis.trace.events.name[replay.device.event[mine]]
    place = (node[mine] - loop.first) % loop.body
    kinds = np.unique(np.column_stack((place, name)), axis=0)
    return bool(np.bincount(kinds[:, 0]).max(initial=0) >= MIN_SIZES)


def _is_no_chain(analysis: Analysis, replay: Replay, loop: Loop) -> bool:
    """Whether rounds end with another size than they begin with, and each has weights of its own."""
    trace, host = analysis.trace, replay.host
    begin, end = int(host.start[loop.first]), int(host.end[loop.last - 1])
    round_ends = int(host.end[loop.first + loop.body - 1])
    thread = replay.host.members[int(host.thread[loop.first])]
    events = np.concatenate([analysis.threads.events(each) for each in thread])
    operators = events[trace.events.kind[events] == EventKind.CPU_OP]
    before = int(host.gap[loop.first])
    inside = operators[
        (trace.events.start[operators] >= begin - before) & (trace.events.start[operators] < round_ends)
    ]
    inside = inside[np.argsort(trace.events.start[inside], kind="stable")]
    sizes = _sizes(analysis, inside[named(trace, inside, _PRODUCTS.__contains__)])
    if len(sizes) < 2 or any(left[1] != right[0] for left, right in pairwise(sizes)):
        return False
    if sizes[0][0] == sizes[-1][1]:
        return False
    step = replay.spans[int(host.span_of_thread[host.thread[loop.first]])]
    accumulated = operators[named(trace, operators, lambda name: name.startswith(_ACCUMULATE))]
    accumulated = accumulated[
        (trace.events.start[accumulated] >= end) & (trace.events.start[accumulated] < step.end)
    ]
    return len(accumulated) >= loop.times * len(sizes)


def _sizes(analysis: Analysis, products: I64) -> list[tuple[int, int]]:
    """The last dimension that goes into each product and the one that comes out of it; none where one is unknown."""
    trace, found = analysis.trace, []
    for text in trace.attribute(Attribute.INPUT_DIMS, products).tolist():
        matrices = [each for each in _dimensions(trace.strings[text] if text else "") if len(each) >= 2]
        if len(matrices) < 2:
            return []
        found.append((int(matrices[-2][-1]), int(matrices[-1][-1])))
    return found


def _dimensions(text: str) -> list[list[int]]:
    try:
        read = json.loads(text)
    except ValueError:
        return []
    return [each for each in read if isinstance(each, list)] if isinstance(read, list) else []
