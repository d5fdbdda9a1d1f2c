"""Stages of a pipeline: which GPUs pass work on from one to the next, and how long each waits for its neighbours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parsers.model import BOOL, I64, Trace, derived
from rules.analysis.idle.causes import Cause, IdleTable
from rules.analysis.ranks.collectives import CollectiveColumns, collective_columns
from rules.terms import MAJORITY, reason

SEND, RECEIVE = "send", "recv"
NEIGHBOURS = reason("the other stages of the pipeline")


def mostly_passes_on(columns: CollectiveColumns, among: BOOL) -> bool:
    """Whether most of some messages go from one rank to one other."""
    messages = np.array([each in (SEND, RECEIVE, "sendrecv") for each in columns.collective], bool)
    return bool(among.any()) and float(np.mean(messages[among])) >= MAJORITY


@derived
def stages_of(trace: Trace) -> tuple[int, ...]:
    """``stages_among`` the collectives of a trace."""
    return stages_among(collective_columns(trace))


def stages_among(columns: CollectiveColumns) -> tuple[int, ...]:
    """The devices of a pipeline in the order in which work reaches them; empty where there is none.

    In a chain one device begins with a send and every other one with a receive. In a ring, or where halves are
    swapped, several begin with a send.
    """
    if not mostly_passes_on(columns, np.ones(len(columns.start), bool)):
        return ()
    passing = np.array([each in (SEND, RECEIVE) for each in columns.collective], bool)
    devices, first = np.unique(columns.device[passing], return_index=True)
    rows = np.flatnonzero(passing)[first]
    senders = sum(columns.collective[row] == SEND for row in rows.tolist())
    if len(devices) < 2 or senders != 1:
        return ()
    by_time = np.argsort(columns.start[rows], kind="stable")
    return tuple(devices[by_time].tolist())


def messages_passed_on(columns: CollectiveColumns, t0: int, t1: int) -> int:
    """How many messages the end of the chain passes one way inside [t0, t1): its micro-batches."""
    inside = (columns.start >= t0) & (columns.start < t1)
    one_way = [
        np.array([each == way for each in columns.collective], bool) & inside for way in (SEND, RECEIVE)
    ]
    return min(
        max(int((columns.device[way] == device).sum()) for way in one_way) for device in stages_among(columns)
    )


def with_neighbours(trace: Trace, table: IdleTable) -> IdleTable:
    """``table``, where a stage's time before its first and after its last operation is its neighbours'."""
    if not (stages := stages_of(trace)):
        return table
    outside = np.zeros(len(table), bool)
    for device in stages:
        operations = trace.operations_of_device(device)
        first, last = int(trace.events.start[operations[0]]), int(trace.events.end[operations].max())
        outside |= (table.device == device) & ((table.end <= first) | (table.start >= last))
    return replace(
        table,
        cause=np.where(outside, np.uint8(Cause.NEIGHBOURS), table.cause).astype(np.uint8),
        culprit=np.where(outside, len(table.culprits), table.culprit).astype(np.int32),
        event=np.where(outside, -1, table.event),
        culprits=(*table.culprits, NEIGHBOURS),
    )


def waiting_in_receives(columns: CollectiveColumns, device: int, t0: int, t1: int) -> tuple[I64, I64]:
    """Start and end of what one stage's receives inside [t0, t1) take beyond the fastest message of their size."""
    receives = np.array([each == RECEIVE for each in columns.collective], bool)
    passing = receives | np.array([each == SEND for each in columns.collective], bool)
    sizes, of_size = np.unique(columns.bytes, return_inverse=True)
    fastest = np.full(len(sizes), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(fastest, of_size[passing], (columns.end - columns.start)[passing])
    here = receives & (columns.device == device) & (columns.end > t0) & (columns.start < t1)
    return columns.start[here], columns.end[here] - fastest[of_size[here]]
