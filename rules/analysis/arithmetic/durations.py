"""How long events take."""

from __future__ import annotations

from typing import overload

import numpy as np
import numpy.typing as npt

from parsers.model import Trace

I64 = npt.NDArray[np.int64]


@overload
def durations(trace: Trace, events: int) -> int: ...


@overload
def durations(trace: Trace, events: I64) -> I64: ...


def durations(trace: Trace, events: I64 | int) -> I64 | int:
    """ns of one event or of several, without computing those of all the others."""
    found = trace.events.end[events] - trace.events.start[events]
    return int(found) if isinstance(events, int) else found
