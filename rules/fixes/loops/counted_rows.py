"""How far loops reach whose rounds count the rows of their item, where some rounds are unlike the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parsers.model import BOOL, I64
from parsers.model.arrays import distinct_values
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
    host = replay.host
    called = _called(analysis, replay)
    edges = (np.diff(host.thread) != 0) | (np.diff(host.step) != 0)
    stretch = np.cumsum(np.append(True, edges)[: len(host)])
    mine = [each for each in loops if counting[each.first : each.first + each.body].any()]
    found = [each for each in loops if not counting[each.first : each.first + each.body].any()]
    alike: dict[tuple[int, ...], list[Loop]] = {}
    for each in mine:
        calls = distinct_values(called[each.first : each.first + each.body])
        alike.setdefault(tuple(calls.tolist()), []).append(each)
    for known, those in alike.items():
        found += _reaching(those, called, np.array(known), counting, stretch)
    return sorted(found, key=lambda each: each.first)


def _called(analysis: Analysis, replay: Replay) -> I64:
    """What the program called, for each call: the name of the outermost operator, or the kind outside of any."""
    operator = surroundings_of(analysis).whole_operator
    name = analysis.trace.events.name[np.maximum(operator, 0)].astype(np.int64)
    return np.where(operator >= 0, name, BRANCHES + kinds_of_calls(analysis))


def _reaching(loops: Sequence[Loop], called: I64, known: I64, counting: BOOL, stretch: I64) -> list[Loop]:
    """Loops whose rounds call the same, the shortest rounds first: each as far as it reaches, without those within."""
    found: list[Loop] = []
    fits = np.isin(called, known)
    for loop in sorted(loops, key=lambda each: (each.body, each.first)):
        if any(each.first < loop.last and loop.first < each.last for each in found):
            continue
        begin, end = np.searchsorted(stretch, stretch[loop.first] + np.array([0, 1])).tolist()
        before = np.flatnonzero(~fits[begin : loop.first])
        behind = np.flatnonzero(~fits[loop.first : end])
        first = begin + int(before[-1]) + 1 if len(before) else begin
        last = loop.first + int(behind[0]) if len(behind) else end
        counts = np.flatnonzero(counting[loop.first : loop.first + loop.body])
        at = first + np.flatnonzero(counting[first:last])
        first = min(loop.first, max(first, int(at[0] - counts[0])))
        last = max(loop.last, min(last, int(at[-1] - counts[-1]) + loop.body))
        times = max(loop.times, len(at) // len(counts))
        found.append(replace(loop, first=first, last=last, times=times))
    return found
