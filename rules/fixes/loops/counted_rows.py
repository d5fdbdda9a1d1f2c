"""How far loops reach whose rounds count the rows of their item, where some rounds are unlike the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parsers.model import BOOL, I64
from rules.analysis.analysis import Analysis
from rules.fixes.changes import counts_rows
from rules.replay.loops import Loop, kinds_of_calls
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

BRANCHES = 1 << 40  # more than there are names: kinds of calls outside of operators


def with_other_rounds(analysis: Analysis, replay: Replay, loops: Sequence[Loop]) -> list[Loop]:
    """The same loops, those that count rows as far as nothing but what their rounds do is called around them.

    How an item's rows are sorted, multiplied and added up follows from how many there are, and some items have none:
    such a round is unlike its neighbours, and would end a loop over experts. One loop of the program is one here.
    """
    counting = counts_rows(replay)
    counts = np.append(0, np.cumsum(counting))
    found = [each for each in loops if counts[each.first + each.body] == counts[each.first]]
    if len(found) == len(loops):
        return found
    host = replay.host
    edges = np.flatnonzero((np.diff(host.thread) != 0) | (np.diff(host.step) != 0)) + 1
    called, names = _called(analysis, replay)
    alike: dict[bytes, list[Loop]] = {}
    for each in loops:
        if counts[each.first + each.body] > counts[each.first]:
            known = np.zeros(names, bool)
            known[called[each.first : each.first + each.body]] = True
            alike.setdefault(known.tobytes(), []).append(each)
    for text, those in alike.items():
        turns = np.flatnonzero(np.diff(np.frombuffer(text, bool)[called])) + 1
        ends = np.unique(np.concatenate((edges, turns, [0, len(host)])))
        found += _reaching(those, ends, counting)
    return sorted(found, key=lambda each: each.first)


def _called(analysis: Analysis, replay: Replay) -> tuple[I64, int]:
    """What the program called, for each call, as a number: the outermost operator, or the kind outside of any.

    And how many numbers there are.
    """
    operator = surroundings_of(analysis).whole_operator
    name = analysis.trace.events.name[np.maximum(operator, 0)].astype(np.int64)
    values, number = np.unique(
        np.where(operator >= 0, name, BRANCHES + kinds_of_calls(analysis)), return_inverse=True
    )
    return number.reshape(-1), len(values)


def _reaching(loops: Sequence[Loop], ends: I64, counting: BOOL) -> list[Loop]:
    """Loops whose rounds call the same, the shortest rounds first: each as far as it reaches, without those within.

    ``ends`` are the calls between which nothing else is called.
    """
    found: list[Loop] = []
    taken = np.zeros(len(counting), bool)
    for loop in sorted(loops, key=lambda each: (each.body, each.first)):
        if taken[loop.first : loop.last].any():
            continue
        first = int(ends[np.searchsorted(ends, loop.first, side="right") - 1])
        last = int(ends[np.searchsorted(ends, loop.last - 1, side="right")])
        counts = np.flatnonzero(counting[loop.first : loop.first + loop.body])
        at = first + np.flatnonzero(counting[first:last])
        first = min(loop.first, max(first, int(at[0] - counts[0])))
        last = max(loop.last, min(last, int(at[-1] - counts[-1]) + loop.body))
        times = max(loop.times, len(at) // len(counts))
        taken[first:last] = True
        found.append(replace(loop, first=first, last=last, times=times))
    return found
