"""Places device logs on the recordings that they are opened with: by wall clock, cut to the recorded time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parsers.model import Counter, Effect, Quality, QualityRecorder, Trace

_HALF_HOUR_NS = 30 * 60 * 1_000_000_000
_MAX_HALF_HOURS = 14 * 2
ASSUMED_ZONE = "assumed time zone"  # kind of the quality note of a log whose zone nothing tells


def logs_on_timelines(traces: Sequence[Trace]) -> list[Trace]:
    """The same traces, with those that hold counters alone cut to the time of those that hold events.

    Where the time zone of a log was only assumed and it misses the recording, it is moved by the fewest half hours
    that make it cover the recording. A log that cannot be placed loses its counters, which its quality record says.
    """
    timelines = [trace for trace in traces if len(trace.events)]
    if not timelines or len(timelines) == len(traces):
        return list(traces)
    starts = [trace.epoch_ns for trace in timelines if trace.epoch_ns is not None]
    if len(starts) < len(timelines):
        return [
            trace if len(trace.events) or not trace.counters else _left_out(trace, _NO_CLOCK, None)
            for trace in traces
        ]
    begin = min(starts)
    end = max(start + trace.duration for start, trace in zip(starts, timelines, strict=True))
    return [
        trace if len(trace.events) or not trace.counters else _placed(trace, begin, end) for trace in traces
    ]


_NO_CLOCK = "The recording does not say when it was made, so the log cannot be placed on it; open it alone."
_NO_DATE = "The log contains no dates and times, so it cannot be placed on the recording; open it alone."
_ELSEWHERE = "The log does not cover the time of the recording."


def _placed(log: Trace, begin: int, end: int) -> Trace:
    if log.epoch_ns is None:
        return _left_out(log, _NO_DATE, begin)
    moved = _half_hours(log, begin, end)
    if moved is None:
        return _left_out(log, _ELSEWHERE, begin)
    start = log.epoch_ns + moved * _HALF_HOUR_NS
    counters = [
        each for counter in log.counters if (each := _cut(counter, start - begin, end - begin)) is not None
    ]
    notes = QualityRecorder()
    if moved:
        hours = f"{abs(moved) / 2:g} h {'later' if moved > 0 else 'earlier'}"
        notes.note(
            "moved log",
            Effect.REPAIRED,
            f"The log's local times were taken {hours}, where it covers the recording.",
        )
    outside = sum(len(each.time) for each in log.counters) - sum(len(each.time) for each in counters)
    notes.note(
        "outside the recording",
        Effect.NOTED,
        "Readings before and after the recording are not shown.",
        "",
        outside,
    )
    return replace(
        log,
        counters=tuple(counters),
        memory=tuple(each.moved(start - begin) for each in log.memory),
        epoch_ns=begin,
        quality=Quality.merged([log.quality, notes.quality()]),
    )


def _half_hours(log: Trace, begin: int, end: int) -> int | None:
    """By how much to move a log: not at all where it touches the recording; None where it cannot be placed."""
    first = log.epoch_ns or 0
    last = first + log.duration
    if first <= end and last >= begin:
        return 0
    if not any(note.kind == ASSUMED_ZONE for note in log.quality.notes):
        return None
    for moved in sorted(range(-_MAX_HALF_HOURS, _MAX_HALF_HOURS + 1), key=abs):
        shift = moved * _HALF_HOUR_NS
        if first + shift <= begin and last + shift >= end:
            return moved
    return None


def _cut(counter: Counter, shift: int, length: int) -> Counter | None:
    """The counter between 0 and ``length``; the value that holds at 0 is kept there."""
    time = counter.time + shift
    first = max(int(np.searchsorted(time, 0, side="right")) - 1, 0)
    last = int(np.searchsorted(time, length, side="right"))
    if last <= first:
        return None
    return replace(counter, time=np.maximum(time[first:last], 0), value=counter.value[first:last])


def _left_out(log: Trace, reason: str, epoch: int | None) -> Trace:
    notes = QualityRecorder()
    notes.note("log left out", Effect.NOTED, reason, log.inputs[0].path if log.inputs else "")
    quality = Quality.merged([log.quality, notes.quality()])
    return replace(log, counters=(), memory=(), epoch_ns=epoch, quality=quality)
