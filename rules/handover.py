"""What was found out about a trace, as columns and plain data, so that one process can find it out for another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

import numpy as np

from parsers.model import Array, Trace
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, Pairs, columns_of
from rules.analysis.idle.causes import Cause, DeviceTime, IdleTable
from rules.analysis.names.families import Family
from rules.analysis.steps.steps import Step
from rules.causes import Cause as FoundCause
from rules.diagnosis import Diagnosis
from rules.findings.base import Finding
from rules.fixes.step_time import StepTime
from rules.terms import DEFAULTS, Culprit, Thresholds

Columns = Mapping[str, Array]
_IDLE = ("start", "end", "device", "cause", "culprit", "event", "next_operation")
_PARTS = tuple(each.name for each in fields(DeviceTime) if each.name != "idle")


@dataclass(frozen=True, slots=True)
class FoundOut:
    """Everything that is no column; the intervals of ``findings`` are among the columns."""

    steps: tuple[Step, ...]
    culprits: tuple[Culprit, ...]
    host: str
    sleeps: bool
    findings: tuple[Finding, ...]
    skipped: dict[str, str]
    crashed: dict[str, str]
    quiet: tuple[str, ...]
    causes: tuple[FoundCause, ...]
    step_times: Mapping[int, StepTime]


def found_out(analysis: Analysis, diagnosis: Diagnosis) -> tuple[FoundOut, Columns]:
    """What the window asks of an analysis, with the diagnosis."""
    trace, idle = analysis.trace, analysis.idle
    columns: dict[str, Array] = {f"idle.{name}": getattr(idle, name) for name in _IDLE}
    columns["family"] = analysis.family_of_string
    columns["gpu operations"] = trace.gpu_operations
    columns["collectives"] = trace.collective_kernels
    for device in range(len(trace.devices)):
        columns[f"{device}.operations"] = trace.operations_of_device(device)
        time = analysis.time(device)
        for name in _PARTS:
            _put(columns, f"{device}.{name}", getattr(time, name))
        for cause, intervals in time.idle.items():
            _put(columns, f"{device}.idle.{cause.key}", intervals)
    for number, finding in enumerate(diagnosis.findings):
        _put(columns, f"finding.{number}", columns_of(finding.intervals))
    plain = FoundOut(
        analysis.steps,
        idle.culprits,
        idle.host,
        idle.sleeps,
        tuple(replace(finding, intervals=()) for finding in diagnosis.findings),
        diagnosis.skipped,
        diagnosis.crashed,
        diagnosis.quiet,
        diagnosis.causes,
        diagnosis.step_times,
    )
    return plain, columns


def known(
    trace: Trace, plain: FoundOut, columns: Columns, thresholds: Thresholds = DEFAULTS
) -> tuple[Analysis, Diagnosis]:
    """The analysis of ``trace`` with all that was found out about it by these thresholds, and the diagnosis."""
    analysis = Analysis(trace, thresholds)
    Trace.gpu_operations.keep(trace, columns["gpu operations"])
    Trace.collective_kernels.keep(trace, columns["collectives"])
    devices = range(len(trace.devices))
    Trace.operations_by_device.keep(trace, tuple(columns[f"{device}.operations"] for device in devices))
    idle = IdleTable(
        **{name: columns[f"idle.{name}"] for name in _IDLE},
        culprits=plain.culprits,
        host=plain.host,
        sleeps=plain.sleeps,
    )
    family = columns["family"]
    Analysis.steps.keep(analysis, plain.steps)
    Analysis.idle.keep(analysis, idle)
    Analysis.family_of_string.keep(analysis, family)
    Analysis.families.keep(analysis, tuple(map(Family, family.tolist())))
    for device in devices:
        analysis.keep_time(
            device,
            DeviceTime(
                **{name: _get(columns, f"{device}.{name}") for name in _PARTS},
                idle={cause: _get(columns, f"{device}.idle.{cause.key}") for cause in Cause},
            ),
        )
    findings = tuple(
        replace(finding, intervals=Pairs(_get(columns, f"finding.{number}")))
        for number, finding in enumerate(plain.findings)
    )
    return analysis, Diagnosis(
        findings, plain.skipped, plain.crashed, plain.quiet, thresholds, plain.causes, plain.step_times
    )


def _put(columns: dict[str, Array], name: str, intervals: Intervals) -> None:
    columns[f"{name}.start"], columns[f"{name}.end"] = intervals


def _get(columns: Columns, name: str) -> Intervals:
    return np.asarray(columns[f"{name}.start"]), np.asarray(columns[f"{name}.end"])
