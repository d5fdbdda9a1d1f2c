"""What ranks on CPUs send more often than they need to: gradients of each micro-batch, and many small messages."""

from __future__ import annotations

import math

import numpy as np

from parsers.model import BOOL, I64, Attribute, EventKind, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import regex
from parsers.model.names.per_name import named
from rules.analysis.arithmetic.intervals import clip, union
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.ranks.on_cpu import RanksOnCpu
from rules.analysis.stretches.passes import passes_of_an_update
from rules.kernels.recorded_shapes import tensors_in
from rules.terms import MAJORITY, NEARLY_ALL

MIN_MESSAGES = 8  # small ones of a rank in a step: fewer may be one for each of a few buckets
SMALL = 16_384  # elements: 64 KiB take a tenth of a millisecond at 1 GB/s, as starting a message does
MIN_GRADIENTS = 256  # elements: less is a loss, or how often a metric was right
_FORWARD = "DistributedDataParallel.forward"
_REDUCES = regex(r"(gloo|mpi|ucc):_?all_?reduce")
_STARTS = regex(r"c10d::")


def reduced_in_each_pass(ranks: RanksOnCpu) -> int:
    """After how many backward passes of an update each the gradients are reduced; 1 where they are once, or unknown."""
    trace = ranks.times[0].trace
    passes = passes_of_an_update(trace, _FORWARD)
    if passes < 2:
        return 1
    table, regions = trace.events, trace.events.of_kind(EventKind.REGION)
    forward = regions[named(trace, regions, lambda name: name.startswith(_FORWARD))]
    reduces = ranks.events[named(trace, ranks.events, _REDUCES.match)]
    reduces = reduces[_elements(trace, reduces) >= MIN_GRADIENTS]
    for rank in ranks.ranks:
        begins, mine = (each[_is_of_rank(trace, each, rank)] for each in (forward, reduces))
        behind = np.searchsorted(np.sort(table.start[begins]), table.start[mine], side="right")
        if np.count_nonzero(distinct_values(behind)) < NEARLY_ALL * len(begins):
            return 1
    return passes


def small_messages(ranks: RanksOnCpu, row: int) -> tuple[int, int]:
    """How many small messages a rank sends in a step one by one, and what all but one of them cost in the window (ns).

    0 where they are few, or take less than half of the time of all. Starting them counts, as well as waiting for them.
    """
    time, trace = ranks.times[row], ranks.times[0].trace
    table, events = trace.events, ranks.events[_is_of_rank(trace, ranks.events, ranks.ranks[row])]
    inside = (table.start[events] >= time.window[0]) & (table.start[events] < time.window[1])
    events = events[inside]
    took, small = table.duration[events], _elements(trace, events) <= SMALL
    often = round(np.count_nonzero(small) / max(time.steps, 1))
    part = float(took[small].sum() / max(took.sum(), 1))
    if often < MIN_MESSAGES or part < MAJORITY:
        return 0, 0
    return often, round((ranks.transfers + _starting_ns(time)) * part * (1 - 1 / often))


def _starting_ns(time: CpuTime) -> int:
    """How long the thread is in operators that hand a message over."""
    mine = time.activity.of_kind(EventKind.CPU_OP)
    mine = mine[named(time.trace, mine, _STARTS.match)]
    return time.without_recorder(clip(union(*time.trace.events.spans(mine)), *time.window))


def _elements(trace: Trace, events: I64) -> I64:
    """How many elements each message has; more than any where that was not recorded."""
    dims = trace.attribute(Attribute.INPUT_DIMS, events, -1)
    known = {
        each: sum(map(math.prod, tensors_in(trace.strings[each])))
        for each in distinct_values(dims).tolist()
        if each >= 0
    }
    return np.array([known.get(each, np.iinfo(np.int64).max) for each in dims.tolist()], np.int64)


def _is_of_rank(trace: Trace, events: I64, rank: int | None) -> BOOL:
    lanes = np.array([each.rank == rank for each in trace.lanes], bool)
    return np.asarray(lanes[trace.events.lane[events]])
