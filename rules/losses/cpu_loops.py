"""Loops of a program on the CPU alone that call the same operators for one item after another."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, EventKind, derived_by
from parsers.model.late.dataclass import dataclass
from parsers.model.late.regex import regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.rounds import Rounds, rounds_in
from rules.analysis.cpu.cpu_time import LONG_GAP_NS, MAX_CALL_NS, CpuTime
from rules.analysis.idle.threads import READ_BACKS
from rules.analysis.names.operators import AUTOGRAD_FUNCTION
from rules.kernels.operator_roofs import work_of
from rules.kernels.operator_work import PRODUCTS

MIN_TIMES = 16  # that pick a row or read a value: a model with as many layers does neither in each of them
MIN_TIMES_ALIKE = 64  # that call a layer: deeper than models that a CPU computes
MAX_BODY = 128  # operators
MAX_READ_BACKS = 0.25  # of a round: with more, it only looks at values, which is another fault
MAX_LOOKED_INTO = 60_000  # operators: enough of the steps to see what each of them does
QUICK_PERCENTILE = 25  # of operators' durations for each call inside: how long one takes that computes little
FASTEST_CORE = 50e9  # operations a second of a product that is no longer held up by reading weights
PARTED = "aten::unbind"  # what Python calls to go through a tensor
_PICKS = regex(r"aten::(select|item|_local_scalar_dense|index_select|unbind)$")
_LAYERS = regex(
    r"aten::(linear|conv\w+|gru|lstm|rnn_\w+|embedding|matmul|\w*mm|mv|einsum|scaled_dot_product_attention)$"
)
_OWN_WEIGHTS = "AccumulateGrad"


@dataclass(frozen=True, slots=True, eq=False)
class ItemLoop:
    """``times`` rounds, in ``start`` to ``end`` (ns), of these operators.

    ``later_ns`` is what all but the first take without interruptions, ``computed_ns`` what of it their operators
    compute, which takes as long for all items at once.
    """

    times: int
    operators: I64
    start: int
    end: int
    later_ns: float
    computed_ns: float


@dataclass(frozen=True, slots=True, eq=False)
class ItemLoops:
    """The loops of the steps that were looked into, which took ``looked_ns``; those of backward passes last."""

    loops: tuple[ItemLoop, ...]
    looked_ns: int
    steps: int
    operators: int  # in all of these steps
    slowed: float = 1.0  # how many times longer short things took because something else had the CPU

    @property
    def share(self) -> float:
        """The part of a step that all rounds but the first take."""
        return self._part(sum(each.later_ns for each in self.loops))

    @property
    def computes(self) -> float:
        """The part of a step that their operators compute, which stays where all items are computed at once."""
        return min(self._part(sum(each.computed_ns for each in self.loops)), self.share)

    def _part(self, ns: float) -> float:
        return min(self.slowed * ns / max(self.looked_ns, 1), 1.0)

    @property
    def of_operators(self) -> float:
        """The part of the operators that they call."""
        return sum(len(each.operators) for each in self.loops) / max(self.operators, 1)


@derived_by
def item_loops(analysis: Analysis, time: CpuTime) -> ItemLoops:
    """Loops whose rounds are no layers of a model, with the loops of their backward passes; optimizers left out."""
    table, operators = time.trace.events, time.operators
    rank = analysis.threads.keys[time.thread][0]
    steps = [each for each in analysis.steps if each.rank is None or each.rank == rank]
    begins = np.array([each.start for each in steps], np.int64)
    step = np.searchsorted(begins, table.start[operators], side="right")
    kept = (step > 0) & ~in_optimizer(time)
    operators, step = operators[kept], step[kept]
    if not len(operators):
        return ItemLoops((), 0, 0, 0)
    last = step[min(len(step), MAX_LOOKED_INTO) - 1]
    looked = step <= max(last - (len(step) > MAX_LOOKED_INTO), step[0])
    operators, step = operators[looked], step[looked]
    names = table.name[operators].astype(np.int64)
    backward = named(time.trace, operators, lambda name: name.startswith(AUTOGRAD_FUNCTION))
    own = named(time.trace, operators, lambda name: name.endswith(_OWN_WEIGHTS))
    found = list(rounds_in(names, step, MIN_TIMES - 1, MAX_BODY))
    free = np.ones(len(operators), bool)
    accepted: list[Rounds] = []
    for each in found:
        at = slice(each.first, each.first + each.length)
        if free[at].all() and _is_of_items(time, each, operators, step, backward, own):
            free[at] = False
            accepted.append(each)
    times = {each.times for each in accepted}
    for each in found:
        at = slice(each.first, each.first + each.length)
        alike = {each.times - 1, each.times, each.times + 1} & times
        if alike and free[at].all() and backward[at].all():
            free[at] = False
            accepted.append(each)
    of_steps = steps[step[0] - 1 : step[-1]]
    ends = np.array([each.end for each in of_steps], np.int64)
    return ItemLoops(
        tuple(_loop(time, each, operators) for each in accepted),
        int((ends - begins[step[0] - 1 : step[-1]]).sum()),
        len(of_steps),
        len(operators),
        time.slowed,
    )


def in_optimizer(time: CpuTime) -> BOOL:
    """Which of the outermost operators are called inside an optimizer's step."""
    table, mine = time.trace.events, _optimizers(time)
    at = table.start[time.operators]
    open_now = np.searchsorted(np.sort(table.start[mine]), at, side="right")
    return np.asarray(open_now > np.searchsorted(np.sort(table.end[mine]), at, side="right"))


def _optimizers(time: CpuTime) -> I64:
    """The ranges of an optimizer's step."""
    events = time.activity.events[time.activity.kind == EventKind.REGION]
    found: I64 = events[named(time.trace, events, lambda name: "optimizer" in name.lower())]
    return found


def _is_of_items(time: CpuTime, rounds: Rounds, operators: I64, step: I64, backward: BOOL, own: BOOL) -> bool:
    """Whether rounds compute something for an item, and are no layers, which have weights of their own each."""
    body = slice(rounds.first, rounds.first + rounds.body)
    called = [time.trace.name(each) for each in operators[body].tolist()]
    reads = sum(each in READ_BACKS for each in called)
    if backward[body].all() or reads >= MAX_READ_BACKS * len(called):
        return False
    before = operators[max(rounds.first - rounds.body, 0) : rounds.first].tolist()
    parted = any(time.trace.name(each) == PARTED for each in before)
    picks = (parted or any(map(_PICKS.match, called))) and not all(map(_PICKS.match, called))
    if not picks and not any(map(_LAYERS.match, called)):
        return False
    if rounds.times < (MIN_TIMES if picks else MIN_TIMES_ALIKE) or _are_steps(time, rounds, operators):
        return False
    of_step = own & (step == step[rounds.first])
    return bool(own[body].any() or np.count_nonzero(of_step) < rounds.times)


def _are_steps(time: CpuTime, rounds: Rounds, operators: I64) -> bool:
    """Whether rounds are steps of a training or an evaluation: most load a batch, or call an optimizer."""
    table, activity = time.trace.events, time.activity
    first, last = operators[rounds.first], operators[rounds.first + rounds.length - 1]
    updates = _optimizers(time)
    for starts in (table.start[updates], activity.inputs.edges[activity.inputs.event >= 0]):
        inside = (starts >= table.start[first]) & (starts <= table.end[last])
        if 2 * np.count_nonzero(inside) >= rounds.times:
            return True
    return False


def _loop(time: CpuTime, rounds: Rounds, operators: I64) -> ItemLoop:
    table = time.trace.events
    mine = operators[rounds.first : rounds.first + rounds.times * rounds.body]
    start, end = table.start[mine], table.end[mine]
    took = _uninterrupted(time, (end - start).reshape(rounds.times, -1))
    gap = np.append(start[1:], end[-1]) - end
    between = _uninterrupted(time, gap.reshape(rounds.times, -1))
    between[between >= LONG_GAP_NS] = 0.0  # it is outside of operators, which is told by itself
    calls, work = (each(time, mine).reshape(took.shape) for each in (_calls_ns, _work_ns))
    computed = np.minimum(np.maximum(np.median(took, axis=0) - calls, 0.0), work)
    return ItemLoop(
        rounds.times,
        mine,
        int(start[0]),
        int(end[-1]),
        float(took[1:].sum() + between[1:].sum()),
        float(computed[1:].sum()),
    )


def _uninterrupted(time: CpuTime, took: I64) -> F64:
    """Times of rounds (rows): those that were interrupted are as long as they usually are in other rounds."""
    usual = np.broadcast_to(np.median(took, axis=0).astype(np.int64), took.shape)
    return np.where(time.interrupted_among(took, usual), usual, took).astype(np.float64)


def _calls_ns(time: CpuTime, operators: I64) -> F64:
    """What calling each operator and all that it calls in turn takes, with the recorder, if they compute nothing."""
    table = time.trace.events
    begins = np.sort(table.start[time.activity.events[time.activity.kind == EventKind.CPU_OP]])

    def calls(mine: I64) -> I64:
        return np.searchsorted(begins, table.end[mine]) - np.searchsorted(begins, table.start[mine])

    each = table.duration[time.operators] / np.maximum(calls(time.operators), 1)
    return np.asarray(calls(operators) * min(float(np.percentile(each, QUICK_PERCENTILE)), MAX_CALL_NS))


def _work_ns(time: CpuTime, operators: I64) -> F64:
    """How long a core needs at best for the products in each operator, whose weights are read once for all items.

    Endless where it does something else, and nothing where shapes are missing.
    """
    table, found = time.trace.events, np.full(len(operators), np.inf)
    events = time.activity.events[time.activity.kind == EventKind.CPU_OP]
    events = events[named(time.trace, events, lambda name: name.partition("::")[2] in PRODUCTS)]
    order = np.argsort(table.start[operators], kind="stable")
    place = np.searchsorted(table.start[operators][order], table.start[events], side="right") - 1
    inside = (place >= 0) & (table.end[events] <= table.end[operators][order][place])
    for owner in np.unique(order[place[inside]]).tolist():
        found[owner] = 0.0
    known: dict[tuple[int, int], float] = {}
    dims = time.trace.attribute(Attribute.INPUT_DIMS, events, -1)
    for event, owner, shape in zip(
        events[inside].tolist(), order[place[inside]].tolist(), dims[inside].tolist(), strict=True
    ):
        key = int(table.name[event]), shape
        if key not in known:
            work = work_of(time.trace.name(event), time.trace.strings[shape]) if shape >= 0 else None
            known[key] = work.operations / FASTEST_CORE * 1e9 if work is not None else 0.0
        found[owner] = max(found[owner], known[key])
    return found
