"""When TorchScript compiles: pauses inside one of its first calls that its later calls do not have."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I32, I64, EventKind, Trace, derived, derived_by
from parsers.model.arrays import rows_by
from parsers.model.late import regex
from parsers.model.names.per_name import distinct, named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import outermost
from rules.analysis.arithmetic.intervals import EMPTY, Intervals, intersect, measure, subtract, union
from rules.analysis.names.operators import FIRST_CALLS, is_scripted, only_scripted

_FUSED = regex(r"fused_[a-z]|nvfuser|.*\bCudaCodeGen::")
# between operators that scripted code, which is no Python, calls one right after the other
MIN_PAUSE_NS = 10_000_000


@derived_by
def script_compiling(analysis: Analysis, thread: int) -> Intervals:
    """Such pauses of one thread (ns).

    The name "forward" is also that of ranges that a program marks: its pauses count only where the last call has none,
    or kernels that TorchScript's compilers made are in the recording.
    """
    trace = analysis.trace
    table, events = trace.events, analysis.threads.events(thread)
    operators = table.only(events, EventKind.CPU_OP)
    scripted = named(trace, operators, is_scripted)
    if not scripted.any():
        return EMPTY
    calls = table.by_start(outermost(trace, operators[scripted]))
    inner = np.concatenate((operators[~scripted], table.only(events, EventKind.API, EventKind.PYTHON)))
    start, end = subtract(union(*table.spans(calls)), union(*table.spans(inner)))
    long = end - start >= MIN_PAUSE_NS
    pauses = start[long], end[long]
    paused = measure(pauses, *table.spans(calls)) > 0
    told = named(trace, calls, only_scripted) | _later_quick(trace, calls, paused) | _runs_fused(trace)
    compiles = paused & told & _first_calls(table.name[calls])
    return intersect(pauses, union(*table.spans(calls[compiles])))


def _first_calls(names: I32) -> BOOL:
    """Which calls are among the first of their name, of some in the order of their start."""
    first = np.zeros(len(names), bool)
    for _, mine in rows_by(names):
        first[mine[:FIRST_CALLS]] = True
    return first


def _later_quick(trace: Trace, calls: I64, paused: BOOL) -> BOOL:
    """Of which calls the last one of the same name does not pause."""
    quick = np.zeros(len(calls), bool)
    for _, mine in rows_by(trace.events.name[calls]):
        quick[mine] = not paused[mine[-1]]
    return quick


@derived
def _runs_fused(trace: Trace) -> bool:
    """Whether kernels run that NNC or nvFuser made."""
    names = distinct(trace.events.name[trace.events.of_kind(EventKind.KERNEL)]).tolist()
    return any(_FUSED.match(trace.strings[name]) for name in names)
