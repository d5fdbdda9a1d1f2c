"""What a program does in each step to capture a CUDA graph anew: the capture itself, and passes that warm up for it."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute
from parsers.model.arrays import among, distinct_values
from parsers.model.events import of_kinds
from parsers.model.names.calls import WORK_CALLS, Call
from rules.analysis.arithmetic.intervals import contains, union
from rules.analysis.recording.captures import captures_of
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.terms import NEARLY_ALL

OTHERS = 4  # launches in a row that are not captured, at most, between those that warm up: filling a seed, a counter


def capturing(replay: Replay) -> tuple[BOOL, BOOL, F64]:
    """The calls that capture graphs and make them executable; those from the first warm-up to each capture; and how
    much of the time before each call is part of either.

    A warm-up calls what is then captured: the same operators with the same shapes, nearly all of them, right before.
    """
    host, threads = replay.host, replay.analysis.threads
    captures = captures_of(replay.analysis.trace)
    of_capture = threads.of_events(captures.call)
    captured, warming = np.zeros(len(host), bool), np.zeros(len(host), bool)
    time = host.gap.copy()
    key = _operators(replay)
    for thread, members in enumerate(host.members):
        mine = slice(int(host.first[thread]), int(host.first[thread + 1]))
        ours = np.isin(of_capture, members)
        where = union(captures.start[ours], captures.end[ours])
        captured[mine] = contains(where, host.start[mine])
        for begin, end in zip(*(each.tolist() for each in where), strict=True):
            first = behind = mine.start + int(np.searchsorted(host.start[mine], begin))
            while behind < mine.stop and (host.start[behind] <= end or host.call[behind] == Call.GRAPH_BUILD):
                behind += 1
            if first == behind:
                continue
            captured[first:behind] = True
            of_step = mine.start + int(np.searchsorted(host.step[mine], host.step[first]))
            warm = first - _calls_of_warm_up(replay, key[of_step:first], key[first:behind], of_step)
            warming[warm:first] = True
            time[warm : warm + 1] = 0.0 if warm < first else min(host.gap[first], host.start[first] - begin)
    return captured, warming & ~captured, np.where(captured | warming, time, 0.0)


def _operators(replay: Replay) -> I64:
    """A number for each launch's operator and its shapes; -1 where they are not known, and for other calls."""
    trace, host = replay.analysis.trace, replay.host
    operator = surroundings_of(replay.analysis).whole_operator
    known = (operator >= 0) & of_kinds(host.call, *WORK_CALLS)
    found = np.full(len(host), -1, np.int64)
    dims = trace.attribute(Attribute.INPUT_DIMS, operator[known], -1)
    name = trace.events.name[operator[known]].astype(np.int64)
    found[known] = np.where(dims >= 0, name * (len(trace.strings) + 1) + dims, -1)
    return found


def _calls_of_warm_up(replay: Replay, before: I64, noted: I64, first: int) -> int:
    """How many of the last calls ``before`` a capture, which begin with the ``first`` node, warm up for it."""
    launches = np.flatnonzero(of_kinds(replay.host.call[first : first + len(before)], *WORK_CALLS))
    alike = np.flatnonzero(among(before[launches], distinct_values(noted[noted >= 0])))
    apart = np.diff(np.append(alike, len(launches)))
    breaks = np.flatnonzero(apart > OTHERS + 1)
    alike = alike[breaks[-1] + 1 :] if len(breaks) else alike
    enough = len(alike) >= max(NEARLY_ALL * np.count_nonzero(noted >= 0), 1)
    return len(before) - int(launches[alike[0]]) if enough else 0
