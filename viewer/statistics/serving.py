"""The tables of a serving engine: its steps by kind and batch size, and its requests with their latencies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from parsers.model import F64, I64, Trace
from parsers.model.arrays import distinct_values, median_of
from parsers.model.late import dataclass
from rules.analysis.inference.engine_steps import EngineSteps, engine_steps
from rules.analysis.inference.phases import Phase, held_up_ns, phases_of
from rules.analysis.inference.requests import Lateness, Requests, requests_of
from rules.analysis.inference.serving import Serving, percentiles, prompt_rate, serving_of
from rules.analysis.names.serving_steps import StepKind
from rules.findings.base import Evidence
from rules.losses.lost_time import evidence_of

if TYPE_CHECKING:
    import pandas as pd

MAX_REQUESTS = 100_000  # rows of the table
MAX_PLACES = 200  # steps that one row shows


@dataclass(frozen=True, slots=True, eq=False)
class ServingTables:
    """What was found; a row of ``steps`` is told from ``of_row``, which steps of the engine it speaks of."""

    serving: Serving
    engine: EngineSteps
    requests: Requests | None
    steps: pd.DataFrame
    of_row: tuple[I64, ...]
    held_up_ns: F64  # of each request, NaN where not known
    phase_ns: F64  # a row for each request, a column for each ``Phase``; 0 where nothing is known


def serving_tables(trace: Trace) -> ServingTables | None:
    """None where neither steps of an engine nor a request log are there."""
    serving = serving_of(trace)
    if serving is None:
        return None
    engine = engine_steps(trace)
    frame, of_row = _step_table(engine, serving.plateau)
    requests = requests_of(trace, engine)
    held = held_up_ns(requests, engine) if requests is not None else np.empty(0)
    return ServingTables(serving, engine, requests, frame, of_row, held, _phase_ns(requests, engine))


def _phase_ns(requests: Requests | None, engine: EngineSteps) -> F64:
    count = min(len(requests), MAX_REQUESTS) if requests is not None else 0
    if requests is None or requests.offset_ns is None or not len(engine):
        return np.zeros((count, len(Phase)))
    phases = phases_of(requests, engine, np.arange(count))
    cell = phases.request * len(Phase) + phases.kind
    spent = np.bincount(cell, phases.end - phases.start, minlength=count * len(Phase))
    return spent.reshape(count, len(Phase)).astype(np.float64)


def _step_table(engine: EngineSteps, plateau: int | None) -> tuple[pd.DataFrame, tuple[I64, ...]]:
    """A row a kind of step, then one a batch size of the decode steps; times in ns, the share is of all steps' time.

    ``between`` is the median time from the end of the step before: what the engine does, or waits for, outside of
    them. ``rate`` is tokens/s: of prefill steps whose names tell them in all their time, of decode steps whose batch is
    known at the median time.
    """
    import pandas as pd

    taken = engine.end - engine.start
    between = np.full(len(engine), np.nan)
    between[1:] = np.maximum(engine.start[1:] - np.maximum.accumulate(engine.end)[:-1], 0)
    rows: list[dict[str, Any]] = []
    of_row: list[I64] = []

    def add(name: str, members: I64, rate: float | None = None, remark: str = "") -> None:
        told, before = percentiles(taken[members]), percentiles(between[members])
        if told is None:
            return
        of_row.append(members)
        rows.append(
            {
                "name": name,
                "count": len(members),
                "p50": told.p50,
                "p90": told.p90,
                "p99": told.p99,
                "rate": np.nan if rate is None else rate,
                "share": taken[members].sum() / max(taken.sum(), 1),
                "between": before.p50 if before else np.nan,
                "remark": remark,
            }
        )

    for kind in StepKind:
        of_prompts = prompt_rate(engine.of_kind(kind)) if kind is StepKind.PREFILL else None
        add(f"{kind.name.lower()} steps", np.flatnonzero(engine.kind == kind), of_prompts)
    decode = engine.kind == StepKind.DECODE
    for batch in distinct_values(engine.decoded[decode & (engine.decoded > 0)]).tolist():
        remark = "plateau begins" if batch == plateau else ""
        members = np.flatnonzero(decode & (engine.decoded == batch))
        median = float(median_of(taken[members]))
        add(f"decode of {batch:,}", members, batch / median * 1e9 if median > 0 else None, remark)
    columns = ["name", "count", "p50", "p90", "p99", "rate", "share", "between", "remark"]
    return pd.DataFrame(rows, columns=columns), tuple(of_row)


def request_table(tables: ServingTables, requests: Requests, lateness: Lateness) -> pd.DataFrame:
    """One row a request by arrival, the first ``MAX_REQUESTS``; ``late_*`` is 1 where a time is too long.

    Times are ns; an arrival counts from the first.
    """
    import pandas as pd

    shown = min(len(requests), MAX_REQUESTS)
    arrival, held_up = requests.arrival[:shown], tables.held_up_ns
    return pd.DataFrame(
        {
            "name": [requests.name_of(row) for row in range(shown)],
            "arrival": arrival - arrival[0],
            "ttft": requests.ttft_ns[:shown],
            "tpot": requests.tpot_ns[:shown],
            "whole": (requests.end - requests.arrival)[:shown],
            "held": held_up[:shown] if np.isfinite(held_up).any() else 0,
            "prompt": requests.prompt[:shown] if np.isfinite(requests.prompt).any() else 0,
            "out": requests.out[:shown],
            **{phase.name.lower(): tables.phase_ns[:, phase] for phase in Phase},
            "passed": tables.phase_ns.sum(axis=1),
            "late_ttft": lateness.late_ttft[:shown].astype(np.int64),
            "late_tpot": lateness.late_tpot[:shown].astype(np.int64),
        }
    )


def places_of_steps(trace: Trace, tables: ServingTables, row: int) -> list[Evidence]:
    """The steps of a row in the order of time: all, or the longest ``MAX_PLACES``."""
    members, engine = tables.of_row[row], tables.engine
    taken = engine.end[members] - engine.start[members]
    longest = np.sort(members[np.argsort(-taken, kind="stable")[:MAX_PLACES]])
    return _places(trace, engine.event[longest])


def places_of_requests(trace: Trace, requests: Requests, rows: I64) -> list[Evidence]:
    """The ranges of requests, or the steps that gave their first tokens; nothing where neither is known."""
    event = requests.event[rows[:MAX_PLACES]]
    return _places(trace, event[event >= 0])


def place_of_request(requests: Requests, engine: EngineSteps, row: int) -> list[Evidence]:
    """The time of one request, on no lane of the recording; nothing where it cannot be placed among the steps."""
    if requests.offset_ns is None or not len(engine) or not np.isfinite(requests.arrival[row]):
        return []
    begin, end = (times[row] + requests.offset_ns for times in (requests.arrival, requests.end))
    until = round(end) if np.isfinite(end) else int(engine.end.max())
    return [Evidence(-1, round(begin), until, requests.name_of(row))]


def _places(trace: Trace, which: I64) -> list[Evidence]:
    """Places without their event: a selected one would bring its own tab to the front."""
    return [replace(each, event=-1) for each in evidence_of(trace, which)]
