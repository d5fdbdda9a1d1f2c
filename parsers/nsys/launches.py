"""Joins GPU operations to the API calls that launched them, by process and correlation number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.model import Attribute
from parsers.model.builder import TraceBuilder
from parsers.nsys.gpu_work import Launched
from parsers.nsys.host_calls import ApiCalls
from parsers.nsys.identifiers import UNKNOWN, Codes

I64 = npt.NDArray[np.int64]
_SPARSE = 8  # a lookup array may have this many places for each call


def link_launches(builder: TraceBuilder, launched: Launched, calls: ApiCalls) -> None:
    """State the launch of every operation that has one. An export without process numbers is one process."""
    if not launched.events:
        return
    operation, process, correlation = (
        np.concatenate(part) for part in (launched.events, launched.processes, launched.correlations)
    )
    builder.attribute(Attribute.CORRELATION, operation, correlation)
    if not calls.events:
        return
    call, caller, number = (
        np.concatenate(part) for part in (calls.events, calls.processes, calls.correlations)
    )
    processes = Codes()
    of_call, of_operation = processes.of(caller), processes.of(process)
    anywhere = processes.one(UNKNOWN)
    for code in range(len(processes.values)):
        mine = of_operation == code
        theirs = np.ones(len(call), bool) if code == anywhere else of_call == code
        if mine.any() and theirs.any():
            found = _matches(number[theirs], correlation[mine])
            linked = found >= 0
            builder.link(operation[mine][linked], call[theirs][found[linked]])


def _matches(keys: I64, wanted: I64) -> I64:
    """For each wanted number its place in ``keys``; -1 where it is absent or zero."""
    low, high = int(keys.min()), int(keys.max())
    if high - low < max(_SPARSE * len(keys), 1 << 16):
        place = np.full(high - low + 1, -1, np.int64)
        place[keys - low] = np.arange(len(keys))
        inside = (wanted >= low) & (wanted <= high) & (wanted != 0)
        return np.where(inside, place[np.where(inside, wanted - low, 0)], -1)
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found = order[at]
    return np.where((keys[found] == wanted) & (wanted != 0), found, -1)
