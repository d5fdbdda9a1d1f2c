"""Joins GPU operations to the API calls that launched them, by process and correlation number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.model import BOOL, I32, I64, Attribute, Effect
from parsers.model.units import duration
from parsers.nsys.gpu_work import Correlated
from parsers.nsys.identifiers import UNKNOWN
from parsers.nsys.reading import Reading

_WORTH_A_TABLE = 8  # a lookup array may have this many places for each call


def link_launches(reading: Reading, launched: Correlated, calls: Correlated) -> None:
    """State the launch of every operation that has one. An export without process numbers is one process."""
    if not launched.events:
        return
    operation, number = np.concatenate(launched.events), np.concatenate(launched.correlations)
    reading.builder.attribute(Attribute.CORRELATION, operation, number)
    if not calls.events:
        return
    call, caller_number = np.concatenate(calls.events), np.concatenate(calls.correlations)
    started_at, called_at = np.concatenate(launched.starts), np.concatenate(calls.starts)
    process_of_lane = np.array([lane.process for lane in reading.lanes], np.int64)
    of_operation, of_call = np.concatenate(launched.lanes), np.concatenate(calls.lanes)
    for process in sorted(
        {reading.lanes[lane].process for lane in np.flatnonzero(np.bincount(of_operation))}
    ):
        mine = _chosen(process_of_lane == process, of_operation)
        theirs = _chosen((process_of_lane == process) | (process == UNKNOWN), of_call)
        found = _matches(caller_number[theirs], number[mine])
        linked = _every_or(found >= 0)
        reading.builder.link(operation[mine][linked], call[theirs][found[linked]])
        early = called_at[theirs][found[linked]]
        early -= started_at[mine][linked]
        _note_causality(reading, early[early > 0])


def _note_causality(reading: Reading, early: I64) -> None:
    if len(early):
        reading.builder.quality.note(
            "before-launch",
            Effect.NOTED,
            "GPU operations begin before the call that launched them: the clocks of CPU and GPU disagree.",
            f"by up to {duration(float(early.max()))}",
            len(early),
        )


def _chosen(lanes: BOOL, lane: I32) -> BOOL | slice:
    return slice(None) if lanes.all() else _every_or(lanes[lane])


def _every_or(chosen: BOOL) -> BOOL | slice:
    """An index that costs nothing where everything is chosen."""
    return slice(None) if chosen.all() else chosen


def _matches(keys: I64, wanted: I64) -> npt.NDArray[np.signedinteger]:
    """For each wanted number its place in ``keys``; -1 where it is absent or zero."""
    if not len(keys) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    low, high = int(keys.min()), int(keys.max())
    if high - low < max(_WORTH_A_TABLE * len(keys), 1 << 16):
        place = np.full(high - low + 1, -1, np.int32)
        place[keys - low] = np.arange(len(keys), dtype=np.int32)
        found = place[np.clip(wanted, low, high) - low]
        found[(wanted < low) | (wanted > high) | (wanted == 0)] = -1
        return found
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found_at = order[at]
    return np.where((keys[found_at] == wanted) & (wanted != 0), found_at, -1)
