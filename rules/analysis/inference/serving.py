"""Figures of a serving engine: counts of steps, throughput, latencies, decode time by batch size."""

from __future__ import annotations

import numpy as np

from parsers.model import F64, I64, Trace
from parsers.model.arrays import distinct_values, median_of
from parsers.model.late import dataclass
from parsers.model.results import REQUEST_LOG_TITLE
from rules.analysis.inference.engine_costs import EngineCosts, engine_costs
from rules.analysis.inference.engine_steps import EngineSteps, engine_steps
from rules.analysis.inference.requests import Requests, RequestSource, request_logs, requests_of
from rules.analysis.names.serving_steps import StepKind

_GAIN_OF_A_PLATEAU = 1.1  # throughput of twice the batch or more over that of the batch: less is no gain
_TWICE = 2
_MIN_STEPS = 3  # decode steps of one batch size: fewer say what happened once


@dataclass(frozen=True, slots=True)
class Percentiles:
    """ns, by linear interpolation."""

    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class Serving:
    """What is known; None where nothing of the kind was recorded.

    ``decode_ns_by_batch`` holds the median time of a decode step for each number of requests in it;
    ``prompt_tokens_per_s`` is of the time in prefill steps, ``tokens_per_s`` of all time; ``plateau`` is the smallest
    batch from which on twice as many requests or more decode hardly more tokens a second.
    """

    steps: dict[StepKind, int] | None
    step_ns: dict[StepKind, Percentiles]
    requests: int | None
    source: RequestSource | None
    tokens_per_s: float | None
    prompt_tokens_per_s: float | None
    ttft_ns: Percentiles | None
    tpot_ns: Percentiles | None
    decode_ns_by_batch: dict[int, float]
    plateau: int | None
    costs: EngineCosts
    log: str  # the name of the file that tells of the requests, empty where none does
    other_logs: tuple[str, ...]  # the names of those that were opened, too


def serving_of(trace: Trace) -> Serving | None:
    """The figures of a recording of an engine, a request log, or both; None where neither is there."""
    steps = engine_steps(trace)
    requests = requests_of(trace, steps)
    logs = [table.title.removeprefix(REQUEST_LOG_TITLE) for table in request_logs(trace)]
    if requests is not None and requests.log:
        logs.remove(requests.log)
    if not len(steps) and requests is None:
        return None
    return Serving(
        steps={kind: len(steps.of_kind(kind)) for kind in StepKind} if len(steps) else None,
        step_ns={
            kind: told
            for kind in StepKind
            if (told := percentiles((each := steps.of_kind(kind)).end - each.start)) is not None
        },
        requests=None if requests is None else len(requests),
        source=None if requests is None else requests.source,
        tokens_per_s=_throughput(steps, requests),
        prompt_tokens_per_s=prompt_rate(steps.of_kind(StepKind.PREFILL)),
        ttft_ns=percentiles(requests.ttft_ns) if requests else None,
        tpot_ns=percentiles(requests.tpot_ns) if requests else None,
        decode_ns_by_batch=_by_batch(steps.of_kind(StepKind.DECODE)),
        plateau=_plateau(steps.of_kind(StepKind.DECODE)),
        costs=engine_costs(trace, steps, requests),
        log="" if requests is None else requests.log,
        other_logs=tuple(logs),
    )


def _throughput(steps: EngineSteps, requests: Requests | None) -> float | None:
    """Tokens a second as the requests tell it, else as the names of the steps do, from the first to the last step.

    A few steps tell how long they took, not how many tokens the engine writes.
    """
    if requests is not None and (told := requests.tokens_per_s) is not None:
        return told
    tokens = steps.tokens
    span = int(steps.end.max() - steps.start.min()) if len(steps) else 0
    return tokens / span * 1e9 if tokens and span > 0 and len(steps) >= _MIN_STEPS else None


def prompt_rate(prefill: EngineSteps) -> float | None:
    """Tokens of prompts that a second of prefill steps computes; None where their names do not tell the tokens."""
    taken = int((prefill.end - prefill.start).sum())
    told = taken > 0 and not np.any(prefill.prompt_tokens < 0)
    return float(prefill.prompt_tokens.sum() / taken * 1e9) if told else None


def _by_batch(decode: EngineSteps) -> dict[int, float]:
    taken = decode.end - decode.start
    return {
        batch: float(median_of(taken[decode.decoded == batch]))
        for batch in distinct_values(decode.decoded[decode.decoded > 0]).tolist()
    }


def _plateau(decode: EngineSteps) -> int | None:
    sizes, counts = np.unique(decode.decoded, return_counts=True)
    often = set(sizes[counts >= _MIN_STEPS].tolist())
    rates = {batch: batch / ns for batch, ns in _by_batch(decode).items() if batch in often and ns > 0}
    for batch, rate in rates.items():
        larger = [each for size, each in rates.items() if size >= _TWICE * batch]
        if larger and max(larger) < _GAIN_OF_A_PLATEAU * rate:
            return batch
    return None


def percentiles(values: F64 | I64) -> Percentiles | None:
    """Of the values that are known."""
    known = values[np.isfinite(values)]
    return Percentiles(*np.percentile(known, (50, 90, 99)).tolist()) if len(known) else None
