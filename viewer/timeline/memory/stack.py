"""What fills the memory of a GPU, stacked by kind in pixel columns: no peak is lost, however much a column holds."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from parsers.model import I64, Counter
from parsers.model.late import dataclass
from rules.memory.kinds import KINDS, Kind
from viewer.timeline.geometry.scale import Scale
from viewer.timeline.geometry.tracks import stacked_counters

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis
    from rules.memory.account import DeviceMemory


# what stays for long, then what comes and goes
FROM_BELOW = (
    Kind.OLDER, Kind.PARAMETERS, Kind.OPTIMIZER, Kind.COMMUNICATION, Kind.UNKNOWN, Kind.KEPT, Kind.INPUTS,
    Kind.GRADIENTS, Kind.ACTIVATIONS, Kind.TEMPORARIES,
)  # fmt: skip
BLOCK = 32  # levels
VIEWS = 4  # of one recording in a frame: lanes, overview
_TOP = 1.08  # of the most that is drawn


@dataclass(frozen=True, slots=True, eq=False)
class StackColumns:
    """``moment`` of each column at which most was held in it (ns); bytes of each kind then, and what was reserved."""

    moment: I64
    held: I64  # kinds x columns, in the order of ``MemoryStack.kinds``
    reserved: I64 | None


@dataclass(frozen=True, slots=True, eq=False)
class Peaks:
    """Finds the largest of many levels between two places without looking at each of them.

    ``ranked`` are the levels with their places behind them, so that of equal ones the last is the largest; ``blocks``
    the largest of every BLOCK of these.
    """

    ranked: I64
    blocks: I64
    bits: int

    @staticmethod
    def of(levels: I64) -> Peaks:
        """Once for all views."""
        bits = max(len(levels), 1).bit_length()
        fine = max(int(levels.max(initial=0)).bit_length() + bits - 62, 0)
        ranked = np.append(levels >> fine << bits | np.arange(len(levels)), 0)
        return Peaks(ranked, np.maximum.reduceat(ranked, np.arange(0, len(ranked), BLOCK)), bits)

    def last_largest(self, first: I64, until: I64) -> I64:
        """The place of the largest level of each stretch [first, until), none of which is empty; they ascend."""
        left = np.minimum(-(-first // BLOCK) * BLOCK, until)
        right = np.maximum(until // BLOCK * BLOCK, left)
        best = np.maximum(self._within(first, left), self._within(right, until))
        inner = np.flatnonzero(right > left)
        if len(inner):
            spans = np.column_stack((left[inner], right[inner])).ravel() // BLOCK
            largest = np.maximum.reduceat(np.append(self.blocks, 0), spans)[::2]
            best[inner] = np.maximum(best[inner], largest)
        found: I64 = best & ((1 << self.bits) - 1)
        return found

    def _within(self, first: I64, until: I64) -> I64:
        """The largest of less than a block each, -1 of nothing."""
        place = first[:, None] + np.arange(BLOCK)
        level = np.where(place < until[:, None], self.ranked[np.minimum(place, len(self.ranked) - 1)], -1)
        largest: I64 = level.max(axis=1)
        return largest


@dataclass(frozen=True, slots=True, eq=False)
class MemoryStack:
    """One GPU: the kinds that occur from below, and for each when it changes (ns) and what it holds from then on."""

    kinds: tuple[Kind, ...]
    times: tuple[I64, ...]
    levels: tuple[I64, ...]
    time: I64
    held: I64
    reserved: tuple[I64, I64] | None
    peaks: Peaks
    failures: tuple[tuple[int, int], ...]  # when an allocation failed (ns), and the bytes that were asked for
    _shown: dict[Scale, StackColumns] = field(default_factory=dict)  # of the views that were asked for last

    @staticmethod
    def of(account: DeviceMemory, reserved: Counter | None) -> MemoryStack:
        """From the account of a device; ``reserved`` is what its allocator had from the driver."""
        kinds, times, levels = [], [], []
        for kind in FROM_BELOW:
            mine = account.mine & (account.kind == KINDS.index(kind))
            if mine.any():
                time, held = account.memory.held_of(mine)
                kinds.append(kind)
                times.append(time)
                levels.append(np.append(0, held))
        drawn = None
        if reserved is not None and len(reserved.time):
            drawn = reserved.time, np.append(0, reserved.value).astype(np.int64)
        failed = [
            (each.time, each.requested) for each in account.memory.failures if each.device == account.device
        ]
        return MemoryStack(
            tuple(kinds),
            tuple(times),
            tuple(levels),
            account.time,
            account.held,
            drawn,
            Peaks.of(account.held),
            tuple(failed),
        )

    @property
    def peak(self) -> int:
        """The most bytes that are held at any moment."""
        return int(self.held.max()) if len(self.held) else 0

    @property
    def top(self) -> float:
        """Bytes at the upper edge of what is drawn."""
        return _TOP * max(self.peak, int(self.reserved[1].max()) if self.reserved is not None else 0, 1)

    def at(self, when: int) -> dict[Kind, int]:
        """Bytes of each kind at a moment, from below."""
        return {
            kind: int(level[np.searchsorted(time, when, side="right")])
            for kind, time, level in zip(self.kinds, self.times, self.levels, strict=True)
        }

    def kind_at(self, when: int, share: float) -> str:
        """The kind that lies at a height (of ``top``) at a moment; empty above all of them."""
        height = share * self.top
        for kind, held in self.at(when).items():
            height -= held
            if height < 0:
                return kind.value
        return ""

    def columns(self, scale: Scale) -> StackColumns:
        """What the pixel columns of a view show; painting, labels and names of one frame ask for the same."""
        if scale not in self._shown:
            if len(self._shown) >= VIEWS:
                self._shown.clear()
            self._shown[scale] = self._columns(scale)
        return self._shown[scale]

    def _columns(self, scale: Scale) -> StackColumns:
        edges = np.ceil(scale.t0 + np.arange(int(scale.width) + 1) * scale.ns_per_pixel).astype(np.int64)
        moment = self._fullest(edges)
        held = np.stack(
            [
                level[np.searchsorted(time, moment, side="right")]
                for time, level in zip(self.times, self.levels, strict=True)
            ]
            or [np.zeros(len(moment), np.int64)]
        )
        if self.reserved is None:
            return StackColumns(moment, held, None)
        time, level = self.reserved
        return StackColumns(moment, held, level[np.searchsorted(time, moment, side="right")])

    def floor(self, scale: Scale) -> I64:
        """In each column, the least that is held from its end on."""
        if not len(self.held):
            return np.zeros(int(scale.width), np.int64)
        least: I64 = np.minimum.accumulate(self.held[::-1])[::-1]
        ends = np.ceil(scale.t0 + np.arange(1, int(scale.width) + 1) * scale.ns_per_pixel)
        found: I64 = least[np.maximum(np.searchsorted(self.time, ends, side="right") - 1, 0)]
        return found

    def _fullest(self, edges: I64) -> I64:
        """Of each column the moment at which most was held in it; its first one where nothing changes."""
        until = np.searchsorted(self.time, edges, side="left")
        moment = edges[:-1].copy()
        busy = np.flatnonzero(until[1:] > until[:-1])
        if not len(busy):
            return moment
        best = self.peaks.last_largest(until[busy], until[busy + 1])
        before = self.held[np.maximum(until[busy] - 1, 0)]
        rises = (until[busy] == 0) | (self.held[best] >= before)
        moment[busy] = np.where(rises, self.time[best], moment[busy])
        return moment


def stacks_of(analysis: Analysis) -> dict[int, MemoryStack]:
    """What adds up to each counter of which it is known."""
    from rules.memory.summary import memory_of, reserved_of

    trace = analysis.trace
    counters = {trace.counters[index].device: index for index in stacked_counters(trace)}
    return {
        counters[each.device]: MemoryStack.of(each.account, reserved_of(trace, each.device))
        for each in (memory_of(analysis) if counters else ())
        if each.account is not None and each.device in counters
    }
