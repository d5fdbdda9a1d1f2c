"""What has to be copied to the GPU once operators work there that worked on the CPU: their inputs."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, EventKind
from parsers.model.late import regex
from rules.kernels.operator_work import inputs_of
from rules.replay.replay import Replay

MIN_PART = 0.1  # of the time before a copy: the first operator that takes as much is what reads the data
_SIZE = 4  # bytes of an element where no type was recorded
# they read a few rows of a table, which can stay on the GPU
_OF_TABLES = regex(r"aten::(_?index|index_select|embedding|gather|take|select|masked_select|slice)")


def growth_of_copies(replay: Replay, made: BOOL) -> F64:
    """How many times as large what the operators before each ``made`` copy to the GPU read is as what it copies.

    For all host nodes; at least 1, and 1 where no shapes say it, where the data are made there and not read, and for
    what is looked up in a table.
    """
    analysis, host, device = replay.analysis, replay.host, replay.device
    trace, found = analysis.trace, np.ones(len(made))
    nodes = np.flatnonzero(made)
    if not len(nodes) or Attribute.INPUT_DIMS not in trace.attributes:
        return found
    sent = np.bincount(device.launch, trace.attribute(Attribute.BYTES, device.event), minlength=len(found))
    begin = host.start - host.gap.astype(np.int64)
    known: dict[tuple[str, str], int] = {}
    for activity, mine in analysis.threads.by_thread(host.event[nodes]):
        operators = activity.of_kind(EventKind.CPU_OP)
        operators = trace.events.by_start(operators)
        for node in nodes[mine].tolist():
            operator = _first(replay, operators, int(begin[node]), int(host.start[node]))
            if operator < 0 or _OF_TABLES.match(trace.name(operator)):
                continue
            stated = (
                trace.text_attribute(Attribute.INPUT_DIMS, operator),
                trace.text_attribute(Attribute.INPUT_TYPES, operator),
            )
            if stated not in known:
                inputs = inputs_of(*stated, _SIZE)
                known[stated] = inputs.all_bytes if inputs else 0
            found[node] = max(known[stated] / max(sent[node], 1.0), 1.0)
    return found


def _first(replay: Replay, operators: I64, begin: int, end: int) -> int:
    """The first operator between two times that takes a good part of the time between; -1 without one."""
    table = replay.analysis.trace.events
    inside = operators[slice(*np.searchsorted(table.start[operators], (begin, end)))]
    long = (table.end[inside] <= end) & (table.duration[inside] >= MIN_PART * (end - begin))
    return int(inside[np.argmax(long)]) if long.any() else -1
