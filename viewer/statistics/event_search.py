"""Finding things by what the user types: fuzzy scores, and event names with their counts; no Qt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from parsers.model import Progress, Trace

I64 = npt.NDArray[np.int64]
MOST_FUZZY_NAMES = 30_000


def fuzzy_score(query: str, text: str) -> float:
    """How well ``query`` (lower case) matches ``text``: 0 not at all, higher is better.

    A substring beats scattered letters; the start of the text or of a word beats its middle; short beats long.
    """
    if not query:
        return 1.0
    lowered = text.lower()
    place = lowered.find(query)
    if place >= 0:
        at_word = place == 0 or not lowered[place - 1].isalnum()
        return 100.0 + (30.0 if place == 0 else 15.0 if at_word else 0.0) - min(len(text), 200) / 20
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
    return max(score * 2 - spread, 0.0) if score >= len(query) * 2 else 0.0


@dataclass(frozen=True, slots=True)
class NameMatch:
    """Event names that match, as indices into ``Trace.strings``, best first, and how many events carry each."""

    names: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def events(self) -> int:
        return sum(self.counts)


def name_counts(trace: Trace) -> I64:
    """How many events carry each string."""
    return np.bincount(trace.events.name, minlength=len(trace.strings)).astype(np.int64)


def matching_names(
    trace: Trace,
    query: str,
    *,
    regex: bool = False,
    limit: int | None = None,
    progress: Progress | None = None,
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
        found = []
        for place, name in enumerate(_stepping(used.tolist(), progress)):
            text = trace.strings[name]
            if place >= MOST_FUZZY_NAMES and wanted not in text.lower():
                continue
            score = fuzzy_score(wanted, text)
            if score > 0:
                found.append((score, name))
        if any(score >= 90 for score, _ in found):
            found = [(score, name) for score, name in found if score >= 90]
    found.sort(key=lambda each: (-each[0], -counts[each[1]]))
    names = [name for _, name in found][:limit]
    return NameMatch(tuple(names), tuple(int(counts[name]) for name in names))


def _stepping(names: Sequence[int], progress: Progress) -> Iterable[int]:
    for place, name in enumerate(names):
        if place % 2000 == 0:
            progress.step(place / len(names), "searching")
        yield name


def events_named(trace: Trace, names: Sequence[int]) -> I64:
    """All events with one of these names, by start."""
    wanted = np.zeros(len(trace.strings), bool)
    wanted[list(names)] = True
    found = np.flatnonzero(wanted[trace.events.name])
    return found[np.argsort(trace.events.start[found], kind="stable")]


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
