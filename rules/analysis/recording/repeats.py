"""Whether kernels run again and again: what a first run costs is not what a program costs."""

from __future__ import annotations

from parsers.model import I64, EventKind, Trace
from parsers.model.events import of_kinds
from parsers.model.names.per_name import distinct

# that a kernel runs on average: programs that do something in rounds run each ten times and more
MIN_TIMES = 3.0
MIN_KINDS = 10  # of kernels: a program of fewer may run each of them once, and for long


def repeats(trace: Trace, operations: I64) -> bool:
    """Whether the kernels among these operations run ``MIN_TIMES`` each on average, or are of few kinds."""
    kernels = operations[of_kinds(trace.events.kind[operations], EventKind.KERNEL)]
    kinds = len(distinct(trace.events.name[kernels]))
    return kinds < MIN_KINDS or len(kernels) >= MIN_TIMES * kinds
