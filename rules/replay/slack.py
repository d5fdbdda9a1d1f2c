"""How much later each call and operation of the replayed steps could be without the steps ending later."""

from __future__ import annotations

import numpy as np

from parsers.model import F64, I64, derived
from parsers.model.late.dataclass import dataclass
from rules.analysis.analysis import Analysis
from rules.replay.program import Program
from rules.replay.replay import replay_of

_CALL_STARTS, _CALL_RETURNS, _ENDS = range(3)


@dataclass(frozen=True, slots=True, eq=False)
class Slack:
    """``ns`` for each ``event`` (ascending): calls that drive a GPU, and GPU operations.

    A step at most: what could be later than that would meet the same of the next step.
    """

    event: I64
    ns: I64

    def of(self, event: int) -> int | None:
        """The slack of one event; None where it is not replayed."""
        place = int(np.searchsorted(self.event, event))
        known = place < len(self.event) and self.event[place] == event
        return int(self.ns[place]) if known else None


@derived
def slack_of(analysis: Analysis) -> Slack:
    """The slack of everything that is replayed; empty for a recording that cannot be."""
    replay = replay_of(analysis)
    if (program := replay.program) is None:
        return Slack(np.empty(0, np.int64), np.empty(0, np.int64))
    calls, operations = _latest(program)
    host, device = program.host, program.device
    ns = np.concatenate((calls - host.start, (operations - device.end)[device.member_of]))
    event = np.concatenate((host.event, device.members))
    order = np.argsort(event, kind="stable")
    return Slack(event[order], np.clip(ns[order], 0, replay.mean_ns).astype(np.int64))


def _latest(program: Program) -> tuple[F64, F64]:
    """The latest start of each call, and the latest end of each operation: back in time over everything recorded."""
    host, device, waits = program.host, program.device, program.waits
    finish = float(max([int(device.end.max()), *(span.end for span in program.spans)]))
    of_call = [finish] * len(host)  # latest return, then latest start
    for thread in np.flatnonzero(
        host.leads
    ).tolist():  # what passes behind the last call is part of the last step
        of_call[int(host.first[thread + 1]) - 1] = finish - float(host.tail[thread])
    of_end = [finish] * len(device)
    launched: list[list[int]] = [[] for _ in range(len(host))]
    for operation, node in enumerate(device.launch.tolist()):
        launched[node].append(operation)
    needs: list[list[tuple[int, float]]] = [[] for _ in range(len(device))]
    still = device.left * device.duration[device.depends]
    for source, dependent, early in zip(
        device.depends.tolist(), device.dependent.tolist(), still.tolist(), strict=True
    ):
        needs[dependent].append((source, early))
    members: dict[int, list[int]] = {}
    for operation in np.flatnonzero(device.meeting >= 0).tolist():
        members.setdefault(int(device.meeting[operation]), []).append(operation)
    gap, extra, duration = host.gap.tolist(), device.extra.tolist(), device.duration.tolist()
    cost, returns, latency = waits.cost.tolist(), waits.returns.tolist(), device.latency.tolist()
    target = np.where(waits.carried, -1, waits.target).tolist()
    first = set(host.first.tolist())
    stream, meeting = device.stream.tolist(), device.meeting.tolist()
    latest_start = [finish] * len(device)
    times = np.concatenate((host.start, host.end, device.end))
    kinds = np.repeat((_CALL_STARTS, _CALL_RETURNS, _ENDS), (len(host), len(host), len(device)))
    index = np.concatenate((np.arange(len(host)), np.arange(len(host)), np.arange(len(device))))
    order = np.lexsort((-kinds, -times))
    for kind, each in zip(kinds[order].tolist(), index[order].tolist(), strict=True):
        if kind == _ENDS:
            last = of_end[each]
            if meeting[each] >= 0:
                last = min(of_end[other] for other in members[meeting[each]])
                of_end[each] = last
            begin = last - duration[each]
            latest_start[each] = begin
            ready = begin - extra[each]
            for source, early in needs[each]:
                of_end[source] = min(of_end[source], ready + early)
            if each and stream[each - 1] == stream[each]:
                of_end[each - 1] = min(of_end[each - 1], ready)
        elif kind == _CALL_RETURNS:
            if target[each] >= 0:
                of_end[target[each]] = min(of_end[target[each]], of_call[each] - returns[each])
        else:
            begin = of_call[each] - cost[each]
            for operation in launched[each]:
                begin = min(begin, latest_start[operation] - extra[operation] - latency[operation])
            of_call[each] = begin
            if each and each not in first:
                of_call[each - 1] = min(of_call[each - 1], begin - gap[each])
    return np.array(of_call), np.array(of_end)
