"""What follows from an event's name: found out once for each name, not for each event."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from parsers.model import Trace

I64 = npt.NDArray[np.int64]


def distinct(names: npt.NDArray[np.int32]) -> I64:
    """The different names among these, ascending, without sorting them all."""
    return np.flatnonzero(np.bincount(names)) if len(names) else np.empty(0, np.int64)


def numbers_of(trace: Trace, events: I64, number: Callable[[str], int]) -> I64:
    """``number`` of each event's name."""
    names = trace.events.name[events]
    table = np.zeros(len(trace.strings), np.int64)
    for name in distinct(names).tolist():
        table[name] = number(trace.strings[name])
    return table[names]


def named(trace: Trace, events: I64, wanted: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """Whether each event's name is wanted."""
    return numbers_of(trace, events, wanted) > 0
