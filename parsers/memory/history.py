"""The history of an allocator while it is being read: its events as growing columns, and every stack once."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import field
from itertools import accumulate, chain
from typing import Any

import numpy as np

from parsers.model.arrays import I32, I64, MAX_NUMBER
from parsers.model.late import dataclass
from parsers.model.memory import Frame

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


@dataclass(slots=True)
class History:
    """Gathers the events of a snapshot as columns, while it is being read, and every stack once."""

    action: array[int] = field(default_factory=lambda: array("B"))
    address: array[int] = field(default_factory=lambda: array("q"))
    size: array[int] = field(default_factory=lambda: array("q"))
    time: array[int] = field(default_factory=lambda: array("q"))
    free: array[int] = field(default_factory=lambda: array("q"))
    stack: array[int] = field(default_factory=lambda: array("i"))
    _lists: dict[int, tuple[int, list[Any]]] = field(default_factory=dict)  # by identity; kept alive
    _stacks: dict[tuple[int, ...], int] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)  # of frames, by identity
    _kept: list[Any] = field(default_factory=list)  # these frames, alive
    _frames: dict[Frame, int] = field(default_factory=dict)

    def taken(self, whole: dict[Any, Any]) -> Any:
        """The row of an event in its place; any other dict as it is."""
        if not is_event(whole):
            return whole
        self.action.append(self.action_of(whole["action"]))
        self.address.append(number(whole.get("addr", whole.get("address"))))
        self.size.append(number(whole.get("size")))
        self.time.append(number(whole.get("time_us"), -1))
        self.free.append(number(whole.get("device_free"), -1))
        self.stack.append(self.stack_of(whole.get("frames")))
        whole.clear()
        return len(self.action) - 1

    def extend(self, action: I64, address: I64, size: I64, time: I64, free: I64, stack: I64) -> range:
        """Take over events that were read as columns; times and free bytes are -1 where they are not stated."""
        first = len(self.action)
        self.action.frombytes(action.astype(np.uint8).tobytes())
        self.address.frombytes(_possible(address, 0).tobytes())
        self.size.frombytes(_possible(size, 0).tobytes())
        self.time.frombytes(_possible(time, -1).tobytes())
        self.free.frombytes(_possible(free, -1).tobytes())
        self.stack.frombytes(stack.astype(np.int32).tobytes())
        return range(first, len(self.action))

    @staticmethod
    def action_of(stated: Any) -> int:
        return _ACTIONS.get(stated, OTHER) if isinstance(stated, str) else OTHER

    def stack_of(self, frames: Any) -> int:
        """The number of a list of frames; -1 for none. Equal lists are one stack."""
        if not isinstance(frames, list) or not frames:
            return -1
        if (known := self._lists.get(id(frames))) is not None:
            return known[0]
        try:
            numbers = tuple(map(self._numbers.__getitem__, map(id, frames)))
        except KeyError:  # one of them was not met before
            numbers = tuple(map(self._frame_number, frames))
        found = self._stacks.setdefault(numbers, len(self._stacks))
        self._lists[id(frames)] = found, frames
        return found

    def _frame_number(self, stated: Any) -> int:
        if (known := self._numbers.get(id(stated))) is not None:
            return known
        found = self._numbers[id(stated)] = self._frames.setdefault(_frame(stated), len(self._frames))
        self._kept.append(stated)
        return found

    def frames(self) -> tuple[tuple[Frame, ...], I64, I32]:
        """Every frame once, and the stacks as offsets and frame numbers."""
        flat = np.fromiter(chain.from_iterable(self._stacks), np.int32)
        offset = np.fromiter(accumulate(map(len, self._stacks), initial=0), np.int64)
        return tuple(self._frames), offset, flat


def is_event(whole: Mapping[Any, Any]) -> bool:
    """Whether a dict is an event of the allocator; torch 2.0 states no frames where memory is given back."""
    return "action" in whole and ("frames" in whole or "size" in whole)


def _possible(column: I64, otherwise: int) -> I64:
    return np.where((column > -MAX_NUMBER) & (column < MAX_NUMBER), column, otherwise)


def number(value: Any, otherwise: int = 0) -> int:
    """A whole number as the file states it; ``otherwise`` where it is none that can be."""
    if isinstance(value, int) and not isinstance(value, bool) and -MAX_NUMBER < value < MAX_NUMBER:
        return value
    return otherwise


def _frame(stated: Any) -> Frame:
    if not isinstance(stated, Mapping):
        return Frame(_text(stated), "", 0)
    return Frame(_text(stated.get("name")), _text(stated.get("filename")), number(stated.get("line")))


def _text(stated: Any) -> str:
    """A text; lists, which may hold one another over and over, are none."""
    return stated[:1000] if isinstance(stated, str) else ""
