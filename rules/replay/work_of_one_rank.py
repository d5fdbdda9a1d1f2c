"""Work between two collectives that one rank does and the others do not."""

from __future__ import annotations

import numpy as np

from parsers.model import F64
from parsers.model.arrays import median_of
from parsers.model.names.calls import WORK_CALLS
from rules.replay.replay import Replay

MIN_MORE = 1.5  # times the others' median of calls
MIN_MORE_CALLS = 20


def part_of_all_ranks(replay: Replay) -> F64:
    """For each call of the replay the part of its stretch that the other ranks do as well; 1 where they do as much.

    A stretch lies between two collectives of one rank; those of all ranks correspond by their number within a step,
    where all take part in equally many. Work is counted in calls.
    """
    host, device = replay.host, replay.device
    span = host.span_of_thread[host.thread]
    meets = np.zeros(len(host), np.int64)
    meets[device.launch[device.meeting >= 0]] = 1
    order = np.lexsort((host.start, host.step, span))
    key = np.column_stack((span[order], host.step[order]))
    begins = np.append(True, (np.diff(key, axis=0) != 0).any(axis=1))
    if len(set(np.bincount(span, meets, minlength=len(replay.spans)))) > 1:
        return np.ones(len(host))
    count = np.cumsum(meets[order])
    before = count - meets[order]
    number = count - np.maximum.accumulate(np.where(begins, before, 0))
    stretch = np.empty(len(host), np.int64)
    stretch[order] = number
    works = np.isin(host.call, [int(each) for each in WORK_CALLS]).astype(np.float64)
    spans = len(replay.spans)
    _, place = np.unique(host.step * (int(number.max(initial=0)) + 1) + stretch, return_inverse=True)
    calls = np.bincount(place * spans + span, works).astype(np.float64)
    calls = np.append(calls, np.zeros(-len(calls) % spans)).reshape(-1, spans)
    part = np.ones_like(calls)
    for mine in range(spans):
        others = median_of(np.delete(calls, mine, axis=1), axis=1)
        more = (calls[:, mine] > MIN_MORE * others) & (calls[:, mine] - others >= MIN_MORE_CALLS)
        part[more, mine] = others[more] / calls[more, mine]
    return np.asarray(part[place, span])
