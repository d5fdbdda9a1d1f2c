"""How ranks are put together: nodes, places in a node, parallel groups (TP, PP, DP, EP), and stages of a pipeline."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np

from parsers.model import BOOL, I64, Trace, derived
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass, regex
from rules.analysis.idle.causes import Cause, IdleTable
from rules.analysis.ranks.collectives import CollectiveColumns, collective_columns
from rules.analysis.ranks.run import RunOfRanks
from rules.terms import MAJORITY, reason

NODE, RAIL, RANK = "node", "rail", "rank"
TENSOR, PIPELINE, DATA, EXPERT, CONTEXT = "TP", "PP", "DP", "EP", "CP"
# What Megatron-LM, DeepSpeed, PyTorch's device meshes and torchtitan call their groups.
_CALLED = (
    (EXPERT, regex(r"expert|(?<![a-z])ep(?![a-z])|(?<![a-z])moe", re.IGNORECASE)),
    (PIPELINE, regex(r"pipeline|(?<![a-z])pp(?![a-z])", re.IGNORECASE)),
    (TENSOR, regex(r"tensor|(?<![a-z])tp(?![a-z])", re.IGNORECASE)),
    (CONTEXT, regex(r"context|sequence|(?<![a-z])[cs]p(?![a-z])", re.IGNORECASE)),
    (DATA, regex(r"data|shard|replicat|(?<![a-z])(f?s?dp|ddp)(?![a-z])", re.IGNORECASE)),
)


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """One way of putting rows together; ``label`` (rows) is an index into ``names``, -1 for rows that lie in none.

    For nodes these are the nodes. For a parallel group they are the places inside it, so that all first stages of
    all pipelines have one label; ``group`` says which of the equal groups a row is in.
    """

    kind: str
    label: I64
    names: tuple[str, ...]
    group: I64

    def members(self, label: int) -> I64:
        return np.flatnonzero(self.label == label)


def dimensions_of(run: RunOfRanks) -> tuple[Dimension, ...]:
    """All ways in which there is more than one label and more than one row in some of them."""
    found = [*_machines(run), *_parallel(run)]
    return tuple(each for each in found if _divides(each, len(run.rows)))


def _divides(dimension: Dimension, rows: int) -> bool:
    used = distinct_values(dimension.label[dimension.label >= 0])
    return 1 < len(used) < rows


def _machines(run: RunOfRanks) -> list[Dimension]:
    """Nodes, and the n-th GPU of every node, which share a rail of the network."""
    nodes = list(dict.fromkeys(row.node for row in run.rows))
    if nodes == [""] or not nodes:
        return []
    place = {node: index for index, node in enumerate(nodes)}
    label = np.array([place[row.node] for row in run.rows], np.int64)
    ids = np.array([run.gpu(row) for row in range(len(run.rows))], np.int64)
    rails = distinct_values(ids)
    return [
        Dimension(NODE, label, tuple(nodes), np.zeros(len(label), np.int64)),
        Dimension(
            RAIL, np.searchsorted(rails, ids), tuple(f"GPU {each} of every node" for each in rails), label
        ),
    ]


def _parallel(run: RunOfRanks) -> list[Dimension]:
    """The parallel groups that process groups state by what they are called, or by what they send."""
    rows = len(run.rows)
    labels: dict[str, I64] = {}
    groups: dict[str, I64] = {}
    numbers: dict[tuple[str, tuple[int, ...]], int] = {}
    size: dict[str, int] = {}
    sends = {kind.group: kind.collective for kind in run.meetings.kinds}
    for index, row in enumerate(run.rows):
        for group in run.groups(index):
            if row.rank is None or row.rank not in group.ranks or not 1 < len(group.ranks) < rows:
                continue
            kind = kind_of_group(group.description or group.name, sends.get(group.name, ""))
            if not kind or size.get(kind, 0) > len(group.ranks):
                continue
            if size.get(kind, 0) < len(
                group.ranks
            ):  # the widest one of a kind, such as DP over DP of experts
                size[kind] = len(group.ranks)
                labels[kind], groups[kind] = np.full(rows, -1), np.full(rows, -1)
            labels[kind][index] = group.ranks.index(row.rank)
            groups[kind][index] = numbers.setdefault((kind, group.ranks), len(numbers))
    return [
        Dimension(kind, label, tuple(_place(kind, place) for place in range(size[kind])), groups[kind])
        for kind, label in labels.items()
    ]


def _place(kind: str, place: int) -> str:
    return f"pipeline stage {place}" if kind == PIPELINE else f"{kind} {place}"


@cache
def kind_of_group(called: str, sends: str) -> str:
    """TP, PP, DP, EP or CP, by what a group is called, else by what only such groups send; empty where unknown."""
    for kind, pattern in _CALLED:
        if pattern.search(called):
            return kind
    if sends.startswith("alltoall"):
        return EXPERT
    return PIPELINE if sends in (SEND, RECEIVE, "sendrecv") else ""


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
