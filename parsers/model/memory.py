"""What a caching allocator held: allocations with their lives and stacks, the allocator's segments, what ran out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]

BEFORE = -1  # start of an allocation that is older than the recorded history
AFTER = np.iinfo(np.int64).max  # end of an allocation that was still held when the recording ended
INACTIVE, ACTIVE, PENDING_FREE = 0, 1, 2  # state of a block; pending: freed, and still used by another stream


class Frame(NamedTuple):
    """One line of a stack."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Allocations:
    """Columns of equal length, sorted by start; times are int64 ns from the trace start, ``BEFORE`` or ``AFTER``.

    ``size`` in bytes as the allocator counts it, ``device`` an index into ``Trace.devices``, ``stack`` into
    ``Memory.stacks`` (-1: not recorded).
    """

    start: I64
    end: I64
    size: I64
    address: I64
    device: I32
    stack: I32


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The allocator's state when the snapshot was taken: pieces of segments, sorted by address inside each device.

    ``segment`` is the address of the segment, ``segment_size`` its bytes; ``requested`` what the program asked for.
    """

    segment: I64
    segment_size: I64
    address: I64
    size: I64
    requested: I64
    state: U8
    device: I32
    stack: I32


@dataclass(frozen=True, slots=True)
class Failure:
    """An allocation that failed; ``free`` is what the device had left, bytes, None where that was not recorded."""

    time: int
    device: int
    requested: int
    free: int | None
    stack: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A range that the program annotated: a step, the optimizer; ns from the trace start."""

    name: str
    start: int
    end: int


class MemoryWords(NamedTuple):
    """What of a ``Memory`` is no column."""

    frames: tuple[Frame, ...]
    failures: tuple[Failure, ...]
    marks: tuple[Mark, ...]
    complete: bool


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """The memory of one process as its allocator recorded it.

    ``stack_frame`` holds the frames of all stacks, innermost first, as indices into ``frames``; stack
    ``n`` is ``stack_frame[stack_offset[n] : stack_offset[n + 1]]``. ``complete``: nothing is older than the history.
    """

    allocations: Allocations
    blocks: Blocks
    frames: tuple[Frame, ...]
    stack_offset: I64
    stack_frame: I32
    failures: tuple[Failure, ...]
    marks: tuple[Mark, ...]
    complete: bool

    def stack(self, number: int) -> tuple[Frame, ...]:
        """One stack, innermost frame first; empty where none was recorded."""
        if not 0 <= number < len(self.stack_offset) - 1:
            return ()
        inside = slice(int(self.stack_offset[number]), int(self.stack_offset[number + 1]))
        return tuple(self.frames[frame] for frame in self.stack_frame[inside].tolist())

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that is a column, by name."""
        parts: dict[str, npt.NDArray[Any]] = {
            "stack_offset": self.stack_offset,
            "stack_frame": self.stack_frame,
        }
        for name, part in (("allocation", self.allocations), ("block", self.blocks)):
            parts |= {f"{name}.{each.name}": getattr(part, each.name) for each in fields(part)}
        return parts

    def words(self) -> MemoryWords:
        """Everything that is no column."""
        return MemoryWords(self.frames, self.failures, self.marks, self.complete)

    @staticmethod
    def of(columns: Mapping[str, npt.NDArray[Any]], words: MemoryWords) -> Memory:
        """The reverse of ``columns`` and ``words``."""
        return Memory(
            Allocations(**{each.name: columns[f"allocation.{each.name}"] for each in fields(Allocations)}),
            Blocks(**{each.name: columns[f"block.{each.name}"] for each in fields(Blocks)}),
            words.frames,
            columns["stack_offset"],
            columns["stack_frame"],
            words.failures,
            words.marks,
            words.complete,
        )

    def moved(self, by_ns: int, first_device: int = 0) -> Memory:
        """The same on another clock, among other devices."""
        held = self.allocations
        return replace(
            self,
            allocations=replace(
                held,
                start=np.where(held.start == BEFORE, BEFORE, np.maximum(held.start + by_ns, 0)),
                end=np.where(held.end == AFTER, AFTER, np.maximum(held.end + by_ns, 0)),
                device=(held.device + first_device).astype(np.int32),
            ),
            blocks=replace(self.blocks, device=(self.blocks.device + first_device).astype(np.int32)),
            failures=tuple(
                replace(each, time=each.time + by_ns, device=each.device + first_device)
                for each in self.failures
            ),
            marks=tuple(replace(each, start=each.start + by_ns, end=each.end + by_ns) for each in self.marks),
        )

    def held(self, device: int) -> tuple[I64, I64]:
        """Allocated bytes of a device over time: times (ns, ascending) and the bytes held from each of them on."""
        mine = self.allocations.device == device
        start = np.maximum(self.allocations.start[mine], 0)
        end, size = self.allocations.end[mine], self.allocations.size[mine]
        freed = end != AFTER
        time = np.concatenate([start, end[freed]])
        change = np.concatenate([size, -size[freed]])
        # At one moment what is freed goes first: a block handed from one tensor to the next is not held twice.
        order = np.lexsort((change, time))
        return time[order], np.cumsum(change[order])
