"""Runs of events of a pickled history, taken over as columns: neighbours that are laid out alike are read together.

Once an event was read instruction by instruction its layout is known, and others like it are found and decoded by a few
operations on arrays. What is not exactly of a known layout is left to the reader of single instructions, so that a
run never holds anything which that one would have refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from parsers.data_pickle import NotData
from parsers.memory.event_layouts import (
    ENTRY,
    ITEM,
    OPENING,
    Bytes,
    Events,
    Layout,
    Objects,
    decoded,
    openings,
)
from parsers.memory.history import History, is_event
from parsers.model import I64, Progress
from parsers.model.arrays import per_value
from parsers.model.late import dataclass

_BYTES_AT_ONCE = 1 << 20  # bytes whose events are decoded at once
_LAYOUTS_AT_ONCE = 8
_WORTH_A_RUN = 8  # of a run: fewer are read sooner one by one
_GET, _LONG_GET, _INT, _TEXT = 0x68, 0x6A, 0x4A, 0x8C
_UNSEEN = -2
_FRAMES_AT_ONCE = 200_000  # that are found again by their instructions


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    """The events between two places of the file; ``runs``: where one starts, its first event and the one after it."""

    first: int
    until: int
    events: Events
    runs: dict[int, tuple[int, int]]


@dataclass(slots=True, eq=False)
class EventRuns:
    """Takes the events of one pickle over into a history."""

    history: History
    _layouts: list[Layout] = field(default_factory=list)
    _objects: Objects = field(default_factory=Objects)
    _values: npt.NDArray[np.object_] = field(default_factory=lambda: np.empty(0, object))  # of the objects
    _stacks: I64 = field(default_factory=lambda: np.empty(0, np.int64))  # of the objects that are lists
    _frames: dict[bytes, list[Any]] = field(default_factory=dict)  # and their texts, by their instructions
    # by the instruction that fetches it from the memo
    _referred: dict[bytes, Any] = field(default_factory=dict)
    _inside: dict[int, list[Any]] = field(default_factory=dict)  # what follows a list in the memo
    _window: _Window | None = None
    _source: Bytes = field(default_factory=lambda: Bytes.of(b""))
    _memo: list[Any] = field(default_factory=list)
    _progress: Progress = field(default_factory=Progress)

    def begin(self, data: bytes, memo: list[Any], progress: Progress) -> None:
        """Learn which pickle is read, and where its reader keeps what was memoised."""
        self._source, self._memo, self._progress = Bytes.of(data), memo, progress

    def made(self, whole: dict[Any, Any]) -> Any:
        """The number of an event that was read by itself, whose layout is then known; any other dict as it is."""
        if not is_event(whole):
            return whole
        keys = tuple(whole)
        if (
            "frames" in whole
            and len(self._layouts) < _LAYOUTS_AT_ONCE
            and all(each.keys != keys for each in self._layouts)
        ):
            self._learn(keys)
        return self.history.taken(whole)

    def run(self, at: int) -> tuple[int, range] | None:
        """Where the run that begins at a place ends, and the numbers of its events; None where none begins."""
        if not self._layouts:
            return None
        window = self._window
        if window is None or not window.first <= at < window.until:
            window = self._window = self._opened(at)
        found = window.runs.get(at)
        if found is None or found[1] - found[0] < _WORTH_A_RUN:
            return None
        events = window.events.chosen(slice(*found))
        self._memoise(events.memo)
        stack = np.full(len(events.start), -1, np.int64)
        stated, elsewhere = events.stack >= 0, events.frames >= 0
        stack[stated] = self._stacks[events.stack[stated]]
        stack[elsewhere] = self._of_memo(events.frames[elsewhere], self.history.stack_of)
        numbers = self.history.extend(
            self._of_memo(events.action, self.history.action_of),
            np.where(events.number["addr"] >= 0, events.number["addr"], events.number["address"]),
            events.number["size"],
            events.number["time_us"],
            events.number["device_free"],
            stack,
        )
        return int(events.end[-1]), numbers

    def _memoise(self, objects: I64) -> None:
        """What events leave in the memo; lists of references are looked up when they are first met."""
        flat = objects.ravel()
        flat = flat[flat >= 0]
        if (count := len(self._objects.written)) > len(self._values):
            self._values = np.append(self._values, np.full(count, None))
            self._stacks = np.append(self._stacks, np.full(count, _UNSEEN))
        unseen = np.flatnonzero(self._stacks[flat] == _UNSEEN)
        distinct, first = np.unique(flat[unseen], return_index=True)
        told = 0
        for each in np.argsort(
            first
        ).tolist():  # as if they were read one by one: each may refer to those before it
            at = int(unseen[first[each]])
            self._tell(flat[told:at])
            self._look_up(int(distinct[each]))
            told = at + 1
        self._tell(flat[told:])

    def _tell(self, objects: I64) -> None:
        values = self._values[objects].tolist()
        if not self._inside:
            self._memo.extend(values)
            return
        for number, value in zip(objects.tolist(), values, strict=True):
            self._memo.append(value)
            self._memo.extend(self._inside.get(number, ()))

    def _look_up(self, number: int) -> None:
        """What an object is that was not met before, told to the memo."""
        written = self._objects.written[number]
        self._stacks[number] = -1
        listed: list[Any] = []
        value: Any = listed if number else {}
        if self._objects.is_text[number]:
            value = written.decode("utf-8", "replace")
        self._values[number] = value
        self._memo.append(value)
        if value is not listed:
            return
        first = len(self._memo)
        items = ITEM.findall(written)
        try:
            listed += map(self._referred.__getitem__, items)
        except KeyError:
            listed.clear()
            listed.extend(
                self._frame(each) if each[0] == OPENING[0] else self._fetched(each) for each in items
            )
        self._stacks[number] = self.history.stack_of(listed)
        if len(self._memo) > first:
            self._inside[number] = self._memo[first:]

    def _frame(self, written: bytes) -> dict[Any, Any]:
        """A frame that stands in a list, told to the memo with its texts."""
        made = self._frames.get(written)
        if made is not None:
            self._memo.extend(made)
            known: dict[Any, Any] = made[0]
            return known
        first = len(self._memo)
        frame: dict[Any, Any] = {}
        self._memo.append(frame)
        for key, stated in ENTRY.findall(written, len(OPENING)):
            name, value = self._value(key), self._value(stated)
            if type(name) not in (str, int):
                raise NotData("it is damaged")
            frame[name] = value
            if stated[0] == _TEXT:
                self._memo.append(value)
        if len(self._frames) < _FRAMES_AT_ONCE:
            self._frames[written] = self._memo[first:]
        return frame

    def _fetched(self, reference: bytes) -> Any:
        found = self._referred[reference] = self._value(reference)
        return found

    def _value(self, written: bytes) -> Any:
        """What is referred to, a text, or a number."""
        if written[0] in (_GET, _LONG_GET):
            return self._memo[int.from_bytes(written[1:], "little")]
        if written[0] == _TEXT:
            return written[2:-1].decode("utf-8", "replace")
        return int.from_bytes(written[1:], "little", signed=written[0] == _INT)

    def _of_memo(self, references: I64, judge: Callable[[Any], int]) -> I64:
        return per_value(references, lambda each: judge(self._memo[each]))

    def _learn(self, keys: tuple[Any, ...]) -> None:
        numbers = {id(value): number for number, value in enumerate(self._memo) if type(value) is str}
        if all(id(key) in numbers for key in keys):
            self._layouts.append(Layout(keys, tuple(_reference(numbers[id(key)]) for key in keys)))
            self._window = None

    def _opened(self, at: int) -> _Window:
        data = self._source.data
        self._progress.step(at / len(data), "reading the snapshot")
        until = min(at + _BYTES_AT_ONCE, len(data))
        starts = openings(self._source, self._layouts, at, until)
        follow = np.append(starts[1:], until)
        parts = []
        for layout in self._layouts:
            part, whole = decoded(self._source, starts, follow, layout, self._objects)
            parts.append(part)
            starts, follow = starts[~whole], follow[~whole]
        events = Events.joined(parts)
        return _Window(at, until, events, _runs(events))


def _runs(events: Events) -> dict[int, tuple[int, int]]:
    """Stretches of events that follow one another directly, by where they start."""
    if not len(events.start):
        return {}
    begins = np.flatnonzero(np.append(True, events.end[:-1] != events.start[1:]))
    ends = np.append(begins[1:], len(events.start))
    return dict(
        zip(events.start[begins].tolist(), zip(begins.tolist(), ends.tolist(), strict=True), strict=True)
    )


def _reference(number: int) -> bytes:
    """The instruction that fetches what was memoised as a number."""
    if number < 256:
        return bytes((_GET, number))
    return bytes((_LONG_GET,)) + number.to_bytes(4, "little")
