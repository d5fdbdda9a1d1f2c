"""Joins the traces of several files into one run on one clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from parsers.model.arrays import I32, I64
from parsers.model.attributes import TEXT_ATTRIBUTES, Attribute, AttributeColumn
from parsers.model.builder import in_display_order
from parsers.model.counters import Counter
from parsers.model.events import EventTable, Links
from parsers.model.kernels import distinct_kernels
from parsers.model.lanes import Capture, Device, Lane, Rank
from parsers.model.late import dataclass
from parsers.model.quality import Effect, Quality, QualityRecorder
from parsers.model.trace import SOURCE_BITS, Trace
from parsers.ranks.log_alignment import logs_on_timelines
from parsers.ranks.rank_choice import LEFT_OUT, Choice, Member, choose, never_together
from parsers.ranks.rank_clocks import Alignment, align


def merge(traces: Sequence[Trace]) -> Trace:
    """One trace of all events; clocks are aligned by wall time where every timeline states it, else by their starts.

    Files that do not belong to the same run are left out, which the quality record says. Ranks that no file states
    are numbered by the files' names or order. A clear skew between the clocks of ranks is corrected.
    """
    choice = choose(logs_on_timelines(traces))
    traces = choice.traces
    if len(traces) == 1 and not choice.left_out:
        return traces[0]
    clocks = _Clocks.of(traces)
    strings, names = _merged_strings(traces)
    places = _device_indices(traces)
    lanes, events, order = _merged_events(traces, clocks.shifts, names, places)
    return Trace(
        strings=strings,
        events=events,
        lanes=lanes,
        devices=_merged_devices(traces, places),
        ranks=_each_once(
            replace(rank, clock_error_ns=error)
            for trace, error in zip(traces, clocks.aligned.errors, strict=True)
            for rank in trace.ranks or _numbered_rank(trace)
        ),
        links=Links.of(
            order.of([trace.links.operation for trace in traces]),
            order.of([trace.links.launch for trace in traces]),
        ),
        attributes=_merged_attributes(traces, names, order),
        counters=_merged_counters(traces, clocks.shifts, places),
        memory=tuple(
            each.moved(shift, place_of)
            for trace, shift, place_of in zip(traces, clocks.shifts, places, strict=True)
            for each in trace.memory
        ),
        kernels=distinct_kernels([trace.kernels for trace in traces]),
        tables=tuple(each for trace in traces for each in trace.tables),
        inputs=tuple(each for trace in traces for each in trace.inputs),
        quality=_merged_quality(traces, choice, clocks),
        capture=_merged_capture([trace.capture for trace in traces]),
        epoch_ns=clocks.epoch_ns,
        sources=tuple(source for trace in traces for source in trace.sources),
    )


@dataclass(frozen=True, slots=True)
class _Clocks:
    """How much later each trace begins on the clock of the run, ns, and the wall time at which that clock is 0."""

    shifts: list[int]
    epoch_ns: int | None
    aligned: Alignment
    apart: bool  # ranks recorded one after another, each shown from its own start

    @classmethod
    def of(cls, traces: Sequence[Trace]) -> _Clocks:
        epochs = [trace.epoch_ns for trace in traces]
        known = [epoch for epoch in epochs if epoch is not None]
        zero = min(known, default=0)
        placed = all(
            each.epoch_ns is not None or each.stands_beside or not (len(each.events) or each.counters)
            for each in traces
        )
        shifts = [epoch - zero if epoch is not None and placed else 0 for epoch in epochs]
        aligned = align(traces, shifts)
        apart = _recorded_apart(traces, aligned)
        if apart:
            shifts = [0] * len(traces)
        shifts = [shift + correction for shift, correction in zip(shifts, aligned.corrections, strict=True)]
        earliest = min(shifts)
        shifts = [shift - earliest for shift in shifts]
        return cls(shifts, zero + earliest if known else None, aligned, apart)


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    """Where the events of each trace stand in the table of all."""

    place: I64
    first: list[int]  # of each trace

    def of(self, events: Sequence[I64]) -> I64:
        """The places of some events of each trace, one trace after the other."""
        moved = [mine + first for mine, first in zip(events, self.first, strict=True)]
        return self.place[np.concatenate(moved)]


def _merged_strings(traces: Sequence[Trace]) -> tuple[tuple[str, ...], list[I32]]:
    """All strings, and for each trace where its own stand among them."""
    index: dict[str, int] = {}
    new = [
        np.fromiter((index.setdefault(text, len(index)) for text in trace.strings), np.int32)
        for trace in traces
    ]
    return tuple(index), new


def _merged_devices(traces: Sequence[Trace], places: list[list[int]]) -> tuple[Device, ...]:
    devices: dict[int, Device] = {}
    for trace, place_of in zip(traces, places, strict=True):
        devices |= {
            index: device
            for index, device in zip(place_of, trace.devices, strict=True)
            if index not in devices or not _is_memory_alone(trace)
        }
    return tuple(devices[index] for index in sorted(devices))


def _merged_events(
    traces: Sequence[Trace], shifts: list[int], names: list[I32], places: list[list[int]]
) -> tuple[tuple[Lane, ...], EventTable, _Order]:
    """The lanes as they are shown, the events on them, and where those of each trace went."""
    lanes: list[Lane] = []
    lane_columns = []
    for trace, place_of in zip(traces, places, strict=True):
        lane_columns.append(trace.events.lane + len(lanes))
        lanes += [
            replace(lane, device=None if lane.device is None else place_of[lane.device])
            for lane in trace.lanes
        ]
    ordered, lane = in_display_order(lanes, np.concatenate(lane_columns).astype(np.int32))
    tables = [trace.events for trace in traces]
    start = np.concatenate([table.start + shift for table, shift in zip(tables, shifts, strict=True)])
    end = np.concatenate([table.end + shift for table, shift in zip(tables, shifts, strict=True)])
    name = np.concatenate([new[table.name] for table, new in zip(tables, names, strict=True)])
    depth = np.concatenate([table.depth for table in tables])
    kind = np.concatenate([table.kind for table in tables])
    firsts = accumulate((len(trace.sources) for trace in traces[:-1]), initial=0)
    row = np.concatenate(
        [
            np.where(table.source_row < 0, -1, table.source_row + (first << SOURCE_BITS))
            for table, first in zip(tables, firsts, strict=True)
        ]
    )
    order = np.lexsort((start, depth, lane))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    events = EventTable(
        start[order], end[order], name[order], lane[order], depth[order], kind[order], row[order]
    )
    first = list(accumulate((len(table) for table in tables[:-1]), initial=0))
    return ordered, events, _Order(place, first)


def _merged_counters(
    traces: Sequence[Trace], shifts: list[int], places: list[list[int]]
) -> tuple[Counter, ...]:
    """All counters; what a snapshot counted of a GPU gives way to the timeline's own counter of the same."""
    merged = [
        (
            _is_memory_alone(trace),
            replace(
                each, time=each.time + shift, device=None if each.device is None else place_of[each.device]
            ),
        )
        for trace, shift, place_of in zip(traces, shifts, places, strict=True)
        for each in trace.counters
    ]
    counted = {(each.device, each.name) for alone, each in merged if not alone}
    return tuple(each for alone, each in merged if not alone or (each.device, each.name) not in counted)


def _each_once(ranks: Iterable[Rank]) -> tuple[Rank, ...]:
    """The ranks, of which several files may tell: what one does not say, and its groups, come from the others."""
    found: dict[int, Rank] = {}
    for rank in ranks:
        if (known := found.get(rank.rank)) is None:
            found[rank.rank] = rank
            continue
        named = {group.name for group in known.groups}
        errors = (known.clock_error_ns, rank.clock_error_ns)
        found[rank.rank] = replace(
            known,
            world_size=known.world_size or rank.world_size,
            host=known.host or rank.host,
            clock_error_ns=next((error for error in errors if error is not None), None),
            groups=known.groups + tuple(group for group in rank.groups if group.name not in named),
        )
    return tuple(found.values())


def _numbered_rank(trace: Trace) -> tuple[Rank, ...]:
    """The rank of a trace that states none but was given one."""
    number = trace.inputs[0].rank if trace.inputs and len(trace.events) else None
    return () if number is None else (Rank(number),)


def _recorded_apart(traces: Sequence[Trace], aligned: Alignment) -> bool:
    """Whether these are timelines of ranks that share no moment, and no collective tells how their clocks differ."""
    is_told = any(aligned.corrections) or any(error for error in aligned.errors)
    timelines = all(len(trace.events) and not trace.stands_beside for trace in traces)
    return timelines and not is_told and never_together([Member.of(trace).span for trace in traces])


def _merged_quality(traces: Sequence[Trace], choice: Choice, clocks: _Clocks) -> Quality:
    notes = QualityRecorder()
    if clocks.apart:
        notes.note(
            "recorded-apart",
            Effect.NOTED,
            "ranks that were recorded one after another are shown each from its own start",
        )
    for note in clocks.aligned.notes:
        notes.note(note.kind, note.effect, note.reason, note.example, note.count)
    for path, reason in choice.left_out:
        notes.note(
            LEFT_OUT, Effect.NOTED, "files that do not belong to this run are not shown", f"{path}: {reason}"
        )
    return Quality.merged([*(trace.quality for trace in traces), notes.quality()])


def _merged_attributes(
    traces: Sequence[Trace], names: list[I32], order: _Order
) -> dict[Attribute, AttributeColumn]:
    merged = {}
    none = AttributeColumn(np.empty(0, np.int64), np.empty(0, np.int64))
    for which in Attribute:
        columns = [trace.attributes.get(which, none) for trace in traces]
        if all(column is none for column in columns):
            continue
        texts = which in TEXT_ATTRIBUTES
        values = [
            new[column.value].astype(np.int64) if texts else column.value
            for column, new in zip(columns, names, strict=True)
        ]
        event, value = order.of([column.event for column in columns]), np.concatenate(values)
        by_event = np.argsort(event)
        merged[which] = AttributeColumn(event[by_event], value[by_event])
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
        places=tuple(place for each in captures for place in each.places),
        cores=min((each.cores for each in captures if each.cores is not None), default=None),
        threads=max((each.threads for each in captures if each.threads is not None), default=None),
    )


def _device_indices(traces: Sequence[Trace]) -> list[list[int]]:
    """For each trace, where its devices stand among those of the run.

    A recording of memory alone shares the GPU that a timeline calls by the same number; where several ranks do, its
    file's rank decides, and without one it keeps a GPU of its own.
    """
    indices: list[list[int]] = []
    count = 0
    for trace in traces:
        if _is_memory_alone(trace):
            indices.append([])
            continue
        indices.append(list(range(count, count + len(trace.devices))))
        count += len(trace.devices)
    for number, trace in enumerate(traces):
        if not _is_memory_alone(trace):
            continue
        for device in trace.devices:
            rank = trace.inputs[0].rank if trace.inputs else None
            same = [
                index
                for other, places in zip(traces, indices, strict=True)
                if not _is_memory_alone(other)
                for index, theirs in zip(places, other.devices, strict=True)
                if theirs.id == device.id and (rank is None or theirs.rank == rank)
            ]
            indices[number].append(same[0] if len(same) == 1 else count)
            count += len(same) != 1
    return indices


def _is_memory_alone(trace: Trace) -> bool:
    """Whether a recording holds what an allocator recorded and no timeline."""
    return bool(trace.memory) and not len(trace.events)
