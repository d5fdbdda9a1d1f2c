"""Collectives that a rank's CPU runs while the GPU has nothing to do: how long, and waiting for other ranks."""

from __future__ import annotations

import numpy as np

from parsers.model import F64, I64
from parsers.model.arrays import distinct_values
from rules.analysis.arithmetic.intervals import measure, union
from rules.analysis.cpu.cpu_time import collectives_on_cpu
from rules.replay.replay import Replay


def in_collectives(replay: Replay) -> tuple[F64, F64]:
    """How much of the time before each call a collective ran on its rank's CPU, and waited for others there (ns).

    It waits as much longer as it takes than the same one, by its number, on the rank where that takes least.
    """
    trace, host = replay.analysis.trace, replay.host
    table, took, alone = trace.events, np.zeros(len(host)), np.zeros(len(host))
    events = table.by_start(collectives_on_cpu(trace))
    rank = trace.lane_rank[table.lane[events]]
    least = _least(rank, table.duration[events])
    begin, of_node = host.start - host.gap.astype(np.int64), host.span_of_thread[host.thread]
    for number, span in enumerate(replay.spans):
        mine = rank == (-1 if span.rank is None else span.rank)
        nodes, end = of_node == number, table.end[events[mine]]
        for found, start in ((took, table.start[events[mine]]), (alone, end - least[mine])):
            found[nodes] = measure(union(start, end), begin[nodes], host.start[nodes])
    return took, took - np.minimum(alone, took)


def _least(rank: I64, duration: I64) -> I64:
    """What each collective takes on the rank where it takes least; its own time where ranks had not equally many."""
    ranks = [np.flatnonzero(rank == each) for each in distinct_values(rank).tolist()]
    least = duration.copy()
    if len({len(each) for each in ranks}) == 1:
        for each in ranks:
            least[each] = np.min([duration[other] for other in ranks], axis=0)
    return least
