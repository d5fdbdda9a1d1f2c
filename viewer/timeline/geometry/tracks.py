"""Which tracks a recording has, in which order, under which headings, and which of them start small."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsers.model import GPU_LANES, Lane, LaneKind, Trace, derived
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.units import capital
from viewer.timeline.kinds.base import Place, counter_style_of, style_of

Thread = tuple[int | None, int | None, int | None]  # rank, process, thread


@dataclass(frozen=True, slots=True)
class Track:
    """One horizontal strip: a heading, a lane (``lane`` >= 0) or a counter (``counter`` >= 0).

    ``key`` names it across sessions; ``levels`` is how many rows of nested events it has, and ``calls`` the lane of the
    GPU API calls that are drawn inside of its operators.
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
    rank: int | None = None
    gpu: int | None = None  # as its rank numbers it
    stream: int | None = None
    stacked: bool = False  # a counter of which it is known what adds up to it
    derived: bool = False  # worked out, not recorded: the key names it in the scene
    busy: bool = False  # when the device works, and why it does not
    calls: int = -1
    levels_with_calls: int = 1

    @property
    def is_heading(self) -> bool:
        return self.lane < 0 and self.counter < 0 and not self.is_made

    @property
    def is_made(self) -> bool:
        """Whether it shows what was worked out, and so cannot be folded, moved or resized."""
        return self.derived or self.busy

    @property
    def shows_gaps(self) -> bool:
        return self.first_of_device or self.busy

    def holds(self, lane: int) -> bool:
        return lane >= 0 and lane in (self.lane, self.calls)

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
    busy: tuple[Track, ...] = ()  # one a GPU, above all lanes


def lane_key(lane: Lane) -> str:
    """A name for a lane that is the same in every session that opens the same recording."""
    parts = (lane.rank, lane.process, lane.thread, lane.device, lane.stream, lane.kind.name, lane.name)
    return "/".join("" if part is None else str(part) for part in parts)


def group_key(rank: int | None, process: int | None) -> str:
    """The group a lane belongs to: its rank, else its process."""
    return f"rank {rank}" if rank is not None else f"process {process}" if process is not None else "run"


def groups(trace: Trace) -> tuple[Group, ...]:
    """The groups of a recording; ranks first, then processes that use a GPU, then the others."""
    launching = _launching_lanes(trace)
    members = _members(trace, launching)
    counters = _counters_by_group(trace, members)
    made = [_group(trace, key, lanes, launching, counters.pop(key, [])) for key, lanes in members.items()]
    for key, loose in counters.items():
        tracks = tuple(_counter_track(trace, index, key) for index in loose)
        made.append(Group(key, "Counters", "", (), tracks))
    kept = [group for group in made if group.tracks]
    return tuple(sorted(kept, key=lambda group: (not group.key.startswith("rank"), not group.devices)))


def _members(trace: Trace, launching: dict[Thread, int]) -> dict[str, list[int]]:
    """The lanes of each group. One process that uses a GPU makes one group of everything that has no rank."""
    owner = _launching_process(trace)
    users = {process for (rank, process, _), count in launching.items() if rank is None and count}
    users |= {
        lane.process for lane in trace.lanes if lane.rank is None and lane.device is not None and lane.process
    }
    found: dict[str, list[int]] = {}
    for index, lane in enumerate(trace.lanes):
        process = lane.process if lane.process is not None else owner.get(index)
        if lane.rank is None and len(users) <= 1:
            key = (
                group_key(None, next(iter(users), None)) if not trace.ranks or process in users else "others"
            )
        elif lane.rank is None and (process is None or process < 0):
            key = "others"
        else:
            key = group_key(lane.rank, process)
        found.setdefault(key, []).append(index)
    return found


def _launching_process(trace: Trace) -> dict[int, int]:
    """For lanes of operations the process that launched the first of them."""
    lanes, first = np.unique(trace.events.lane[trace.links.operation], return_index=True)
    found = {}
    for lane, place in zip(lanes.tolist(), first.tolist(), strict=True):
        process = trace.lanes[int(trace.events.lane[trace.links.launch[place]])].process
        if process is not None:
            found[lane] = process
    return found


def _length(trace: Trace, lane: int) -> int:
    where = trace.events.lane_slice(lane)
    return int(where.stop) - int(where.start)


def _launching_lanes(trace: Trace) -> dict[Thread, int]:
    """How many GPU operations each thread launched."""
    counts = np.bincount(trace.events.lane[trace.links.launch], minlength=len(trace.lanes)).tolist()
    found: dict[Thread, int] = {}
    for lane, count in zip(trace.lanes, counts, strict=False):
        if count:
            thread = _thread(lane)
            found[thread] = found.get(thread, 0) + int(count)
    return found


def _thread(lane: Lane) -> Thread:
    return lane.rank, lane.process, lane.thread


def _group(
    trace: Trace, key: str, lanes: Sequence[int], launching: dict[Thread, int], counters: Sequence[int]
) -> Group:
    devices = sorted({device for lane in lanes if (device := trace.lanes[lane].device) is not None})
    streams = {device: _streams_by_work(trace, lanes, device) for device in devices}
    threads = _threads_by_work(trace, lanes, launching)
    tracks = [_track(trace, lane, key, launching, threads, streams) for lane in lanes]
    kept = [track for track in tracks if track is not None]
    kept += [_counter_track(trace, index, key) for index in counters]
    order = {track.key: place for place, track in enumerate(kept)}
    by_work = {lane: place for work in streams.values() for place, lane in enumerate(work)}

    def position(track: Track) -> tuple[object, ...]:
        lane = trace.lanes[track.lane] if track.lane >= 0 else None
        if lane is None:
            return track.place, not track.stacked, track.device, order[track.key]
        if lane.device is not None:
            stream = by_work.get(track.lane, len(streams[lane.device]))
            return track.place, lane.device, style_of(lane.kind).order, stream
        return track.place, threads.get(_thread(lane), 0), style_of(lane.kind).order, order[track.key]

    rank = next((trace.lanes[lane].rank for lane in lanes if trace.lanes[lane].rank is not None), None)
    names = sorted({trace.devices[device].name for device in devices if trace.devices[device].name})
    process = next((trace.lanes[lane].process_name for lane in lanes if trace.lanes[lane].process_name), "")
    number = key.removeprefix("process ")
    title = (
        f"Rank {rank}"
        if rank is not None
        else "Others"
        if key == "others"
        else f"{process or 'Process'} {number}"
    )
    return Group(key, title, ", ".join(names), tuple(devices), tuple(sorted(kept, key=position)))


def _streams_by_work(trace: Trace, lanes: Sequence[int], device: int) -> list[int]:
    """The GPU lanes of a device, the busiest stream of each kind first."""
    mine = [
        lane for lane in lanes if trace.lanes[lane].device == device and trace.lanes[lane].kind in GPU_LANES
    ]

    def work(lane: int) -> float:
        where = trace.events.lane_slice(lane)
        return float(np.sum(trace.events.end[where] - trace.events.start[where]))

    return sorted(mine, key=lambda lane: (style_of(trace.lanes[lane].kind).order, -work(lane)))


def _threads_by_work(trace: Trace, lanes: Sequence[int], launching: dict[Thread, int]) -> dict[Thread, int]:
    """Position of each thread: a process's first thread, then those with regions, then those that launch the most."""
    score: dict[Thread, tuple[int, int]] = {}
    for lane in lanes:
        each = trace.lanes[lane]
        if each.device is None and each.thread is not None:
            thread = _thread(each)
            worth = style_of(each.kind).main_thread
            if worth and (each.thread == each.process or "main" in each.name.lower()):
                worth = 3
            score[thread] = max(worth, score.get(thread, (0, 0))[0]), launching.get(thread, 0)
    ranked = sorted(
        score, key=lambda thread: (-score[thread][0] if score[thread][0] == 3 else 0, -score[thread][1])
    )
    return {thread: index for index, thread in enumerate(ranked)}


def _track(
    trace: Trace,
    index: int,
    group: str,
    launching: dict[Thread, int],
    threads: dict[Thread, int],
    streams: dict[int, list[int]],
) -> Track | None:
    lane, length = trace.lanes[index], _length(trace, index)
    style = style_of(lane.kind)
    if not style.is_drawn or not length:
        return None
    leads = threads.get(_thread(lane)) == 0
    works = leads or launching.get(_thread(lane), 0) > 0 or not streams
    place = style.place(lane, works, leads)
    first = lane.is_gpu and lane.device is not None and streams[lane.device][:1] == [index]
    small = (
        style.starts_small
        or place in (Place.QUIET_THREAD, Place.ASIDE)
        or (lane.is_gpu and length <= 4 and not first)
    )
    return Track(
        lane_key(lane), group, *style.titles(lane, trace), index, -1, lane.kind, len(trace.events.rows(index)), place,
        -1 if lane.device is None else lane.device, first, small,
        brief=first or style.stays_when_brief or place is Place.REGIONS,
        rank=lane.rank, gpu=_gpu(trace, lane.device), stream=lane.stream,
    )  # fmt: skip


def _gpu(trace: Trace, device: int | None) -> int | None:
    return trace.devices[device].id if device is not None and device < len(trace.devices) else None


def _counters_by_group(trace: Trace, members: dict[str, list[int]]) -> dict[str, list[int]]:
    """The counters of each group; those of no group in one of their own, unless there is only one group to be in."""
    device_group = {
        device: key
        for key, lanes in members.items()
        for lane in lanes
        if (device := trace.lanes[lane].device) is not None
    }
    found: dict[str, list[int]] = {}
    for index, counter in enumerate(trace.counters):
        key = group_key(counter.rank, None) if counter.rank is not None else ""
        if counter.device is not None and key not in members:
            key = device_group.get(counter.device, "")
        if key not in members:
            key = next(iter(members)) if len(members) == 1 else "counters"
        found.setdefault(key, []).append(index)
    return found


def _counter_track(trace: Trace, index: int, group: str) -> Track:
    counter = trace.counters[index]
    gpu = _gpu(trace, counter.device)
    where = f"GPU {gpu}" if gpu is not None else ""
    title = counter.name.removeprefix(f"{where} ") if where else counter.name
    title, _, how = title.partition(" (")
    title = capital(title)
    second_line = ", ".join(part for part in (how.rstrip(")"), where) if part)
    key = f"counter/{counter.rank}/{counter.device}/{counter.name}"
    device = -1 if counter.device is None else counter.device
    place = counter_style_of(counter.unit).place(counter)
    stacked = index in stacked_counters(trace)
    told_there = counter.name.endswith("reserved memory") and counter.device in {
        trace.counters[each].device for each in stacked_counters(trace)
    }
    return Track(
        key, group, "Memory" if stacked else title, second_line, -1, index, None, 1,
        Place.COUNTER if stacked else place, device,
        small=index != next(iter(stacked_counters(trace))) if stacked else place is Place.ASIDE or told_there,
        rank=counter.rank, gpu=gpu, stacked=stacked,
    )  # fmt: skip


def busy_tracks(group: Group) -> tuple[Track, ...]:
    """A track for each GPU of a group that says at a glance when it works."""
    where = f"{group.title} · " if group.key.startswith("rank") else ""
    return tuple(
        Track(
            f"busy/{group.key}/{track.gpu}", group.key, f"{where}GPU {track.gpu}", "busy and idle",
            device=track.device, rank=track.rank, gpu=track.gpu, busy=True,
        )
        for track in group.tracks
        if track.first_of_device
    )  # fmt: skip


@derived
def stacked_counters(trace: Trace) -> tuple[int, ...]:
    """The counters of allocated memory whose allocations are known, that of the fullest GPU first."""
    known = {
        device
        for memory in trace.memory
        if memory.tells_use
        for device in distinct_values(memory.allocations.device).tolist()
    }
    found = [
        index
        for index, each in enumerate(trace.counters)
        if each.device in known and each.name.endswith("allocated memory") and len(each.value)
    ]
    return tuple(sorted(found, key=lambda index: -float(trace.counters[index].value.max())))
