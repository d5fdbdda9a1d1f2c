"""Track events of Perfetto as a trace: slices paired, tracks as lanes, counters, and launches by their arrows."""

from __future__ import annotations

import re

import numpy as np

from parsers.chrome.decode.categories import Where, family_of
from parsers.model import GPU_WORK, Attribute, CopyKind, Counter, Device, Effect, EventKind, Lane, LaneKind
from parsers.model.arrays import BOOL, I64, MAX_NUMBER, U8, distinct_values, per_value, rows_by, without
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass, regex
from parsers.perfetto.packets import Events, Packets, Track
from parsers.rocm.timeline import direction_of as rocm_direction
from parsers.statements import state_capture
from parsers.xprof.details import direction_of, kind_of

ANNOTATIONS = frozenset({"begin_ns", "end_ns", "copy_bytes", "corr_id"})
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_CATEGORIES = {
    "kernel_dispatch": (LaneKind.GPU_STREAM, EventKind.KERNEL),
    "memory_copy": (LaneKind.GPU_STREAM, EventKind.MEMCPY),
    "hip_api": (LaneKind.CUDA_API, EventKind.API),
    "hsa_api": (LaneKind.CUDA_API, EventKind.API),
    "rccl_api": (LaneKind.CUDA_API, EventKind.API),
    "marker_api": (LaneKind.REGION, EventKind.REGION),
}
_DEVICE = regex(r"(?:AGENT|GPU|device:GPU|Device)\s*[:\[]?\s*(\d{1,6})", re.IGNORECASE)
_QUEUE = regex(r"(?:QUEUE|STREAM|Stream|THREAD)\s*#?\[?\s*(\d{1,9})", re.IGNORECASE)
_GPU_TRACK = regex(r"\bGPU\b|\bstream #?\[?\d|\(GPU\)|CUDA HW", re.IGNORECASE)
_NOT_GPU = regex(r"counter|frequency|memory|power|completion|process", re.IGNORECASE)
_FARTHEST_NS = MAX_NUMBER // 2


@dataclass(slots=True)
class Slices:
    """Paired slices and instants as equal columns."""

    start: I64
    end: I64
    row: I64  # of the event that begins it


@dataclass(slots=True)
class TrackTimeline:
    """Adds packets to a builder."""

    builder: TraceBuilder
    packets: Packets

    def add(self) -> None:
        events = self.packets.events
        slices = self._slices(events)
        added = self._add(events, slices)
        self._link(events, slices, added)
        self._counters(events)
        self.builder.epoch_ns = self.packets.epoch_ns
        quality = self.builder.quality
        quality.note(
            "packets-not-shown",
            Effect.NOTED,
            "packets of other sources of Perfetto, such as the kernel's scheduler, are not shown",
            "",
            self.packets.other_packets,
        )
        quality.note("damaged", Effect.NOTED, "packets that are cut or garbled", "", self.packets.damaged)
        state_capture(self.builder)

    # --- slices

    def _slices(self, events: Events) -> Slices:
        """Begins and ends of each track matched like brackets; those that state their own times need no match."""
        stated = self._stated(events)
        marks = np.flatnonzero(np.isin(events.kind, (_BEGIN, _END)))
        if len(stated.row):
            whole = distinct_values(events.track[stated.row])
            only_stated = np.isin(events.track[marks], whole)
            begins = marks[only_stated & (events.kind[marks] == _BEGIN)]
            complete = whole[
                np.isin(whole, events.track[without(begins, stated.row)], invert=True)
            ]  # every slice of these tracks states its times
            marks = marks[~np.isin(events.track[marks], complete)]
            stated = _taken(stated, np.isin(events.track[stated.row], complete))
        paired = self._paired(events, marks)
        instants = np.flatnonzero(events.kind == _INSTANT)
        points = Slices(events.time[instants], events.time[instants], instants)
        parts = (stated, paired, points)
        return Slices(
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.end for part in parts]),
            np.concatenate([part.row for part in parts]),
        )

    def _stated(self, events: Events) -> Slices:
        none = np.empty(0, np.int64)
        begin = events.annotations.get("begin_ns", (none, none))
        end = events.annotations.get("end_ns", (none, none))
        rows, first, second = np.intersect1d(begin[0], end[0], return_indices=True)
        usable = (events.kind[rows] == _BEGIN) & (events.time[rows] == begin[1][first])
        return Slices(begin[1][first][usable], end[1][second][usable], rows[usable])

    def _paired(self, events: Events, marks: I64) -> Slices:
        order = np.lexsort((marks, events.time[marks], events.track[marks]))
        marks = marks[order]
        track, opens = events.track[marks], events.kind[marks] == _BEGIN
        change = np.where(opens, 1, -1)
        starts = np.append(True, track[1:] != track[:-1]) if len(marks) else np.zeros(0, bool)
        total = np.cumsum(change)
        before = np.concatenate(([0], total[:-1])) if len(marks) else total
        base = before[starts][np.cumsum(starts) - 1] if len(marks) else before
        level = np.where(opens, before, total) - base
        by_level = np.lexsort((np.arange(len(marks)), level, np.cumsum(starts)))
        mark, opening = marks[by_level], opens[by_level]
        same = (
            np.append(
                (level[by_level][1:] == level[by_level][:-1])
                & (np.cumsum(starts)[by_level][1:] == np.cumsum(starts)[by_level][:-1]),
                False,
            )
            if len(mark)
            else np.zeros(0, bool)
        )
        closed = opening & same & np.append(~opening[1:], False)
        begin = mark[closed]
        end = mark[np.flatnonzero(closed) + 1]
        unfinished = mark[opening & ~closed]
        alone = int((~opening).sum() - len(end))
        last = int(events.time[marks].max()) if len(marks) else 0
        quality = self.builder.quality
        quality.note(
            "unfinished",
            Effect.REPAIRED,
            "a slice never ends: it is closed at the last event",
            "",
            len(unfinished),
        )
        quality.read(alone)
        quality.note("end-without-begin", Effect.QUARANTINED, "a slice ends that never began", "", alone)
        rows = np.concatenate((begin, unfinished))
        ends = np.concatenate((events.time[end], np.full(len(unfinished), last, np.int64)))
        return Slices(events.time[rows], ends, rows)

    # --- lanes

    def _add(self, events: Events, slices: Slices) -> I64:
        """Add slices; returns their numbers, -1 for those that cannot be used."""
        good = (
            (np.abs(slices.start) < _FARTHEST_NS) & (slices.end >= slices.start) & (slices.end < _FARTHEST_NS)
        )
        self.builder.quality.read(len(good))
        self.builder.quality.note(
            "impossible time",
            Effect.QUARANTINED,
            "a slice that ends before it begins",
            "",
            int((~good).sum()),
        )
        names = np.array([self.builder.string(text or "(no name)") for text in self.packets.texts], np.int64)
        added = np.full(len(slices.row), -1, np.int64)
        keys = np.stack([events.track[slices.row], events.category[slices.row]], axis=1)
        for (track, category), on_track in rows_by(keys):
            mine = on_track[good[on_track]]
            lane, kind = self._lane(track, self.packets.texts[category])
            kinds = np.full(len(mine), kind, np.uint8)
            rows = slices.row[mine]
            if kind is EventKind.KERNEL:
                kinds = self._work(events.name[rows])
            kinds[(events.kind[rows] == _INSTANT) & (kinds != EventKind.KERNEL)] = EventKind.MARK
            numbers = added[mine] = self.builder.add(
                slices.start[mine],
                slices.end[mine],
                names[events.name[rows]],
                self.builder.lane(lane),
                kinds,
                events.place[rows],
            )
            if lane.kind is LaneKind.GPU_STREAM:
                self._directions(
                    numbers[kinds == EventKind.MEMCPY], events.name[rows[kinds == EventKind.MEMCPY]]
                )
        sizes = events.annotations.get("copy_bytes")
        if sizes is not None:
            number = np.full(len(events.time), -1, np.int64)
            number[slices.row] = added
            known = number[sizes[0]] >= 0
            self.builder.attribute(Attribute.BYTES, number[sizes[0]][known], sizes[1][known])
        return added

    def _directions(self, numbers: I64, names: I64) -> None:
        for name, rows in rows_by(names):
            direction = direction_of(self.packets.texts[name])
            if direction is CopyKind.UNKNOWN:
                _, direction = rocm_direction(self.packets.texts[name])
            self.builder.attribute(Attribute.COPY_KIND, numbers[rows], direction.value)

    def _work(self, names: I64) -> U8:
        return per_value(names, lambda name: kind_of(self.packets.texts[name]), np.uint8)

    def _lane(self, uuid: int, category: str) -> tuple[Lane, EventKind]:
        track = self.packets.tracks.get(uuid, Track(uuid))
        parents = self._parents(track)
        path = " ".join(each.name or each.process_name for each in (*parents[::-1], track))
        lane, kind = _CATEGORIES.get(category, (LaneKind.OTHER, EventKind.OTHER))
        if lane is LaneKind.OTHER and (family := family_of(category or None)).kind is not EventKind.OTHER:
            lane, kind = family.lane, family.kind
            if family.where is Where.STREAM and lane is not LaneKind.GPU_STREAM:
                lane, kind = LaneKind.OTHER, EventKind.OTHER
        if lane is LaneKind.OTHER and _GPU_TRACK.search(path) and not _NOT_GPU.search(track.name):
            lane, kind = LaneKind.GPU_STREAM, EventKind.KERNEL
        if lane is LaneKind.GPU_STREAM:
            number = int(found[1]) if (found := _DEVICE.search(path)) else 0
            device = self.builder.device(Device(number))
            queue = int(found[1]) if (found := _QUEUE.search(track.name)) else len(self.builder.lanes)
            name = track.name or f"GPU {number} stream {queue}"
            return Lane(lane, name, device=device, stream=queue), kind
        owner = next((each for each in (track, *parents) if each.process is not None), track)
        thread = next((each.thread for each in (track, *parents) if each.thread is not None), None)
        name = track.name or owner.process_name or (f"track {uuid}" if uuid > 0 else "a thread")
        return (
            Lane(
                lane,
                f"{name} {category}" if category else name,
                process=owner.process or 0,
                thread=thread if thread is not None else uuid,
                process_name=owner.process_name,
            ),
            kind,
        )

    def _parents(self, track: Track) -> list[Track]:
        found: list[Track] = []
        while (
            track.parent and len(found) < 16 and (above := self.packets.tracks.get(track.parent)) is not None
        ):
            found.append(above)
            track = above
        return found

    # --- links and counters

    def _link(self, events: Events, slices: Slices, added: I64) -> None:
        """Operations belong to the call whose arrow, or correlation number, they share."""
        none = np.empty(0, np.int64)
        known = added >= 0
        kinds = [_CATEGORIES.get(text, (LaneKind.OTHER, EventKind.OTHER))[1] for text in self.packets.texts]
        is_call = np.array([kind is EventKind.API for kind in kinds], bool)
        is_work = np.array([kind in GPU_WORK for kind in kinds], bool)
        number = np.full(len(events.time), -1, np.int64)
        rows, values = events.annotations.get("corr_id", (none, none))
        number[rows] = values
        flow = np.where(events.flow != 0, events.flow, number)[slices.row]
        category = events.category[slices.row]
        known &= (flow != 0) & (flow != -1)
        calls, work = np.flatnonzero(known & is_call[category]), np.flatnonzero(known & is_work[category])
        if not len(calls) or not len(work):
            return
        order = calls[np.lexsort((slices.end[calls] - slices.start[calls], flow[calls]))]
        place = np.minimum(np.searchsorted(flow[order], flow[work]), len(order) - 1)
        found = flow[order][place] == flow[work]
        self.builder.link(added[work[found]], added[order[place[found]]])

    def _counters(self, events: Events) -> None:
        samples = np.flatnonzero(events.kind == _COUNTER)
        for uuid, rows in rows_by(events.track[samples]):
            mine = samples[rows]
            mine = mine[np.isfinite(events.value[mine]) & (np.abs(events.time[mine]) < _FARTHEST_NS)]
            if not len(mine):
                continue
            mine = mine[np.argsort(events.time[mine], kind="stable")]
            track = self.packets.tracks.get(uuid, Track(uuid))
            name = track.name or self.packets.texts[int(events.name[mine[0]])] or f"counter {uuid}"
            self.builder.quality.read(len(mine))
            self.builder.quality.keep(len(mine))
            self.builder.counters.append(Counter(name, track.unit, events.time[mine], events.value[mine]))


def _taken(slices: Slices, which: BOOL) -> Slices:
    return Slices(slices.start[which], slices.end[which], slices.row[which])
