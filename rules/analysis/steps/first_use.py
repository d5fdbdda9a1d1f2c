"""Gaps in which calls take long because they are made for the first time: contexts, loading of code, first launches."""

from __future__ import annotations

import numpy as np

from parsers.model import I64, EventKind, Trace, derived
from parsers.model.arrays import distinct_values
from parsers.model.events import of_kinds
from parsers.model.late import regex
from parsers.model.names.calls import Call, calls_of
from parsers.model.names.per_name import distinct, named
from rules.analysis.arithmetic.intervals import (
    Intervals,
    complement,
    covered_before,
    durations,
    intersect,
    union,
)

LONG_CALL_NS = 1_000_000  # a call that takes longer creates, loads, compiles, copies or waits
NEVER_STEADY_NS = 100_000_000  # nor does any such call take this long in a program that runs already
_CREATES = regex(
    r"(cuda|cu|hip)(StreamCreate|CtxCreate|DevicePrimaryCtx|Init|GetDevice|SetDevice|DeviceGet)\w*"
)


def first_use(trace: Trace, start: int, end: int) -> tuple[Intervals, I64]:
    """Gaps of the busiest GPU in [start, end) that such calls lie in, and those calls, longest first."""
    events = slow_first_calls(trace)
    ran = max((trace.operations_of_device(device) for device in range(len(trace.devices))), key=len)
    idle = complement(union(*trace.events.spans(ran)), start, end)
    spent = intersect(union(*trace.events.spans(events)), idle)
    held = covered_before(spent, idle[1]) > covered_before(spent, idle[0])
    where = idle[0][held], idle[1][held]
    if not len(where[0]):
        return where, events[:0]
    events = events[(trace.events.end[events] > where[0][0]) & (trace.events.start[events] < where[1][-1])]
    return where, events[np.argsort(-durations(trace, events), kind="stable")]


def slow_first_calls(trace: Trace) -> I64:
    """Calls that take long because they are made for the first time, or load code; by their start."""
    calls = trace.events.of_kind(EventKind.API)
    calls = trace.events.by_start(calls)
    classes, took = calls_of(trace)[trace.events.name[calls]], durations(trace, calls)
    first = np.zeros(len(calls), bool)
    first[np.unique(trace.events.name[calls], return_index=True)[1]] = True
    first |= np.isin(calls, first_launches(trace))
    creates = of_kinds(classes, Call.ALLOCATE, Call.LAUNCH) | named(trace, calls, _CREATES.match)
    loads = (classes == Call.LOAD) & (took >= LONG_CALL_NS)
    slow: I64 = calls[loads | (creates & (took >= np.where(first, LONG_CALL_NS, NEVER_STEADY_NS)))]
    return slow


def calls_of_first_pass(trace: Trace) -> I64:
    """Calls that a later pass over the same work does not make, or not at that place: first launches and slow calls.

    A framework keeps the memory that it has asked for, so its allocations are among them.
    """
    calls = trace.events.of_kind(EventKind.API)
    kept = len(trace.events.of_kind(EventKind.CPU_OP)) > 0
    asked = calls[calls_of(trace)[trace.events.name[calls]] == Call.ALLOCATE] if kept else calls[:0]
    found: I64 = distinct_values(np.concatenate((slow_first_calls(trace), first_launches(trace), asked)))
    return found


@derived
def first_launches(trace: Trace) -> I64:
    """The first launch of each kernel: it loads the kernel's code where code is loaded when it is needed."""
    links = trace.links
    order = np.argsort(trace.events.start[links.launch], kind="stable")
    names = trace.events.name[links.operation[order]]
    return links.launch[order][np.unique(names, return_index=True)[1]]


# that a kernel runs on average: programs that do something in rounds run each ten times and more
MIN_TIMES = 3.0
MIN_KINDS = 10  # of kernels: a program of fewer may run each of them once, and for long


def repeats(trace: Trace, operations: I64) -> bool:
    """Whether the kernels among these operations run ``MIN_TIMES`` each on average, or are of few kinds."""
    kernels = operations[of_kinds(trace.events.kind[operations], EventKind.KERNEL)]
    kinds = len(distinct(trace.events.name[kernels]))
    return kinds < MIN_KINDS or len(kernels) >= MIN_TIMES * kinds
