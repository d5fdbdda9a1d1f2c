"""The operators that a program calls, thread by thread in order, and the calls that they make."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from parsers.model import BOOL, F64, I64
from parsers.model.arrays import distinct_values
from rules.analysis.analysis import Analysis
from rules.fixes.base import MIN_GPU_SHARE
from rules.fixes.changes import MIN_NS, share_of
from rules.replay.origins import called_operators
from rules.replay.replay import Replay


def called_in_order(analysis: Analysis) -> Iterator[I64]:
    """The operators that lie inside no other, by start, of each thread that makes calls of the replay."""
    found = called_operators(analysis)
    for activity, _ in analysis.threads.by_thread(distinct_values(found[found >= 0])):
        yield activity.whole_operators


def calls_of(analysis: Analysis, operators: I64) -> BOOL:
    """The host nodes of these operators, and of what computes their gradients."""
    return np.isin(called_operators(analysis), operators)


def operations_of(analysis: Analysis, replay: Replay, operators: I64) -> tuple[BOOL, I64]:
    """Which operations of the GPU belong to these operators and their gradients, and to which place among them each."""
    operator = called_operators(analysis)[replay.device.launch]
    mine, order = np.isin(operator, operators), np.argsort(operators, kind="stable")
    return mine, order[np.searchsorted(operators, operator[mine], sorter=order)]


def left_of(
    analysis: Analysis, replay: Replay, operators: I64, left: F64, least_ns: float | F64 = MIN_NS
) -> tuple[BOOL, F64]:
    """Which operations belong to these operators, and for all operations the part of their time that remains.

    ``left`` is that of each operator; no operation that does not vanish gets shorter than ``least_ns``.
    """
    device = replay.device
    mine, place = operations_of(analysis, replay, operators)
    least = np.broadcast_to(least_ns, left.shape)[place] / np.maximum(device.duration[mine], 1.0)
    factor = np.ones(len(device))
    factor[mine] = np.where(left[place] > 0, np.maximum(left[place], np.minimum(least, 1.0)), 0.0)
    return mine, factor


def costly_calls(analysis: Analysis, replay: Replay, operators: I64) -> tuple[BOOL, float]:
    """The host nodes as ``calls_of`` has them, and the part of the GPU's time in what they launch.

    It is 0 where that is too little for a fix.
    """
    nodes, device = calls_of(analysis, operators), replay.device
    share = share_of(replay, nodes[device.launch])
    return nodes, share if share >= MIN_GPU_SHARE else 0.0
