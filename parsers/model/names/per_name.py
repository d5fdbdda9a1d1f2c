"""What follows from an event's name: found out once for each name, not for each event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from parsers.model.arrays import BOOL, I8, I32, I64, U8
from parsers.model.derived import DerivedValues, derived
from parsers.model.events import EventTable

_WORTH_ALL_NAMES = (
    64  # times as many events as there are names: all of these are asked sooner than theirs are found
)


class Named(Protocol):
    """What has named events: a trace."""

    @property
    def strings(self) -> Sequence[str]:
        """The names."""

    @property
    def events(self) -> EventTable:
        """Events, whose names are indices into the strings."""

    @property
    def derived_values(self) -> DerivedValues:
        """What was found out of them before."""


def distinct(names: I32 | U8) -> I64:
    """The different names, or other small numbers, among these, ascending, without sorting them all."""
    return np.bincount(names).nonzero()[0] if len(names) else np.empty(0, np.int64)


def judged(names: I32, strings: Sequence[str], judge: Callable[[str], int]) -> I64:
    """What ``judge`` says of each name, an index into ``strings``; it is asked once for each of them."""
    table = np.zeros(len(strings), np.int64)
    for name in distinct(names).tolist():
        table[name] = judge(strings[name])
    return table.take(names)


def numbers_of(trace: Named, events: I64, number: Callable[[str], int]) -> I64:
    """``number`` of each event's name."""
    return judged(trace.events.name[events], trace.strings, number)


def named(trace: Named, events: I64, wanted: Callable[[str], object]) -> BOOL:
    """Whether each event's name is wanted: what is true of it counts, as the match of a pattern is."""
    strings, few = trace.strings, names_of_events(trace)
    names = None if len(few) * _WORTH_ALL_NAMES <= len(events) else trace.events.name[events]
    found = [each for each in (few if names is None else distinct(names).tolist()) if wanted(strings[each])]
    if not found:
        return np.zeros(len(events), bool)
    table = np.zeros(len(strings), bool)
    table[found] = True
    return table.take(trace.events.name[events] if names is None else names)


@derived
def names_of_events(trace: Named) -> list[int]:
    """The names that any event bears, ascending."""
    names: list[int] = distinct(trace.events.name).tolist()
    return names


class PerString:
    """``judge`` is asked once for each string, however many events bear it; ``strings`` may grow."""

    def __init__(self, strings: Sequence[str], judge: Callable[[str], int]) -> None:
        self._strings = strings
        self._judge = judge
        self._values = np.empty(0, np.int8)

    def of(self, names: I32) -> I8:
        known = len(self._values)
        if len(self._strings) > known:
            new = np.fromiter((self._judge(text) for text in self._strings[known:]), np.int8)
            self._values = np.concatenate((self._values, new))
        return self._values[names]
