"""What recording cost the CPU: time that a program spends under a profiler and would not spend without one."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import F64, I64, distinct_values, median_of
from parsers.model.lanes import EventKind
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import measure, union
from rules.analysis.recording.recording_costs import (
    FRAME_FACTOR,
    INSIDE_CALL_NS,
    MAX_FRAME_SHARE,
    MAX_OF_CALL,
    MAX_OF_GAP,
    USUAL_FRAME_NS,
    WRITING_NS,
)
from rules.replay.host import HostNodes, Written
from rules.replay.overlay import Overlay
from rules.replay.spans import Span

ENOUGH_FRAMES, MAX_FRAMES = 100, 100_000  # nested ones that are looked at


@dataclass(frozen=True, slots=True, eq=False)
class RecorderTime:
    """The recorder's part of the columns ``gap``, ``cost`` and ``tail`` of an overlay, ns.

    ``frames`` is how much of it went into Python's frames, which is known to a factor of two only.
    """

    gap: F64
    cost: F64
    tail: F64
    frames: float


def recorder_time(
    analysis: Analysis, spans: tuple[Span, ...], host: HostNodes, recorded: Overlay
) -> RecorderTime:
    """What the recorder took of ``recorded``, never more than a part of any time in which something was done."""
    before, inside = buffer_requests(analysis, spans, host)
    before, inside = np.minimum(before, recorded.gap), np.minimum(inside, recorded.cost)
    frame_ns = _frame_ns(analysis, spans, host) if host.written.frames.any() else 0.0
    records, frames = _writing(host.written, recorded.gap - before, frame_ns)
    tail_records, tail_frames = _writing(host.tail_written, recorded.tail, frame_ns)
    return RecorderTime(
        before + records + frames,
        inside + np.minimum(INSIDE_CALL_NS, MAX_OF_CALL * (recorded.cost - inside)),
        tail_records + tail_frames,
        float(frames.sum() + tail_frames.sum()),
    )


def _writing(written: Written, time: F64, frame_ns: float) -> tuple[F64, F64]:
    """How much of each time went into writing down the records, and the frames, that began in it (ns)."""
    records = np.minimum(WRITING_NS * written.records, MAX_OF_GAP * time)
    return records, np.minimum(frame_ns * written.frames, MAX_FRAME_SHARE * (time - records))


def _frame_ns(analysis: Analysis, spans: tuple[Span, ...], host: HostNodes) -> float:
    """What writing down one Python frame took (ns).

    Between the start of a frame and that of the first one inside it, and between their ends, Python itself needs
    hardly any time.
    """
    table = analysis.trace.events
    between: list[I64] = []
    for thread, members in enumerate(host.members):
        span = spans[int(host.span_of_thread[thread])]
        frames = np.concatenate([analysis.threads.events(member) for member in members])
        frames = frames[table.kind[frames] == EventKind.PYTHON]
        frames = frames[(table.start[frames] >= span.start) & (table.start[frames] < span.end)]
        if len(frames) > MAX_FRAMES:
            frames = frames[table.start[frames] < np.partition(table.start[frames], MAX_FRAMES)[MAX_FRAMES]]
        lanes = table.lane[frames]
        between += [
            _between_nested(analysis, frames[lanes == lane]) for lane in distinct_values(lanes).tolist()
        ]
    found = np.concatenate(between) if between else np.empty((0, 2), np.int64)
    if len(found) < ENOUGH_FRAMES:
        return USUAL_FRAME_NS
    return FRAME_FACTOR * float(median_of(found, axis=0).sum())


def _between_nested(analysis: Analysis, frames: I64) -> I64:
    """(from start to start, from end to end) of frames and the first, or last, one directly inside them, ns."""
    table = analysis.trace.events
    depth = table.depth[frames].astype(np.int64)
    start, end = table.spans(frames)
    found = []
    for at, order, deeper in ((start, np.lexsort((depth, start)), 1), (end, np.lexsort((-depth, end)), -1)):
        nested = depth[order][1:] == depth[order][:-1] + deeper
        found.append(np.diff(at[order])[nested])
    count = min(map(len, found))
    return np.column_stack([each[:count] for each in found])


def buffer_requests(analysis: Analysis, spans: tuple[Span, ...], host: HostNodes) -> tuple[F64, F64]:
    """How much of the time before and inside each call the recorder made room for more records (ns).

    Other events of its kind are the driver's, such as the loading of a kernel's code, or of threads of its own.
    """
    trace = analysis.trace
    events = trace.events.of_kind(EventKind.OVERHEAD)
    events = events[named(trace, events, lambda name: "buffer request" in name.lower())]
    before, inside = np.zeros(len(host)), np.zeros(len(host))
    if not len(events):
        return before, inside
    ranks = trace.lane_rank[trace.events.lane[events]]
    for number, span in enumerate(spans):
        mine = events[ranks == (-1 if span.rank is None else span.rank)]
        requests = union(*trace.events.spans(mine))
        nodes = host.span_of_thread[host.thread] == number
        start, end = host.start[nodes], host.end[nodes]
        before[nodes] = measure(requests, start - host.gap[nodes].astype(np.int64), start)
        inside[nodes] = measure(requests, start, end)
    return before, inside
