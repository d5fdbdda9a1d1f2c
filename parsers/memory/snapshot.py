"""A memory snapshot as columns: allocations paired with their ends, blocks, stacks, and what the program annotated.

The layout is that of ``torch.cuda.memory._dump_snapshot`` (torch/cuda/_memory_viz.py describes it): segments with
their blocks, and for each device a history of ``alloc``, ``free_requested``, ``free_completed``, ``segment_alloc``,
``segment_free`` and ``oom``.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any

import numpy as np
import numpy.typing as npt

from parsers.model.memory import (
    ACTIVE,
    AFTER,
    BEFORE,
    INACTIVE,
    PENDING_FREE,
    Allocations,
    Blocks,
    Failure,
    Frame,
    Lives,
    Mark,
    Memory,
)

I64 = npt.NDArray[np.int64]

ALLOC, FREE, SEGMENT, UNSEGMENT, OOM, OTHER = range(6)
_ACTIONS = {
    "alloc": ALLOC,
    "free_requested": FREE,  # torch counts memory as free from here on
    "free": FREE,
    "segment_alloc": SEGMENT,
    "segment_map": SEGMENT,
    "segment_free": UNSEGMENT,
    "segment_unmap": UNSEGMENT,
    "oom": OOM,
}
_STATES = {
    "active_allocated": ACTIVE,
    "active_pending_free": PENDING_FREE,
    "active_awaiting_free": PENDING_FREE,
}
_MOST = 1 << 62
ROUNDING = 512  # bytes: what torch's allocator rounds to; the history states what was asked for


@dataclass(slots=True)
class History:
    """Gathers the events of a snapshot as columns, while it is being read, and every stack once."""

    action: array[int] = field(default_factory=lambda: array("B"))
    address: array[int] = field(default_factory=lambda: array("q"))
    size: array[int] = field(default_factory=lambda: array("q"))
    time: array[int] = field(default_factory=lambda: array("q"))
    free: array[int] = field(default_factory=lambda: array("q"))
    stack: array[int] = field(default_factory=lambda: array("i"))
    stacks: list[list[Any]] = field(default_factory=list)
    _stack_numbers: dict[int, int] = field(default_factory=dict)

    def taken(self, whole: dict[Any, Any]) -> Any:
        """The row of an event in its place; any other dict as it is."""
        if "action" not in whole or "frames" not in whole:
            return whole
        action = _ACTIONS.get(whole["action"], OTHER) if isinstance(whole["action"], str) else OTHER
        self.action.append(action)
        self.address.append(number(whole.get("addr", whole.get("address"))))
        self.size.append(number(whole.get("size")))
        self.time.append(number(whole.get("time_us"), -1))
        self.free.append(number(whole.get("device_free"), -1))
        self.stack.append(self.stack_of(whole["frames"]))
        whole.clear()
        return len(self.action) - 1

    def stack_of(self, frames: Any) -> int:
        """The number of a list of frames; -1 for none. A list that many events share is one stack."""
        if not isinstance(frames, list) or not frames:
            return -1
        key = id(frames)  # kept alive by ``stacks``
        found = self._stack_numbers.get(key)
        if found is None:
            found = self._stack_numbers[key] = len(self.stacks)
            self.stacks.append(frames)
        return found

    def frames(self) -> tuple[tuple[Frame, ...], I64, npt.NDArray[np.int32]]:
        """Every frame once, and the stacks as offsets and frame numbers."""
        numbers: dict[int, int] = {}
        known: dict[Frame, int] = {}

        def numbered(stated: Any) -> int:
            found = numbers.get(id(stated))
            if found is None:
                found = numbers[id(stated)] = known.setdefault(_frame(stated), len(known))
            return found

        flat = np.fromiter(map(numbered, chain.from_iterable(self.stacks)), np.int32)
        offset = np.fromiter(accumulate(map(len, self.stacks), initial=0), np.int64)
        return tuple(known), offset, flat


def number(value: Any, otherwise: int = 0) -> int:
    """A whole number as the file states it; ``otherwise`` where it is none that can be."""
    if isinstance(value, int) and not isinstance(value, bool) and -_MOST < value < _MOST:
        return value
    return otherwise


def _frame(stated: Any) -> Frame:
    if not isinstance(stated, Mapping):
        return Frame(str(stated)[:1000], "", 0)
    return Frame(
        str(stated.get("name", ""))[:1000], str(stated.get("filename", ""))[:1000], number(stated.get("line"))
    )


@dataclass(frozen=True, slots=True, eq=False)
class DeviceHistory:
    """The events of one device in the order in which they happened; times in ns."""

    device: int
    action: npt.NDArray[np.uint8]
    address: I64
    size: I64
    time: I64
    free: I64
    stack: npt.NDArray[np.int32]

    @staticmethod
    def of(history: History, device: int, rows: Sequence[Any]) -> DeviceHistory:
        """The rows of one device; rows that are no events are left out."""
        total = len(history.action)
        chosen = np.fromiter((row for row in rows if type(row) is int and 0 <= row < total), np.int64)
        time = np.array(history.time, np.int64)[chosen]
        # Recordings of torch before 2.1 state no times: their order is all there is.
        time = np.arange(len(chosen), dtype=np.int64) if (time < 0).any() else time
        return DeviceHistory(
            device,
            np.array(history.action, np.uint8)[chosen],
            np.array(history.address, np.int64)[chosen],
            np.array(history.size, np.int64)[chosen],
            np.maximum.accumulate(time) * 1000 if len(time) else time,
            np.array(history.free, np.int64)[chosen],
            np.array(history.stack, np.int32)[chosen],
        )

    def reserved(self, at_end: int) -> tuple[I64, I64]:
        """Bytes that the allocator had from the driver: times (ns) and values, from what it has ``at_end``."""
        moved = np.flatnonzero((self.action == SEGMENT) | (self.action == UNSEGMENT))
        change = np.where(self.action[moved] == SEGMENT, self.size[moved], -self.size[moved])
        before = at_end - int(change.sum())
        first = self.time[:1]
        return np.concatenate([first, self.time[moved]]), np.concatenate(
            [np.full(len(first), before, np.int64), before + np.cumsum(change)]
        )

    def failures(self) -> list[Failure]:
        """Every allocation that failed."""
        return [
            Failure(
                int(self.time[row]),
                self.device,
                int(self.size[row]),
                int(self.free[row]) if self.free[row] >= 0 else None,
                int(self.stack[row]),
            )
            for row in np.flatnonzero(self.action == OOM).tolist()
        ]


def blocks_of(segments: Sequence[Any], history: History, device_index: Mapping[int, int]) -> Blocks:
    """The pieces of every segment, with what is stated of them; a segment without addresses is laid out in order."""
    rows: list[tuple[int, ...]] = []
    for segment in segments:
        if not isinstance(segment, Mapping) or not isinstance(segment.get("blocks"), list):
            continue
        start, size = number(segment.get("address")), number(segment.get("total_size"))
        device = device_index.get(number(segment.get("device")), -1)
        at = start
        for block in segment["blocks"]:
            if not isinstance(block, Mapping):
                continue
            length = max(number(block.get("size")), 0)
            at = number(block.get("address"), at)
            state = _STATES.get(str(block.get("state", "")), INACTIVE)
            stack = history.stack_of(block.get("frames") or _of_history(block))
            rows.append(
                (start, size, at, length, number(block.get("requested_size"), length), state, device, stack)
            )
            at += length
    table = np.array(sorted(rows, key=lambda row: (row[6], row[0], row[2])), np.int64).reshape(-1, 8).T
    return Blocks(
        table[0],
        table[1],
        table[2],
        table[3],
        table[4],
        state=table[5].astype(np.uint8),
        device=table[6].astype(np.int32),
        stack=table[7].astype(np.int32),
    )


def _of_history(block: Mapping[str, Any]) -> Any:
    """Frames as torch 2.0 wrote them: below the block's newest event."""
    events = block.get("history")
    return (
        events[0].get("frames")
        if isinstance(events, list) and events and isinstance(events[0], Mapping)
        else None
    )


def allocations_of(histories: Sequence[DeviceHistory], blocks: Blocks) -> Allocations:
    """Every allocation once: those whose start was recorded, those that are older, and those still held."""
    parts = [_paired(history) for history in histories]
    columns = [
        np.concatenate([part[each] for part in parts]) if parts else np.zeros(0, np.int64)
        for each in range(6)
    ]
    start, end, size, address, device, stack = columns
    size = -(-size // ROUNDING) * ROUNDING
    held = np.flatnonzero(end == AFTER)
    block = _block_at(blocks, device[held], address[held])
    size[held[block >= 0]] = blocks.size[block[block >= 0]]
    unseen = blocks.state != INACTIVE
    unseen[block[block >= 0]] = False
    count = int(unseen.sum())
    start = np.concatenate([start, np.full(count, BEFORE, np.int64)])
    return Allocations.of(
        Lives(
            start,
            np.concatenate([end, np.full(count, AFTER, np.int64)]),
            np.arange(len(start), dtype=np.int64),
        ),
        np.concatenate([size, blocks.size[unseen]]),
        np.concatenate([address, blocks.address[unseen]]),
        np.concatenate([device, blocks.device[unseen]]),
        np.concatenate([stack, blocks.stack[unseen]]),
        np.full(len(start), -1, np.int64),
    )


def _block_at(blocks: Blocks, device: I64, address: I64) -> I64:
    """The block that begins at each address of a device; -1 where none does."""
    found = np.full(len(address), -1, np.int64)
    for each in np.unique(device).tolist():
        of_device = np.flatnonzero(blocks.device == each)
        of_device = of_device[np.argsort(blocks.address[of_device], kind="stable")]
        mine = np.flatnonzero(device == each)
        if len(of_device):
            at = np.minimum(np.searchsorted(blocks.address[of_device], address[mine]), len(of_device) - 1)
            same = blocks.address[of_device[at]] == address[mine]
            found[mine[same]] = of_device[at[same]]
    return found


def _paired(history: DeviceHistory) -> tuple[Any, ...]:
    """Starts, ends, sizes, addresses, device and stacks of one device."""
    mine = np.flatnonzero((history.action == ALLOC) | (history.action == FREE))
    start, end, event = Lives.of(history.time[mine], history.address[mine], history.action[mine] == ALLOC)
    pick = mine[event]
    return (
        start,
        end,
        history.size[pick],
        history.address[pick],
        np.full(len(pick), history.device, np.int64),
        history.stack[pick].astype(np.int64),
    )


def memory_of(
    segments: Sequence[Any],
    annotations: Sequence[Any],
    history: History,
    histories: Sequence[DeviceHistory],
    devices: Mapping[int, int],
) -> Memory:
    """The model's table on the clock of the snapshot; ``devices`` gives the index of each recorded device number."""
    blocks = blocks_of(segments, history, devices)
    allocations = allocations_of(histories, blocks)
    frames, offset, flat = history.frames()
    failures = tuple(failure for each in histories for failure in each.failures())
    complete = not bool((allocations.start == BEFORE).any())
    return Memory(allocations, blocks, frames, offset, flat, failures, marks_of(annotations), complete)


def marks_of(annotations: Sequence[Any]) -> tuple[Mark, ...]:
    """Ranges from their stated starts and ends; a range that has only one of the two is left out."""
    open_ranges: dict[str, list[int]] = {}
    marks = []
    for each in annotations:
        if not isinstance(each, Mapping) or not isinstance(name := each.get("name"), str):
            continue
        time = number(each.get("time_us")) * 1000
        if each.get("stage") == "START":
            open_ranges.setdefault(name, []).append(time)
        elif each.get("stage") == "END" and open_ranges.get(name):
            marks.append(Mark(name, open_ranges[name].pop(), time))
    return tuple(sorted(marks, key=lambda mark: (mark.start, -mark.end)))
