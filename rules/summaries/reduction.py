"""Reduces one rank's analysed recording to its summary."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from parsers.model import F64, I64, Array, Attribute, Counter, EventKind, Progress, Trace
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.ascending_search import among
from rules.analysis.arithmetic.intervals import Intervals, clip, length, of_pairs, union
from rules.analysis.facts.clocks import logged
from rules.analysis.facts.completeness import completeness_of
from rules.analysis.facts.device_time import idle_parts
from rules.analysis.facts.subject import SubjectKind, subject_of
from rules.analysis.idle.attribution import idle_of_device, joined_tables
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.collectives import CollectiveColumns, collective_columns
from rules.analysis.ranks.matching import step_numbers
from rules.base import Finding
from rules.diagnosis import Diagnosis
from rules.replay.late_ranks import LONG_SILENCE
from rules.replay.overlay import Overlay
from rules.replay.replay import replay_of
from rules.replay.surroundings import surroundings_of
from rules.summaries.rank_summary import Alone, CollectiveKind, IdleCulprit, RankSummary, SummaryWords
from rules.summaries.states import DeviceStates

MOST_CULPRITS = 3  # of one cause on one device
MOST_EVIDENCE = 3
_CLOCK, _POWER = ("SM clock", "sclk", "graphics clock"), ("power", "power draw")
_ALLOCATED = re.compile(r"\ballocated memory\b", re.IGNORECASE)


def summary_of(analysis: Analysis, diagnosis: Diagnosis) -> RankSummary:
    """The summary of a trace of one rank; without GPU work it has no devices."""
    trace = analysis.trace
    devices = tuple(analysis.active_devices)
    columns: dict[str, Array] = {
        "step.start": np.array([step.start for step in analysis.steps], np.int64),
        "step.end": np.array([step.end for step in analysis.steps], np.int64),
        "step.steady": np.array([step.steady for step in analysis.steps], np.uint8),
    }
    edges = np.unique(np.concatenate((columns["step.start"], columns["step.end"], analysis.window)))
    for number, device in enumerate(devices):
        time = replace(analysis.time(device), idle=_idle(analysis, device))
        states = DeviceStates.of(time).coarse(edges)
        columns |= {f"{number}.edge": states.edge, f"{number}.part": states.part}
        columns |= {
            f"{number}.alone.start": time.communication[0],
            f"{number}.alone.end": time.communication[1],
        }
        columns[f"{number}.blocks"] = _blocks(analysis, device)
        columns |= _readings(analysis, device, number)
    kinds, collectives, collective_names = _collectives(analysis, devices)
    completeness, subject = completeness_of(trace), subject_of(analysis)
    words = SummaryWords(
        input=trace.inputs[0],
        rank=trace.ranks[0] if trace.ranks else None,
        epoch_ns=trace.epoch_ns,
        duration=trace.duration,
        devices=tuple(trace.devices[device] for device in devices),
        step_names=tuple(step.name for step in analysis.steps),
        found_by=next((step.found_by for step in analysis.steps), ""),
        window=analysis.window,
        kinds=kinds,
        collective_names=collective_names,
        culprits=_culprits(analysis, devices),
        findings=tuple(
            replace(each, intervals=(), evidence=each.evidence[:MOST_EVIDENCE]) for each in diagnosis.findings
        ),
        outside_ns=tuple(_outside(analysis, each) for each in diagnosis.findings),
        skipped=diagnosis.skipped,
        crashed=diagnosis.crashed,
        quiet=diagnosis.quiet,
        quality=trace.quality,
        alone=_alone(analysis),
        launches=completeness.launches,
        launches_without_operation=len(completeness.lost),
        lost_records=subject is not None and subject.kind in (SubjectKind.LOST_RECORDS, SubjectKind.SAMPLE),
        operations=tuple(_counts(trace, device) for device in devices),
        span=tuple(analysis.span(device) for device in devices),
    )
    return RankSummary(words, columns | collectives)


def _outside(analysis: Analysis, finding: Finding) -> int:
    spans = [analysis.span(device) for device in analysis.active_devices]
    if not spans:
        return 0
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    found = union(*of_pairs(finding.intervals))
    return length(found) - length(clip(found, first, last))


def _idle(analysis: Analysis, device: int) -> Mapping[Cause, Intervals]:
    """Idle time by cause over the whole recording: the run's window may begin or end outside of the rank's own."""
    trace = analysis.trace
    further = max((step.duration for step in analysis.steps), default=0)
    whole = (-further, trace.duration + further)
    stopped = analysis.interruptions(*analysis.threads.drivers(device)[0])
    table = idle_of_device(trace, analysis.threads, device, whole, analysis.thresholds, Progress(), stopped)
    return idle_parts(joined_tables([table]), device)


def _alone(analysis: Analysis) -> Alone | None:
    replay = replay_of(analysis)
    if replay.reason:
        return None
    collective = np.isin(replay.device.event, analysis.trace.collective_kernels)
    silent = surroundings_of(analysis).silent_ns
    unknown = np.where(silent >= LONG_SILENCE * replay.usual_ns, silent, 0.0)

    def at_once(overlay: Overlay) -> None:
        overlay.duration[collective] = 0.0

    def without_silence(overlay: Overlay) -> None:
        overlay.gap -= np.minimum(unknown, overlay.gap)

    step = replay.time([at_once])
    return Alone(
        step_ns=step,
        without_silence_ns=replay.time([at_once, without_silence]) if unknown.any() else step,
        kernels_ns=float(replay.usual.duration[~collective].sum() / max(replay.usual.steps, 1e-9)),
    )


def _counts(trace: Trace, device: int) -> tuple[int, int]:
    operations_here = trace.operations_of_device(device)
    kernels = int(np.count_nonzero(trace.events.kind[operations_here] == EventKind.KERNEL))
    return len(operations_here), kernels


def _blocks(analysis: Analysis, device: int) -> I64:
    """Blocks of compute kernels in each step."""
    trace = analysis.trace
    kernels = trace.operations_of_device(device)
    kernels = kernels[trace.events.kind[kernels] == EventKind.KERNEL]
    kernels = kernels[~among(kernels, trace.collective_kernels)]
    until = np.concatenate(([0], np.cumsum(trace.attribute(Attribute.GRID, kernels))))
    starts = trace.events.start[kernels]
    first, last = (
        np.searchsorted(starts, [getattr(step, side) for step in analysis.steps]) for side in ("start", "end")
    )
    found: I64 = until[last] - until[first]
    return found


def _readings(analysis: Analysis, device: int, number: int) -> dict[str, Array]:
    """Clock, power and memory in each step, as far as the recording counts them."""
    log = logged(analysis.trace, device)
    counters = {
        "clock": next((log[name] for name in _CLOCK if name in log), None),
        "power": next((log[name] for name in _POWER if name in log), None),
        "memory": next(
            (
                counter
                for counter in analysis.trace.counters
                if counter.device in (None, device) and _ALLOCATED.search(counter.name)
            ),
            None,
        ),
    }
    return {
        f"{number}.{which}": _by_step(analysis, counter)
        for which, counter in counters.items()
        if counter is not None and len(counter.time) and analysis.steps
    }


def _by_step(analysis: Analysis, counter: Counter) -> F64:
    """The mean of the values inside each step; where there is none, the value that holds at its start."""
    until = np.concatenate(([0.0], np.cumsum(counter.value, dtype=np.float64)))
    first, last = (
        np.searchsorted(counter.time, [getattr(step, side) for step in analysis.steps])
        for side in ("start", "end")
    )
    held = counter.value[np.maximum(first - 1, 0)]
    mean: F64 = np.where(last > first, (until[last] - until[first]) / np.maximum(last - first, 1), held)
    return mean


def _collectives(
    analysis: Analysis, devices: tuple[int, ...]
) -> tuple[tuple[CollectiveKind, ...], dict[str, Array], tuple[str, ...]]:
    trace = analysis.trace
    columns: CollectiveColumns = collective_columns(trace)
    kinds: dict[tuple[str, str, int, int], int] = {}
    kind = [
        kinds.setdefault(each, len(kinds))
        for each in zip(
            columns.collective,
            columns.group,
            columns.bytes.tolist(),
            columns.group_size.tolist(),
            strict=True,
        )
    ]
    place = {device: number for number, device in enumerate(devices)}
    distinct, name = np.unique(trace.events.name[columns.event], return_inverse=True)
    return (
        tuple(CollectiveKind(*each) for each in kinds),
        {
            "collective.device": narrow([place.get(device, -1) for device in columns.device.tolist()]),
            "collective.start": columns.start,
            "collective.end": columns.end,
            "collective.kind": narrow(kind),
            "collective.name": narrow(name),
            "collective.sequence": narrow(columns.sequence),
            "collective.step": narrow(step_numbers(analysis, columns)),
        },
        tuple(trace.strings[each] for each in distinct.tolist()),
    )


def narrow(values: Sequence[int] | I64) -> npt.NDArray[np.signedinteger[Any]]:
    """The same numbers in as few bytes as hold them all."""
    column = np.asarray(values, np.int64)
    most = int(np.abs(column).max(initial=0))
    return column.astype(next(kind for kind in _WIDTHS if most <= np.iinfo(kind).max))


_WIDTHS = (np.int8, np.int16, np.int32, np.int64)


def _culprits(analysis: Analysis, devices: tuple[int, ...]) -> tuple[IdleCulprit, ...]:
    """For whom each device idles most inside the window, by cause."""
    idle, (t0, t1) = analysis.idle, analysis.window
    found: list[IdleCulprit] = []
    inside = np.flatnonzero((idle.end > t0) & (idle.start < t1))
    time = np.minimum(idle.end[inside], t1) - np.maximum(idle.start[inside], t0)
    for number, device in enumerate(devices):
        mine = idle.device[inside] == device
        for cause in np.unique(idle.cause[inside][mine]).tolist():
            here = mine & (idle.cause[inside] == cause)
            total = np.bincount(idle.culprit[inside][here], time[here], minlength=len(idle.culprits))
            most = np.argsort(-total, kind="stable")[:MOST_CULPRITS].tolist()
            found += [
                IdleCulprit(number, cause, idle.culprits[each].text, int(total[each]))
                for each in most
                if total[each]
            ]
    return tuple(found)
