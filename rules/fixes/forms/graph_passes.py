"""Which work of the forward pass the backward pass does again, of operators and inside CUDA graphs."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, EventKind
from parsers.model.arrays import F64, I64, distinct_values, numbered_values, rows_by
from parsers.model.late import regex
from parsers.model.names.per_name import named, numbers_of
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, union
from rules.analysis.arithmetic.rounds import numbers_in_a_row
from rules.analysis.names.operators import FORWARD, is_autograd_function
from rules.fixes.backward import autograd_functions
from rules.replay.chance import time_within
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.terms import MAJORITY

_OWN = regex(r"autograd::engine::evaluate_function: \w*[A-Za-z]$")  # those of PyTorch itself end in a number
MIN_FORWARD = 3  # operators of the forward pass in a function of the program's own: fewer are its gradient


def computed_again(analysis: Analysis, replay: Replay) -> BOOL:
    """Which calls belong to a forward pass inside the backward pass.

    A function of the backward pass asks for its activations first: what it calls until they are there computes them. A
    function that the program wrote may compute its gradient with operators of the forward pass, as that of a product
    with a sparse matrix does: it computes again only what has a backward pass inside, or is of several kinds.
    """
    around, host = surroundings_of(analysis), replay.host
    function, operator = autograd_functions(analysis), around.around(FORWARD.__contains__)
    if not len(analysis.trace.events.of_kind(EventKind.CPU_OP)):
        return _again_by_kernels(analysis, replay)
    found = np.zeros(len(function), bool)
    forward = np.flatnonzero((function >= 0) & (operator >= 0))
    if not len(forward):
        return found
    functions, which = numbered_values(function[forward])
    again = ~named(analysis.trace, functions, _OWN.match) | _has_functions_inside(analysis, functions)
    names = np.unique(np.column_stack((which, analysis.trace.events.name[operator[forward]])), axis=0)
    again |= np.bincount(names[:, 0], minlength=len(functions)) >= MIN_FORWARD
    last = np.full(len(functions), -1, np.int64)
    np.maximum.at(last, which, host.start[forward])
    last[~again] = -1
    mine = np.flatnonzero(np.isin(function, functions))
    found[mine] = host.start[mine] <= last[np.searchsorted(functions, function[mine])]
    return found


def _has_functions_inside(analysis: Analysis, functions: I64) -> BOOL:
    """Whether autograd runs others inside these of its functions, as where a part computed again has its own pass."""
    trace, table = analysis.trace, analysis.trace.events
    operators = table.of_kind(EventKind.CPU_OP)
    every = table.by_start(operators[named(trace, operators, is_autograd_function)])
    found = np.zeros(len(functions), bool)
    for lane in distinct_values(table.lane[functions]).tolist():
        mine = np.flatnonzero(table.lane[functions] == lane)
        starts = table.start[every[table.lane[every] == lane]]
        start, end = table.start[functions[mine]], table.end[functions[mine]]
        found[mine] = np.searchsorted(starts, end) - np.searchsorted(starts, start, side="right") > 0
    return found


_SAVES = "_NoopSaveInputs"  # torch.utils.checkpoint, as it enters a part of the forward pass


def saving_ns(analysis: Analysis, again: BOOL) -> F64:
    """How much of the time before each call goes to keeping what computing ``again`` starts from, and putting it back.

    That is before the forward pass of each part, where the states of random numbers are read, and behind the last call
    that computes it again; what passes there inside operators with work is left out.
    """
    around = surroundings_of(analysis)
    host = around.replay.host
    if not again.any():
        return np.zeros(len(host))
    same = np.append(False, np.diff(autograd_functions(analysis)) == 0)
    behind = ~again & same & np.append(False, again[:-1])
    before = around.time_inside(_SAVES.__eq__, EventKind.CPU_OP) > 0
    launching = distinct_values(around.whole_operator)

    def inside(thread: int) -> Intervals:
        operators = analysis.threads.activity(thread).whole_operators
        return union(*analysis.trace.events.spans(operators[np.isin(operators, launching)]))

    return np.where(behind | before, np.maximum(host.gap - time_within(host, inside), 0.0), 0.0)


MIN_LAYERS = 4  # kernels of the forward pass: of fewer nobody knows whether they come again
_BACKWARD = regex(r"backward|_bwd|bprop|grad_input|_bw_")
_FORWARD = regex(
    r"softmax_?(warp_)?forward|_fwd|sdpa\w*fprop|layer_norm_kernel|rms_norm_kernel|gelucudakernel|silu_kernel"
)
_OTHER, _AHEAD, _BACK = range(3)


def computed_again_in_graphs(analysis: Analysis, replay: Replay) -> F64:
    """For each operation of a replay the part of its time in which a graph computes its forward pass again.

    Kernels of the forward pass then come once before the first one of the backward pass, and again between those.
    """
    trace, device = analysis.trace, replay.device
    found = np.zeros(len(device))
    of_graphs = np.flatnonzero(
        np.bincount(device.member_of, minlength=len(device))[device.member_of] > MIN_LAYERS
    )
    members, owner = device.members[of_graphs], device.member_of[of_graphs]
    kinds = numbers_of(trace, members, _kind)
    for node, rows in rows_by(owner):
        order = rows[np.argsort(trace.events.start[members[rows]], kind="stable")]
        found[node] = _again(kinds[order], trace.events.duration[members[order]].astype(np.float64))
    return found


ALIKE_IN_A_ROW = 4  # calls that come in the forward pass in the same order
MIN_BLOCK = 8  # calls in a row: fewer are a layer that the backward pass has, too


def _again_by_kernels(analysis: Analysis, replay: Replay) -> BOOL:
    """The same where no operators were recorded: what launches the forward pass's kernels in the same order again.

    That is behind the first kernel of the backward pass in a step, in rows of calls among which are layers of the
    forward pass, and kernels of the backward pass between them.
    """
    host, device = replay.host, replay.device
    found = np.zeros(len(host), bool)
    name = np.full(len(host), -1, np.int64)
    reverse = slice(None, None, -1)  # the first operation of a call that has several
    name[device.launch[reverse]] = analysis.trace.events.name[device.event[reverse]]
    kind = np.full(len(host), _OTHER)
    kind[device.launch[reverse]] = numbers_of(analysis.trace, device.event, _kind)[reverse]
    launching = np.flatnonzero(name >= 0)
    for _, rows in rows_by(host.step[launching]):
        calls = launching[rows]
        back = np.flatnonzero(kind[calls] == _BACK)
        if len(back) and _repeats(kind[calls], back):
            layers = kind[calls] == _AHEAD
            last = int(np.flatnonzero(layers[: back[0]])[-1])  # what follows may be of the backward pass
            later = calls[back[0] :]
            found[later] = _in_the_order_of(name[calls[: last + 1]], name[later], layers[back[0] :])
    return found


def _in_the_order_of(first: I64, later: I64, layers: BOOL) -> BOOL:
    """Which of the later calls lie in a row of enough that the first ones have, too, with a layer among them."""
    found = np.zeros(len(later), bool)
    if min(len(first), len(later)) < ALIKE_IN_A_ROW:
        return found
    known, mine = (numbers_in_a_row(each, ALIKE_IN_A_ROW) for each in (first, later))
    begins = np.append(np.isin(mine, known), np.zeros(ALIKE_IN_A_ROW - 1, bool))
    for place in range(ALIKE_IN_A_ROW):
        found[place:] |= begins[: len(found) - place]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], found, [False])).astype(np.int8)))
    for begin, end in edges.reshape(-1, 2).tolist():
        found[begin:end] = end - begin >= MIN_BLOCK and bool(layers[begin:end].any())
    return found


def _repeats(kinds: I64, back: I64) -> bool:
    """Whether layers of the forward pass come again between those of the backward pass, not as another pass."""
    ahead = np.flatnonzero(kinds == _AHEAD)
    first, later = ahead[ahead < back[0]], ahead[ahead > back[0]]
    if len(first) < MIN_LAYERS or len(later) < MAJORITY * len(first):
        return False
    # in a row they are the forward pass of another micro-batch
    return bool(np.bincount(np.searchsorted(back, later)).max() <= MAJORITY * len(first))


def _kind(name: str) -> int:
    plain = name.lower()
    return _BACK if _BACKWARD.search(plain) else _AHEAD if _FORWARD.search(plain) else _OTHER


def _again(kinds: I64, took: F64) -> float:
    back = np.flatnonzero(kinds == _BACK)
    if not len(back) or not _repeats(kinds, back):
        return 0.0
    ahead = np.flatnonzero(kinds == _AHEAD)
    first, later = ahead[ahead < back[0]], ahead[ahead > back[0]]
    once = took[first[0] : first[-1] + 1].sum()
    return float(min(once * len(later) / len(first), took[back[0] :].sum()) / max(took.sum(), 1.0))
