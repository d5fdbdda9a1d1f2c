"""The memory of one GPU as its allocator recorded it: what was held at a moment, by kind and line; what ran out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parsers.model import BOOL, I8, I64
from parsers.model.late import dataclass
from parsers.model.memory import AFTER, BEFORE, Failure, Frame, Memory
from rules.memory.kinds import KINDS, Kind, kinds_of, own_frames

HIGH, LOW = 0.75, 0.5  # of the peak: what falls below the one and rises above the other is another peak
_MAX_LISTED = 20
_OF_A_STEP = (Kind.ACTIVATIONS, Kind.TEMPORARIES, Kind.INPUTS)  # what should not outlive the next one


@dataclass(frozen=True, slots=True)
class Site:
    """One line of the user's code and what was allocated below it, bytes."""

    frame: Frame
    bytes: int
    count: int


@dataclass(frozen=True, eq=False)
class DeviceMemory:
    """One GPU of one process. Times are ns from the trace start, sizes bytes."""

    memory: Memory
    device: int
    kind: I8  # of each allocation
    purpose: I8  # the same before what is kept over steps was told apart
    mine: BOOL  # the allocations of this device
    time: I64
    held: I64

    @staticmethod
    def of(memory: Memory, device: int, kind: I8 | None = None) -> DeviceMemory:
        """Everything about one device; ``kind`` of each allocation where stacks do not tell it."""
        time, held = memory.held(device)
        kind = kinds_of(memory) if kind is None else kind
        return DeviceMemory(memory, device, kind, kind, memory.allocations.device == device, time, held)

    def with_kept(self, step_ends: Sequence[int]) -> DeviceMemory:
        """The same, with what was made in a step and outlives the next one as a kind of its own."""
        table, ends = self.memory.allocations, np.array(step_ends, np.int64)
        outlived = np.searchsorted(ends, table.end) - np.searchsorted(ends, table.start)
        of_a_step = np.isin(self.purpose, [KINDS.index(each) for each in _OF_A_STEP])
        of_a_step |= (self.purpose == KINDS.index(Kind.UNKNOWN)) & (table.start > ends[0])
        kept = self.mine & of_a_step & (table.start != BEFORE) & (outlived >= 2)
        return replace(self, kind=np.where(kept, KINDS.index(Kind.KEPT), self.purpose).astype(np.int8))

    @property
    def has_history(self) -> bool:
        """Whether anything was allocated or freed while recording: without, the snapshot shows one moment."""
        table = self.memory.allocations
        return bool((self.mine & ((table.start != BEFORE) | (table.end != AFTER))).any())

    @property
    def peak_at(self) -> int:
        """When most was allocated; of equal moments the first that a timeline beside it shows."""
        most = np.flatnonzero(self.held == self.peak)
        shown = most[self.time[most] >= 0]
        return int(self.time[(shown if len(shown) else most)[0]]) if len(most) else 0

    @property
    def peak(self) -> int:
        return int(self.held.max()) if len(self.held) else 0

    def peaks(self) -> I64:
        """When memory was fullest, each time that it rose above ``HIGH`` of the peak and fell below ``LOW``; ns."""
        turns = np.flatnonzero((self.held >= HIGH * self.peak) | (self.held < LOW * self.peak))
        high = self.held[turns] >= HIGH * self.peak
        begins = turns[high & ~np.append(False, high[:-1])]
        ends = np.append(begins[1:], len(self.held))
        return np.array(
            [
                self.time[low + int(self.held[low:end].argmax())]
                for low, end in zip(begins.tolist(), ends.tolist(), strict=True)
            ],
            np.int64,
        )

    def at(self, when: int) -> int:
        """What was allocated at a moment."""
        index = int(np.searchsorted(self.time, when, side="right")) - 1
        return int(self.held[index]) if index >= 0 else 0

    def alive(self, when: int) -> BOOL:
        """Which allocations were held at a moment."""
        table = self.memory.allocations
        alive: BOOL = self.mine & (table.start <= when) & (table.end > when)
        return alive

    def made_below(self, stack: int) -> BOOL:
        """Allocations whose stack has the same innermost frame of the user's own code."""
        own = own_frames(self.memory)
        if not 0 <= stack < len(own) or own[stack] < 0:
            return np.zeros(len(self.mine), bool)
        stacks = self.memory.allocations.stack
        below: BOOL = self.mine & (stacks >= 0) & (own[stacks] == own[stack])
        return below

    def by_kind(self, when: int) -> dict[Kind, int]:
        """What was held at a moment, by kind, the largest first; kinds that held nothing are left out."""
        return self.kinds_among(self.alive(when))

    def kinds_among(self, chosen: BOOL) -> dict[Kind, int]:
        """Bytes of the chosen allocations by kind, the largest first."""
        return self._sums(self.kind, chosen)

    def purposes_among(self, chosen: BOOL) -> dict[Kind, int]:
        """The same by what they were made for, also where they are kept over steps."""
        return self._sums(self.purpose, chosen)

    def _sums(self, kind: I8, chosen: BOOL) -> dict[Kind, int]:
        sums = np.bincount(kind[chosen], self.memory.allocations.size[chosen], len(KINDS))
        order = np.argsort(-sums, kind="stable").tolist()
        return {KINDS[each]: int(sums[each]) for each in order if sums[each]}

    def by_site(self, chosen: BOOL) -> tuple[Site, ...]:
        """The lines of the user's code that made the chosen allocations, the largest first."""
        stack = self.memory.allocations.stack[chosen]
        own = own_frames(self.memory)
        frame = np.where(stack >= 0, own[stack], -1) if len(own) else np.full(len(stack), -1)
        size = self.memory.allocations.size[chosen]
        known = frame >= 0
        sums = np.bincount(frame[known], size[known], len(self.memory.frames))
        counts = np.bincount(frame[known], minlength=len(self.memory.frames))
        order = np.argsort(-sums, kind="stable")[:_MAX_LISTED].tolist()
        return tuple(
            Site(self.memory.frames[each], int(sums[each]), int(counts[each]))
            for each in order
            if counts[each]
        )


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why an allocation failed: what was asked for, what the allocator had, and which limit it met."""

    failure: Failure
    allocated: int
    reserved: int
    largest_hole: int  # 0 where it is not known

    @property
    def unused(self) -> int:
        """Reserved from the driver and held by nobody."""
        return max(self.reserved - self.allocated, 0)

    @property
    def fragmented(self) -> bool:
        """Whether what is reserved and unused would have been enough, were it in one piece."""
        return self.unused >= self.failure.requested

    @property
    def own_limit(self) -> bool:
        """Whether the device had room, so that the process met a limit of its own."""
        return self.failure.free is not None and self.failure.free >= 2 * self.failure.requested


def shortages(account: DeviceMemory, reserved: int) -> tuple[Shortage, ...]:
    """Every failed allocation of a device; ``reserved`` is what the allocator had when the snapshot was taken.

    So are the holes: where memory was freed since an allocation failed, nobody knows those that it met.
    """
    blocks = account.memory.blocks
    holes = blocks.size[(blocks.device == account.device) & (blocks.state == 0)]
    largest = int(holes.max()) if len(holes) else 0
    freed = account.memory.allocations.end != AFTER
    return tuple(
        Shortage(
            failure,
            account.at(failure.time),
            reserved,
            0 if (account.alive(failure.time) & freed).any() else largest,
        )
        for failure in account.memory.failures
        if failure.device == account.device
    )
