"""Loops of a program on the CPU alone that call the same operators for one item after another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, EventKind, derived_by
from parsers.model.arrays import median_of
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, length, measure, union
from rules.analysis.arithmetic.rounds import Rounds, rounds_in, rounds_of_pairs
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.cpu.interruptions import LONG_GAP_NS, interrupted_among, medians_of_kinds
from rules.analysis.idle.threads import READ_BACKS
from rules.analysis.names.operators import PICKED, is_autograd_function
from rules.analysis.steps.steps import Step
from rules.kernels.operator_roofs import concrete_inputs
from rules.kernels.recorded_shapes import first_shape, inputs_of_event
from rules.losses.at_once import remaining_ns
from rules.losses.rounds_apart import (
    MIN_APART,
    are_weighed,
    differ_in_size,
    hand_on_a_state,
    lead_to_the_next,
    need_nothing_before,
    own_modules,
    take_as_many_as_they_make,
)
from rules.terms import MAJORITY

SLICED = "aten::slice"  # what Python calls for one item with x[i : i + 1]
MIN_LESS = 4  # operators: a product for a gradient, with the views of its inputs
CELL = regex(r"aten::(\w+_cell|_thnn_fused_\w+)$")
_JOINED = regex(r"aten::(stack|cat|concat|hstack|vstack)$")
_GRADIENT_OF_PICKED = regex(r"(Select|Slice)Backward\d*$")
_GOES_OUT = regex(
    r"aten::(copy_|item|_local_scalar_dense|index_put_|index_copy_|stack|cat|concat|hstack|vstack)$"
)


def slices_each(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    """Whether each round slices a tensor that is as long as there are rounds, give or take one."""
    trace = time.trace
    for event in operators[rounds.first : rounds.first + rounds.body].tolist():
        if trace.name(event) == SLICED:
            shapes = inputs_of_event(trace, event)
            if shapes and any(abs(side - rounds.times) <= 1 for side in shapes[0]):
                return True
    return False


def is_recurrence(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    """Whether rounds are steps through time: each cell is called once, or what is picked lies along an inner side.

    The latter only where a state seems to be handed on, or nothing that a round makes goes out: rounds along an inner
    side may be heads or channels, whose results are joined behind the loop.
    """
    trace = time.trace
    body = operators[rounds.first : rounds.first + rounds.body].tolist()
    cells = [
        (trace.name(each), trace.text_attribute(Attribute.INPUT_DIMS, each))
        for each in body
        if CELL.match(trace.name(each))
    ]
    if cells and len(set(cells)) == len(cells):
        return True
    if walks_on_with_a_state(time, rounds, operators):
        return True
    behind = operators[rounds.first + rounds.length :][: rounds.body].tolist()
    if any(_GOES_OUT.match(trace.name(each)) for each in body):
        return False
    if any(_JOINED.match(trace.name(each)) for each in behind):
        return False
    picked = [each for each in body if PICKED.match(trace.name(each))]
    return any(_along(time, each) > 0 for each in picked[:1])


def walks_on_with_a_state(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    """Whether each round picks what comes next along an inner side, and seems to take what the one before made."""
    mine = operators[rounds.first : rounds.first + rounds.times * rounds.body].reshape(rounds.times, -1)
    for first, *later in mine[:WALKED].T.tolist():
        if PICKED.match(time.trace.name(first)) and _along(time, first) > 0:
            places = {tuple(concrete_inputs(time.trace, each)) for each in (first, *later)}
            if len(places) > len(later):
                break
    else:
        return False
    return hand_on_a_state(time, rounds, operators) or take_as_many_as_they_make(time, rounds, operators)


def _along(time: CpuTime, event: int) -> int:
    """The side along which one picks; 0 where that was not recorded."""
    numbers = concrete_inputs(time.trace, event)
    try:
        return int(numbers[1])
    except (IndexError, ValueError):
        return 0


def ends_with_less(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    """Whether the last round of a backward pass calls less than the one before.

    It needs no gradient of what the first round began with, where each round begins with what the one before made.
    """
    table = time.trace.events
    mine = operators[rounds.first : rounds.first + rounds.length]
    begins = np.sort(table.start[time.activity.of_kind(EventKind.CPU_OP)])
    calls = np.searchsorted(begins, table.end[mine]) - np.searchsorted(begins, table.start[mine])
    last, before = calls[-rounds.body :], calls[-2 * rounds.body : -rounds.body]
    return bool((last <= before - MIN_LESS).any())


MIN_TIMES = 16  # that pick a row or read a value: a model with as many layers does neither in each of them
MIN_TIMES_ALIKE = 64  # that call a layer: deeper than models that a CPU computes
MAX_BODY = 128  # operators
WALKED = 4  # rounds that are looked into for where they pick
MAX_READ_BACKS = 0.25  # of a round: with more, it only looks at values, which is another fault
MAX_LOOKED_INTO = 60_000  # operators: enough of the steps to see what each of them does
_FROM_PYTHON = "aten::lift_fresh"  # what torch.tensor() ends with
MIN_VALUES = 2  # of Python: a layer makes a tensor of one, for a limit or a scale
PARTED = "aten::unbind"  # what Python calls to go through a tensor
_PICKS = regex(r"aten::(select|item|_local_scalar_dense|index_select|unbind)$")
_SAME = "aten::eq"  # how Python asks which rows belong to an item, to pick them with what follows
_PICKS_SAME = regex(r"aten::(index|masked_select|nonzero\w*|where|index_put_|masked_fill_?)$")
_LAYERS = regex(
    r"aten::(linear|conv\w+|gru|lstm|rnn_\w+|embedding|matmul|\w*mm|mv|einsum|scaled_dot_product_attention)$"
)
_OWN_WEIGHTS = "AccumulateGrad"


@dataclass(frozen=True, slots=True, eq=False)
class ItemLoop:
    """``times`` rounds, in ``start`` to ``end`` (ns), of these operators.

    ``later_ns`` is what all but the first take without interruptions, ``computed_ns`` what of it their operators
    compute, which remains at best where all items are computed at once.
    """

    times: int
    operators: I64
    start: int
    end: int
    later_ns: float
    computed_ns: float
    outside_ns: float  # long times between operators in all rounds
    own_weights: bool = False  # of each item


@dataclass(frozen=True, slots=True, eq=False)
class ItemLoops:
    """The loops of the steps that were looked into, which took ``looked_ns``; those of backward passes last."""

    loops: tuple[ItemLoop, ...]
    looked_ns: int
    steps: int
    operators: int  # in all of these steps
    slowed: float = 1.0  # how many times longer short things took because something else had the CPU
    updates_ns: float = 0.0  # what an optimizer takes less where the weights of all items are one

    @property
    def share(self) -> float:
        """The part of a step that all rounds but the first take, whatever interrupts them.

        What takes long is interrupted more often than the short things that ``slowed`` follows from: what is in no
        loop takes no more than the rest of the steps. What computes for long is not slowed as much, either: its rounds
        take no longer than they were seen to.
        """
        later = sum(each.later_ns for each in self.loops) + self.updates_ns
        rounds = sum(
            each.later_ns * each.times / max(each.times - 1, 1) + each.outside_ns for each in self.loops
        )
        seen = sum(each.end - each.start for each in self.loops) + self.updates_ns
        rest = max(self.looked_ns - seen, 0) / self.slowed + self.updates_ns
        slowed = min(self.slowed * later, max(seen, later))
        return min(max(slowed / max(self.looked_ns, 1), later / max(rounds + rest, 1)), 1.0)

    @property
    def computes(self) -> float:
        """The part of a step that their operators compute, which stays where all items are computed at once."""
        later = sum(each.later_ns for each in self.loops) + self.updates_ns
        return self.share * min(sum(each.computed_ns for each in self.loops) / max(later, 1), 1.0)

    @property
    def of_operators(self) -> float:
        """The part of the operators that they call."""
        return sum(len(each.operators) for each in self.loops) / max(self.operators, 1)


class Looked(NamedTuple):
    """Outermost operators without an optimizer's, in order, the step of each (from 1), and of which kind they are."""

    steps: tuple[Step, ...]
    operators: I64
    step: I64
    names: I64  # indices of strings
    backward: BOOL
    own: BOOL  # hands a parameter its gradient
    rounds: tuple[Rounds, ...]  # that may be of items or time steps, the longest stretch first

    @property
    def looked_ns(self) -> int:
        return sum(each.end - each.start for each in self.steps)


@derived_by
def looked_into(analysis: Analysis, time: CpuTime) -> Looked:
    """As many of the first steps as have ``MAX_LOOKED_INTO`` operators, the first one at least."""
    table, operators = time.trace.events, time.operators
    rank = analysis.threads.keys[time.thread][0]
    steps = [each for each in analysis.steps if each.rank is None or each.rank == rank]
    begins = np.array([each.start for each in steps], np.int64)
    step = np.searchsorted(begins, table.start[operators], side="right")
    kept = (step > 0) & ~in_optimizer(time)
    operators, step = operators[kept], step[kept]
    if len(operators):
        last = step[min(len(step), MAX_LOOKED_INTO) - 1]
        looked = step <= max(last - (len(step) > MAX_LOOKED_INTO), step[0])
        operators, step = operators[looked], step[looked]
        steps = steps[step[0] - 1 : step[-1]]
    names = table.name[operators].astype(np.int64)
    return Looked(
        tuple(steps),
        operators,
        step,
        names,
        named(time.trace, operators, is_autograd_function),
        named(time.trace, operators, lambda name: name.endswith(_OWN_WEIGHTS)),
        tuple(rounds_in(names, step, MIN_TIMES - 1, MAX_BODY)),
    )


@derived_by
def item_loops(analysis: Analysis, time: CpuTime) -> ItemLoops:
    """Loops whose rounds are no layers of a model, with the loops of their backward passes; optimizers left out."""
    looked = looked_into(analysis, time)
    operators, step, names, backward, own, found = looked[1:]
    if not len(operators):
        return ItemLoops((), 0, 0, 0)
    fewer = list(rounds_in(names, step, MIN_APART, MAX_BODY))
    free = np.ones(len(operators), bool)
    accepted: list[Rounds] = []
    for each in found:
        at = slice(each.first, each.first + each.length)
        if free[at].all() and _is_of_items(time, each, operators, step, backward, own):
            free[at] = False
            accepted.append(each)
    apart: list[Rounds] = []
    for each in fewer:
        at = slice(each.first, each.first + each.length)
        if free[at].all() and _has_own_weights(time, each, operators, step, backward, own):
            free[at] = False
            apart.append(each)
    gradients: list[tuple[Rounds, int, bool]] = []
    for rounds, by, weights in ((found, accepted, False), (fewer, apart, True)):
        for each in rounds:
            at = slice(each.first, each.first + each.length)
            alike = [of.times for of in by if MAJORITY * of.times <= each.times <= of.times + 1]
            if alike and free[at].all() and backward[at].all() and own[at].any() == weights:
                free[at] = False
                gradients.append((each, max(min(alike), each.times), weights))
    carried = {times for each, times, _ in gradients if ends_with_less(time, each, operators)}
    loops = [
        loop_of(time, each, operators, times, weights)
        for each, times, weights in (
            *((each, each.times, False) for each in accepted),
            *((each, each.times, True) for each in apart),
            *gradients,
        )
        if not any(abs(times - of) <= 1 for of in carried)
    ]
    for gradient, picks in ((False, PICKED), (True, _GRADIENT_OF_PICKED)):
        mine = named(time.trace, operators, picks.search) & (backward == gradient)
        for starts in rounds_of_pairs(names, step, mine, MIN_TIMES, MAX_BODY):
            at = slice(int(starts[0]), int(starts[-1]))
            follows = not gradient or any(each.times >= MAJORITY * len(starts) for each in loops)
            own_weights = np.count_nonzero(own & (step == step[at.start]))
            alone = free[at].all() and (backward[at] == gradient).all() and own_weights < len(starts) - 1
            if follows and alone and not lead_to_the_next(time, operators, starts):
                free[at] = False
                loops.append(_uneven_loop(time, operators[at], len(starts) - 1))
    weighed = [slice(each.first, each.first + each.length) for each, _, weights in gradients if weights]
    joined = sum(int(own[at].sum()) for at in weighed) / max(int(own.sum()), 1)
    fewest = min((each.times for each in apart), default=1)
    return ItemLoops(
        tuple(loops),
        looked.looked_ns,
        len(looked.steps),
        len(operators),
        time.slowed,
        joined * (1 - 1 / fewest) * _calling_updates_ns(time, looked.steps) if joined else 0.0,
    )


def _calling_updates_ns(time: CpuTime, steps: Sequence[Step]) -> float:
    """What optimizers take in some steps beside what they compute, which is once for each tensor of weights."""
    table, updates = time.trace.events, _optimizers(time)
    within = clip(union(*table.spans(updates)), steps[0].start, steps[-1].end)
    mine = time.operators[in_optimizer(time)]
    mine = mine[(table.start[mine] >= steps[0].start) & (table.start[mine] < steps[-1].end)]
    computes = float(remaining_ns(time, mine, own_weights=True).sum()) if len(mine) else 0.0
    return max(length(within) - computes, 0.0)


def in_optimizer(time: CpuTime) -> BOOL:
    """Which of the outermost operators are called inside an optimizer's step."""
    table, mine = time.trace.events, _optimizers(time)
    at = table.start[time.operators]
    open_now = np.searchsorted(np.sort(table.start[mine]), at, side="right")
    return np.asarray(open_now > np.searchsorted(np.sort(table.end[mine]), at, side="right"))


def _optimizers(time: CpuTime) -> I64:
    """The ranges of an optimizer's step."""
    events = time.activity.of_kind(EventKind.REGION)
    found: I64 = events[named(time.trace, events, lambda name: "optimizer" in name.lower())]
    return found


def _is_of_items(time: CpuTime, rounds: Rounds, operators: I64, step: I64, backward: BOOL, own: BOOL) -> bool:
    """Whether rounds compute something for an item, and are no layers, which have weights of their own each."""
    body = slice(rounds.first, rounds.first + rounds.body)
    called = [time.trace.name(each) for each in operators[body].tolist()]
    reads = sum(each in READ_BACKS for each in called)
    if backward[body].all() or reads > MAX_READ_BACKS * len(called):
        return False
    before = operators[max(rounds.first - rounds.body, 0) : rounds.first].tolist()
    parted = any(time.trace.name(each) == PARTED for each in before)
    parted = parted or slices_each(time, rounds, operators)
    picks = (parted or any(map(_PICKS.match, called))) and not all(map(_PICKS.match, called))
    picks = picks or from_python_values(time, operators[body])
    picks = picks or (_SAME in called and any(map(_PICKS_SAME.match, called)))
    picks = picks or (rounds.times >= MIN_TIMES and differ_in_size(time, rounds, operators))
    if not picks and not any(map(_LAYERS.match, called)):
        return False
    if rounds.times < (MIN_TIMES if picks else MIN_TIMES_ALIKE) or are_batches(time, rounds, operators):
        return False
    if is_recurrence(time, rounds, operators) or hand_on_a_state(time, rounds, operators):
        return False
    of_step = own & (step == step[rounds.first])
    return bool(own[body].any() or np.count_nonzero(of_step) < rounds.times)


def _has_own_weights(
    time: CpuTime, rounds: Rounds, operators: I64, step: I64, backward: BOOL, own: BOOL
) -> bool:
    """Whether rounds are heads, experts or members, which have weights of their own and need no other round."""
    body = slice(rounds.first, rounds.first + rounds.body)
    if backward[body].all() or np.count_nonzero(own & (step == step[rounds.first])) < rounds.times:
        return False
    if not (are_weighed(time, rounds, operators) or need_nothing_before(time, rounds, operators)):
        return False
    return not are_batches(time, rounds, operators) or own_modules(time, rounds, operators)


def from_python_values(time: CpuTime, operators: I64) -> bool:
    """Whether a round makes a tensor of several of Python's numbers: those of its item."""
    made = operators[named(time.trace, operators, _FROM_PYTHON.__eq__)]
    return any(math.prod(first_shape(time.trace, each)) >= MIN_VALUES for each in made.tolist())


def are_batches(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    """Whether rounds are steps of a training or an evaluation: most load a batch, or call an optimizer."""
    table, activity = time.trace.events, time.activity
    first, last = operators[rounds.first], operators[rounds.first + rounds.length - 1]
    updates = _optimizers(time)
    for starts in (table.start[updates], activity.inputs.edges[activity.inputs.event >= 0]):
        inside = (starts >= table.start[first]) & (starts <= table.end[last])
        if 2 * np.count_nonzero(inside) >= rounds.times:
            return True
    return False


def loop_of(time: CpuTime, rounds: Rounds, operators: I64, times: int, own_weights: bool) -> ItemLoop:
    """Rounds of which there are so many, where not all follow one another.

    What an optimizer does in each round is done once for the weights of all.
    """
    table = time.trace.events
    mine = operators[rounds.first : rounds.first + rounds.times * rounds.body]
    start, end = table.spans(mine)
    took = _uninterrupted(time, (end - start).reshape(rounds.times, -1))
    updates = union(*table.spans(_optimizers(time))) if own_weights else (start[:0], start[:0])
    follows = np.append(start[1:], end[-1])
    gap = follows - end - measure(updates, end, follows)
    between = _uninterrupted(time, gap.reshape(rounds.times, -1))
    outside = between >= LONG_GAP_NS  # of operators, which is told by itself
    outside_ns, between[outside] = float(between[outside].sum()), 0.0
    computed = median_of(remaining_ns(time, mine, own_weights=own_weights).reshape(took.shape), axis=0)
    updating = int(measure(updates, start[:1], end[-1:])[0])
    return ItemLoop(
        rounds.times,
        mine,
        int(start[0]),
        int(end[-1]),
        float(took[1:].sum() + between[1:].sum()) * (times - 1) / (rounds.times - 1)
        + updating * (times - 1) / times,
        float(computed.sum() * (times - 1)),
        outside_ns,
        own_weights,
    )


def _uneven_loop(time: CpuTime, operators: I64, times: int) -> ItemLoop:
    """So many rounds that are not all alike."""
    table = time.trace.events
    (start, end), name = table.spans(operators), table.name[operators].astype(np.int64)
    gap = np.append(start[1:], end[-1]) - end
    took, between = (
        np.where(interrupted_among(each, usual), usual, each)
        for each, usual in ((of, medians_of_kinds(of, name)[0]) for of in (end - start, gap))
    )
    computed = medians_of_kinds(remaining_ns(time, operators).astype(np.int64), name)[0]
    outside = between >= LONG_GAP_NS
    later = 1 - 1 / times
    return ItemLoop(
        times,
        operators,
        int(start[0]),
        int(end[-1]),
        float(took.sum() + between[~outside].sum()) * later,
        float(computed.sum()) * later,
        float(between[outside].sum()),
    )


def _uninterrupted(time: CpuTime, took: I64) -> F64:
    """Times of rounds (rows): those that were interrupted are as long as they usually are in other rounds."""
    usual = np.broadcast_to(median_of(took, axis=0).astype(np.int64), took.shape)
    return np.where(interrupted_among(took, usual), usual, took).astype(np.float64)
