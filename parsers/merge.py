"""Joins the traces of several files into one run on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parsers.log_alignment import logs_on_timelines
from parsers.model import (
    SOURCE_BITS,
    Attribute,
    Capture,
    Counter,
    EventTable,
    Links,
    Quality,
    Trace,
)
from parsers.model.attributes import AttributeColumn
from parsers.model.builder import in_display_order

TEXT_ATTRIBUTES = frozenset(
    {
        Attribute.GRID_SHAPE,
        Attribute.BLOCK_SHAPE,
        Attribute.INPUT_DIMS,
        Attribute.INPUT_TYPES,
        Attribute.COLLECTIVE,
        Attribute.MESSAGE_DTYPE,
        Attribute.GROUP,
        Attribute.NVTX_DOMAIN,
    }
)


def merge(traces: Sequence[Trace]) -> Trace:
    """One trace of all events; clocks are aligned by wall time where every file states it, else by their starts.

    Ranks that two files share, or that no file states, are numbered in the order of the files.
    """
    traces = _with_ranks(logs_on_timelines(traces))
    epochs = [trace.epoch_ns for trace in traces]
    known = [epoch for epoch in epochs if epoch is not None]
    zero = min(known, default=0)
    shifts = [epoch - zero if epoch is not None and len(known) == len(traces) else 0 for epoch in epochs]

    index: dict[str, int] = {}
    strings: list[str] = []
    name_maps = []
    for trace in traces:
        mapping = np.empty(len(trace.strings), np.int32)
        for old, text in enumerate(trace.strings):
            if (new := index.get(text)) is None:
                new = index[text] = len(strings)
                strings.append(text)
            mapping[old] = new
        name_maps.append(mapping)

    lanes = []
    lane_columns = []
    devices = []
    for trace in traces:
        lane_columns.append(trace.events.lane + len(lanes))
        lanes += [
            replace(lane, device=None if lane.device is None else lane.device + len(devices))
            for lane in trace.lanes
        ]
        devices += trace.devices
    ordered, lane = in_display_order(lanes, np.concatenate(lane_columns).astype(np.int32))

    start = np.concatenate([trace.events.start + shift for trace, shift in zip(traces, shifts, strict=True)])
    end = np.concatenate([trace.events.end + shift for trace, shift in zip(traces, shifts, strict=True)])
    name = np.concatenate([names[trace.events.name] for trace, names in zip(traces, name_maps, strict=True)])
    depth = np.concatenate([trace.events.depth for trace in traces])
    kind = np.concatenate([trace.events.kind for trace in traces])
    row = np.concatenate(
        [
            np.where(trace.events.source_row < 0, -1, trace.events.source_row + (first << SOURCE_BITS))
            for trace, first in zip(traces, _first_source(traces), strict=True)
        ]
    )
    order = np.lexsort((start, depth, lane))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    offsets = np.cumsum([0, *(len(trace.events) for trace in traces)])[:-1]

    operations = [trace.links.operation + offset for trace, offset in zip(traces, offsets, strict=True)]
    launches = [trace.links.launch + offset for trace, offset in zip(traces, offsets, strict=True)]
    return Trace(
        strings=tuple(strings),
        events=EventTable(
            start[order], end[order], name[order], lane[order], depth[order], kind[order], row[order]
        ),
        lanes=ordered,
        devices=tuple(devices),
        ranks=tuple(rank for trace in traces for rank in trace.ranks),
        links=Links.of(place[np.concatenate(operations)], place[np.concatenate(launches)]),
        attributes=_merged_attributes(traces, name_maps, offsets.tolist(), place),
        counters=tuple(
            Counter(each.name, each.unit, each.time + shift, each.value, each.rank, each.device)
            for trace, shift in zip(traces, shifts, strict=True)
            for each in trace.counters
        ),
        kernels=tuple(kernel for trace in traces for kernel in trace.kernels),
        inputs=tuple(each for trace in traces for each in trace.inputs),
        quality=Quality.merged(trace.quality for trace in traces),
        capture=_merged_capture([trace.capture for trace in traces]),
        epoch_ns=zero if known else None,
        sources=tuple(source for trace in traces for source in trace.sources),
    )


def _first_source(traces: Sequence[Trace]) -> list[int]:
    return np.cumsum([0, *(len(trace.sources) for trace in traces)])[:-1].tolist()


def _with_ranks(traces: Sequence[Trace]) -> list[Trace]:
    stated = [trace.inputs[0].rank if trace.inputs else None for trace in traces]
    timelines = [index for index, trace in enumerate(traces) if len(trace.events)]
    if len(timelines) < 2 or len({stated[index] for index in timelines} - {None}) == len(timelines):
        return list(traces)
    return [_renumbered(trace, index) if len(trace.events) else trace for index, trace in enumerate(traces)]


def _renumbered(trace: Trace, rank: int) -> Trace:
    return replace(
        trace,
        lanes=tuple(replace(lane, rank=rank) for lane in trace.lanes),
        devices=tuple(replace(device, rank=rank) for device in trace.devices),
        inputs=tuple(replace(each, rank=rank) for each in trace.inputs),
        ranks=tuple(replace(each, rank=rank) for each in trace.ranks),
        counters=tuple(replace(each, rank=rank) for each in trace.counters),
    )


def _merged_attributes(
    traces: Sequence[Trace], name_maps: list[np.ndarray], offsets: list[int], place: np.ndarray
) -> dict[Attribute, AttributeColumn]:
    merged = {}
    for which in Attribute:
        events, values = [], []
        for trace, names, offset in zip(traces, name_maps, offsets, strict=True):
            if (column := trace.attributes.get(which)) is not None:
                events.append(place[column.event + offset])
                values.append(
                    names[column.value].astype(np.int64) if which in TEXT_ATTRIBUTES else column.value
                )
        if events:
            event, value = np.concatenate(events), np.concatenate(values)
            order = np.argsort(event)
            merged[which] = AttributeColumn(event[order], value[order])
    return merged


def _merged_capture(captures: list[Capture]) -> Capture:
    def anywhere(values: list[bool | None]) -> bool | None:
        return True if any(values) else (False if False in values else None)

    return Capture(
        with_stack=anywhere([each.with_stack for each in captures]),
        profile_memory=anywhere([each.profile_memory for each in captures]),
        record_shapes=anywhere([each.record_shapes for each in captures]),
        has_cpu_events=any(each.has_cpu_events for each in captures),
        has_api_calls=any(each.has_api_calls for each in captures),
        graph_mode_opaque=any(each.graph_mode_opaque for each in captures),
    )
