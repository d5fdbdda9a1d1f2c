"""Builds the trace from gathered columns: quarantine, steps, lanes, attributes, links, counters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parsers.chrome.build.communication import complete_collectives
from parsers.chrome.build.copies import claim_dma_requests, describe_copies
from parsers.chrome.build.counters import allocations_of, memory_counters, near_samples, sampled_counters
from parsers.chrome.build.device_clock import note_causality
from parsers.chrome.build.foreign import (
    claim_calls,
    claim_executors,
    claim_streams,
    npu_of,
    threads_of,
    tpus_of,
)
from parsers.chrome.build.implausible_ends import clip_overruns
from parsers.chrome.build.lanes import LaneMaker, Names
from parsers.chrome.build.launches import link_by_arrows, link_launches
from parsers.chrome.build.quarantine import Table, usable_events
from parsers.chrome.decode.categories import Where
from parsers.chrome.decode.collect import Columns, Series
from parsers.chrome.decode.header import XPROF, Header
from parsers.files.base import Source
from parsers.model.arrays import BOOL, I32, I64, distinct_values, place_in
from parsers.model.attributes import Attribute
from parsers.model.builder import TraceBuilder
from parsers.model.events import of_kinds
from parsers.model.lanes import GPU_WORK, Device, EventKind, LaneKind, Rank
from parsers.model.names.calls import api_of
from parsers.model.names.steps import is_profiler_step
from parsers.model.progress import Progress
from parsers.model.quality import Effect, QualityRecorder
from parsers.model.trace import ArgumentSource, Trace

_NOTHING = np.empty(0, np.int64)
_CPU_EVENTS = (EventKind.CPU_OP, EventKind.REGION, EventKind.PYTHON)
_LIMITS_OF_EXPORTERS = (1_000_000,)


def assemble(
    columns: Columns,
    series: Series,
    header: Header,
    source: Source,
    arguments: ArgumentSource,
    progress: Progress,
) -> Trace:
    """The trace of one file."""
    quality = columns.quality
    strings = list(columns.names)
    table = usable_events(columns, strings, quality)
    progress.step(0.1, "naming lanes")
    names = Names.of(columns.metadata)
    streams = claim_streams(columns, names, strings, table)
    is_xprof = header.is_xprof or names.of_xprof
    if is_xprof:
        from parsers.chrome.build.xprof_threads import claim_host_events

        claim_host_events(columns, names, strings, table)
    elif not header.is_kineto:
        claim_calls(columns, strings, table)
        claim_executors(columns, names, table)
    claim_dma_requests(strings, table)
    _steps_to_their_lane(columns, strings, table)

    builder = TraceBuilder(quality=quality)
    builder.strings = strings
    path = source.shown or str(source.path)
    builder.came_from(
        path, "chrome", XPROF if is_xprof else header.producer, header.rank, arguments=arguments
    )
    if header.rank is not None:
        builder.ranks.append(Rank(header.rank, header.world_size, header.host, groups=header.groups))
    builder.capture = replace(
        header.capture(),
        has_cpu_events=bool(of_kinds(table.kind, *_CPU_EVENTS).any()),
        has_api_calls=bool(of_kinds(table.kind, EventKind.API).any()),
    )
    devices = header.devices()
    npu = npu_of(names)
    if npu:
        devices.append(Device(0, npu, rank=header.rank))
    devices += [Device(number, "TPU", rank=header.rank) for number in tpus_of(names)]
    calls = api_of(
        strings[each] for each in distinct_values(table.name[of_kinds(table.kind, EventKind.API)]).tolist()
    )
    maker = LaneMaker(
        builder, names, header.rank, devices, _autograd_threads(columns, strings, table), f"{calls} calls"
    )
    lanes = _lanes(columns, maker, table)
    for which, (events, values) in table.attributes.items():
        builder.attribute(which, events, values)
    progress.step(0.2, "linking launches")
    linked = link_launches(builder, table)
    if columns.arrows:
        link_by_arrows(columns, threads_of(columns, streams), table, builder, linked[0], bool(npu))
    note_causality(table.start, *linked, quality)
    clip_overruns(table, lambda: _in_graphs(builder, table), strings, quality)
    complete_collectives(columns, builder, *linked, table)
    describe_copies(builder, table)
    _sizes_from_calls(builder, table, *linked)
    samples = near_samples(columns.memory.columns(), table.span)
    builder.counters += memory_counters(samples, maker)
    if (memory := allocations_of(samples, maker)) is not None:
        builder.memory.append(memory)
    builder.counters += sampled_counters(series, maker, table.span)
    if not builder.devices:
        builder.devices += maker.listed
    columns.note_leftovers()
    _note_oddities(columns, header, table, quality)
    builder.epoch_ns = header.epoch_ns(table.span[0] if table.span else 0)
    builder.add(
        table.start,
        table.start + table.duration,
        table.name,
        lanes[table.track] if len(table.track) else table.track,
        table.kind,
        table.row,
    )
    return builder.build(progress.part(0.4, 1.0))


def _lanes(columns: Columns, maker: LaneMaker, table: Table) -> I32:
    used = np.zeros(len(columns.tracks), bool)
    used[table.track] = True
    return np.array(
        [
            maker.lane(track) if wanted else 0
            for track, wanted in zip(columns.tracks, used.tolist(), strict=True)
        ],
        np.int32,
    )


def _in_graphs(builder: TraceBuilder, table: Table) -> BOOL:
    """Operations that are known to be of a graph, or share their launch with others."""
    inside = np.zeros(len(table.start), bool)
    inside[builder.stated(Attribute.GRAPH_NODE)] = True
    events, correlation = table.attributes.get(Attribute.CORRELATION, (_NOTHING, _NOTHING))
    work = of_kinds(table.kind[events], *GPU_WORK) & (correlation != 0)
    _, which, counts = np.unique(correlation[work], return_inverse=True, return_counts=True)
    inside[events[work][counts[which] > 1]] = True
    return inside


def _sizes_from_calls(builder: TraceBuilder, table: Table, operation: I64, launch: I64) -> None:
    """Copies that do not state their bytes get those of the call that asked for them."""
    calls, sizes = table.call_sizes
    if not len(calls):
        return
    copies = of_kinds(table.kind[operation], EventKind.MEMCPY) & ~np.isin(
        operation, builder.stated(Attribute.BYTES)
    )
    operation, launch = operation[copies], launch[copies]
    place = place_in(calls, launch)
    told = place >= 0
    builder.attribute(Attribute.BYTES, operation[told], sizes[place[told]])


def _note_oddities(columns: Columns, header: Header, table: Table, quality: QualityRecorder) -> None:
    """State what makes the recording less useful than its owner may think."""
    if not header.is_kineto and columns.count in _LIMITS_OF_EXPORTERS:
        quality.note(
            "truncated",
            Effect.NOTED,
            f"the file holds exactly {columns.count:,} events, an exporter's limit: it is probably truncated",
        )
    untimed = columns.with_counters > 0 or quality.quality().gpu_work_without_times > 0
    if header.is_kineto and not (untimed or of_kinds(table.kind, *GPU_WORK).any()) and header.devices():
        is_cut = any(each.kind.startswith(("cut", "damaged")) for each in quality.quality().notes)
        quality.note(
            "no-gpu-events",
            Effect.NOTED,
            "the machine has a GPU, and the file ends before any GPU activity"
            if is_cut
            else "the machine has a GPU, and no GPU activity was recorded: ProfilerActivity.CUDA was off, "
            "another tool used the GPU's profiling interface, or nothing ran on the GPU",
        )


def _steps_to_their_lane(columns: Columns, strings: list[str], table: Table) -> None:
    is_step = np.fromiter(map(is_profiler_step, strings), bool, len(strings))
    ranges = of_kinds(table.kind, EventKind.REGION, EventKind.CPU_OP)  # the latter until PyTorch 1.9
    steps = np.flatnonzero(ranges & is_step[table.name])
    if not len(steps):
        return
    table.kind[steps] = EventKind.STEP
    tracks = list(columns.tracks)
    moved = {
        each: columns.tracks[Where.THREAD, LaneKind.STEPS, tracks[each][2], None]
        for each in distinct_values(table.track[steps]).tolist()
    }
    table.track[steps] = np.array([moved[each] for each in table.track[steps].tolist()], np.int32)


def _autograd_threads(columns: Columns, strings: list[str], table: Table) -> frozenset[tuple[object, object]]:
    """Threads that run backward operators and are not the main thread."""
    backward = np.fromiter((text.startswith("autograd::engine::") for text in strings), bool, len(strings))
    tracks = list(columns.tracks)
    found = distinct_values(
        table.track[of_kinds(table.kind, EventKind.CPU_OP) & backward[table.name]]
    ).tolist()
    return frozenset(
        (tracks[each][2], tracks[each][3]) for each in found if tracks[each][2] != tracks[each][3]
    )
