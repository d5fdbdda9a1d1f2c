"""Calls that made the CPU wait for the GPU: which one stood before each gap, and how far the CPU had been ahead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from parsers.model import BOOL, I64, Attribute, CopyKind, Trace, derived
from parsers.model.arrays import in_both
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.calls import BLOCKING, Call, is_prefetch
from rules.analysis.idle.threads import Threads

SCALAR_BYTES = 16  # the largest scalar of PyTorch, a complex number of two doubles

CAN_BLOCK = (*BLOCKING, Call.COPY, Call.BLOCKING_COPY)
_CAN_BLOCK = np.isin(np.arange(len(Call)), CAN_BLOCK)


@dataclass(frozen=True, slots=True, eq=False)
class Blockers:
    """For each gap: the call that was waiting when it began (-1: none), and until when the gap is its doing.

    A CPU that is ahead by ``lead`` when it blocks would have launched the next operation ``lead`` sooner, so that much
    of the time after the call belongs to it.
    """

    call: I64
    until: I64

    def part(self, which: slice) -> Blockers:
        return Blockers(self.call[which], self.until[which])


@derived
def prefetches(trace: Trace) -> BOOL:
    """For each string, whether it names a call that moves unified memory, which is no wait however long it takes."""
    return np.fromiter(map(is_prefetch, trace.strings), bool, len(trace.strings))


def blockers(trace: Trace, threads: Threads, drivers: list[int], gap_start: I64) -> Blockers:
    """The blocking calls around the starts of gaps."""
    lead = np.zeros(len(gap_start), np.int64)
    blocker = np.full(len(gap_start), -1, np.int64)
    just_before = np.maximum(gap_start - 1, 0)
    for number in drivers:
        call = threads.activity(number).calls.at(just_before)
        known = np.maximum(call, 0)
        name = trace.events.name[known]
        blocks = (call >= 0) & _CAN_BLOCK[threads.call_class[name]] & ~prefetches(trace)[name]
        ahead = np.where(blocks, gap_start - trace.events.start[known], 0)
        better = ahead > lead
        lead[better], blocker[better] = ahead[better], call[better]
    until = np.where(blocker < 0, gap_start, trace.events.end[np.maximum(blocker, 0)] + lead)
    return Blockers(blocker, until)


def read_back_calls(trace: Trace, threads: Threads, drivers: list[int]) -> I64:
    """Device-to-host copy calls that the same thread follows with a blocking call: a value is being read back."""
    found = [np.empty(0, np.int64)]
    for number in drivers:
        calls, kind = threads.noted_calls(number)
        found.append(calls[:-1][of_kinds(kind[:-1], Call.COPY) & of_kinds(kind[1:], Call.SYNCHRONIZE)])
    candidates = np.concatenate(found)
    from_device = _launches(trace, Attribute.COPY_KIND, lambda kind: kind == CopyKind.D2H.value)
    return in_both(candidates, from_device)


def scalar_read_backs(trace: Trace, calls: I64) -> I64:
    """Those of the copy calls that fetch a single number."""
    small = _launches(trace, Attribute.BYTES, lambda size: (size > 0) & (size <= SCALAR_BYTES))
    return in_both(calls, small)


def _launches(trace: Trace, which: Attribute, wanted: Callable[[I64], BOOL]) -> I64:
    """What launched the operations with a wanted value of an attribute, which most operations lack."""
    column = trace.attributes.get(which)
    if column is None:
        return np.empty(0, np.int64)
    launches = trace.links.launch_of(column.event[wanted(column.value)])
    return launches[launches >= 0]
