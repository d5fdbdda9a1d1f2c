"""The memory of one GPU as its allocator recorded it: what was held at a moment, by kind and line; what ran out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from parsers.model.memory import Failure, Frame, Memory
from rules.memory.kinds import KINDS, Kind, kinds_of, own_frames

I64 = npt.NDArray[np.int64]

_MOST_SITES = 20


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
    kind: npt.NDArray[np.int8]  # of each allocation
    mine: npt.NDArray[np.bool_]  # the allocations of this device
    time: I64
    held: I64

    @staticmethod
    def of(memory: Memory, device: int, kind: npt.NDArray[np.int8] | None = None) -> DeviceMemory:
        """Everything about one device; ``kind`` of each allocation where stacks do not tell it."""
        time, held = memory.held(device)
        kind = kinds_of(memory) if kind is None else kind
        return DeviceMemory(memory, device, kind, memory.allocations.device == device, time, held)

    @property
    def peak_at(self) -> int:
        """When most was allocated."""
        return int(self.time[int(self.held.argmax())]) if len(self.held) else 0

    @property
    def peak(self) -> int:
        """The most that was allocated."""
        return int(self.held.max()) if len(self.held) else 0

    def at(self, when: int) -> int:
        """What was allocated at a moment."""
        index = int(np.searchsorted(self.time, when, side="right")) - 1
        return int(self.held[index]) if index >= 0 else 0

    def alive(self, when: int) -> npt.NDArray[np.bool_]:
        """Which allocations were held at a moment."""
        table = self.memory.allocations
        alive: npt.NDArray[np.bool_] = self.mine & (table.start <= when) & (table.end > when)
        return alive

    def made_below(self, stack: int) -> npt.NDArray[np.bool_]:
        """Allocations whose stack has the same innermost frame of the user's own code."""
        own = own_frames(self.memory)
        if not 0 <= stack < len(own) or own[stack] < 0:
            return np.zeros(len(self.mine), bool)
        stacks = self.memory.allocations.stack
        below: npt.NDArray[np.bool_] = self.mine & (stacks >= 0) & (own[stacks] == own[stack])
        return below

    def by_kind(self, when: int) -> dict[Kind, int]:
        """What was held at a moment, by kind, the largest first; kinds that held nothing are left out."""
        return self.kinds_among(self.alive(when))

    def kinds_among(self, chosen: npt.NDArray[np.bool_]) -> dict[Kind, int]:
        """Bytes of the chosen allocations by kind, the largest first."""
        sums = np.bincount(self.kind[chosen], self.memory.allocations.size[chosen], len(KINDS))
        order = np.argsort(-sums, kind="stable").tolist()
        return {KINDS[each]: int(sums[each]) for each in order if sums[each]}

    def by_site(self, chosen: npt.NDArray[np.bool_]) -> tuple[Site, ...]:
        """The lines of the user's code that made the chosen allocations, the largest first."""
        stack = self.memory.allocations.stack[chosen]
        own = own_frames(self.memory)
        frame = np.where(stack >= 0, own[stack], -1) if len(own) else np.full(len(stack), -1)
        size = self.memory.allocations.size[chosen]
        known = frame >= 0
        sums = np.bincount(frame[known], size[known], len(self.memory.frames))
        counts = np.bincount(frame[known], minlength=len(self.memory.frames))
        order = np.argsort(-sums, kind="stable")[:_MOST_SITES].tolist()
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
    largest_hole: int

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
    """Every failed allocation of a device; ``reserved`` is what the allocator had when the snapshot was taken."""
    blocks = account.memory.blocks
    holes = blocks.size[(blocks.device == account.device) & (blocks.state == 0)]
    largest = int(holes.max()) if len(holes) else 0
    return tuple(
        Shortage(failure, account.at(failure.time), reserved, largest)
        for failure in account.memory.failures
        if failure.device == account.device
    )
