"""Inputs of different sizes that pass through a network one by one, such as sentences, sounds or pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from parsers.model import BOOL, I64, Attribute, CopyKind, derived_by
from parsers.model.arrays import median_of, numbered_rows
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.rounds import rounds_in
from rules.analysis.names.host_language import is_python
from rules.fixes.backward import autograd_functions
from rules.fixes.changes import copies, counts_rows, of_nodes
from rules.fixes.loops.pieces import MIN_CALLS, MIN_PIECES, Rounds, make_the_same_calls, pieces_of
from rules.kernels.recorded_shapes import Shape, inputs_of_events
from rules.replay.replay import Replay

MIN_LAYERS = 4  # of a pass: an expert, or a head, has fewer, and weights of its own
MAX_LAYERS = 400
MIN_SIZES = 3  # different ones: of two, one may be a border
MIN_TURNS = 2  # from growing to shrinking or back: levels of a pyramid have none, or one
MIN_FALLS = 0.25  # of the changes: a text that grows token by token shrinks only where the next one begins
MOSTLY_OTHER = 0.5  # of the passes have another size than the one before, which the tokens of a text have not
SENT_BYTES = 8  # more are no single value
_LAYER = regex(r"aten::(conv(_transpose)?[123]d|convolution|linear|embedding|lstm|gru)$")
_TABLE = "aten::embedding"


@dataclass(frozen=True, slots=True, eq=False)
class Passes:
    """The passes of a step, and by how much their inputs grow in all if each is as large as the largest."""

    rounds: Rounds
    padding: float


@derived_by
def passes_of_sizes(analysis: Analysis, replay: Replay) -> tuple[Passes, ...]:
    """Passes of a step through the same layers whose inputs differ in size; none where something is trained.

    Sizes go up and down: no state does so, nor do the levels of a pyramid of pictures, or a text that is generated. An
    input that the CPU sends may be smaller each time, as where they are sorted. Shapes must be recorded.
    """
    known = Attribute.INPUT_DIMS in analysis.trace.attributes and is_python(analysis.trace)
    if not known or (autograd_functions(analysis) >= 0).any():
        return ()
    return tuple(_passes(analysis, replay))


def one_by_one(analysis: Analysis, replay: Replay) -> BOOL:
    """Which host nodes are passes of inputs of different sizes, or of pieces, that could be one."""
    found = np.zeros(len(replay.host), bool)
    for each in (*pieces_of(analysis, replay), *(each.rounds for each in passes_of_sizes(analysis, replay))):
        found[each.starts[0] : each.end] = True
    return found


def _passes(analysis: Analysis, replay: Replay) -> Iterator[Passes]:
    host, trace = replay.host, analysis.trace
    counting = counts_rows(replay)
    size = trace.attribute(Attribute.BYTES, replay.device.event)
    sent = of_nodes(replay, copies(replay, CopyKind.H2D) & (size > SENT_BYTES))
    for thread, members in enumerate(host.members):
        operators = np.concatenate([analysis.threads.activity(each).whole_operators for each in members])
        operators = trace.events.by_start(operators)
        first, last = int(host.first[thread]), int(host.first[thread + 1])
        layers = operators[named(trace, operators, _LAYER.match)]
        node = first + np.searchsorted(host.start[first:last], trace.events.start[layers])
        layers, node = layers[node < last], node[node < last]
        if len(layers) < MIN_PIECES * MIN_LAYERS:
            continue
        taken, weights = _shapes(analysis, layers)
        token = numbered_rows(trace.events.name[layers], weights)
        found = np.zeros(len(host), bool)
        for each in rounds_in(token, host.step[node], MIN_PIECES, MAX_LAYERS):
            at = each.first + each.body * np.arange(each.times)
            starts = node[at]
            step_end = first + int(np.searchsorted(host.step[first:last], host.step[starts[0]], side="right"))
            end = min(int(starts[-1] + median_of(np.diff(starts))), step_end)
            within = slice(int(starts[0]), end)
            sizes = [taken[place] for place in at.tolist()]
            if (
                each.body >= MIN_LAYERS
                and end - starts[0] >= MIN_CALLS * each.times
                and not (found[within].any() or counting[within].any())
                and are_items(sizes, sent=int(sent[within].sum()) >= each.times - 1)
                and _call_the_same(analysis, operators, host.start[np.append(starts, end - 1)])
            ):
                found[within] = True
                yield Passes(Rounds(starts, end), _padding(sizes))


def are_items(sizes: Sequence[Shape], *, sent: bool) -> bool:
    """Whether what the passes take, by the sizes of it in order, comes from nowhere but a list of items."""
    if len({len(each) for each in sizes}) > 1 or len(set(sizes)) < MIN_SIZES:
        return False
    changes = np.diff([math.prod(each) for each in sizes])
    ways = np.sign(changes[changes != 0])
    turns = np.count_nonzero(np.diff(ways))
    return bool(
        len(ways) >= MOSTLY_OTHER * len(changes)
        and np.count_nonzero(ways < 0) >= MIN_FALLS * len(changes)
        and (sent or turns >= MIN_TURNS)
    )


def _padding(sizes: Sequence[Shape]) -> float:
    largest = [max(sides) for sides in zip(*sizes, strict=True)]
    return float(math.prod(largest) * len(sizes) / sum(math.prod(each) for each in sizes))


def _shapes(analysis: Analysis, layers: I64) -> tuple[list[Shape], I64]:
    """What each layer takes, and a number for the sizes of its weights; of a table the tokens are what it takes."""
    table = named(analysis.trace, layers, _TABLE.__eq__)
    taken: list[Shape] = []
    known: dict[str, int] = {}
    weights = []
    for is_table, shapes in zip(table.tolist(), inputs_of_events(analysis.trace, layers), strict=True):
        own, *others = shapes or [[]]
        if is_table:
            own, others = (others or [[]])[0], [own]
        taken.append(tuple(each for each in own if isinstance(each, int)))
        weights.append(known.setdefault(str(others), len(known)))
    return taken, np.array(weights, np.int64)


def _call_the_same(analysis: Analysis, operators: I64, edges: I64) -> bool:
    """Whether operators of the same names are called between each two of these times."""
    places = np.searchsorted(analysis.trace.events.start[operators], edges)
    return make_the_same_calls(
        analysis.trace.events.name[operators].astype(np.int64), places[:-1], places[1:]
    )
