"""The tables of what the analysis found: steps, gaps, what each GPU did all the time, findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from parsers.model import I64, derived
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import EMPTY, Intervals
from rules.analysis.idle.causes import Cause
from rules.diagnosis import Diagnosis, diagnosis_of
from viewer.statistics.steps import step_table
from viewer.tables.columns import (
    DEVICE,
    RANK,
    STEP,
    TIMES,
    columns,
    known,
    of_devices,
    optional,
    steps_at,
    texts,
)
from viewer.tables.table import Column, RowTable, row_table

BUSY_PARTS = ("compute", "communication", "copy", "other")


@row_table
class Steps(RowTable):
    """Iterations or requests."""

    name = "steps"
    about = "one step of one rank"
    columns = (
        Column("step", "its number"),
        Column("name", "name as recorded, or iteration N", "Step"),
        RANK,
        *TIMES,
        Column("steady", "whether it represents the run: no warm-up"),
        Column("found_by", "ProfilerStep, region or repetition"),
        Column("busy_share", "part of it in which the GPU ran something", "GPU busy"),
        Column("gpu_idle_ns", "how long its GPU ran nothing", "GPU idle"),
        Column("operations", "operations that the GPU began in it", "GPU operations"),
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        steps, table = analysis.steps, step_table(analysis)
        return {
            "step": np.arange(len(steps), dtype=np.int64),
            "name": np.array([step.name for step in steps], object),
            "rank": known(optional([step.rank for step in steps])),
            "start_ns": table["start_ns"].to_numpy(),
            "end_ns": table["end_ns"].to_numpy(),
            "steady": np.array([step.steady for step in steps], bool),
            "found_by": np.array([step.found_by for step in steps], object),
            "busy_share": table["busy_share"].to_numpy(np.float64),
            "gpu_idle_ns": table["gpu_idle_ns"].to_numpy(np.float64),
            "operations": table["operations"].to_numpy(np.int64),
        }


@row_table
class Gaps(RowTable):
    """Rows of one GPU never overlap; a gap that several causes share is several rows."""

    name = "gaps"
    about = "one stretch of time in which a GPU ran nothing, and why"
    columns = (
        Column("gap", "its number"),
        *TIMES,
        RANK,
        DEVICE,
        Column("cause", f"one of {', '.join(cause.key for cause in Cause)}"),
        Column("culprit", "the culprit, by name"),
        Column("event", "the culprit's event"),
        Column("next_event", "the operation that ended it"),
        STEP,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        idle = analysis.idle
        ranks = np.array([*optional([each.rank for each in analysis.trace.devices]), -1], np.int64)
        return columns(
            {"gap": np.arange(len(idle), dtype=np.int64), "start_ns": idle.start, "end_ns": idle.end},
            of_devices(analysis.trace, idle.device),
            {
                "cause": texts(idle.cause.astype(np.int64), [cause.key for cause in Cause]),
                "culprit": texts(idle.culprit, [culprit.text for culprit in idle.culprits]),
                "event": known(idle.event),
                "next_event": known(idle.next_operation),
                "step": steps_at(analysis, ranks[idle.device], idle.start),
            },
        )


@row_table
class DeviceTimes(RowTable):
    """Each moment between a GPU's first and last operation belongs to one row, so that sums are exact."""

    name = "device_time"
    about = "one stretch of time in which a GPU did one thing; nothing overlaps"
    columns = (
        *TIMES,
        RANK,
        DEVICE,
        Column("part", "compute, communication, copy, other or idle: the first of these that ran"),
        Column("cause", "why it was idle"),
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        parts: list[tuple[Intervals, int, int, int]] = []
        for device in range(len(analysis.trace.devices)):
            if not len(analysis.trace.operations_of_device(device)):
                continue
            time = analysis.time(device)
            busy = (time.compute, time.communication, time.copies, time.other)
            parts += [(intervals, device, number, -1) for number, intervals in enumerate(busy)]
            parts += [
                (intervals, device, len(BUSY_PARTS), int(cause)) for cause, intervals in time.idle.items()
            ]
        counts = np.array([len(part[0][0]) for part in parts], np.int64)
        sides = [part[0] for part in parts] or [EMPTY]

        def repeated(which: int) -> I64:
            return np.repeat(np.array([part[which] for part in parts], np.int64), counts)

        return columns(
            {
                "start_ns": np.concatenate([side[0] for side in sides]),
                "end_ns": np.concatenate([side[1] for side in sides]),
            },
            of_devices(analysis.trace, repeated(1)),
            {
                "part": texts(repeated(2), (*BUSY_PARTS, "idle")),
                "cause": texts(repeated(3), [cause.key for cause in Cause]),
            },
        )


@derived
def findings_of(analysis: Analysis) -> Diagnosis:
    """The diagnosis, made once for an analysis; who has it already states it with ``findings_of.keep``."""
    return diagnosis_of(analysis)


@row_table
class Findings(RowTable):
    """What the rules say, as ``diagnose`` ranks it."""

    name = "findings"
    about = "one finding of the diagnosis, in its order"
    columns = (
        Column("rule", "which check found it"),
        Column("category", "kind of loss"),
        Column("severity", "high, medium or low"),
        Column("title", "what is wrong"),
        Column("culprit", "the culprit"),
        Column("ceiling_ns", "how much shorter the analysed time could be at most"),
        RANK,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        found = findings_of(analysis).findings
        return {
            "rule": np.array([each.rule for each in found], object),
            "category": np.array([str(each.category) for each in found], object),
            "severity": np.array([each.severity.value for each in found], object),
            "title": np.array([each.title for each in found], object),
            "culprit": np.array([each.culprit.text for each in found], object),
            "ceiling_ns": np.array([int(each.ceiling_ns) for each in found], np.int64),
            "rank": known(optional([each.rank for each in found])),
        }
