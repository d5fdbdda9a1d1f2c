"""Requests that an engine answered: from a request log, or from ranges that mark them."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

import numpy as np

from parsers.model import BOOL, F64, I64, EventKind, Trace
from parsers.model.arrays import median_of
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import named
from parsers.model.results import REQUEST_LOG, REQUEST_LOG_TITLE, Cell, ResultTable
from parsers.model.units import NS_PER_MS
from rules.analysis.inference.engine_steps import EngineSteps
from rules.analysis.names.serving_steps import StepKind
from rules.terms import MAJORITY

_RANGE = regex(r"^req(?:uest)?[\s_#:\-]*(?=[\w\-]{0,60}\d)[\w\-]{1,60}$", re.IGNORECASE)


class RequestSource(Enum):
    """What told of the requests."""

    LOG = "request log"
    RANGES = "ranges"


@dataclass(frozen=True, slots=True, eq=False)
class AllowedTimes:
    """The longest time to first token and per output token (ns) that were agreed on; None: any."""

    ttft_ns: float | None = None
    tpot_ns: float | None = None

    def __bool__(self) -> bool:
        return self.ttft_ns is not None or self.tpot_ns is not None


@dataclass(frozen=True, slots=True, eq=False)
class Lateness:
    """Of each request, whether its times are known so far that it can be judged, and which of them are too long."""

    judged: BOOL
    late_ttft: BOOL
    late_tpot: BOOL

    @property
    def late(self) -> BOOL:
        """The judged requests that took longer than allowed."""
        return self.judged & (self.late_ttft | self.late_tpot)

    @property
    def share_in_time(self) -> float | None:
        """Of the judged requests; None where there are none."""
        count = int(self.judged.sum())
        return 1 - int(self.late.sum()) / count if count else None


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Columns of equal length, by arrival: ns of arrival, first token and end, tokens in and out; NaN: not known.

    Times of a log count from its first request, those of ranges from the trace start. ``event`` is an index into the
    event table: the range or, for a log, the engine step that gave the first token; -1 where that is not known.
    ``offset_ns`` leads from these times to those of the trace, None where they cannot be placed on it.
    ``name_of`` gives the name of the request in a row.
    """

    source: RequestSource
    arrival: F64
    first: F64
    end: F64
    prompt: F64
    out: F64
    event: I64
    offset_ns: float | None
    name_of: Callable[[int], str]
    log: str = ""  # its file's name

    @property
    def ttft_ns(self) -> F64:
        """Time to first token."""
        return self.first - self.arrival

    @property
    def tpot_ns(self) -> F64:
        """Time per output token after the first; NaN for requests with one."""
        further = np.where(self.out > 1, self.out - 1, np.nan)
        tpot: F64 = (self.end - self.first) / further
        return tpot

    def lateness(self, allowed: AllowedTimes) -> Lateness:
        """Who took longer than allowed. Requests that the recording cut are not judged by times they do not have."""
        ttft, tpot = self.ttft_ns, self.tpot_ns
        only_one = np.isfinite(self.end) & (self.out <= 1)
        judged = np.full(len(self), bool(allowed))
        late_ttft, late_tpot = np.zeros((2, len(self)), bool)
        if allowed.ttft_ns is not None:
            judged &= np.isfinite(ttft)
            late_ttft = ttft > allowed.ttft_ns
        if allowed.tpot_ns is not None:
            judged &= np.isfinite(tpot) | only_one
            late_tpot = tpot > allowed.tpot_ns
        return Lateness(judged, late_ttft, late_tpot)

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens out of all finished requests over the time from the first arrival to the last end."""
        finished = np.isfinite(self.arrival) & np.isfinite(self.end)
        span = np.ptp(np.concatenate((self.arrival[finished], self.end[finished]))) if finished.any() else 0.0
        tokens = self.out[finished].sum()
        return float(tokens / span * 1e9) if span > 0 and np.isfinite(tokens) else None

    def __len__(self) -> int:
        return len(self.arrival)


def request_logs(trace: Trace) -> list[ResultTable]:
    """The logs that were opened and hold requests."""
    return [table for table in trace.tables if table.columns == REQUEST_LOG and table.rows]


def requests_of(trace: Trace, steps: EngineSteps) -> Requests | None:
    """What a log says, else what ranges and engine steps say together; None where nothing marks requests."""
    return _logged(trace, steps) or _marked(trace, steps)


def _logged(trace: Trace, steps: EngineSteps) -> Requests | None:
    """The requests of the log, of several the one that alone fits the engine's steps; else None."""
    logs = [_of_log(trace, log, steps) for log in request_logs(trace)]
    fitting = logs if len(logs) == 1 else [log for log in logs if log.offset_ns is not None]
    return fitting[0] if len(fitting) == 1 else None


def _of_log(trace: Trace, log: ResultTable, steps: EngineSteps) -> Requests:
    arrival, first, end, prompt, out = (
        np.array([np.nan if not isinstance(cell, float) else cell for cell in log.column(name)], np.float64)
        for name in ("arrival", "first token", "end", "prompt", "out")
    )
    ids = log.column("id")
    event, offset = _steps_of_first_tokens(first * NS_PER_MS, steps)
    if offset is None:
        offset = _by_wall_clock(trace, log.zero_ns, arrival * NS_PER_MS, steps)
    return Requests(
        RequestSource.LOG,
        arrival * NS_PER_MS,
        first * NS_PER_MS,
        end * NS_PER_MS,
        prompt,
        out,
        event,
        offset,
        lambda row: _shown_id(ids[row], row),
        log.title.removeprefix(REQUEST_LOG_TITLE),
    )


def _steps_of_first_tokens(first: F64, steps: EngineSteps) -> tuple[I64, float | None]:
    """The prefill step (event) that ended with each request's first token, and the distance (ns) of both clocks.

    All -1 and None unless as many prompts as requests were computed, and in one rhythm: the distance of both clocks
    must vary by less than half the shortest of these steps, so that no other pairing fits.
    """
    found = np.full(len(first), -1, np.int64)
    prefill = steps.of_kind(StepKind.PREFILL)
    if not len(prefill) or np.any(prefill.prompts < 0) or prefill.prompts.sum() != len(first):
        return found, None
    by_end = np.argsort(prefill.end, kind="stable")
    step_of = np.repeat(by_end, prefill.prompts[by_end])
    by_first = np.argsort(first, kind="stable")
    apart = prefill.end[step_of] - first[by_first]
    if not np.ptp(apart) < (prefill.end - prefill.start).min() / 2:
        return found, None
    found[by_first] = prefill.event[step_of]
    return found, float(median_of(apart))


def _by_wall_clock(trace: Trace, zero_ns: int | None, arrival: F64, steps: EngineSteps) -> float | None:
    """What leads from the times of a log to those of the trace, where both state the wall clock and fit each other."""
    if zero_ns is None or trace.epoch_ns is None or not len(steps):
        return None
    offset = float(zero_ns - trace.epoch_ns)
    inside = (arrival + offset >= 0) & (arrival + offset <= steps.end.max())
    return offset if inside.mean() >= MAJORITY else None


def _shown_id(stated: Cell, row: int) -> str:
    """Numbers as the log has them; the place in the order of arrival where it has none."""
    if stated is None:
        return f"number {row + 1}"
    return f"{stated:.0f}" if isinstance(stated, float) else stated


def _marked(trace: Trace, steps: EngineSteps) -> Requests | None:
    regions = trace.events.of_kind(EventKind.REGION)
    regions = regions[named(trace, regions, _RANGE.match)]
    if not len(regions) or not len(steps):
        return None
    regions = trace.events.by_start(regions)
    arrival = trace.events.start[regions].astype(np.float64)
    end = trace.events.end[regions].astype(np.float64)
    first = _first_tokens(arrival, end, steps)
    names = trace.events.name[regions]
    return Requests(
        RequestSource.RANGES,
        arrival,
        first,
        end,
        np.full(len(arrival), np.nan),
        _tokens_out(first, end, steps),
        regions,
        0.0,
        lambda row: trace.strings[names[row]],
    )


def _first_tokens(arrival: F64, end: F64, steps: EngineSteps) -> F64:
    """The end of the prefill that each request had, if prompts were computed whole and in the order of arrival.

    All NaN where counts or times say otherwise: then names do not tell whose prompt a step computed.
    """
    unknown = np.full(len(arrival), np.nan)
    prefill = steps.of_kind(StepKind.PREFILL)
    if np.any(steps.kind == StepKind.MIXED) or np.any(prefill.prompts < 0):
        return unknown
    if prefill.prompts.sum() != len(arrival):
        return unknown
    whose = np.repeat(np.arange(len(prefill)), prefill.prompts)
    fits = (prefill.start[whose] >= arrival) & (prefill.end[whose] <= end)
    return prefill.end[whose].astype(np.float64) if fits.all() else unknown


def _tokens_out(first: F64, end: F64, steps: EngineSteps) -> F64:
    """One token from the prefill and one from each decode step up to the end, if that is all that was decoded."""
    decode = steps.of_kind(StepKind.DECODE)
    ends = np.sort(decode.end)
    further = np.searchsorted(ends, end, side="right") - np.searchsorted(ends, first, side="right")
    if np.isnan(first).any() or np.any(decode.decoded < 0) or further.sum() != decode.decoded.sum():
        return np.full(len(first), np.nan)
    return (1 + further).astype(np.float64)
