"""Finding things by what the user types: what matches, what is only similar, and event names with counts; no Qt."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence

import numpy as np

from parsers.model import I64, Progress, Trace
from parsers.model.late import dataclass

MAX_COMPARED = 30_000  # names, the most frequent ones
MAX_SIMILAR = 5
ALIKE = 0.6  # of the most similar name's score


def match_score(query: str, text: str) -> float:
    """How well ``text`` matches ``query`` (lower case): 0 unless it contains it, or all of its words.

    The whole query beats its words apart; the start of the text or of a word beats its middle; short beats long.
    """
    if not query:
        return 1.0
    lowered = text.lower()
    shortness = -min(len(text), 200) / 20
    place = lowered.find(query)
    if place >= 0:
        at_word = place == 0 or not lowered[place - 1].isalnum()
        return 110.0 + (30.0 if place == 0 else 15.0 if at_word else 0.0) + shortness
    return 100.0 + shortness if all(word in lowered for word in query.split()) else 0.0


def similarity(query: str, text: str) -> float:
    """How alike ``query`` (lower case) and ``text`` are, below 50; 0 unless its letters come in this order in ``text``.

    Letters in a row and at the start of words count for more. No match, but maybe what was meant.
    """
    lowered = text.lower()
    score, at, run = 0.0, -1, 0
    for letter in query:
        if letter == " ":
            run = 0
            continue
        found = lowered.find(letter, at + 1)
        if found < 0:
            return 0.0
        run = run + 1 if found == at + 1 else 0
        starts_word = found == 0 or not lowered[found - 1].isalnum() or text[found : found + 1].isupper()
        score += 1.0 + 2.0 * run + (3.0 if starts_word else 0.0)
        at = found
    spread = (at + 1) / max(len(query), 1)
    return min(max(score * 2 - spread, 0.0), 49.0) if score >= len(query) * 2 else 0.0


@dataclass(frozen=True, slots=True)
class NameMatch:
    """Event names that match, as indices into ``Trace.strings``, best first, and how many events carry each.

    ``similar`` are names that do not match, and only where none does.
    """

    names: tuple[int, ...]
    counts: tuple[int, ...]
    similar: tuple[int, ...] = ()

    @property
    def events(self) -> int:
        return sum(self.counts)


def name_counts(trace: Trace) -> I64:
    """How many events carry each string."""
    return np.bincount(trace.events.name, minlength=len(trace.strings)).astype(np.int64)


def matching_names(
    trace: Trace, query: str, *, regex: bool = False, progress: Progress | None = None
) -> NameMatch:
    """Names of events that match; raises ``re.error`` for a regular expression that is none."""
    progress = progress or Progress()
    counts = name_counts(trace)
    used = np.flatnonzero(counts)
    used = used[np.argsort(-counts[used], kind="stable")]
    if regex:
        pattern = re.compile(query, re.IGNORECASE)
        found = [
            (1.0, name) for name in _stepping(used.tolist(), progress) if pattern.search(trace.strings[name])
        ]
    else:
        wanted = query.strip().lower()
        scored = [
            (match_score(wanted, trace.strings[name]), name) for name in _stepping(used.tolist(), progress)
        ]
        found = [each for each in scored if each[0] > 0]
    found.sort(key=lambda each: (-each[0], -counts[each[1]]))
    names = [name for _, name in found]
    similar = () if names or regex else _similar(trace, wanted, used[:MAX_COMPARED].tolist(), progress)
    return NameMatch(tuple(names), tuple(int(counts[name]) for name in names), similar)


def _similar(trace: Trace, wanted: str, names: Sequence[int], progress: Progress) -> tuple[int, ...]:
    scored = [(similarity(wanted, trace.strings[name]), name) for name in _stepping(names, progress)]
    best = heapq.nlargest(MAX_SIMILAR, scored, key=lambda each: each[0])
    least = ALIKE * max((score for score, _ in best), default=0.0)
    return tuple(name for score, name in best if score > 0 and score >= least)


def _stepping(names: Sequence[int], progress: Progress) -> Iterable[int]:
    for index, name in enumerate(names):
        if index % 2000 == 0:
            progress.step(index / len(names), "searching")
        yield name


def events_named(trace: Trace, names: Sequence[int]) -> I64:
    """All events with one of these names, by start."""
    wanted = np.zeros(len(trace.strings), bool)
    wanted[list(names)] = True
    found = np.flatnonzero(wanted[trace.events.name])
    return trace.events.by_start(found)


class Walk:
    """A position in a list of events, for next and previous."""

    def __init__(self, trace: Trace, events: I64, title: str) -> None:
        self.title = title
        self.events = events
        self._start = trace.events.start[events]
        self.position = -1

    def __len__(self) -> int:
        return len(self.events)

    def start_at(self, when: int) -> int:
        """The first event that starts at ``when`` or later, else the first of all."""
        found = int(np.searchsorted(self._start, when, side="left"))
        self.position = found if found < len(self.events) else 0
        return int(self.events[self.position])

    def move(self, by: int) -> int:
        """The next or the previous event; around the ends."""
        self.position = (self.position + by) % len(self.events)
        return int(self.events[self.position])

    @property
    def text(self) -> str:
        return f"{self.position + 1:,} of {len(self.events):,}"
