"""The tables of a serving engine: its steps, and the requests that it answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from parsers.model.arrays import F64
from rules.analysis.analysis import Analysis
from rules.analysis.inference.engine_steps import engine_steps
from rules.analysis.inference.phases import held_up_ns
from rules.analysis.inference.requests import requests_of
from rules.analysis.names.serving_steps import StepKind
from viewer.tables.columns import EVENT, TIMES, columns, known, names_of, times
from viewer.tables.table import Column, RowTable, row_table


@row_table
class EngineStepRows(RowTable):
    """As the names of regions tell them; of the first rank that has most of them."""

    name = "engine_steps"
    about = "one step of a serving engine: prefill, decode, or both"
    columns = (
        EVENT,
        Column("name", "name as recorded"),
        *TIMES,
        Column("kind", "prefill, decode or mixed"),
        Column("prompts", "prompts that it computes"),
        Column("decoded", "requests that it gives a further token"),
        Column("prompt_tokens", "length of the prompts, or of the parts of them, that it computes"),
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace, steps = analysis.trace, engine_steps(analysis.trace)
        kinds = np.array(["", *(kind.name.lower() for kind in StepKind)], object)
        return columns(
            {"event": steps.event, "name": names_of(trace, steps.event)},
            times(trace, steps.event),
            {
                "kind": kinds[steps.kind],
                "prompts": known(steps.prompts),
                "decoded": known(steps.decoded),
                "prompt_tokens": known(steps.prompt_tokens),
            },
        )


@row_table
class RequestRows(RowTable):
    """From a request log, else from ranges that mark requests."""

    name = "requests"
    about = "one request that an engine answered"
    columns = (
        Column("request", "its id or the name of its range"),
        Column("event", "its range, or the step that gave its first token"),
        Column(
            "arrival_ns", "when it arrived, counted from the start of the recording, or of a log without one"
        ),
        Column("first_token_ns", "when its first token came"),
        Column("answered_ns", "when its last token came"),
        Column("ttft_ns", "time to its first token"),
        Column("tpot_ns", "time per further token"),
        Column("held_up_ns", "time in which steps computed only the prompts of others"),
        Column("prompt_tokens", "tokens in"),
        Column("tokens", "tokens out"),
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace, steps = analysis.trace, engine_steps(analysis.trace)
        found = requests_of(trace, steps)
        if found is None:
            return {
                column.name: np.empty(0, object if column.name == "request" else np.int64)
                for column in self.columns
            }
        offset = found.offset_ns or 0.0
        return {
            "request": np.array([found.name_of(row) for row in range(len(found))], object),
            "event": known(found.event),
            "arrival_ns": _whole(found.arrival + offset),
            "first_token_ns": _whole(found.first + offset),
            "answered_ns": _whole(found.end + offset),
            "ttft_ns": _whole(found.ttft_ns),
            "tpot_ns": _whole(found.tpot_ns),
            "held_up_ns": _whole(held_up_ns(found, steps)),
            "prompt_tokens": _whole(found.prompt),
            "tokens": _whole(found.out),
        }


def _whole(values: F64) -> Any:
    missing = ~np.isfinite(values)
    return known(np.where(missing, 0, values).round().astype(np.int64), missing)
