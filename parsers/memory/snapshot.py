"""A memory snapshot as columns: allocations paired with their ends, blocks, stacks, and what the program annotated.

The layout is that of ``torch.cuda.memory._dump_snapshot`` (torch/cuda/_memory_viz.py describes it): segments with
their blocks, and for each device a history of ``alloc``, ``free_requested``, ``free_completed``, ``segment_alloc``,
``segment_free`` and ``oom``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from parsers.memory.history import ALLOC, FREE, OOM, SEGMENT, UNSEGMENT, History, number
from parsers.model.arrays import I32, I64, U8, rows_by
from parsers.model.late import dataclass
from parsers.model.memory import (
    ACTIVE,
    AFTER,
    BEFORE,
    INACTIVE,
    PENDING_FREE,
    Allocations,
    Blocks,
    Failure,
    Lives,
    Mark,
    Memory,
)

_STATES = {
    "active_allocated": ACTIVE,
    "active_pending_free": PENDING_FREE,
    "active_awaiting_free": PENDING_FREE,
}
ROUNDING = 512  # bytes: what torch's allocator rounds to; the history states what was asked for


@dataclass(frozen=True, slots=True, eq=False)
class DeviceHistory:
    """The events of one device in the order in which they happened; times in ns, their order in us unless ``timed``."""

    device: int
    action: U8
    address: I64
    size: I64
    time: I64
    free: I64
    stack: I32
    timed: bool

    @staticmethod
    def of(history: History, device: int, rows: Sequence[Any]) -> DeviceHistory:
        """The rows of one device; rows that are no events are left out."""
        total = len(history.action)
        chosen = np.fromiter((row for row in rows if type(row) is int and 0 <= row < total), np.int64)
        time = np.array(history.time, np.int64)[chosen]
        timed = not bool((time < 0).any())  # torch before 2.1 states no times: their order is all there is
        time = time if timed else np.arange(len(chosen), dtype=np.int64)
        return DeviceHistory(
            device,
            np.array(history.action, np.uint8)[chosen],
            np.array(history.address, np.int64)[chosen],
            np.array(history.size, np.int64)[chosen],
            np.maximum.accumulate(time) * 1000 if len(time) else time,
            np.array(history.free, np.int64)[chosen],
            np.array(history.stack, np.int32)[chosen],
            timed,
        )

    @property
    def tells_when(self) -> bool:
        """Whether it says of any allocation when, among the events, it was made or freed."""
        return bool(((self.action == ALLOC) | (self.action == FREE)).any())

    def as_a_moment(self) -> DeviceHistory:
        """The same as one moment, the first."""
        return replace(self, time=np.zeros_like(self.time))

    def reserved(self, at_end: int) -> tuple[I64, I64]:
        """Bytes that the allocator had from the driver: times (ns) and values, from what it has ``at_end``."""
        moved = np.flatnonzero((self.action == SEGMENT) | (self.action == UNSEGMENT))
        change = np.where(self.action[moved] == SEGMENT, self.size[moved], -self.size[moved])
        before = at_end - int(change.sum())
        first = self.time[:1] if len(self.time) else np.zeros(1, np.int64)
        return np.concatenate([first, self.time[moved]]), np.concatenate(
            [np.full(len(first), before, np.int64), before + np.cumsum(change)]
        )

    def failures(self) -> list[Failure]:
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
            state = block.get("state")
            state = _STATES.get(state, INACTIVE) if isinstance(state, str) else INACTIVE
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
    # What is not in use was freed after the last event, and may be larger than what was held in it.
    if len(blocks.state):
        block[blocks.state[block] == INACTIVE] = -1
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
    of_devices = dict(rows_by(blocks.device))
    for each, mine in rows_by(device):
        of_device = of_devices.get(each, np.empty(0, np.int64))
        of_device = of_device[np.argsort(blocks.address[of_device], kind="stable")]
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
