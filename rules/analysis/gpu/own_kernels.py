"""Kernels that a program launches itself: no operator launched them, and no library or compiler has their name."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I64, Trace
from parsers.model.late import regex
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis

_OF_LIBRARIES = regex(
    r"(?i)::|nccl|nvjet|cutlass|cublas|cudnn|\bsm\d\d|ampere|hopper|volta|turing|^triton_(poi|red|per|tem|for|mm)|^Mem"
)


def has_own_name(trace: Trace, kernels: I64) -> BOOL:
    """Which kernels have no name of a library or a compiler, whose users do not launch them themselves."""
    return ~named(trace, kernels, _OF_LIBRARIES.search)


def launched_alone(analysis: Analysis, kernels: I64) -> I64:
    """The places of those kernels that no operator launched."""
    launch = analysis.trace.links.launch_of(kernels)
    at = np.flatnonzero(launch >= 0)
    launch = launch[at]
    alone = np.zeros(len(at), bool)
    for activity, mine in analysis.threads.by_thread(launch):
        alone[mine] = activity.operators.at(analysis.trace.events.start[launch[mine]]) < 0
    return at[alone]
