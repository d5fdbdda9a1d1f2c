"""What each request did when: it waited, its prompt was computed, it was answered, others held it up."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from parsers.model import F64, I64
from parsers.model.late import dataclass
from rules.analysis.arithmetic.intervals import measure, union
from rules.analysis.inference.engine_steps import EngineSteps
from rules.analysis.inference.requests import Requests
from rules.analysis.names.serving_steps import StepKind

_JITTER_NS = 200_000  # between the end of a step and the time that a log states for its token


class Phase(IntEnum):
    """What happens to a request."""

    WAITS = 0  # no step has computed anything of it yet
    PREFILL = 1  # the step that gave its first token
    DECODE = 2  # its further tokens
    HELD_UP = 3  # meanwhile a step computed the prompts of others alone


@dataclass(frozen=True, slots=True, eq=False)
class Phases:
    """Pieces of some requests by request and start: columns of equal length, ns from the trace start."""

    request: I64
    start: I64
    end: I64
    kind: I64


def held_up_ns(requests: Requests, steps: EngineSteps) -> F64:
    """How long each request was held up by the prompts of others; NaN where that is not known."""
    held = np.full(len(requests), np.nan)
    if requests.offset_ns is not None and len(steps):
        prefill, computing = steps.of_kind(StepKind.PREFILL), _computing(steps)
        known = np.isfinite(requests.first) & np.isfinite(requests.end)
        own = _own_steps(requests, computing)[known]
        first, end = (_placed(times[known], requests.offset_ns) for times in (requests.first, requests.end))
        first[own >= 0] = computing.end[own[own >= 0]]
        held[known] = measure(union(prefill.start, prefill.end), np.minimum(first, end), end)
    return held


def phases_of(requests: Requests, steps: EngineSteps, which: I64) -> Phases:
    """Of the requests ``which`` that have arrived; what the recording cut ends with the last step.

    ``requests`` must have an offset.
    """
    assert requests.offset_ns is not None
    prefill, computing, last = steps.of_kind(StepKind.PREFILL), _computing(steps), int(steps.end.max())
    rows = which[np.isfinite(requests.arrival[which])]
    arrival, first, end = (
        _placed(np.nan_to_num(times[rows], nan=np.inf), requests.offset_ns, last)
        for times in (requests.arrival, requests.first, requests.end)
    )
    own = _own_steps(requests, computing)[rows]
    begins, after = first.copy(), first.copy()
    named = own >= 0
    begins[named] = np.clip(computing.start[own[named]], arrival[named], first[named])
    after[named] = computing.end[own[named]]
    low, high = np.searchsorted(prefill.start, (after, np.maximum(end, after)))
    cuts, of, place = _cuts(arrival, begins, first, end, prefill, low, high)
    kind = np.where(place % 2 == 0, Phase.DECODE, Phase.HELD_UP)
    kind[place < Phase.DECODE] = place[place < Phase.DECODE]
    real = np.flatnonzero((of[:-1] == of[1:]) & (np.diff(cuts) > 0))
    return Phases(rows[of[real]], cuts[real], cuts[real + 1], kind[real].astype(np.int64))


def _cuts(
    arrival: I64, begins: I64, first: I64, end: I64, prefill: EngineSteps, low: I64, high: I64
) -> tuple[I64, I64, I64]:
    """Where the phases of each request begin and where its last one ends; whose cut each is, and its place there.

    From the third one on answers and the prefill steps [low, high) take turns.
    """
    held = high - low
    size = 4 + 2 * held
    base = np.cumsum(size) - size
    cuts = np.empty(int(size.sum()), np.int64)
    for place, times in ((base, arrival), (base + 1, begins), (base + 2, first), (base + size - 1, end)):
        cuts[place] = times
    of = np.repeat(np.arange(len(held)), held)
    turn = np.arange(len(of)) - np.repeat(np.cumsum(held) - held, held)
    at, step = base[of] + 3 + 2 * turn, low[of] + turn
    cuts[at] = np.maximum(prefill.start[step], first[of])
    cuts[at + 1] = np.maximum(np.minimum(prefill.end[step], end[of]), first[of])
    return cuts, np.repeat(np.arange(len(held)), size), np.arange(len(cuts)) - np.repeat(base, size)


def begun_ns(requests: Requests, steps: EngineSteps) -> F64:
    """When the prefill of each request began, else when its first token came, ns from the trace start; NaN: unknown."""
    assert requests.offset_ns is not None
    computing = _computing(steps)
    own = _own_steps(requests, computing)
    begun = requests.first + requests.offset_ns
    begun[own >= 0] = np.minimum(computing.start[own[own >= 0]], begun[own >= 0])
    return begun


def _computing(steps: EngineSteps) -> EngineSteps:
    """The steps that compute prompts."""
    return steps.where(steps.kind != StepKind.DECODE)


def _own_steps(requests: Requests, computing: EngineSteps) -> I64:
    """The step that gave each request its first token: the one that it names, else the last one begun before it.

    -1 where that step had ended long before the token came.
    """
    assert requests.offset_ns is not None
    first = np.where(np.isfinite(requests.first), requests.first + requests.offset_ns, -np.inf)
    own = np.searchsorted(computing.start, first) - 1
    if len(computing):
        own[first > computing.end[own] + _JITTER_NS] = -1
        by_event = np.argsort(computing.event)
        place = np.searchsorted(computing.event[by_event], requests.event).clip(max=len(computing) - 1)
        named = computing.event[by_event][place] == requests.event
        own[named] = by_event[place][named]
    return own


def _placed(times: F64, offset: float, last: float = np.inf) -> I64:
    return np.minimum(times + offset, last).round().astype(np.int64)
