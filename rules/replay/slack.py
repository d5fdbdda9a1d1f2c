"""How much later each call and operation of the replayed steps could be without the steps ending later."""

from __future__ import annotations

import numpy as np

from parsers.model import F64, I64, derived
from parsers.model.late import dataclass
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
    host, device = program.host, program.device
    back = _Backwards(program)
    visits = (back.call_starts, back.call_returns, back.operation_ends)
    times = np.concatenate((host.start, host.end, device.end))
    kinds = np.repeat((_CALL_STARTS, _CALL_RETURNS, _ENDS), (len(host), len(host), len(device)))
    index = np.concatenate((np.arange(len(host)), np.arange(len(host)), np.arange(len(device))))
    order = np.lexsort((-kinds, -times))
    for kind, each in zip(kinds[order].tolist(), index[order].tolist(), strict=True):
        visits[kind](each)
    return np.array(back.of_call), np.array(back.of_end)


class _Backwards:
    """Whatever is visited, the latest first, takes the time from what has to come before it.

    ``of_call`` holds the latest return of each call until its start is visited, and its latest start from then on.
    """

    def __init__(self, program: Program) -> None:
        host, device, waits = program.host, program.device, program.waits
        finish = float(max([int(device.end.max()), *(span.end for span in program.spans)]))
        self.of_call = [finish] * len(host)
        for thread in np.flatnonzero(
            host.leads
        ).tolist():  # what passes behind the last call is part of the last step
            self.of_call[int(host.first[thread + 1]) - 1] = finish - float(host.tail[thread])
        self.of_end = [finish] * len(device)
        self._of_start = [finish] * len(device)
        self._launched: list[list[int]] = [[] for _ in range(len(host))]
        for operation, node in enumerate(device.launch.tolist()):
            self._launched[node].append(operation)
        self._needs: list[list[tuple[int, float]]] = [[] for _ in range(len(device))]
        still = device.left * device.duration[device.depends]
        for source, dependent, early in zip(
            device.depends.tolist(), device.dependent.tolist(), still.tolist(), strict=True
        ):
            self._needs[dependent].append((source, early))
        self._members: dict[int, list[int]] = {}
        for operation in np.flatnonzero(device.meeting >= 0).tolist():
            self._members.setdefault(int(device.meeting[operation]), []).append(operation)
        self._gap, self._cost, self._first = host.gap.tolist(), waits.cost.tolist(), set(host.first.tolist())
        self._extra, self._duration = device.extra.tolist(), device.duration.tolist()
        self._latency, self._stream = device.latency.tolist(), device.stream.tolist()
        self._meeting, self._returns = device.meeting.tolist(), waits.returns.tolist()
        self._waits_for = np.where(waits.carried, -1, waits.target).tolist()

    def operation_ends(self, each: int) -> None:
        """What it depends on, and what runs before it on its stream, ends before it is ready to start."""
        meeting = self._meeting[each]
        if meeting >= 0:
            self.of_end[each] = min(self.of_end[other] for other in self._members[meeting])
        self._of_start[each] = self.of_end[each] - self._duration[each]
        ready = self._of_start[each] - self._extra[each]
        for source, early in self._needs[each]:
            self._ends_by(source, ready + early)
        if each and self._stream[each - 1] == self._stream[each]:
            self._ends_by(each - 1, ready)

    def call_returns(self, each: int) -> None:
        """What it waits for ends before it returns."""
        if (operation := self._waits_for[each]) >= 0:
            self._ends_by(operation, self.of_call[each] - self._returns[each])

    def call_starts(self, each: int) -> None:
        """It starts before what it launches does; the call before it returns before it starts."""
        begin = self.of_call[each] - self._cost[each]
        for operation in self._launched[each]:
            begin = min(begin, self._of_start[operation] - self._extra[operation] - self._latency[operation])
        self.of_call[each] = begin
        if each and each not in self._first:
            self.of_call[each - 1] = min(self.of_call[each - 1], begin - self._gap[each])

    def _ends_by(self, operation: int, latest: float) -> None:
        self.of_end[operation] = min(self.of_end[operation], latest)
