"""Builds the trace from gathered columns: quarantine, steps, lanes, attributes, links, counters."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from parsers.chrome.categories import Where
from parsers.chrome.collect import Columns
from parsers.chrome.communication import complete_collectives
from parsers.chrome.copies import describe_copies
from parsers.chrome.foreign import claim_streams
from parsers.chrome.header import Header
from parsers.chrome.lanes import LaneMaker, Names
from parsers.chrome.launches import link_launches
from parsers.chrome.memory import memory_counters
from parsers.chrome.plausible import judge
from parsers.model import (
    ArgumentSource,
    Attribute,
    Effect,
    EventKind,
    LaneKind,
    Progress,
    QualityRecorder,
    Rank,
    Trace,
    TraceInput,
)
from parsers.model.builder import TraceBuilder

I64 = npt.NDArray[np.int64]
_STEP = re.compile(r"^ProfilerStep\s*#\s*\d+")


def assemble(
    columns: Columns,
    header: Header,
    path: Path,
    arguments: ArgumentSource,
    quality: QualityRecorder,
    progress: Progress,
) -> Trace:
    """The trace of one file."""
    start, duration, name, track, kind, row, kept = _joined(columns, quality)
    strings = list(columns.names)
    names = Names.of(columns.metadata)
    claim_streams(columns, names, strings, name, track, kind)
    _steps_to_their_lane(columns, strings, name, track, kind)

    builder = TraceBuilder(quality=quality)
    builder.strings = strings
    builder.inputs.append(TraceInput(str(path), "chrome", header.producer, header.rank))
    builder.sources.append(arguments)
    if header.rank is not None:
        builder.ranks.append(Rank(header.rank, header.world_size, header.host))
    builder.capture = replace(
        header.capture(),
        has_cpu_events=bool(np.isin(kind, (EventKind.CPU_OP, EventKind.REGION, EventKind.PYTHON)).any()),
        has_api_calls=bool((kind == EventKind.API).any()),
    )
    listed = header.devices()
    autograd = _autograd_threads(columns, strings, name, track, kind)
    maker = LaneMaker(builder, names, header.rank, listed, autograd)
    used = np.zeros(len(columns.tracks), bool)
    used[track] = True
    lanes = np.array(
        [
            maker.lane(each) if wanted else 0
            for each, wanted in zip(columns.tracks, used.tolist(), strict=True)
        ],
        np.int32,
    )
    numbers = builder.add(start, start + duration, name, lanes[track] if len(track) else track, kind, row)
    renumbered = np.full(columns.count, -1, np.int64)
    renumbered[kept] = numbers
    correlated = correlation = np.empty(0, np.int64)
    for which, parts in columns.attributes.items():
        events, values = (np.concatenate(side) for side in zip(*parts, strict=True))
        events = renumbered[events]
        builder.attribute(which, events[events >= 0], values[events >= 0])
        if which is Attribute.CORRELATION:
            correlated, correlation = events[events >= 0], values[events >= 0]
    linked = link_launches(builder, correlated, correlation, name, kind, start, duration)
    complete_collectives(columns, builder, *linked, name, track, kind, start, start + duration)
    describe_copies(builder, name, kind)
    _sizes_from_calls(columns, builder, renumbered, *linked, kind)
    builder.counters += memory_counters(columns.memory, maker, kept_from=_bounds(start))
    if not builder.devices:
        builder.devices += listed
    columns.note_leftovers()
    first = int(start.min()) if len(start) else 0
    builder.epoch_ns = header.epoch_ns(first)
    return builder.build(progress)


def _sizes_from_calls(
    columns: Columns,
    builder: TraceBuilder,
    renumbered: I64,
    operation: I64,
    launch: I64,
    kind: npt.NDArray[np.uint8],
) -> None:
    """Copies that do not state their bytes get those of the call that asked for them."""
    if not columns.call_sizes:
        return
    calls, sizes = (np.concatenate(side) for side in zip(*columns.call_sizes, strict=True))
    calls = renumbered[calls]
    order = np.argsort(calls, kind="stable")
    calls, sizes = calls[order], sizes[order]
    copies = (kind[operation] == EventKind.MEMCPY) & ~np.isin(operation, builder.stated(Attribute.BYTES))
    operation, launch = operation[copies], launch[copies]
    place = np.minimum(np.searchsorted(calls, launch), len(calls) - 1)
    told = calls[place] == launch
    builder.attribute(Attribute.BYTES, operation[told], sizes[place[told]])


def _bounds(start: I64) -> tuple[int, int] | None:
    return (int(start.min()), int(start.max())) if len(start) else None


def _joined(
    columns: Columns, quality: QualityRecorder
) -> tuple[I64, I64, npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.uint8], I64, I64]:
    """All columns without the quarantined events, and the numbers of those that are kept."""
    parts = columns.parts
    empty = np.empty(0, np.int64)
    start = np.concatenate([part.start for part in parts]) if parts else empty
    duration = np.concatenate([part.duration for part in parts]) if parts else empty.copy()
    good = np.concatenate([part.good for part in parts]) if parts else empty.astype(bool)
    name = np.concatenate([part.name for part in parts]) if parts else empty.astype(np.int32)
    track = np.concatenate([part.track for part in parts]) if parts else empty.astype(np.int32)
    row = np.concatenate([part.row for part in parts]) if parts else empty
    kind = np.repeat(
        np.array([part.kind for part in parts], np.uint8),
        np.array([len(part.start) for part in parts], np.int64),
    )
    parts.clear()
    verdict = judge(start, duration, good)
    texts: list[str] | None = None
    bad = np.zeros(len(start), bool)
    for reason, mask, sentence in (
        ("no-time", verdict.no_time, "an event without a usable time"),
        (
            "no-duration",
            verdict.no_duration,
            "an event whose duration is missing, negative or impossibly long",
        ),
        ("far-away", verdict.far_away, "an event far away in time from all others"),
    ):
        if mask.any():
            texts = texts or list(columns.names)
            first = int(np.flatnonzero(mask)[0])
            example = f"{texts[name[first]]}: start {start[first]} ns, duration {duration[first]} ns"
            quality.note(reason, Effect.QUARANTINED, sentence, example, int(mask.sum()))
            bad |= mask
    if not bad.any():
        return start, duration, name, track, kind, row, np.arange(len(start))
    kept = np.flatnonzero(~bad)
    return start[kept], duration[kept], name[kept], track[kept], kind[kept], row[kept], kept


def _steps_to_their_lane(
    columns: Columns,
    strings: list[str],
    name: npt.NDArray[np.int32],
    track: npt.NDArray[np.int32],
    kind: npt.NDArray[np.uint8],
) -> None:
    is_step = np.fromiter((_STEP.match(text) is not None for text in strings), bool, len(strings))
    steps = np.flatnonzero((kind == EventKind.REGION) & is_step[name])
    if not len(steps):
        return
    kind[steps] = EventKind.STEP
    tracks = list(columns.tracks)
    moved = [
        columns.tracks[Where.THREAD, LaneKind.STEPS, tracks[each][2], None] for each in track[steps].tolist()
    ]
    track[steps] = np.array(moved, np.int32)


def _autograd_threads(
    columns: Columns,
    strings: list[str],
    name: npt.NDArray[np.int32],
    track: npt.NDArray[np.int32],
    kind: npt.NDArray[np.uint8],
) -> frozenset[tuple[object, object]]:
    """Threads that run backward operators and are not the main thread."""
    backward = np.fromiter((text.startswith("autograd::engine::") for text in strings), bool, len(strings))
    tracks = list(columns.tracks)
    found = np.unique(track[(kind == EventKind.CPU_OP) & backward[name]]).tolist()
    return frozenset(
        (tracks[each][2], tracks[each][3]) for each in found if tracks[each][2] != tracks[each][3]
    )
