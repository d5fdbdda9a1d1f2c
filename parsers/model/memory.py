"""What a caching allocator held: allocations with their lives and stacks, the allocator's segments, what ran out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from parsers.model.arrays import BOOL, I32, I64, U8, Array
from parsers.model.late import dataclass

BEFORE = np.iinfo(np.int64).min  # start of an allocation that is older than the recorded history
AFTER = np.iinfo(np.int64).max  # end of an allocation that was still held when the recording ended
UNTIMED = "no times"  # kind of the quality note of a history that states the order of its events alone
INACTIVE, ACTIVE, PENDING_FREE = 0, 1, 2  # state of a block; pending: freed, and still used by another stream


class Frame(NamedTuple):
    """One line of a stack."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Allocations:
    """Columns of equal length, sorted by start; times are int64 ns from the trace start, ``BEFORE`` or ``AFTER``.

    A history may reach back to before the trace start: such times are negative. ``size`` in bytes as the allocator
    counts it, ``device`` an index into ``Trace.devices``, ``stack`` into ``Memory.stacks`` (-1: not recorded),
    ``thread`` that asked for it as ``Lane.thread`` (-1: not recorded).
    """

    start: I64
    end: I64
    size: I64
    address: I64
    device: I32
    stack: I32
    thread: I64

    @staticmethod
    def of(
        lives: Lives,
        size: I64,
        address: I64,
        device: npt.NDArray[np.integer],
        stack: npt.NDArray[np.integer],
        thread: npt.NDArray[np.integer],
    ) -> Allocations:
        """The table in its order, from columns in any order."""
        order = np.argsort(lives.start, kind="stable")
        return Allocations(
            lives.start[order],
            lives.end[order],
            size[order],
            address[order],
            device[order].astype(np.int32),
            stack[order].astype(np.int32),
            thread[order].astype(np.int64),
        )


class Lives(NamedTuple):
    """When allocations were made and given back, ns, and the event that tells most of each."""

    start: I64
    end: I64
    event: I64

    @staticmethod
    def of(time: I64, address: I64, begins: BOOL) -> Lives:
        """From events of one device in the order in which they happened; each ends with the next at its address."""
        order = np.argsort(address, kind="stable")
        address, begins, time = address[order], begins[order], time[order]
        same = address[1:] == address[:-1]
        end = np.where(np.append(same, False), np.append(time[1:], 0), AFTER)
        older = ~begins & ~(np.append(False, same) & np.append(False, begins[:-1]))
        return Lives(
            np.concatenate([time[begins], np.full(int(older.sum()), BEFORE, np.int64)]),
            np.concatenate([end[begins], time[older]]),
            np.concatenate([order[begins], order[older]]),
        )


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

    @staticmethod
    def none() -> Blocks:
        """Of a recording that does not tell how the allocator divides its memory."""
        wide, device = np.zeros(0, np.int64), np.zeros(0, np.int32)
        return Blocks(wide, wide, wide, wide, wide, np.zeros(0, np.uint8), device, device)


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

    @property
    def is_snapshot(self) -> bool:
        """Whether it tells how the allocator divides its memory, and what it could not give."""
        return bool(len(self.blocks.size) or self.failures)

    @property
    def tells_use(self) -> bool:
        """Whether stacks or threads say what allocations were for."""
        return bool(self.frames) or bool((self.allocations.thread >= 0).any())

    def stack(self, number: int) -> tuple[Frame, ...]:
        """One stack, innermost frame first; empty where none was recorded."""
        if not 0 <= number < len(self.stack_offset) - 1:
            return ()
        inside = slice(int(self.stack_offset[number]), int(self.stack_offset[number + 1]))
        return tuple(self.frames[frame] for frame in self.stack_frame[inside].tolist())

    def columns(self) -> dict[str, Array]:
        parts: dict[str, Array] = {"stack_offset": self.stack_offset, "stack_frame": self.stack_frame}
        for name, part in (("allocation", self.allocations), ("block", self.blocks)):
            parts |= {f"{name}.{each.name}": getattr(part, each.name) for each in fields(part)}
        return parts

    def words(self) -> MemoryWords:
        """Everything that is no column."""
        return MemoryWords(self.frames, self.failures, self.marks, self.complete)

    @staticmethod
    def of(columns: Mapping[str, Array], words: MemoryWords) -> Memory:
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

    def moved(self, by_ns: int, device_of: Sequence[int] | None = None) -> Memory:
        """The same on another clock; ``device_of`` gives the new index of each device."""
        held, blocks, failures = self.allocations, self.blocks, self.failures
        if device_of is not None:
            index = np.array(device_of, np.int32)
            held = replace(held, device=index[held.device])
            blocks = replace(blocks, device=index[blocks.device])
            failures = tuple(replace(each, device=int(index[each.device])) for each in failures)
        return replace(
            self,
            allocations=replace(
                held,
                start=np.where(held.start == BEFORE, BEFORE, held.start + by_ns),
                end=np.where(held.end == AFTER, AFTER, held.end + by_ns),
            ),
            blocks=blocks,
            failures=tuple(replace(each, time=each.time + by_ns) for each in failures),
            marks=tuple(replace(each, start=each.start + by_ns, end=each.end + by_ns) for each in self.marks),
        )

    def held(self, device: int) -> tuple[I64, I64]:
        """Allocated bytes of a device over time: times (ns, ascending) and the bytes held from each of them on."""
        return self.held_of(self.allocations.device == device)

    def held_of(self, chosen: BOOL) -> tuple[I64, I64]:
        """The same of the chosen allocations; what is older counts from the first moment that the table knows."""
        table = self.allocations
        start, end, size = table.start[chosen], table.end[chosen], table.size[chosen]
        freed = end != AFTER
        time = np.concatenate([np.maximum(start, self.first_moment), end[freed]])
        change = np.concatenate([size, -size[freed]])
        # At one moment what is freed goes first: a block handed from one tensor to the next is not held twice.
        order = np.lexsort((change, time))
        return time[order], np.cumsum(change[order])

    @property
    def first_moment(self) -> int:
        """The first time that any allocation states, ns; 0 where none does."""
        table = self.allocations
        known = np.searchsorted(table.start, BEFORE, side="right")
        firsts = [int(table.start[known])] if known < len(table.start) else []
        if known and (ended := table.end[:known][table.end[:known] != AFTER]).size:
            firsts.append(int(ended.min()))
        return min(firsts, default=0)
