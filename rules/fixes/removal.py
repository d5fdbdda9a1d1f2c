"""Which part of a finding's time a change takes away, judged by what the replay no longer does in it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from parsers.model import BOOL, F64, I64
from parsers.model.late import dataclass
from rules.analysis.arithmetic.intervals import Intervals, clip, intersect, length, of_pairs, union
from rules.analysis.idle.causes import OF_HOST, Cause
from rules.analysis.names.families import Family
from rules.findings.base import Finding
from rules.fixes.base import Proposal
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay

MIN_SHORTER = 0.05  # of an operation's duration: a smaller change is none


@dataclass(frozen=True, eq=False)
class Removal:
    """The difference between two states of a replay, by the recorded time in which it lies."""

    replay: Replay
    before: Overlay
    after: Overlay

    def host_share(self, intervals: Intervals, span: int) -> float:
        """The part of what the CPU did in these intervals (ns) that is gone; 0 where nothing is replayed of it."""
        starts, ends = self._inside(intervals, span)
        edges = np.concatenate((ends, starts))
        threads = np.flatnonzero(self.replay.host.span_of_thread == span).tolist()
        sums = np.zeros(2)
        for thread in threads:
            times, passed = self._by_thread[thread]
            for column in (0, 1):
                at_end, at_start = np.split(np.interp(edges, times, passed[column]), 2)
                sums[column] += float((at_end - at_start).sum())
        return float(sums[0] / sums[1]) if sums[1] > 0 else 0.0

    def device_share(self, intervals: Intervals, span: int) -> float:
        """The part of these intervals (ns) in which operations ran that are gone or shorter."""
        starts, ends = self._inside(intervals, span)
        whole = length((starts, ends))
        device, table = self.replay.device, self.replay.analysis.trace.events
        mine = self.shorter[device.span[device.member_of[self._is_shorter[device.member_of]]] == span]
        changed = union(*table.spans(mine))
        return length(intersect((starts, ends), changed)) / whole if whole else 0.0

    def _inside(self, intervals: Intervals, span: int) -> Intervals:
        return clip(intervals, self.replay.spans[span].start, self.replay.spans[span].end)

    @cached_property
    def shorter(self) -> I64:
        """The events of operations that are gone or shorter."""
        device = self.replay.device
        events: I64 = device.members[self._is_shorter[device.member_of]]
        return events

    @cached_property
    def quicker(self) -> tuple[I64, I64]:
        """The calls before which the CPU spends less time, the one with most first, and how long (ns) that was."""
        host = self.replay.host
        gone = self.before.gap - self.after.gap
        calls = np.flatnonzero(gone >= MIN_SHORTER * np.maximum(self.before.gap, 1.0))
        calls = calls[np.argsort(-gone[calls], kind="stable")]
        return calls, host.gap[calls].astype(np.int64)

    @cached_property
    def _is_shorter(self) -> BOOL:
        before, after = self.before, self.after
        left = np.where(after.present, after.duration, 0.0)
        shorter = left < (1.0 - MIN_SHORTER) * np.where(before.present, before.duration, 0.0)
        return np.asarray(shorter)

    @cached_property
    def _by_thread(self) -> list[tuple[F64, tuple[F64, F64]]]:
        """For each thread: times, and how much that is gone, and of all, had passed by then."""
        host, before, after = self.replay.host, self.before, self.after
        of_gap = 1.0 - after.gap / np.maximum(before.gap, 1.0)
        of_call = 1.0 - after.cost / np.maximum(before.cost, 1.0)
        of_call = np.where(before.waits & ~after.waits, 1.0, of_call)
        found = []
        for thread in range(host.threads):
            mine = slice(int(host.first[thread]), int(host.first[thread + 1]))
            start, end = host.start[mine].astype(np.float64), host.end[mine].astype(np.float64)
            times = np.maximum.accumulate(np.column_stack((start - host.gap[mine], start, end)).ravel())
            passed = np.diff(times, prepend=times[:1])
            gone = np.column_stack((np.zeros(len(start)), of_gap[mine], of_call[mine])).ravel()
            known = np.column_stack((np.zeros(len(start)), np.ones(len(start)), np.ones(len(start)))).ravel()
            sums = np.cumsum(passed * np.clip(gone, 0.0, 1.0)), np.cumsum(passed * known)
            found.append((times, sums))
        return found


def removal_of(replay: Replay, proposal: Proposal) -> Removal:
    """What a proposal takes away of the steps as they are without the recorder."""
    return Removal(replay, replay.usual, replay.overlay([proposal.expected]))


def removed_share(removal: Removal, proposal: Proposal, finding: Finding) -> float:
    """The part of a finding that goes with a change, 0 to 1.

    Idle time for which the CPU is to blame goes as far as what the CPU does meanwhile goes, and a finding about kernels
    as far as it rests on kernels that the change makes shorter. Everything else goes by the change's categories.
    """
    named = finding.category in proposal.categories and proposal.rank in (None, finding.rank)
    about, intervals = finding.category.about, of_pairs(finding.intervals)
    of_host = isinstance(about, Cause) and about in OF_HOST
    of_kernels = isinstance(about, Family) and about is not Family.COLLECTIVE and about is not Family.COPY
    if proposal.redesign or not len(intervals[0]) or not (of_host or of_kernels):
        return float(named)
    spans = _spans(removal.replay, finding)
    if of_kernels:
        return max((removal.device_share(intervals, span) for span in spans), default=0.0) if named else 0.0
    return max((removal.host_share(intervals, span) for span in spans), default=0.0)


def _spans(replay: Replay, finding: Finding) -> list[int]:
    """The replayed ranks that a finding is about: its own, or all."""
    every = range(len(replay.spans))
    mine = [each for each in every if finding.device in replay.spans[each].devices]
    return mine or [each for each in every if finding.rank in (None, replay.spans[each].rank)]
