"""Round trips: what is copied to the host, calculated with there, and copied back before the GPU gets other work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parsers.model import BOOL, F64, I64, Attribute, CopyKind, derived
from parsers.model.names.calls import Call
from rules.analysis.analysis import Analysis
from rules.fixes.changes import LEFT_ON_GPU, copies, per_step
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of

MIN_BYTES = 1_000_000  # of a step, in each direction
MIN_SAME_SIZES = 0.8  # of the bytes of a trip: what comes back has the sizes of what went
MIN_WORK_NS = (
    1_000_000.0  # of operators on the CPU in a step: without any the copies are no trip of one tensor
)
MAX_INPUT = 0.1  # of the host's time: more is a batch that is sent behind the results of another one


@dataclass(frozen=True, slots=True, eq=False)
class RoundTrips:
    """``calls`` lie on a trip, behind its first copy to the host up to its last one back, and ``copies`` are these.

    ``work_ns`` is the host time before each call that belongs to a trip, less what the same work takes on the GPU.
    ``bytes`` go to the host in all steps.
    """

    calls: BOOL
    copies: BOOL
    work_ns: F64
    bytes: float


@derived
def round_trips(analysis: Analysis) -> RoundTrips:
    """The round trips in the replayed steps; no calls where there are none that matter."""
    replay, around = replay_of(analysis), surroundings_of(analysis)
    host = replay.host
    there, back = _bytes(replay, CopyKind.D2H), _bytes(replay, CopyKind.H2D)
    launches = np.isin(host.call, (Call.LAUNCH, Call.GRAPH_LAUNCH))
    stretch = np.cumsum(launches | np.append(True, np.diff(host.thread) != 0))
    number = int(stretch[-1]) + 1
    place = np.arange(len(host))
    first, last = np.full(number, len(host)), np.full(number, -1)
    np.minimum.at(first, stretch[there > 0], place[there > 0])
    np.maximum.at(last, stretch[back > 0], place[back > 0])
    calls = (place >= first[stretch]) & (place <= last[stretch])
    behind = calls & (place > first[stretch])
    begun = np.where(behind, host.gap, 0.0)

    def sums(of: F64) -> F64:
        return np.asarray(np.bincount(stretch, of, minlength=number))

    gone, come = sums(np.where(calls, there, 0.0)), sums(np.where(calls, back, 0.0))
    same = _of_same_sizes(stretch[calls], there[calls], back[calls], number)
    is_trip = (same >= MIN_SAME_SIZES * np.maximum(gone, come)) & (same > 0)
    is_trip &= sums(np.where(behind, around.input_ns, 0.0)) <= MAX_INPUT * sums(begun)
    calls &= is_trip[stretch]
    behind &= calls
    operators = np.where(behind, around.operators_ns, 0.0)
    bytes_there = float(there[calls].sum())
    if per_step(replay, bytes_there) < MIN_BYTES or per_step(replay, float(operators.sum())) < MIN_WORK_NS:
        calls = behind = np.zeros(len(host), bool)
    work = np.where(behind, np.maximum(host.gap - LEFT_ON_GPU * operators, 0.0), 0.0)
    return RoundTrips(calls, calls & ((there > 0) | (back > 0)), work, bytes_there)


def _bytes(replay: Replay, kind: CopyKind) -> F64:
    """What each call copies in a direction."""
    operations = np.flatnonzero(copies(replay, kind))
    amount = replay.analysis.trace.attribute(Attribute.BYTES, replay.device.event[operations])
    return np.asarray(np.bincount(replay.device.launch[operations], amount, minlength=len(replay.host)))


def _of_same_sizes(stretch: I64, there: F64, back: F64, number: int) -> F64:
    """The bytes of each stretch of calls that go and come back in copies of the same sizes."""
    found = np.zeros(number)
    copied = np.flatnonzero((there > 0) | (back > 0))
    if not len(copied):
        return found
    size = np.maximum(there, back)[copied].astype(np.int64)
    sort, which = np.unique(np.column_stack((stretch[copied], size)), axis=0, return_inverse=True)
    pairs = np.minimum(*(np.bincount(which.reshape(-1), each[copied] > 0) for each in (there, back)))
    np.add.at(found, sort[:, 0], pairs * sort[:, 1])
    return found
