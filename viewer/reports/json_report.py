"""The diagnosis as one JSON object, the contract of ``stallscope diagnose --json``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from parsers.model import EventKind, Quality, Trace
from rules import Diagnosis, Evidence, Finding
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import length, union
from rules.analysis.gpu.cost import idle_cost
from rules.analysis.idle.causes import Budget, Cause
from rules.analysis.logs.clocks import clock_facts
from rules.analysis.recording.completeness import completeness_of
from rules.analysis.recording.subject import subject_of
from rules.fixes.plan import plan_of
from rules.fixes.step_time import StepTime
from rules.memory.summary import MemorySummary, memory_of
from rules.terms import SourceLine
from rules.verdict.promises import first_step
from rules.verdict.verdict import gpus_that_ran, verdict
from viewer.reports.fixes_report import NONE, Records, fixes_json
from viewer.reports.result_tables import table_json
from viewer.reports.serving_report import serving_json
from viewer.reports.tables_report import every_table, rows_that_matter, tables_json

SCHEMA = 1
EVIDENCE_LIMIT = 50


def as_json(
    trace: Trace,
    diagnosis: Diagnosis,
    analysis: Analysis,
    cost_per_hour: float | None = None,
    *,
    all_tables: bool = False,
    records: Records = NONE,
) -> dict[str, Any]:
    """A dictionary of plain values; times are integer ns from the trace start.

    ``resources/diagnosis.schema.json`` describes every field.
    """
    t0, t1 = analysis.window
    return {
        "schema": SCHEMA,
        "inputs": [
            {"path": each.path, "format": each.format, "producer": each.producer, "rank": each.rank}
            for each in trace.inputs
        ],
        "quality": quality_json(trace.quality),
        "completeness": _completeness(analysis),
        "headline": {
            "sentence": verdict(analysis, diagnosis),
            "do_first": first_step(plan_of(analysis), diagnosis),
        },
        "causes": [
            {"fix": each.fix or None, "findings": list(each.findings), "partial": each.partial}
            for each in diagnosis.causes
        ],
        "window_ns": t1 - t0,
        "steps": [
            {
                "name": step.name,
                "rank": step.rank,
                "start_ns": step.start,
                "end_ns": step.end,
                "steady": step.steady,
                "found_by": step.found_by,
            }
            for step in analysis.steps
        ],
        "devices": [_device(trace, analysis, diagnosis, index) for index in gpus_that_ran(trace)],
        **_cost(analysis, cost_per_hour),
        **serving_json(trace),
        "memory": [_memory(trace, each) for each in memory_of(analysis)],
        "kernels": [_kernel(trace, index) for index in range(len(trace.kernels))],
        "tables": [table_json(table) for table in trace.tables],
        "statistics": tables_json(every_table(analysis) if all_tables else rows_that_matter(analysis)),
        "findings": [
            finding_json(finding, _device_id(trace, finding), _places(trace, finding))
            for finding in diagnosis.findings
        ],
        **fixes_json(analysis, diagnosis, records),
        "skipped": dict(sorted(diagnosis.skipped.items())),
        "crashed": dict(sorted(diagnosis.crashed.items())),
        "quiet": list(diagnosis.quiet),
        "thresholds": dict(sorted(diagnosis.thresholds.chosen.items())),
    }


def _cost(analysis: Analysis, price: float | None) -> dict[str, Any]:
    """What idle GPUs cost; nothing without a price."""
    cost = idle_cost(analysis, price) if price else None
    if cost is None:
        return {}
    return {
        "cost": {
            "per_gpu_hour": cost.price,
            "gpus": cost.gpus,
            "idle_gpu_hours_per_hour": cost.idle,
            "idle_cost_per_hour": cost.money_per_hour,
            "idle_gpu_hours_per_1000_steps": cost.per_1000_steps,
        }
    }


def _completeness(analysis: Analysis) -> dict[str, Any]:
    """How much of what the launches say is there."""
    found, subject = completeness_of(analysis.trace), subject_of(analysis)
    return {
        "launches": found.launches,
        "launches_without_operation": len(found.lost),
        "share": round(found.share, 4),
        "lost_records": subject is not None and subject.lacks_records,
    }


def quality_json(quality: Quality) -> dict[str, Any]:
    """The loss account."""
    return {
        "events_read": quality.events_read,
        "events_kept": quality.events_kept,
        "repaired": quality.repaired,
        "quarantined": quality.quarantined,
        "notes": [
            {
                "kind": note.kind,
                "count": note.count,
                "effect": note.effect.value,
                "reason": note.reason,
                "example": note.example,
            }
            for note in quality.notes
        ],
    }


def budget_json(budget: Budget) -> dict[str, Any]:
    """Where the time of a GPU went, ns."""
    return {
        "compute_ns": budget.compute_ns,
        "exposed_communication_ns": budget.exposed_communication_ns,
        "exposed_copy_ns": budget.exposed_copy_ns,
        "other_ns": budget.other_ns,
        "idle_ns": {cause.key: budget.idle_ns.get(cause, 0) for cause in Cause},
        "residual_ns": budget.residual_ns,
    }


def _device(trace: Trace, analysis: Analysis, diagnosis: Diagnosis, index: int) -> dict[str, Any]:
    device = trace.devices[index]
    operations = trace.operations_of_device(index)
    start, end = trace.events.spans(operations)
    kernels = np.count_nonzero(trace.events.kind[operations] == EventKind.KERNEL)
    clocks = clock_facts(analysis, index)
    return {
        "rank": device.rank,
        "device": device.id,
        "name": device.name,
        "gpu_events": len(operations),
        "kernels": int(kernels),
        "span_ns": int(end.max() - start.min()) if len(operations) else 0,
        "busy_ns": length(union(start, end)),
        "budget": budget_json(analysis.budget(index, *analysis.window)),
        "step": _step(diagnosis.step_times.get(index)),
        "energy_j": clocks.energy if clocks is not None else None,
    }


def _step(time: StepTime | None) -> dict[str, Any] | None:
    """A typical step without the recorder's own time; None where the recording cannot be replayed."""
    if time is None:
        return None
    return {
        "recorded_ns": round(time.recorded_ns),
        "recorder_ns": round(time.recorder_ns),
        "length_ns": round(time.length_ns),
        "parts_ns": {key: round(ns) for key, ns in time.parts.items()},
    }


def _kernel(trace: Trace, index: int) -> dict[str, Any]:
    from rules.kernels.checks.every import evaluate

    kernel = trace.kernels[index]
    duration = kernel.duration_ns
    return {
        "id": kernel.id,
        "name": kernel.name,
        "grid": list(kernel.grid),
        "block": list(kernel.block),
        "duration_ns": None if duration is None else round(duration),
        "metrics": {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in kernel.metrics.items()
        },
        "rules": [
            {
                "rule": result.rule,
                "fired": result.fired,
                "speedup_percent": result.speedup_percent,
                "category": str(result.category) if result.category else None,
                "text": result.text,
            }
            for result in evaluate(kernel)
        ],
    }


def _memory(trace: Trace, summary: MemorySummary) -> dict[str, Any]:
    account = summary.account
    return {
        "rank": trace.devices[summary.device].rank,
        "device": trace.devices[summary.device].id,
        "peak_allocated_bytes": summary.peak_allocated,
        "peak_reserved_bytes": summary.peak_reserved,
        "peak_ns": summary.peak_at,
        "peak_bytes_by_kind": (
            {kind.value: held for kind, held in account.by_kind(summary.peak_at).items()} if account else None
        ),
        "allocated_after_each_step_bytes": list(summary.growth.after_steps),
        "growth_per_step_bytes": summary.growth.per_step,
        "failures": [
            {
                "time_ns": each.failure.time,
                "requested_bytes": each.failure.requested,
                "allocated_bytes": each.allocated,
                "reserved_bytes": each.reserved,
                "device_free_bytes": each.failure.free,
                "fragmented": each.fragmented,
                "own_limit": each.own_limit,
            }
            for each in summary.shortages
        ],
    }


def finding_json(finding: Finding, device: int | None, evidence: list[dict[str, Any]]) -> dict[str, Any]:
    """One finding; ``device`` is the id that its GPU has, ``evidence`` its places on a timeline."""
    return {
        "rule": finding.rule,
        "category": finding.category.value,
        "severity": finding.severity.value,
        "title": finding.title,
        "explanation": finding.explanation,
        "advice": list(finding.advice),
        "code": finding.code,
        "culprit": finding.culprit.text,
        "line": line_json(finding.at),
        "rank": finding.rank,
        "device": device,
        "kernel": finding.kernel,
        "ceiling_ns": int(finding.ceiling_ns),
        "speedup_at_most": None if finding.speedup_at_most is None else round(finding.speedup_at_most, 3),
        "share": round(finding.share, 4),
        "fix": finding.fix or None,
        "of_recording": finding.of_recording,
        "confidence": finding.confidence,
        "cannot_tell": finding.cannot_tell,
        "evidence": evidence,
    }


def line_json(line: SourceLine | None) -> dict[str, Any] | None:
    """Where to open the user's own code; None where the recording does not say."""
    if line is None:
        return None
    return {"file": line.file, "line": line.line, "function": line.function, "is_call": line.is_call}


def _device_id(trace: Trace, finding: Finding) -> int | None:
    return None if finding.device is None else trace.devices[finding.device].id


def _places(trace: Trace, finding: Finding) -> list[dict[str, Any]]:
    return [_evidence(trace, each) for each in finding.evidence[:EVIDENCE_LIMIT]]


def _evidence(trace: Trace, evidence: Evidence) -> dict[str, Any]:
    lane = trace.lanes[evidence.lane].name if 0 <= evidence.lane < len(trace.lanes) else ""
    return {"lane": lane, "name": evidence.name, "start_ns": int(evidence.start), "end_ns": int(evidence.end)}
