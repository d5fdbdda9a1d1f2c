"""What a loop does for one item after another is done for all of them at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from parsers.model import BOOL, F64, I64, CopyKind, EventKind
from parsers.model.arrays import distinct_values
from parsers.model.events import of_kinds
from parsers.model.late import regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.analysis.names.host_language import is_python
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions, backward_of
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import (
    LOOKS_FOR_ROWS,
    copies,
    less_host_time,
    of_nodes,
    per_step,
    together,
    without_calls,
    without_waiting,
)
from rules.fixes.forms.written import calls_of
from rules.fixes.loops.filled import filled, joined
from rules.fixes.loops.gates import convolving, gated, within
from rules.fixes.loops.item_loops import (
    by_stretch,
    carry_through_the_cpu,
    item_loops,
    later_rounds,
    missing_rounds,
    of_one_list,
    of_the_model,
    reading_their_results,
)
from rules.fixes.loops.time_steps import UNSURE, Stepwise, stepwise
from rules.losses.owners import place_of
from rules.remedies.cpu_work import STEPS_IN_ONE_LAYER
from rules.remedies.launching import LAYERS_FOR_ALL_STEPS, joined_loop
from rules.replay.loops import Loop, kinds_of_calls
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of
from rules.terms import MAJORITY

LITTLE_BETWEEN = 0.3  # of what loops do: so little lies between them that they are a loop themselves
MIN_LAUNCHES = 20  # in a step: fewer are not worth the work
_UPDATES = regex(
    r"addcdiv", re.IGNORECASE
)  # what an optimizer does with each parameter, and hardly anything else
_PARTS = regex(r"autograd::engine::evaluate_function: (Select|Slice|Narrow|Split|Unbind)\w*Backward")
_ROWS = regex(r"autograd::engine::evaluate_function: (Index|MaskedSelect)Backward")
_BY_VECTOR = frozenset({"aten::mv", "aten::addmv", "aten::addmv_"})
_PUT_TOGETHER = regex(r"autograd::engine::evaluate_function: (Cat|Stack)Backward")


@fix
class JoinLoop:
    id = "join-loop"
    switches = ("compile",)
    explanation = """
When it applies
    The same calls repeat eight or more times in a row, with at least 20 launches per step. Loops over lists of
    different lengths are one cause if their iterations make the same calls. Layers of a model depend on each other,
    so bodies with convolutions, attention or normalisation count only if each convolution takes as many channels as
    the one before gives and the first one of an iteration takes another number than the last one gives, and
    pictures of another size; those with only matrix products count where a batch is cut into chunks, rows are
    counted for each item (three are enough then), heads of attention are taken out one by one, sixteen or more
    items pick rows and add to others, matrices have their own sizes, each item has its own weights and takes its
    input out of a stack or ends with a different size than it begins with, sixteen or more items are rows of a
    stack whose results are read back, or the CPU does something of its own only before every so many items that it
    sends and reads back. Loops in programs that are not Python usually step through time: each iteration needs the
    previous one. So do iterations that begin by picking rows and end by finding the largest or smallest value; but
    eight or more such loops in a row, each with a state filled anew, have an item each. So have layers that each take
    two or more rows of one tensor, if their results are put together. Iterations that do nothing but read values back,
    or send them, are none. Where a value that is read back says which of two elementwise kernels follows, the
    iterations are the same. So are those that read back within eight calls whether their item has any rows, and skip
    the rest if not, as loops over the classes of boxes do, and those without layers and products of which four fifths
    of the calls, or all but one of four where a fifth of the rounds or more differ, are the same, as where every other
    picture is flipped. A loop that counts the rows of each item, as one over experts does, reaches over rounds that are
    unlike the others, as far as the same operators are called. Rounds with products, two sigmoids and a hyperbolic
    tangent are steps of a recurrent cell: of these, only what lies from one convolution to the next is joined.

What is changed in the replay
    The CPU runs the body once. The GPU work of the other iterations remains, without the 1.5 us that each kernel
    takes to start, as far as its blocks fill the GPU, but for products of a matrix with a vector; at least, all of
    it. The same goes for their backward passes, which are known by sequence numbers where they are no loops
    themselves. Values they read back and wait for are gone, and so is the work that assembles the gradients of the
    parts into one, and that finds the rows of one item by a mask and puts their gradients among those of all rows.
    Gone are also a loop behind it that reads its results one by one, Python behind it that calls an operator for
    each item, and taking the gradient of what was put together apart again.

What makes it more or less
    Whether all items can have the same shape, and whether an iteration needs the previous one. Work that fills the
    GPU for one item takes as long for all of them. At most, Python between two such loops is gone, too: it puts
    results together that then are one tensor, and stay on the GPU if they are sent there again. Where hardly anything
    lies between loops that make the same calls, they are a loop themselves: at least, the longest of them remains, at
    most one iteration of it. Where each iteration sends as many values, more than one, as the one before read back, it
    most likely needs them: at least, only copies and waits are gone.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        """One for each list of items: loops over as many of them, or lines that loop over lists of several lengths.

        Loops that come again and again in a stretch, and others behind them, are two.
        """
        if not is_python(analysis.trace):
            return
        stepping = stepwise(analysis, replay)
        loops = [each for each in item_loops(analysis, replay) if not _goes_with(stepping, each)]
        lists = of_one_list(loops)
        for loops in [part for each in lists for part in by_stretch(analysis, replay, each)]:
            reading = reading_their_results(analysis, replay, loops)
            later = later_rounds(replay, [*loops, *reading])
            stretches = None
            if through_time := gated(analysis, replay, loops):
                stretches = convolving(analysis, replay, through_time)
                later &= within(stretches, len(later))
            in_step = np.count_nonzero(later[replay.device.launch]) / max(replay.steps, 1) / len(replay.spans)
            if in_step >= MIN_LAUNCHES:
                yield _proposal(analysis, replay, loops, reading, later, in_step, stretches)


def _goes_with(stepping: Stepwise | None, loop: Loop) -> bool:
    """Whether a loop is one over time steps of which a layer does all in one call."""
    return stepping is not None and bool(stepping.later[loop.first : loop.last].mean() > MAJORITY)


def _backward(
    analysis: Analysis, replay: Replay, loops: Sequence[Loop], parts: Sequence[tuple[int, int]] | None
) -> BOOL:
    """The calls of the backward passes of all rounds but the first, where these are no loops themselves.

    Of loops of which only some ``parts`` can be joined, of these parts.
    """
    rounds = [(loop.first + loop.body - 1, loop.last - 1) for loop in loops]
    if parts is not None:
        firsts = within([(loop.first, loop.first + loop.body) for loop in loops], len(replay.host))
        rounds = [(first - 1, last - 1) for first, last in parts if not firsts[first]]
    found = backward_of(analysis, replay, rounds)
    for loop in loops:
        found[loop.first : loop.last] = False
    return found


def _proposal(
    analysis: Analysis,
    replay: Replay,
    loops: Sequence[Loop],
    reading: Sequence[Loop],
    later: BOOL,
    launches: float,
    parts: Sequence[tuple[int, int]] | None = None,
) -> Proposal:
    device = replay.device
    waits = later & (replay.waits.target >= 0)
    name = analysis.trace.events.name[device.event[later[device.launch]]]
    pointwise = of_kinds(analysis.family_of_string[name], Family.ELEMENTWISE, Family.COPY_CAST).all()
    strings = analysis.trace.strings
    backward = _backward(analysis, replay, loops, parts)
    # what has gradients is no update of parameters or averages
    tensors = not (backward | (autograd_functions(analysis) >= 0) & later).any() and (
        bool(pointwise) or any(_UPDATES.search(strings[each]) for each in distinct_values(name).tolist())
    )
    categories = [Category.LAUNCH_BOUND]
    if waits.any():
        categories.append(Category.SYNCHRONIZATION)
    if (later & of_nodes(replay, copies(replay, CopyKind.D2H))).any():
        categories.append(Category.COPY_D2H)
    fewest, most = min(loop.times for loop in loops), max(loop.times for loop in loops)
    alike = most - fewest <= missing_rounds(fewest)
    if not alike:
        items, loop = f"up to {most} items", f"loops of {fewest} to {most} iterations"
    else:
        items, loop = f"{most} items", f"a loop of {most} iterations"
    what = "Update all tensors together" if tensors else f"Process {items} at once"
    if parts is not None:
        what = f"Do the convolutions of {items.replace('items', 'time steps')} at once"
    low, expected, high = _changes(analysis, replay, loops, reading, later | backward)
    place = place_of(analysis, later.astype(np.float64))
    where = f" in {place}" if place else ""
    return Proposal(
        fix=JoinLoop.id,
        key=str(most),
        title=f"{what}: {loop}{where} make{'s' if alike else ''} {launches:,.0f} launches {replay.in_step}",
        categories=tuple(categories),
        culprit=loop,
        remedy=joined_loop(tensors=tensors) if parts is None else LAYERS_FOR_ALL_STEPS,
        expected=expected,
        low=low,
        high=high,
        depends_on="whether all items can be given the same shape, and none needs the one before"
        if parts is None
        else "whether the convolutions need nothing of the time step before",
    )


def _changes(
    analysis: Analysis, replay: Replay, loops: Sequence[Loop], reading: Sequence[Loop], later: BOOL
) -> tuple[Change | None, Change, Change]:
    """What joining a list of loops changes at least, where that is another thing, most likely, and at most."""
    host = replay.host
    fills = np.where(_by_vectors(analysis)[replay.device.launch], 0.0, filled(replay))
    between = _between(replay, loops)
    parts = without_calls(replay, later & (_of_parts(analysis) | _by_mask(analysis)))
    assembled = less_host_time(_assembling(replay, [*loops, *reading]), host.gap)
    apart = _taking_apart(analysis, replay, loops)
    rest = together(parts, assembled, less_host_time(apart > 0, apart))
    if _is_loop_of_loops(replay, loops, between):
        longest = _chosen(replay, loops, lambda loop: (loop.times, -loop.first))
        first = _chosen(replay, loops, lambda loop: (-loop.first,))
        without = later | between | _of_the_last(replay, loops, between)
        return (
            together(joined(replay, _but(without, loops, longest, whole=True), fills), parts),
            together(joined(replay, without, fills), rest),
            together(joined(replay, _but(without, loops, first), fills), rest),
        )
    kept = _kept_there(replay, _but(between, [*loops, *reading], ()))
    results = together(less_host_time(_behind(replay, loops), host.gap), kept)
    return (
        _kept_there(replay, later, gaps=0.0)
        if carry_through_the_cpu(replay, loops)
        else together(joined(replay, later, np.ones(len(fills))), rest),
        together(joined(replay, later, fills), rest),
        together(joined(replay, later, fills), rest, results),
    )


def _pairs(replay: Replay, loops: Sequence[Loop]) -> Iterator[tuple[Loop, Loop]]:
    """Loops of a list of which one follows the other in a step."""
    host = replay.host
    for loop, after in pairwise(sorted(loops, key=lambda loop: loop.first)):
        same_step = host.step[loop.first] == host.step[after.first]
        if same_step and host.thread[loop.first] == host.thread[after.first] and loop.last <= after.first:
            yield loop, after


def _by_vectors(analysis: Analysis) -> BOOL:
    """The calls that multiply a matrix by one vector: with all vectors at once it is read once."""
    return surroundings_of(analysis).inside(_BY_VECTOR.__contains__)


def _between(replay: Replay, loops: Sequence[Loop]) -> BOOL:
    """The calls between loops of a list that follow one another in a step."""
    found = np.zeros(len(replay.host), bool)
    for loop, after in _pairs(replay, loops):
        found[loop.last : after.first] = True
    return found


def _kept_there(replay: Replay, rounds: BOOL, gaps: float = 1.0) -> Change:
    """What is read back to be sent to the GPU again stays there: nothing is copied, and nothing waits.

    This part of the time before these copies is gone, too.
    """
    sent, read = (rounds & of_nodes(replay, copies(replay, kind)) for kind in (CopyKind.H2D, CopyKind.D2H))
    if not (sent.any() and read.any()):
        return together()
    return together(
        without_calls(replay, sent | read, gaps), without_waiting(rounds & (replay.waits.target >= 0))
    )


def _of_the_last(replay: Replay, loops: Sequence[Loop], between: BOOL) -> BOOL:
    """The calls behind the last loop of each step that are made between the others as well."""
    host = replay.host
    kinds = kinds_of_calls(replay.analysis)
    known = np.isin(kinds, distinct_values(kinds[between]))
    found = np.zeros(len(host), bool)
    for loop in _chosen(replay, loops, lambda loop: (loop.first,)):
        of_step = (host.step[loop.last :] == host.step[loop.first]) & known[loop.last :]
        other = np.flatnonzero(~of_step)
        found[loop.last : loop.last + (int(other[0]) if len(other) else len(of_step))] = True
    return found


def _behind(replay: Replay, loops: Sequence[Loop]) -> BOOL:
    """The first call after each loop that another of the list follows in its step: results are put together before."""
    found = np.zeros(len(replay.host), bool)
    for loop, _ in _pairs(replay, loops):
        found[loop.last] = True
    return found


def _assembling(replay: Replay, loops: Sequence[Loop]) -> BOOL:
    """The first call after each loop before which the CPU calls an operator for each item at least."""
    found = np.zeros(len(replay.host), bool)
    for loop in loops:
        if loop.last < len(found) and replay.host.step[loop.last] == replay.host.step[loop.first]:
            found[loop.last] = replay.host.written.records[loop.last] > loop.times  # one is the call itself
    return found


def _taking_apart(analysis: Analysis, replay: Replay, loops: Sequence[Loop]) -> F64:
    """How long (ns) the CPU, before each call, gives each item its part of a gradient of all of them."""
    inside = surroundings_of(analysis).time_inside(_PUT_TOGETHER.match, EventKind.CPU_OP)
    return np.where(replay.host.written.records > min(loop.times for loop in loops), inside, 0.0)


def _is_loop_of_loops(replay: Replay, loops: Sequence[Loop], between: BOOL) -> bool:
    """Whether loops that make the same calls follow one another in a step, with hardly anything of its own between."""
    if len({loop.kind for loop in loops}) > 1 or not any(_pairs(replay, loops)):
        return False
    rounds = np.zeros(len(between), bool)
    for loop in loops:
        rounds[loop.first : loop.last] = True
    layers, products = of_the_model(replay)
    own = layers | products | of_nodes(replay, copies(replay, CopyKind.H2D))
    pauses = surroundings_of(replay.analysis).silent_ns[between].sum()
    few = np.count_nonzero(between & ~rounds) <= LITTLE_BETWEEN * np.count_nonzero(rounds)
    short = pauses <= LITTLE_BETWEEN * (replay.host.gap[rounds].sum() + replay.host.cost[rounds].sum())
    return bool(few and short) and not bool(own[between | rounds].any())


def _chosen(replay: Replay, loops: Sequence[Loop], rank: Callable[[Loop], tuple[int, ...]]) -> list[Loop]:
    """The loop of each step with the largest rank."""
    best: dict[int, Loop] = {}
    for loop in sorted(loops, key=rank):
        best[int(replay.host.step[loop.first])] = loop
    return list(best.values())


def _but(gone: BOOL, loops: Sequence[Loop], kept: Sequence[Loop], *, whole: bool = False) -> BOOL:
    """These calls and the first rounds of all loops, but not the first rounds, or the whole, of the ``kept`` ones."""
    found = gone.copy()
    for loop in loops:
        found[loop.first : loop.first + loop.body] = True
    for loop in kept:
        found[loop.first : loop.last if whole else loop.first + loop.body] = False
    return found


def _of_parts(analysis: Analysis) -> BOOL:
    """The calls that put the gradient of one part into that of the whole, which all parts together need not do."""
    return surroundings_of(analysis).inside(_PARTS.match)


def _by_mask(analysis: Analysis) -> BOOL:
    """The calls that look for the rows of one item among all rows, and put their gradients among those of all."""
    around = surroundings_of(analysis)
    looks = around.inside(LOOKS_FOR_ROWS.__contains__)
    puts = around.around(_ROWS.match)
    return looks | ((puts >= 0) & np.isin(puts, puts[looks]))


MIN_CELLS = 8  # in a step: fewer are layers, or not worth a change
# of the calls of cells: where more lie between them, a step needs what was made of the one before
OTHERS = 0.3
CELLS_LEFT = 0.1  # of the host time: the layer launches two kernels for each time step from one call
_CELLS = regex(r"aten::(lstm|gru|rnn_tanh|rnn_relu)_cell$")


@fix
class OneLayerForAllSteps:
    id = "one-layer-for-all-steps"
    explanation = """
When it applies
    A step calls a cell (lstm_cell, gru_cell, rnn_tanh_cell, rnn_relu_cell) eight or more times, and hardly anything is
    called between two of them. Operators must be recorded. Or it calls a layer (nn.LSTM, nn.GRU, nn.RNN) eight or more
    times in a row with one time step each, which is taken out of a sequence before the call, or the sequence was cut
    into as many steps before, and nothing of another step is put to it. Shapes must be recorded.

What is changed in the replay
    A tenth of the host time of the cells and of their backward passes remains, and all work of the GPU. Of a layer's
    calls the CPU makes the first, with what comes before the next; what others launch remains as far as its blocks fill
    the GPU, and of the layer itself what a quarter of the GPU's peak in single precision takes, at least 5 us for each
    time step and layer, twice that backwards, or half as much more or less.

What makes it more or less
    The layer is no quicker where each time step fills the GPU. It cannot take the place of a cell whose input depends
    on what it gave before; then a CUDA graph or a compiler gives as much.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        whole, host = surroundings_of(analysis).whole_operator, replay.host
        if (found := stepwise(analysis, replay)) is not None:
            yield _in_one_call(analysis, replay, found)
        cells = whole[(whole >= 0) & (autograd_functions(analysis) < 0)]
        cells = distinct_values(cells[named(analysis.trace, cells, _CELLS.match)])
        often = per_step(replay, len(cells))
        forward = np.flatnonzero(np.isin(whole, cells))
        if often < MIN_CELLS or _others_between(replay, forward) > OTHERS * len(forward):
            return
        nodes = calls_of(analysis, cells)
        inner = nodes & np.append(False, nodes[:-1]) & np.append(False, np.diff(host.step) == 0)

        def change(overlay: Overlay) -> None:
            overlay.gap[inner] *= CELLS_LEFT
            overlay.cost[nodes] *= CELLS_LEFT

        yield replace(_all_steps(analysis, replay, cells, nodes, "cell", change), key="cells")


def _all_steps(
    analysis: Analysis, replay: Replay, calls: I64, nodes: BOOL, what: str, change: Change
) -> Proposal:
    often = per_step(replay, len(calls))
    launches = per_step(replay, float(np.count_nonzero(nodes[replay.device.launch])))
    return Proposal(
        title=(
            f"Let one layer go through all time steps: a {what} is called {often:,.0f} times {replay.in_step}, with "
            f"{launches:,.0f} launches"
        ),
        categories=(Category.LAUNCH_BOUND,),
        culprit=analysis.trace.name(int(calls[0])),
        problem=f"A {what} is called for each time step",
        remedy=STEPS_IN_ONE_LAYER,
        expected=change,
    )


def _in_one_call(analysis: Analysis, replay: Replay, found: Stepwise) -> Proposal:
    fills = filled(replay)
    of_layers = found.layers[replay.device.launch]

    def change(part: float) -> Change:
        left = np.where(of_layers, np.minimum(found.left * part, 1.0), fills)
        return joined(replay, found.later, left)

    told = _all_steps(analysis, replay, found.calls, found.later, "layer", change(1.0))
    return replace(
        told,
        low=change(UNSURE),
        high=change(1 / UNSURE),
        depends_on="how long the GPU takes for a time step of the layer",
    )


def _others_between(replay: Replay, nodes: I64) -> int:
    """How many other calls lie between the first and the last of some calls, in each step of each thread."""
    host = replay.host
    inside = (np.diff(host.step[nodes]) == 0) & (np.diff(host.thread[nodes]) == 0)
    return int((np.diff(nodes) - 1)[inside].sum())
