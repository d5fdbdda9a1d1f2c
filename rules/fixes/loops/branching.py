"""Loops whose rounds read back whether their item has any rows, and skip the rest of the round if not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from parsers.model import BOOL, I64, CopyKind, derived_by
from parsers.model.arrays import distinct_values, median_of
from parsers.model.late import dataclass
from parsers.model.names.calls import Call
from rules.analysis.analysis import Analysis
from rules.fixes.changes import copies, counts_rows, of_nodes
from rules.replay.loops import (
    BRANCH,
    MAX_BODY_LENGTH,
    MIN_TIMES,
    MIN_TIMES_OF_SHORT,
    Loop,
    kinds_of_calls,
    loops_of,
    short_loops_of,
)
from rules.replay.replay import Replay

# calls until a round knows its rows: a mask, its sum and a comparison; a simulation's step makes more
MAX_HEAD = 8
MIN_FULL = 2  # rounds that go on
ALIKE = 0.7  # of the calls of two rests: how rows are sorted, for one, follows from how many there are


@derived_by
def branching_loops(analysis: Analysis, replay: Replay) -> tuple[Loop, ...]:
    """Loops of which some rounds end with reading a value back, and others go on, counting the rows of a mask.

    Their ``body`` ends with the first rest, and may hold several rounds.
    """
    counting = counts_rows(replay)
    if not counting.any():
        return ()
    calls = _Calls.of(analysis, replay)
    found: list[Loop] = []
    heads: dict[tuple[int, ...], int] = {}
    for loop in [*loops_of(analysis), *short_loops_of(analysis)]:
        head = calls.head(loop)
        if head and head not in heads:
            heads[head] = len(heads)
            chains = list(calls.chains(np.array(head), _KIND - heads[head]))
            if any(branches and counting[each.first : each.last].any() for each, branches in chains):
                found += [each for each, _ in chains]
    return tuple(sorted(found, key=lambda each: each.first))


_KIND = -1_000_000  # and less: loops of other sorts have other kinds


@dataclass(frozen=True, slots=True, eq=False)
class _Calls:
    """The calls of a replay without those that set memory, as columns."""

    node: I64
    kind: I64
    stretch: I64  # of one step of a thread
    reads: BOOL
    waits: BOOL

    @classmethod
    def of(cls, analysis: Analysis, replay: Replay) -> _Calls:
        host = replay.host
        node = np.flatnonzero(host.call != Call.MEMSET)
        edges = (np.diff(host.thread[node]) != 0) | (np.diff(host.step[node]) != 0)
        return cls(
            node=node,
            kind=kinds_of_calls(analysis)[node],
            stretch=np.cumsum(np.append(True, edges)[: len(node)]),
            reads=of_nodes(replay, copies(replay, CopyKind.D2H))[node],
            waits=((replay.waits.target >= 0) & (host.call == Call.SYNCHRONIZE))[node],
        )

    def head(self, loop: Loop) -> tuple[int, ...]:
        """The calls of a round up to its last wait, where it reads something back; without what follows that wait.

        An elementwise kernel behind a wait is known by that alone: behind a rest the round begins with another one.
        """
        first, last = np.searchsorted(self.node, (loop.first, loop.first + loop.body)).tolist()
        waits = np.flatnonzero(self.waits[first:last])
        if last - first > MAX_HEAD or not len(waits) or not self.reads[first:last].any():
            return ()
        ends = first + int(waits[-1]) + 1
        kinds = tuple(self.kind[ends : ends + last - first].tolist())
        return kinds[1:] if kinds[0] == BRANCH else ()

    def chains(self, head: I64, kind: int) -> Iterator[tuple[Loop, bool]]:
        """The loops whose rounds begin with any call and these, and whether enough of their rounds differ.

        Where a step is thought to begin inside a loop, it has two parts, and one may do nothing but skip.
        """
        size = len(head)
        begins = np.ones(max(len(self.kind) - size + 1, 0), bool)
        for place, each in enumerate(head.tolist()):
            begins &= self.kind[place : place + len(begins)] == each
        starts = np.flatnonzero(begins)
        for stretch in distinct_values(self.stretch[starts]).tolist():
            mine = starts[self.stretch[starts] == stretch]
            end = int(np.searchsorted(self.stretch, stretch, side="right"))
            yield from self._chains(mine - 1, mine + size, end, kind)

    def _chains(self, begin: I64, behind: I64, end: int, kind: int) -> Iterator[tuple[Loop, bool]]:
        """The loops of one stretch, by where the heads of rounds begin and end, cut where a rest is like no other."""
        until = np.append(begin[1:], end)
        length = until - behind
        rests = length[:-1][length[:-1] > 0]
        if len(rests) < MIN_FULL or (usual := int(median_of(rests))) > MAX_BODY_LENGTH:
            return
        whole = behind + np.minimum(length, usual)
        pattern = self._usual(behind[:-1][length[:-1] > 0], whole[:-1][length[:-1] > 0])
        full = np.array([self._is_alike(*each, pattern) for each in zip(behind, until, strict=True)])
        full[-1] = False  # how far the last rest goes is not known
        cut = np.array([self._is_alike(*each, pattern) for each in zip(behind, whole, strict=True)])
        ends = np.where(full, until, np.where(cut, whole, behind))
        last = np.flatnonzero(np.append((ends < until)[:-1], True))
        for first, final in zip([0, *(last[:-1] + 1).tolist()], last.tolist(), strict=True):
            goes_on = first + np.flatnonzero((full | cut)[first : final + 1])
            times = final + 1 - first
            if times >= MIN_TIMES_OF_SHORT:
                one = goes_on[0] if len(goes_on) else first
                node = self.node[[begin[first], begin[one], ends[one] - 1, ends[final] - 1]].tolist()
                loop = Loop(node[0], node[3] + 1, node[2] + 1 - node[0], times, kind, node[1] - node[0])
                yield loop, times >= MIN_TIMES and MIN_FULL <= len(goes_on) < times

    def _usual(self, begin: I64, end: I64) -> I64:
        return np.asarray(
            median_of(np.array([self._counts(*each) for each in zip(begin, end, strict=True)]), axis=0)
        )

    def _is_alike(self, begin: int, end: int, usual: I64) -> bool:
        counts = self._counts(begin, end) if end - begin <= MAX_BODY_LENGTH else np.zeros(1)
        same = np.minimum(counts, usual).sum()
        return bool(same >= ALIKE * max(counts.sum(), usual.sum()))

    def _counts(self, begin: int, end: int) -> I64:
        lowest = int(self.kind.min())
        return np.bincount(self.kind[begin:end] - lowest, minlength=int(self.kind.max()) + 1 - lowest)
