"""What an engine did over time: requests in a step, tokens a second, what its KV cache holds, who waits."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from parsers.model import F64, I64, Counter, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass, regex
from rules.analysis.inference.engine_steps import EngineSteps
from rules.analysis.inference.phases import begun_ns
from rules.analysis.inference.requests import Requests
from rules.analysis.names.serving_steps import StepKind

_BATCH = regex(r"num_requests_running|num_running_reqs|running[ _]re(?:quest|q)s|batch_current_size")
_TOKENS = regex(r"gen(?:eration)?[ _]throughput")
_CACHE = regex(r"kv[ _]?cache[ _]?us(?:ag)?e|cache_usage_perc|token[ _]usage", re.IGNORECASE)
_WAITING = regex(r"num_requests_waiting|num_queue_reqs|(?:waiting|queued?)[ _]re(?:quest|q)s|queue_size")


@dataclass(frozen=True, slots=True)
class Course:
    """Step curves; None where neither names of steps, requests nor counters of the recording tell.

    ``batch``: requests that a step computes; ``tokens``: written a second, zero between steps; ``waiting``: requests of
    which nothing was computed yet; ``cache``: in %, as recorded, or in tokens of the requests that are being answered.
    """

    batch: Counter | None
    tokens: Counter | None
    cache: Counter | None
    waiting: Counter | None


def course_of(trace: Trace, steps: EngineSteps, requests: Requests | None) -> Course:
    """Of the rank that the steps are of. Steps and requests count what they tell; else the engine's own counters do."""
    if requests is not None and requests.offset_ns is None:
        requests = None
    return Course(
        _batch(steps) or _recorded(trace, _BATCH),
        _tokens(steps) or _recorded(trace, _TOKENS),
        _in_percent(_recorded(trace, _CACHE)) or (_held(requests, steps) if requests else None),
        (_waiting(requests, steps) if requests else None) or _recorded(trace, _WAITING),
    )


def _recorded(trace: Trace, pattern: re.Pattern[str]) -> Counter | None:
    found = next((each for each in trace.counters if len(each.time) and pattern.search(each.name)), None)
    return found if found is None or found.unit else replace(found, unit="count")


def _in_percent(counter: Counter | None) -> Counter | None:
    """Engines export shares of one, and print percentages."""
    if counter is None or counter.unit == "%":
        return counter
    most = np.nanmax(counter.value, initial=0.0)
    return replace(counter, value=counter.value * (100.0 if most <= 1.0 else 1.0), unit="%")


def _batch(steps: EngineSteps) -> Counter | None:
    known = (steps.prompts >= 0) & (steps.decoded >= 0)
    return _during("Batch size", steps, np.where(known, steps.prompts + steps.decoded, np.nan))


def _tokens(steps: EngineSteps) -> Counter | None:
    """Prompts of mixed steps do not count: a part of one gives no token unless it is the last."""
    of_prompts = np.where(steps.kind == StepKind.PREFILL, steps.prompts, 0)
    known = (of_prompts >= 0) & (steps.decoded >= 0)
    seconds = np.maximum(steps.end - steps.start, 1) / 1e9
    return _during("Tokens a second", steps, np.where(known, of_prompts + steps.decoded, np.nan) / seconds)


def _during(name: str, steps: EngineSteps, value: F64) -> Counter | None:
    """What holds during each step, and zero where none runs."""
    if not np.isfinite(value).any():
        return None
    time = np.column_stack((steps.start, steps.end)).ravel()
    values = np.column_stack((value, np.zeros(len(value)))).ravel()
    kept = np.ones(len(time), bool)
    kept[1:-1:2] = steps.end[:-1] < steps.start[1:]
    return Counter(name, "count", time[kept], values[kept])


def _waiting(requests: Requests, steps: EngineSteps) -> Counter | None:
    """Whose arrival is known and who has begun no step; those that never begin wait until the end."""
    assert requests.offset_ns is not None
    arrival, begun = requests.arrival + requests.offset_ns, begun_ns(requests, steps)
    arrived = arrival[np.isfinite(arrival)]
    begun = np.maximum(begun, arrival)[np.isfinite(arrival) & np.isfinite(begun)]
    if not len(arrived):
        return None
    time = np.concatenate((arrived, begun)).round().astype(np.int64)
    change = np.concatenate((np.ones(len(arrived)), -np.ones(len(begun))))
    return _summed("Waiting", time, change)


def _held(requests: Requests, steps: EngineSteps) -> Counter | None:
    """Tokens of prompts and answers of the requests that are being answered; each answer grows evenly."""
    assert requests.offset_ns is not None
    known = np.isfinite(requests.first) & np.isfinite(requests.end) & np.isfinite(requests.prompt)
    known &= np.isfinite(requests.out) & (requests.end >= requests.first)
    if not known.any():
        return None
    first, end = (times[known] + requests.offset_ns for times in (requests.first, requests.end))
    prompt, further = requests.prompt[known], np.maximum(requests.out[known] - 1, 0)
    grid = distinct_values(np.concatenate((first, end, steps.end)).round().astype(np.int64))
    begins, ends = (np.searchsorted(grid, times.round().astype(np.int64)) for times in (first, end))
    slope = further / np.maximum(end - first, 1)
    level, growth = np.zeros((2, len(grid)))
    origin = float(grid[0])
    for places, sign in ((begins, 1.0), (ends, -1.0)):
        np.add.at(level, places, sign * (prompt + 1 - slope * (first - origin)))
        np.add.at(growth, places, sign * slope)
    value = np.cumsum(level) + np.cumsum(growth) * (grid - origin)
    return Counter("KV cache", "count", grid, np.maximum(value.round(), 0.0))


def _summed(name: str, time: I64, change: F64) -> Counter:
    """The sum of all changes up to each time."""
    grid, place = np.unique(time, return_inverse=True)
    return Counter(name, "count", grid, np.cumsum(np.bincount(place, change, minlength=len(grid))))
