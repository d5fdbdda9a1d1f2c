"""What the network adapters of a machine sent, where the profiler sampled them."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from parsers.model import F64, I64, Trace
from parsers.model.late import regex
from rules.analysis.arithmetic.intervals import Intervals, length, measure
from rules.terms import MAJORITY

_SENT = regex(r"NIC (?P<adapter>.+) Bytes sent", re.IGNORECASE)
_PER_SECOND = "B/s"
_FEW_SAMPLES = 10  # in the time that is asked about: fewer say little about it


class Sent(NamedTuple):
    """What an adapter sent, bytes per second: on average in the time that was asked about, and at most."""

    adapter: str
    mean: float
    most: float


def busiest_adapter(trace: Trace, within: Intervals, rank: int | None) -> Sent | None:
    """The adapter of this rank's machine that sent most within these times; None where samples do not tell."""
    found = [
        sent
        for counter in trace.counters
        if counter.unit == _PER_SECOND
        and counter.rank in (None, rank)
        and (name := _SENT.fullmatch(counter.name))
        and (sent := _sent(name["adapter"], counter.time, counter.value, within))
    ]
    return max(found, key=lambda sent: sent.mean, default=None)


def _sent(adapter: str, time: I64, value: F64, within: Intervals) -> Sent | None:
    """A value holds until the next sample, so the last one holds for no time that is known."""
    held = measure(within, time[:-1], time[1:])
    if np.count_nonzero(held) < _FEW_SAMPLES or held.sum() < MAJORITY * length(within):
        return None
    return Sent(adapter, float(np.average(value[:-1], weights=held)), float(value.max()))
