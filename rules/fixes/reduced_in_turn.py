"""Values that are reduced over all ranks and read back one after another: which calls all but the first take."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, CopyKind, derived
from parsers.model.events import of_kinds
from parsers.model.names.calls import WORK_CALLS, Call
from rules.analysis.analysis import Analysis
from rules.fixes.changes import copies, first_members, of_nodes
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of

MIN_ROUNDS = 3  # in a row: fewer values may be needed one after the other
MAX_BYTES = 256  # read back in a round: more are no single values
MAX_TRANSFER_NS = 100_000.0  # of a round's collective: a longer one moves more than a value
MAX_LAUNCHES = 20  # in a round: more do something of their own between two values
OWN_NS = 250_000.0  # without a record: the program does something of its own


@derived
def reduced_in_turn(analysis: Analysis) -> BOOL:
    """The calls of all rounds but the first, where small collectives are read back in three or more rounds in a row.

    Barriers behind a value, or behind the last one, belong to them. Of values that end a step that the program marks,
    the first round's collective and read-back do as well: nothing in the step needs them.
    """
    replay = replay_of(analysis)
    host, found = replay.host, np.zeros(len(replay.host), bool)
    meets, reads = _small_meetings(replay), _small_reads(replay)
    if np.count_nonzero(meets) < MIN_ROUNDS or np.count_nonzero(reads) < MIN_ROUNDS:
        return found
    same = np.diff(host.thread) == 0
    waits = host.call == Call.SYNCHRONIZE
    before_it = np.append(waits[1:] & same, False)  # a copy and what waits for it are two calls
    read = np.append(False, reads[:-1] & before_it[:-1]) | (reads & ~before_it)  # how a value's round ends
    last = np.flatnonzero(read | waits)
    met, launches = (np.cumsum(each)[last] for each in (meets, of_kinds(host.call, *WORK_CALLS)))
    follows = (np.diff(met) > 0) & (np.diff(launches) <= MAX_LAUNCHES)
    follows &= (np.diff(host.thread[last]) == 0) & (np.diff(host.step[last]) == 0)
    last_work = _no_work_behind(replay)
    for row in np.split(last, np.flatnonzero(~follows) + 1):
        values = row[read[row]]
        if len(values) >= MIN_ROUNDS:
            ends = replay.is_annotated and last_work[row[-1]]
            first = np.flatnonzero(meets[: values[0]])[-1] if ends else values[0] + 1
            found[first : row[-1] + 1] = True
    return found


def values_of(replay: Replay, calls: BOOL) -> float:
    """How many values a step of one rank reads back in these calls, and in a first round right before them."""
    reads = _small_reads(replay)
    begins = np.flatnonzero(calls & ~np.append(False, calls[:-1]))
    before = reads[np.maximum(begins - 1, 0)] | (reads[np.maximum(begins - 2, 0)] & ~calls[begins - 2])
    values = np.count_nonzero(calls & reads) + np.count_nonzero(before)
    return values / max(replay.steps, 1) / max(len(replay.spans), 1)


def meetings_inside(replay: Replay, calls: BOOL) -> BOOL:
    """Which collectives, in the order of an overlay, all ranks start in these calls."""
    meeting, _ = first_members(replay)
    members = np.flatnonzero(replay.device.meeting >= 0)
    number = np.searchsorted(meeting, replay.device.meeting[members])
    outside = ~calls[replay.device.launch[members]]
    return np.asarray(np.bincount(number, outside, minlength=len(meeting)) == 0)


def own_time(replay: Replay) -> F64:
    """What of the time before each call the program does something that reducing values does not explain (ns)."""
    silent = np.minimum(surroundings_of(replay.analysis).silent_ns, replay.usual.gap)
    return np.where(silent >= OWN_NS, silent, 0.0)


def _no_work_behind(replay: Replay) -> BOOL:
    """Whether a thread launches nothing more in a step behind each call."""
    host = replay.host
    of_step = host.thread * (int(host.step.max(initial=0)) + 1) + host.step
    launches: I64 = np.cumsum(of_kinds(host.call, *WORK_CALLS))
    whole = np.zeros(int(of_step.max(initial=0)) + 1, np.int64)
    np.maximum.at(whole, of_step, launches)
    return np.asarray(launches == whole[of_step])


def _small_reads(replay: Replay) -> BOOL:
    size = replay.analysis.trace.attribute(Attribute.BYTES, replay.device.event)
    return of_nodes(replay, copies(replay, CopyKind.D2H) & (size <= MAX_BYTES))


def _small_meetings(replay: Replay) -> BOOL:
    meeting, _ = first_members(replay)
    members = np.flatnonzero(replay.device.meeting >= 0)
    transfer = replay.recorded.transfer[np.searchsorted(meeting, replay.device.meeting[members])]
    small = np.zeros(len(replay.device), bool)
    small[members] = transfer <= MAX_TRANSFER_NS
    return of_nodes(replay, small)
