"""Which of the rounds of a loop on the CPU need the round before, and cannot be computed at once."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, Attribute, EventKind
from parsers.model.late.regex import regex
from rules.analysis.arithmetic.rounds import Rounds
from rules.analysis.cpu.cpu_time import CpuTime
from rules.kernels.operator_roofs import concrete_inputs
from rules.kernels.recorded_shapes import inputs_of_event

SLICED = "aten::slice"  # what Python calls for one item with x[i : i + 1]
MIN_LESS = 4  # operators: a product for a gradient, with the views of its inputs
_CELL = regex(r"aten::(\w+_cell|_thnn_fused_\w+)$")
_JOINED = regex(r"aten::(stack|cat|concat|hstack|vstack)$")
_PICKED = regex(r"aten::(select|slice)$")
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

    The latter only where nothing that a round makes goes out: rounds along an inner side may be heads or channels,
    whose results are joined behind the loop.
    """
    trace = time.trace
    body = operators[rounds.first : rounds.first + rounds.body].tolist()
    cells = [
        (trace.name(each), trace.text_attribute(Attribute.INPUT_DIMS, each))
        for each in body
        if _CELL.match(trace.name(each))
    ]
    if cells and len(set(cells)) == len(cells):
        return True
    behind = operators[rounds.first + rounds.length :][: rounds.body].tolist()
    if any(_GOES_OUT.match(trace.name(each)) for each in body):
        return False
    if any(_JOINED.match(trace.name(each)) for each in behind):
        return False
    picked = [each for each in body if _PICKED.match(trace.name(each))]
    return any(_along(time, each) > 0 for each in picked[:1])


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
