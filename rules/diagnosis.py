"""Runs every rule on a trace and ranks what they found."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from parsers.model import I64, Attribute, Cancelled, EventKind, LaneKind, Progress, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass, regex
from parsers.model.names.per_name import distinct
from parsers.model.results import KERNEL_TIMES_TITLE
from parsers.model.threads import give_back
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import contains, of_pairs
from rules.analysis.beside.counted_metrics import counted_kernels
from rules.analysis.beside.gpu_metrics import has_gpu_metrics
from rules.analysis.beside.recorded_work import has_execution_trace
from rules.analysis.cpu.cpu_time import cpu_time
from rules.analysis.logs.clocks import has_clocks
from rules.analysis.logs.compilations import has_compiler_log
from rules.analysis.logs.device_log import device_logs
from rules.analysis.ranks.flight_recorders import recorded
from rules.analysis.recording.subject import subject_of
from rules.causes import Cause, in_order
from rules.findings.base import Finding, Need, NeedsMore, counter_rules
from rules.findings.listed import listed
from rules.fixes.plan import Plan, make_plan, plan_of
from rules.fixes.step_time import StepTime, step_times
from rules.replay.replay import WITHOUT_TIMES, replay_of
from rules.source_lines import source_line_of
from rules.terms import DEFAULTS, Thresholds
from rules.wording.words import Reader, Words, ours, said

_MEMORY = regex(
    r"\b(allocated|reserved|used)\b.*\bmemory\b|\bmemory\b.*\b(allocated|reserved|used)\b", re.IGNORECASE
)

FOREIGN_COUNTERS = ours(
    "None of the profiled kernels is on this timeline: the kernel report is from another program"
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Findings and their causes in the order of ``rules.causes``.

    Besides, why some rules were not checked, which ones failed, and which looked and found nothing.
    """

    findings: tuple[Finding, ...] = ()
    skipped: dict[str, str] = field(default_factory=dict)
    crashed: dict[str, str] = field(default_factory=dict)
    quiet: tuple[str, ...] = ()
    thresholds: Thresholds = DEFAULTS
    causes: tuple[Cause, ...] = ()
    step_times: Mapping[int, StepTime] = field(default_factory=dict)  # of each device that is replayed
    # of a recorded step, where the CPU alone was recorded: shares are without it
    cpu_recorder_share: float = 0.0


def diagnose(trace: Trace, progress: Progress | None = None, thresholds: Thresholds = DEFAULTS) -> Diagnosis:
    """The diagnosis of a trace whose analysis nobody else asks for."""
    return diagnosis_of(Analysis(trace, thresholds), progress)


def diagnosis_of(analysis: Analysis, progress: Progress | None = None, *, predicts: bool = True) -> Diagnosis:
    """Check every rule whose needs the trace meets; findings come in the order of ``rules.causes``.

    What fixes would give takes half of the time; where nothing ``predicts``, the order is that of what findings cost.
    """
    trace, progress = analysis.trace, progress or Progress()
    reader = Reader.of(trace)
    missing = _unmet(analysis)
    unmet_needs = frozenset(missing)
    catalog = listed(counters=bool(trace.kernels))
    has_operations = len(trace.gpu_operations) > 0
    findings: list[Finding] = []
    skipped: dict[str, str] = {}
    if (no_counters := missing.get(Need.KERNEL_COUNTERS)) is not None:
        skipped |= dict.fromkeys(counter_rules(), said(no_counters, reader))
    crashed: dict[str, str] = {}
    quiet: list[str] = []
    why: dict[frozenset[Need], str] = {}  # most rules that are skipped lack the same
    is_prepared = False
    for index, known in enumerate(catalog):
        if unmet := known.needs & unmet_needs:
            if unmet not in why:
                why[unmet] = said(missing[min(unmet, key=lambda need: need.name)], reader)
            skipped[known.id] = why[unmet]
            continue
        if known.of_the_cpu_alone and has_operations:
            quiet.append(known.id)
            continue
        each, lacking = known.rule(), ""
        if isinstance(each, NeedsMore):
            lacking = each.lacking(trace)
        if lacking:
            skipped[each.id] = said(lacking, reader)
            continue
        try:
            if not is_prepared and Need.GPU_EVENTS in known.needs:
                analysis.prepare(progress.part(0.0, 0.5))
                is_prepared = True
            progress.step(0.5 + 0.4 * index / len(catalog), f"checking {each.id}")
            found = list(each.check(analysis))
        except Cancelled:
            raise
        except Exception:
            import logging  # late: no rule should fail
            import traceback

            logging.getLogger(__name__).exception("rule %s failed", each.id)
            crashed[each.id] = traceback.format_exc(limit=-3)
            continue
        findings += found
        if not found:
            quiet.append(each.id)
    give_back(len(trace.events))
    told = in_order(
        analysis,
        _plan(analysis, progress.part(0.9, 1.0)) if predicts else Plan(replay_of(analysis)),
        [replace(each, reader=reader, at=source_line_of(analysis, each)) for each in findings],
    )
    return Diagnosis(
        told.findings,
        dict(sorted(skipped.items())),
        crashed,
        tuple(quiet),
        analysis.thresholds,
        told.causes,
        step_times(analysis) if predicts else {},
        time.recorder_share if (time := cpu_time(analysis)) is not None else 0.0,
    )


def _is_foreign(trace: Trace) -> bool:
    from rules.kernels.join import is_foreign_report

    return is_foreign_report(trace)


def _plan(analysis: Analysis, progress: Progress) -> Plan:
    if plan_of.kept(analysis) is None:
        plan_of.keep(analysis, make_plan(analysis, progress))
    return plan_of(analysis)


def combined_ceiling(findings: Sequence[Finding]) -> int:
    """The most the window could shrink if all of these were fixed (ns): time that several rest on counts once.

    Where a finding could give back only part of the time it rests on, that part is spread evenly over it; where two
    overlap, the larger part counts. Findings about different windows are not comparable and give the largest alone.
    """
    if len({finding.window_ns for finding in findings}) > 1:
        return max((finding.ceiling_ns for finding in findings), default=0)
    edges: list[I64] = []
    weighted = []
    rest = 0
    for finding in findings:
        start, end = of_pairs(finding.intervals)
        covered = int((end - start).sum())
        if not covered:
            rest += finding.ceiling_ns
            continue
        weighted.append((start, end, finding.ceiling_ns / covered))
        edges += [start, end]
    window = max((finding.window_ns for finding in findings), default=0)
    if not weighted:
        return min(rest, window)
    times = distinct_values(np.concatenate(edges))
    most = np.zeros(len(times) - 1)
    for start, end, weight in weighted:
        inside = contains((start, end), times[:-1])
        most[inside] = np.maximum(most[inside], weight)
    return min(int((most * np.diff(times)).sum()) + rest, window)


def _unmet(analysis: Analysis) -> dict[Need, Words]:
    """The needs that are not met, and why not."""
    trace = analysis.trace
    kinds = set(distinct(trace.events.kind).tolist())
    has_operations = len(trace.gpu_operations) > 0
    met = {
        Need.GPU_OPERATIONS: has_operations,
        Need.GPU_EVENTS: has_operations and subject_of(analysis) is None,
        Need.API_CALLS: EventKind.API in kinds,
        Need.LAUNCH_LINKS: len(trace.links.operation) > 0,
        Need.CPU_EVENTS: bool(kinds & {EventKind.CPU_OP, EventKind.REGION, EventKind.PYTHON}),
        Need.SEVERAL_RANKS: len({lane.rank for lane in trace.lanes} - {None}) > 1 or len(trace.devices) > 1,
        Need.COLLECTIVES: len(trace.collective_kernels) > 0,
        Need.SHAPES: Attribute.INPUT_DIMS in trace.attributes,
        Need.MEMORY: any(_MEMORY.search(counter.name) is not None for counter in trace.counters),
        Need.ALLOCATIONS: any(each.is_snapshot for each in trace.memory),
        Need.FLIGHT_RECORDER: bool(len(recorded(trace))),
        Need.COMPILER_LOG: has_compiler_log(trace),
        Need.SAMPLED_STACKS: EventKind.SAMPLED_FRAME in kinds,
        Need.SERVED_REQUESTS: any(lane.kind is LaneKind.SERVED for lane in trace.lanes),
        Need.EXECUTION_TRACE: has_execution_trace(trace),
        Need.GPU_METRICS: has_gpu_metrics(trace.counters),
        Need.KERNEL_TIMES: any(table.title == KERNEL_TIMES_TITLE for table in trace.tables),
        Need.LOAD_TEST: any(table.load is not None for table in trace.tables),
        Need.PRINTED_TIMES: any(table.totals for table in trace.tables),
        Need.PRINTED_METRICS: bool(counted_kernels(trace)),
        Need.INSIDE_KERNELS: any(lane.kind is LaneKind.INSIDE_KERNEL for lane in trace.lanes),
        Need.CLOCKS: has_clocks(trace),
        Need.KERNEL_COUNTERS: bool(trace.kernels) and not _is_foreign(trace),
        Need.DEVICE_LOG: bool(device_logs(trace)),
    }
    unmet = {need: need.value for need in Need if not met[need]}
    if Need.GPU_OPERATIONS in unmet and trace.quality.gpu_work_without_times:
        unmet[Need.GPU_OPERATIONS] = WITHOUT_TIMES
    if trace.kernels and Need.KERNEL_COUNTERS in unmet:
        unmet[Need.KERNEL_COUNTERS] = FOREIGN_COUNTERS
    return unmet if has_operations else unmet | {Need.GPU_EVENTS: unmet[Need.GPU_OPERATIONS]}
