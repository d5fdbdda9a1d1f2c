"""The diagnosis as text for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import replace

from parsers.model import EventKind, QualityNote, Trace
from parsers.model.names.devices import device_name
from parsers.model.units import duration, how_many, percent
from parsers.ranks.rank_choice import LEFT_OUT
from rules import Diagnosis, Finding
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import cpu_time
from rules.analysis.gpu.cost import idle_cost
from rules.analysis.gpu.gpu_vendor import is_amd
from rules.analysis.idle.causes import Cause
from rules.analysis.names.host_language import Audience, is_python, program_of
from rules.analysis.names.software import software_of
from rules.analysis.recording.completeness import completeness_of, copies_asked_for, failed_launches, is_cut
from rules.fixes.plan import plan_of
from rules.memory.summary import memory_of
from rules.verdict.promises import first_step, gain
from rules.verdict.verdict import (
    TimeParts,
    beside_the_verdict,
    gpus_that_ran,
    lacks_a_gpu,
    share_of,
    shows_no_run,
    time_parts,
    verdict,
    what_lacks_a_gpu,
)
from rules.wording.memory import memory_lines
from rules.wording.words import Reader
from viewer.appearance.naming import place_name
from viewer.appearance.plain_text import joined
from viewer.reports.fixes_report import NONE, Records, advice_beside, fixes_text, numbers_of_changes
from viewer.reports.rendering.blocks import Table
from viewer.reports.rendering.terminal_report import WIDTH, table_lines, wrapped
from viewer.reports.result_tables import table_text
from viewer.reports.serving_report import serving_text
from viewer.reports.tables_report import MAX_PRINTED, every_table, rows_that_matter, tables_text
from viewer.reports.unchecked import unchecked

DETAILED_DEVICES = 4
SHOWN_SHARE = 0.001
MAX_NOTES = 8
MAX_INPUTS = 16  # files that are named; the files of more ranks are alike


def as_text(
    trace: Trace,
    diagnosis: Diagnosis,
    analysis: Analysis,
    cost_per_hour: float | None = None,
    *,
    all_tables: bool = False,
    records: Records = NONE,
) -> str:
    """The whole diagnosis: verdict, budget, what idle GPUs cost at a price, findings, tables, what was not checked."""
    plan = plan_of(analysis)
    lines = [verdict(analysis, diagnosis)]
    lines += wrapped(beside_the_verdict(analysis, diagnosis))
    lines += [*wrapped(first_step(plan, diagnosis)), ""]
    lines += _about(trace, analysis)
    changes: dict[str, int] = {}
    if not len(trace.gpu_operations):
        lines += _without_gpu(trace, analysis)
    elif not shows_no_run(analysis, diagnosis):
        lines += _budgets(trace, analysis, diagnosis)
        if cost_per_hour and (cost := idle_cost(analysis, cost_per_hour)) is not None:
            lines += [*wrapped(cost.text), ""]
        lines += fixes_text(analysis, diagnosis, records)
        changes = numbers_of_changes(plan.promises, Reader.of(trace))
    lines += serving_text(trace)
    lines += _memory(analysis)
    shared_limits = Counter(finding.cannot_tell for finding in diagnosis.findings if finding.cannot_tell)
    for number, finding in enumerate(diagnosis.findings, 1):
        advice = advice_beside(finding, changes)
        lines += _finding(
            number, finding, gain(finding, plan), advice, shared_limits[finding.cannot_tell] > 1
        )
    for limit in (text for text, count in shared_limits.items() if count > 1):
        lines += [*wrapped(f"Cannot tell: {limit}", "", "  "), ""]
    for table in dict.fromkeys(
        tuple(table_text(each)) for each in trace.tables
    ):  # those of ranks are often the same
        lines += table
    lines += (
        tables_text(every_table(analysis), MAX_PRINTED)
        if all_tables
        else tables_text(rows_that_matter(analysis))
    )
    lines += [] if trace.is_of_results else _rest(trace, diagnosis)
    return joined(lines)


def _about(trace: Trace, analysis: Analysis) -> list[str]:
    names = ", ".join(f"{each.path} ({each.producer})" for each in trace.inputs[:MAX_INPUTS])
    if (more := len(trace.inputs) - MAX_INPUTS) > 0:
        names += f" and {more:,} more"
    quality = trace.quality
    lost = f", {quality.quarantined:,} set aside" if quality.quarantined else ", all kept"
    read = how_many(quality.events_read, "row" if trace.is_of_results else "event")
    lines = [names, f"{read}{lost}"]
    if software := software_of(trace):
        lines.append(f"software: {', '.join(software)}")
    t0, t1 = analysis.window
    if t1 > t0:
        took = f"{duration(t1 - t0)}, " if analysis.is_timed else ""
        lines.append(f"analysed: {took}{analysis.window_text}")
    return [*lines, "", *_notes(trace)]


def _notes(trace: Trace) -> list[str]:
    """What the recording says of itself and what was repaired, noted or set aside in it; one sentence once."""
    counted: dict[tuple[str, str], QualityNote] = {}
    for each in trace.quality.notes:
        said = (each.reason, each.example if each.kind == LEFT_OUT else "")
        before = counted.get(said)
        counted[said] = replace(before, count=before.count + each.count) if before else each
    notes = tuple(counted.values())
    lines = []
    for note in notes[:MAX_NOTES]:
        times = f" ({note.count:,} times)" if note.count > 1 else ""
        times += f": {note.example}" if note.kind == LEFT_OUT else ""
        lines += textwrap.wrap(
            f"Note: {note.reason}{times}", WIDTH, subsequent_indent="      ", break_on_hyphens=False
        )
    if len(notes) > MAX_NOTES:
        lines.append(f"      and {len(notes) - MAX_NOTES} more notes (see --json)")
    return [*lines, ""] if lines else []


def _without_gpu(trace: Trace, analysis: Analysis) -> list[str]:
    """How to record what a timeline without any GPU work lacks; nothing for reports of kernels and logs."""
    if trace.kernels or not len(trace.events) or trace.stands_beside or trace.quality.gpu_work_without_times:
        return []
    if trace.quality.operators_of_an_unrecorded_gpu:
        return []
    if ((time := cpu_time(analysis)) is not None and time.is_all) or trace.quality.operators_lie_in_rows:
        return []
    if failed_launches(trace).are_all:
        return []
    launches, copies = completeness_of(trace).launches, copies_asked_for(trace)
    if is_cut(trace):
        text = (
            "The recording stops in the middle: its file is cut off or damaged, and the part that can be read holds "
            "no work of a GPU. Copy it again, or record again and let the profiler finish writing."
        )
    elif trace.quality.kernels_without_times:
        text = _RECORD_WITHOUT_COUNTERS
    elif (launches or copies) and set(trace.kinds) == {EventKind.API}:
        beside = _AMDS_FILES if is_amd(trace) else ""
        text = f"{_missing(launches, copies)}: {_CALLS_ALONE}{beside}; otherwise record both at once."
    elif launches or copies:
        text = (
            f"{_missing(launches, copies)}: the profiler lost its GPU records, or another program held the GPU's "
            "profiling interface. Record a shorter part, and nothing else that profiles at the same time."
        )
    else:
        text = (
            _RECORD_WITH_NEWER_NSYS
            if any(_OLD_NSYS in note.reason for note in trace.quality.notes)
            else _RECORD_WITH_NSYS
            if any("Nsight Systems" in each.producer for each in trace.inputs)
            else _RECORD_WITH_ROCM
            if is_amd(trace) and not is_python(trace)
            else _RECORD_WITH_JAX
            if program_of(trace) is Audience.JAX
            else _RECORD_THE_GPU
            if program_of(trace) is Audience.PYTORCH or trace.capture.has_api_calls
            else _NOTHING_KNOWN
        )
    return [*wrapped(text), ""]


def _missing(launches: int, copies: int) -> str:
    if launches:
        return f"{launches:,} launch{'es' if launches != 1 else ''}, no kernel"
    return f"{copies:,} cop{'ies' if copies != 1 else 'y'} asked for, none recorded"


_CALLS_ALONE = (
    "this recording holds API calls alone. Where the kernels are in a file beside it, open both together"
)
_AMDS_FILES = " (rocprofv3 writes *_kernel_trace.csv beside *_hip_api_trace.csv)"
_RECORD_WITHOUT_COUNTERS = (
    "Counters are measured on one kernel at a time, so this recording says nothing about when they ran. Record once "
    "more without experimental_config (profiler_metrics) to see what the GPU waits for."
)
_RECORD_THE_GPU = (
    "Record the GPU as well: torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]), or "
    "nsys profile --trace=cuda,nvtx. If it was recorded, the profiled part ran nothing on it, or another program "
    "held the GPU's profiling interface."
)
_NOTHING_KNOWN = (
    "Nothing in this recording is recognised as GPU work. Record with the profiler of the GPU's maker (nsys profile, "
    "rocprofv3, or torch.profiler from Python) and open that recording; if this already is one, its events do not say "
    "that they ran on a GPU."
)
_RECORD_WITH_ROCM = (
    "Record the GPU as well: rocprofv3 --sys-trace. If it was recorded, the profiled part ran nothing on it."
)
_RECORD_WITH_JAX = (
    "Record the GPU as well: jax.profiler.trace around some steps, or nsys profile --trace=cuda,nvtx. If it was "
    "recorded, the profiled part ran nothing on it, or another program held the GPU's profiling interface."
)
_OLD_NSYS = "not supported by this build of Nsight Systems"  # as it warns of a driver
_RECORD_WITH_NEWER_NSYS = (
    "Record again with a newer Nsight Systems: this one warned that it does not support the CUDA driver, so what the "
    "GPU ran may be missing."
)
_RECORD_WITH_NSYS = (
    "Record the GPU as well: nsys profile --trace=cuda,nvtx. If it was recorded, the profiled part ran nothing on it, "
    "another program held the GPU's profiling interface, or the report ended before the program had initialised CUDA."
)


def _budgets(trace: Trace, analysis: Analysis, diagnosis: Diagnosis) -> list[str]:
    ran = gpus_that_ran(trace)
    if len(ran) > DETAILED_DEVICES:
        return _budget_table(trace, analysis, diagnosis)
    return [line for index in ran for line in _budget(trace, time_parts(analysis, diagnosis, index), index)]


def _budget(trace: Trace, time: TimeParts, index: int) -> list[str]:
    if not time.whole_ns:
        return []
    device = trace.devices[index]
    of = f", {time.of}" if time.of else ""
    head = f"Where the time of {device_name(trace, index)} goes ({device.name or 'unknown model'}){of}:"
    lines = wrapped(head)
    for _, label, ns in time.parts:
        if ns < SHOWN_SHARE * time.whole_ns:
            continue
        bar = "#" * max(1, round(40 * ns / time.whole_ns))
        lines.append(f"  {share_of(ns, time.whole_ns):>7}  {duration(ns):>9}  {label:<28} {bar}")
    return [*lines, ""]


def _budget_table(trace: Trace, analysis: Analysis, diagnosis: Diagnosis) -> list[str]:
    """One line a device, the one that computes least first."""
    times = {index: time_parts(analysis, diagnosis, index) for index in gpus_that_ran(trace)}
    shares = {
        index: {key: ns / time.whole_ns for key, _, ns in time.parts}
        for index, time in times.items()
        if time.whole_ns
    }
    rows = []
    for index, parts in sorted(shares.items(), key=lambda each: each[1].get("compute", 0.0)):
        busy = [parts.get(key, 0.0) for key in ("compute", "communication", "copy")]
        causes = {cause: parts[cause.key] for cause in Cause if cause.key in parts}
        idle = analysis.idle.label(max(causes, key=lambda cause: causes[cause])) if causes else ""
        rows.append((device_name(trace, index), *map(percent, (*busy, sum(causes.values()))), idle))
    columns = ("GPU", "compute", "comm", "copies", "idle", "mostly idle by")
    return table_lines(Table("", columns, rows, few=len(rows), prose=(0, 5)))


def _memory(analysis: Analysis) -> list[str]:
    lines = []
    for summary in memory_of(analysis)[:DETAILED_DEVICES]:
        for line in memory_lines(summary, analysis):
            lines += wrapped(line, "", "    ")
    return [*lines, ""] if lines else []


def _finding(
    number: int, finding: Finding, gives: str, advice: tuple[str, ...], limits_said_below: bool
) -> list[str]:
    lines = [f"{number}. {finding.title}" + (f"  ({gives})" if gives else "") + f"  [{finding.severity}]"]
    lines += wrapped(finding.explanation, "   ", "   ")
    for each in advice:
        lines += wrapped(each, "   -> ", "      ")
    if finding.cannot_tell and not limits_said_below:
        lines += wrapped(f"Cannot tell: {finding.cannot_tell}", "   ", "   ")
    if finding.at is not None:
        lines += wrapped(f"Line: {finding.at.told}", "   ", "   ")
    if finding.evidence:
        places = [f"{place_name(each)} at {duration(each.start)}" for each in finding.evidence[:3]]
        lines += wrapped("See: " + "; ".join(places), "   ", "   ")
    return [*lines, ""]


def _rest(trace: Trace, diagnosis: Diagnosis) -> list[str]:
    lines = [f"Threshold changed, {phrase}" for phrase in diagnosis.thresholds.changed()]
    if diagnosis.quiet:
        lines.append("Checked, nothing found: " + ", ".join(diagnosis.quiet))
    if lacks_a_gpu(trace, diagnosis):
        lines += what_lacks_a_gpu(trace, diagnosis)
    else:
        lines += [f"Not checked, because {reason}: {checks}" for checks, reason in unchecked(diagnosis)]
    lines += [f"This check failed: {name}" for name in sorted(diagnosis.crashed)]
    return [part for line in lines for part in wrapped(line, "", "  ")]
