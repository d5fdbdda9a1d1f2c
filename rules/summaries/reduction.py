"""Reduces one rank's analysed recording to its summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from parsers.model import I64, Array, EventKind, Trace
from parsers.model.arrays import distinct_values, numbered_values
from parsers.model.events import of_kinds
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, length, of_pairs
from rules.analysis.ranks.collectives import CollectiveKind, collective_columns
from rules.analysis.ranks.recorded import (
    blocks_by_step,
    idle_culprits,
    kernel_tally,
    readings_by_step,
    step_numbers,
)
from rules.analysis.ranks.run import DeviceStates
from rules.analysis.recording.completeness import completeness_of
from rules.analysis.recording.subject import subject_of
from rules.diagnosis import Diagnosis
from rules.findings.base import Finding
from rules.replay.late_ranks import LONG_SILENCE
from rules.replay.overlay import Overlay
from rules.replay.replay import replay_of
from rules.replay.surroundings import surroundings_of
from rules.summaries.rank_summary import Alone, RankSummary, SummaryWords

MAX_EVIDENCE = 3


def summary_of(analysis: Analysis, diagnosis: Diagnosis) -> RankSummary:
    """The summary of a trace of one rank of many; without GPU work it has no devices."""
    trace = analysis.trace
    devices = tuple(analysis.active_devices)
    columns: dict[str, Array] = {
        "step.start": np.array([step.start for step in analysis.steps], np.int64),
        "step.end": np.array([step.end for step in analysis.steps], np.int64),
        "step.steady": np.array([step.steady for step in analysis.steps], np.uint8),
    }
    edges = distinct_values(np.concatenate((columns["step.start"], columns["step.end"], analysis.window)))
    for number, device in enumerate(devices):
        time = replace(analysis.time(device), idle=analysis.idle_beyond(device))
        states = DeviceStates.of(time).coarse(edges)
        columns |= {f"{number}.edge": states.edge, f"{number}.part": states.part}
        columns |= {
            f"{number}.alone.start": time.communication[0],
            f"{number}.alone.end": time.communication[1],
        }
        columns[f"{number}.blocks"] = blocks_by_step(analysis, device, analysis.steps)
        readings = readings_by_step(analysis, device, analysis.steps)
        columns |= {f"{number}.{which}": values for which, values in readings.items()}
        tally = kernel_tally(analysis, device)
        columns |= {f"{number}.kernel.{field.name}": getattr(tally, field.name) for field in fields(tally)}
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
        culprits=tuple(
            replace(each, device=number)
            for number, device in enumerate(devices)
            for each in idle_culprits(analysis, device)
        ),
        findings=tuple(
            replace(each, intervals=(), evidence=each.evidence[:MAX_EVIDENCE]) for each in diagnosis.findings
        ),
        outside_ns=_outside(analysis, diagnosis.findings),
        skipped=diagnosis.skipped,
        crashed=diagnosis.crashed,
        quiet=diagnosis.quiet,
        quality=trace.quality,
        alone=_alone(analysis),
        launches=completeness.launches,
        launches_without_operation=len(completeness.lost),
        lost_records=subject is not None and subject.lacks_records,
        operations=tuple(_counts(trace, device) for device in devices),
        span=tuple(analysis.span(device) for device in devices),
    )
    return RankSummary(words, columns | collectives)


def _outside(analysis: Analysis, findings: Sequence[Finding]) -> tuple[int, ...]:
    """How much of the time that each finding rests on lies before the first or after the last GPU operation (ns)."""
    spans = [analysis.span(device) for device in analysis.active_devices]
    if not spans:
        return (0,) * len(findings)
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    found = [of_pairs(each.intervals) for each in findings]
    return tuple(length(each) - length(clip(each, first, last)) for each in found)


def _alone(analysis: Analysis) -> Alone | None:
    replay = replay_of(analysis)
    if replay.reason:
        return None
    collective = analysis.trace.communicates[replay.device.event]
    silent = surroundings_of(analysis).silent_ns
    unknown = np.where(silent >= LONG_SILENCE * replay.usual_ns, silent, 0.0)

    def at_once(overlay: Overlay) -> None:
        overlay.duration[collective] = 0.0

    def without_silence(overlay: Overlay) -> None:
        overlay.gap -= np.minimum(unknown, overlay.gap)

    step = replay.time([at_once])
    least = replay.time([at_once, without_silence]) if unknown.any() else step
    return Alone(  # as replayed: how long a recorded step is beside that depends on the other ranks, too
        step_ns=step / replay.scale,
        without_silence_ns=least / replay.scale,
        kernels_ns=float(replay.usual.duration[~collective].sum() / max(replay.usual.steps, 1e-9)),
    )


def _counts(trace: Trace, device: int) -> tuple[int, int]:
    operations_here = trace.operations_of_device(device)
    kernels = int(np.count_nonzero(of_kinds(trace.events.kind[operations_here], EventKind.KERNEL)))
    return len(operations_here), kernels


def _collectives(
    analysis: Analysis, devices: tuple[int, ...]
) -> tuple[tuple[CollectiveKind, ...], dict[str, Array], tuple[str, ...]]:
    trace = analysis.trace
    columns = collective_columns(trace)
    kinds, kind = columns.kinds()
    place = {device: number for number, device in enumerate(devices)}
    distinct, name = numbered_values(trace.events.name[columns.event])
    return (
        kinds,
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
