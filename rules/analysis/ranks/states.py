"""What one device did over time, as adjoining pieces that belong to one part of the budget each."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import I64, U8, distinct_values
from parsers.model.late import dataclass
from rules.analysis.arithmetic.intervals import Intervals
from rules.analysis.idle.causes import Cause, DeviceTime

RESIDUAL, COMPUTE, COMMUNICATION, COPIES, OTHER = range(5)
FIRST_IDLE = OTHER + 1  # then one for each ``Cause``
PARTS = FIRST_IDLE + len(Cause)
MAX_PIECES = 24_000  # 9 bytes each


def parts_of(time: DeviceTime) -> dict[int, Intervals]:
    """What a device did, by part of the budget."""
    return {
        COMPUTE: time.compute,
        COMMUNICATION: time.communication,
        COPIES: time.copies,
        OTHER: time.other,
        **{FIRST_IDLE + cause: intervals for cause, intervals in time.idle.items()},
    }


@dataclass(frozen=True, slots=True, eq=False)
class DeviceStates:
    """``edge`` (n + 1, ascending ns) bounds n pieces of one ``part`` each; nothing is known outside of them."""

    edge: I64
    part: U8

    @staticmethod
    def of(time: DeviceTime) -> DeviceStates:
        """The states of a device; moments inside its pieces that belong to no part are the residual."""
        parts = parts_of(time)
        start = np.concatenate([each[0] for each in parts.values()])
        end = np.concatenate([each[1] for each in parts.values()])
        part = np.concatenate([np.full(len(each[0]), number) for number, each in parts.items()])
        order = np.argsort(start, kind="stable")
        start, end, part = start[order], end[order], part[order]
        if not len(start):
            return DeviceStates(np.zeros(1, np.int64), np.empty(0, np.uint8))
        edge = np.empty(2 * len(start), np.int64)
        edge[0::2], edge[1::2] = start, end
        label = np.full(2 * len(start) - 1, RESIDUAL, np.uint8)
        label[0::2] = part
        kept = np.flatnonzero(np.diff(edge) > 0)
        return DeviceStates(np.append(edge[kept], edge[-1]), label[kept])

    def within(self, start: I64, end: I64) -> I64:
        """(spans, PARTS): ns of each part inside each [start, end); what is outside of the pieces is residual."""
        before, until = np.split(self._until(np.concatenate((start, end))), 2)
        found: I64 = until - before
        found[:, RESIDUAL] += np.maximum(end - start, 0) - found.sum(axis=1)
        return found

    def coarse(self, edges: I64, most: int = MAX_PIECES) -> DeviceStates:
        """The same with at most about ``most`` pieces: exact between any two of ``edges`` and of an even grid."""
        if len(self.part) <= most:
            return self
        cells = max(most // PARTS - len(edges), 1)
        inside = edges[(edges > self.edge[0]) & (edges < self.edge[-1])]
        grid = np.linspace(self.edge[0], self.edge[-1], cells + 1).astype(np.int64)
        bounds = distinct_values(np.concatenate((grid, inside)))
        lengths = self.within(bounds[:-1], bounds[1:])
        edge = np.append(self.edge[0], self.edge[0] + np.cumsum(lengths.ravel()))
        part = np.tile(np.arange(PARTS, dtype=np.uint8), len(lengths))
        kept = np.flatnonzero(np.diff(edge) > 0)
        return DeviceStates(np.append(edge[kept], edge[-1]), part[kept])

    def idle_outside(self, span: tuple[int, int], window: tuple[int, int], cause: Cause) -> DeviceStates:
        """The same, where idle time before and after ``span`` is for one cause, and known in all of ``window``."""
        reason = np.uint8(FIRST_IDLE + cause)
        before, after = min(window[0], int(self.edge[0])), max(window[1], int(self.edge[-1]))
        outside = (self.part >= FIRST_IDLE) & ((self.edge[1:] <= span[0]) | (self.edge[:-1] >= span[1]))
        return DeviceStates(
            np.concatenate(([before], self.edge, [after])),
            np.concatenate(([reason], np.where(outside, reason, self.part), [reason])).astype(np.uint8),
        )

    def intervals(self, part: int) -> Intervals:
        here = np.flatnonzero(self.part == part)
        return self.edge[here], self.edge[here + 1]

    def _until(self, times: I64) -> I64:
        """(times, PARTS): ns of each part before each time."""
        if not len(self.part):
            return np.zeros((len(times), PARTS), np.int64)
        at = np.clip(times, self.edge[0], self.edge[-1])
        piece = np.clip(np.searchsorted(self.edge, at, side="right") - 1, 0, len(self.part) - 1)
        asked = np.zeros(len(self.part), np.int64)
        asked[piece] = 1
        asked_so_far = np.cumsum(asked)  # what lies between two of these is only added up
        whole = np.zeros((int(asked_so_far[-1]) + 1, PARTS), np.int64)
        np.add.at(whole.reshape(-1), asked_so_far * PARTS + self.part, np.diff(self.edge))
        found: I64 = np.cumsum(whole, axis=0)[asked_so_far[piece] - 1]
        found[np.arange(len(at)), self.part[piece]] += at - self.edge[piece]
        return found
