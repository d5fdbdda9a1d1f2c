"""Which tracks a recording has, in which order, under which headings, and which of them start small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from parsers.model import GPU_LANES, Lane, LaneKind, Trace


class Place(IntEnum):
    """Where in its group a track belongs; the order on the screen."""

    REGIONS = 0
    WORKING_THREAD = 1  # launches GPU work
    GPU = 2
    COUNTER = 3
    QUIET_THREAD = 4
    ASIDE = 5  # the profiler's own work, samples, synchronisation markers


@dataclass(frozen=True, slots=True)
class Track:
    """One horizontal strip: a heading, a lane (``lane`` >= 0) or a counter (``counter`` >= 0).

    ``key`` names it across sessions; ``levels`` is how many rows of nested events it has.
    """

    key: str
    group: str
    title: str
    subtitle: str = ""
    lane: int = -1
    counter: int = -1
    kind: LaneKind | None = None
    levels: int = 1
    place: Place = Place.GPU
    device: int = -1
    first_of_device: bool = False  # shows the gaps of the device
    small: bool = False  # starts collapsed
    brief: bool = False  # stays visible when its group is brief

    @property
    def is_heading(self) -> bool:
        return self.lane < 0 and self.counter < 0

    @property
    def is_gpu_lane(self) -> bool:
        return self.kind in GPU_LANES


@dataclass(frozen=True, slots=True)
class Group:
    """All tracks of one rank or process."""

    key: str
    title: str
    subtitle: str
    devices: tuple[int, ...]
    tracks: tuple[Track, ...]


_THREAD_KINDS = (LaneKind.STEPS, LaneKind.REGION, LaneKind.CPU_THREAD, LaneKind.PYTHON, LaneKind.CUDA_API)
_SMALL = frozenset(
    {
        LaneKind.PYTHON,
        LaneKind.OS_RUNTIME,
        LaneKind.SAMPLES,
        LaneKind.OVERHEAD,
        LaneKind.GPU_REGION,
        LaneKind.OTHER,
    }
)
_ASIDE = frozenset({LaneKind.OS_RUNTIME, LaneKind.SAMPLES, LaneKind.OVERHEAD, LaneKind.OTHER})
_SUBTITLES = {
    LaneKind.REGION: "regions",
    LaneKind.CPU_THREAD: "CPU operators",
    LaneKind.PYTHON: "Python frames",
    LaneKind.CUDA_API: "CUDA API",
    LaneKind.OS_RUNTIME: "operating system",
    LaneKind.SAMPLES: "CPU samples",
    LaneKind.OVERHEAD: "profiler overhead",
    LaneKind.GPU_REGION: "annotations",
    LaneKind.NCCL: "communication",
    LaneKind.COPY: "copies",
    LaneKind.MEMORY: "memory",
}


def lane_key(lane: Lane) -> str:
    """A name for a lane that is the same in every session that opens the same recording."""
    parts = (lane.rank, lane.process, lane.thread, lane.device, lane.stream, lane.kind.name, lane.name)
    return "/".join("" if part is None else str(part) for part in parts)


def group_key(rank: int | None, process: int | None) -> str:
    """The group a lane belongs to: its rank, else its process."""
    return f"rank {rank}" if rank is not None else f"process {process}" if process is not None else "run"


def groups(trace: Trace) -> tuple[Group, ...]:
    """The groups of a recording; ranks first, then processes that use a GPU, then the others."""
    members: dict[str, list[int]] = {}
    for index, lane in enumerate(trace.lanes):
        members.setdefault(group_key(lane.rank, lane.process if lane.rank is None else None), []).append(
            index
        )
    if len(members) > 1:
        members = _joined_without_process(members, trace)
    launching = _launching_lanes(trace)
    made = [_group(trace, key, lanes, launching) for key, lanes in members.items()]
    made += _counters_without_lanes(trace, {group.key for group in made})
    return tuple(sorted(made, key=lambda group: (not group.key.startswith("rank"), not group.devices)))


def _joined_without_process(members: dict[str, list[int]], trace: Trace) -> dict[str, list[int]]:
    """One process and some lanes of no process are one group: the lanes of no process are its GPU's."""
    processes = [key for key in members if key.startswith("process")]
    if "run" in members and len(members) == 2 and len(processes) == 1:
        return {processes[0]: members[processes[0]] + members["run"]}
    uses_gpu = [
        key for key, lanes in members.items() if any(trace.lanes[lane].device is not None for lane in lanes)
    ]
    if len(uses_gpu) == 1 and not trace.ranks:
        small = [key for key in members if key != uses_gpu[0]]
        if all(sum(_length(trace, lane) for lane in members[key]) < 64 for key in small):
            return {uses_gpu[0]: sorted(lane for lanes in members.values() for lane in lanes)}
    return members


def _length(trace: Trace, lane: int) -> int:
    where = trace.events.lane_slice(lane)
    return int(where.stop) - int(where.start)


def _launching_lanes(trace: Trace) -> dict[tuple[int | None, int | None, int | None], int]:
    """How many GPU operations each thread launched."""
    counts = np.bincount(trace.events.lane[trace.links.launch], minlength=len(trace.lanes)).tolist()
    found: dict[tuple[int | None, int | None, int | None], int] = {}
    for lane, count in zip(trace.lanes, counts, strict=False):
        if count:
            thread = _thread(lane)
            found[thread] = found.get(thread, 0) + int(count)
    return found


def _thread(lane: Lane) -> tuple[int | None, int | None, int | None]:
    return lane.rank, lane.process, lane.thread


def _group(
    trace: Trace,
    key: str,
    lanes: Sequence[int],
    launching: dict[tuple[int | None, int | None, int | None], int],
) -> Group:
    devices = sorted({device for lane in lanes if (device := trace.lanes[lane].device) is not None})
    streams = {device: _streams_by_work(trace, lanes, device) for device in devices}
    threads = _threads_by_work(trace, lanes, launching)
    tracks = [_track(trace, lane, key, launching, threads, streams) for lane in lanes]
    kept = [track for track in tracks if track is not None]
    kept += [
        _counter_track(trace, index, key)
        for index, counter in enumerate(trace.counters)
        if _counter_group(trace, index) == key
        or (_counter_group(trace, index) is None and len(trace.ranks) < 2)
    ]
    order = {track.key: place for place, track in enumerate(kept)}

    def position(track: Track) -> tuple[object, ...]:
        lane = trace.lanes[track.lane] if track.lane >= 0 else None
        if lane is None:
            return track.place, 0, track.device, order[track.key]
        if lane.device is not None:
            work = streams[lane.device]
            stream = work.index(track.lane) if track.lane in work else len(work)
            return track.place, lane.device, lane.kind is LaneKind.GPU_REGION, lane.kind, stream
        return track.place, threads.get(_thread(lane), 0), lane.kind, order[track.key]

    rank = next((trace.lanes[lane].rank for lane in lanes if trace.lanes[lane].rank is not None), None)
    names = sorted({trace.devices[device].name for device in devices if trace.devices[device].name})
    process = next((trace.lanes[lane].process_name for lane in lanes if trace.lanes[lane].process_name), "")
    title = f"Rank {rank}" if rank is not None else f"{process or 'Process'} {key.removeprefix('process ')}"
    return Group(key, title, ", ".join(names), tuple(devices), tuple(sorted(kept, key=position)))


def _streams_by_work(trace: Trace, lanes: Sequence[int], device: int) -> list[int]:
    """The GPU lanes of a device, the busiest stream of each kind first."""
    mine = [
        lane for lane in lanes if trace.lanes[lane].device == device and trace.lanes[lane].kind in GPU_LANES
    ]

    def work(lane: int) -> float:
        where = trace.events.lane_slice(lane)
        return float(np.sum(trace.events.end[where] - trace.events.start[where]))

    return sorted(mine, key=lambda lane: (trace.lanes[lane].kind, -work(lane)))


def _threads_by_work(
    trace: Trace, lanes: Sequence[int], launching: dict[tuple[int | None, int | None, int | None], int]
) -> dict[tuple[int | None, int | None, int | None], int]:
    """Position of each thread: those with regions and launches first."""
    score: dict[tuple[int | None, int | None, int | None], tuple[bool, int]] = {}
    for lane in lanes:
        each = trace.lanes[lane]
        if each.device is None:
            thread = _thread(each)
            is_main = each.kind is LaneKind.STEPS or (score.get(thread) or (False, 0))[0]
            score[thread] = is_main, launching.get(thread, 0)
    ranked = sorted(score, key=lambda thread: (not score[thread][0], -score[thread][1]))
    return {thread: place for place, thread in enumerate(ranked)}


def _track(
    trace: Trace,
    index: int,
    group: str,
    launching: dict[tuple[int | None, int | None, int | None], int],
    threads: dict[tuple[int | None, int | None, int | None], int],
    streams: dict[int, list[int]],
) -> Track | None:
    lane = trace.lanes[index]
    length = _length(trace, index)
    if lane.kind is LaneKind.STEPS or not length:
        return None
    levels = len(trace.events.rows(index))
    title, subtitle = lane.name or lane.kind.name.replace("_", " ").lower(), _SUBTITLES.get(lane.kind, "")
    works = launching.get(_thread(lane), 0) > 0 or threads.get(_thread(lane)) == 0
    first = False
    if lane.kind in GPU_LANES and lane.device is not None:
        work = streams[lane.device]
        first = bool(work) and work[0] == index
        title, subtitle = _stream_title(trace, lane)
        place = Place.GPU
    elif lane.kind in _ASIDE:
        place = Place.ASIDE
    elif lane.device is not None:
        place = Place.GPU
    elif lane.kind is LaneKind.REGION and works:
        place = Place.REGIONS if threads.get(_thread(lane)) == 0 else Place.WORKING_THREAD
    else:
        place = Place.WORKING_THREAD if works else Place.QUIET_THREAD
    if place is Place.REGIONS:
        title, subtitle = "Regions", lane.name
    small = (
        lane.kind in _SMALL
        or place in (Place.QUIET_THREAD, Place.ASIDE)
        or (lane.is_gpu and length <= 4 and not first)
    )
    brief = first or lane.kind is LaneKind.NCCL or place is Place.REGIONS
    return Track(
        lane_key(lane), group, title, subtitle, index, -1, lane.kind, levels, place,
        -1 if lane.device is None else lane.device, first, small, brief,
    )  # fmt: skip


def _stream_title(trace: Trace, lane: Lane) -> tuple[str, str]:
    assert lane.device is not None
    device = trace.devices[lane.device]
    stream = f" · stream {lane.stream}" if lane.stream is not None else ""
    what = _SUBTITLES.get(lane.kind) or device.name
    return f"GPU {device.id}{stream}", what


def _counter_group(trace: Trace, index: int) -> str | None:
    counter = trace.counters[index]
    if counter.rank is not None:
        return group_key(counter.rank, None)
    if counter.device is not None:
        for lane in trace.lanes:
            if lane.device == counter.device:
                return group_key(lane.rank, lane.process if lane.rank is None else None)
    return None


def _counter_track(trace: Trace, index: int, group: str) -> Track:
    counter = trace.counters[index]
    where = (
        ""
        if counter.device is None or counter.device >= len(trace.devices)
        else f"GPU {trace.devices[counter.device].id}"
    )
    key = f"counter/{counter.rank}/{counter.device}/{counter.name}"
    device = -1 if counter.device is None else counter.device
    return Track(key, group, counter.name, where, -1, index, None, 1, Place.COUNTER, device)


def _counters_without_lanes(trace: Trace, present: set[str]) -> list[Group]:
    """Counters of a run that has no events, or that belong to no group."""
    placed = {
        index for index in range(len(trace.counters)) if (_counter_group(trace, index) or "") in present
    }
    loose = [index for index in range(len(trace.counters)) if index not in placed]
    if not loose or (present and len(trace.ranks) < 2):
        return []
    tracks = tuple(_counter_track(trace, index, "counters") for index in loose)
    return [Group("counters", "Counters", "", (), tracks)]
