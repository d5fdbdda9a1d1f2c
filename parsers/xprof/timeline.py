"""Planes of XProf as a trace: streams and devices, host threads, steps, XLA modules, and launches by correlation."""

from __future__ import annotations

import re
from dataclasses import field, replace

import numpy as np

from parsers.model import GPU_WORK, Attribute, CopyKind, Device, Effect, EventKind, Lane, LaneKind
from parsers.model.arrays import BOOL, I64, MAX_NUMBER, U8, distinct_values, per_value, place_in, rows_by
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass, regex
from parsers.model.names.collectives import collective_of
from parsers.statements import state_capture
from parsers.xprof.call_threads import PLACES, HostEvent, frame_name, host_events, owners_of_calls
from parsers.xprof.details import details_of, direction_of, kind_of
from parsers.xprof.planes import Line, Plane

_DEVICE = regex(r"/device:(GPU|TPU)[^:]*:(\d+)$", re.IGNORECASE)
_HOST = "/host:CPU"
_STREAM = regex(r"Stream #(\d+)", re.IGNORECASE)
_STEPS, _OPS, _ASYNC_OPS = "Steps", "XLA Ops", "Async XLA Ops"
_FARTHEST_NS = MAX_NUMBER // 2


@dataclass(slots=True)
class PlaneTimeline:
    """Adds planes one by one to a builder; ``finish`` joins what they say about each other."""

    builder: TraceBuilder
    _operations: set[str] = field(default_factory=set)
    _host: list[Plane] = field(default_factory=list)
    _correlated: list[tuple[I64, I64, BOOL]] = field(default_factory=list)

    def add(self, plane: Plane) -> None:
        """Take over a plane; the host's wait until the names of all GPU operations are known."""
        if plane.damaged:
            self.builder.quality.note(
                "damaged",
                Effect.NOTED,
                "parts of a plane are cut or garbled; what comes before is shown",
                plane.name,
                plane.damaged,
            )
        if found := _DEVICE.search(plane.name):
            if len(plane.start):
                self._device_plane(plane, found[1].upper(), int(found[2]))
        elif plane.name == _HOST:
            self._host.append(plane)
        elif plane.name == "Task Environment":
            begun = plane.properties.get("profile_start_time")
            if isinstance(begun, int) and 0 < begun < _FARTHEST_NS:
                self.builder.epoch_ns = begun

    def finish(self) -> None:
        """Add the host's planes, link operations to their calls, and say what the recording holds."""
        for plane in self._host:
            self._host_plane(plane)
        events, numbers, is_work = (
            np.concatenate([np.empty(0, kind), *(part[column] for part in self._correlated)])
            for column, kind in enumerate((np.int64, np.int64, bool))
        )
        is_work = is_work.astype(bool)
        calls, of_call = events[~is_work], numbers[~is_work]
        place = place_in(of_call, numbers[is_work])
        found = (place >= 0) & (numbers[is_work] > 0)
        self.builder.link(events[is_work][found], calls[place[found]])
        state_capture(self.builder)
        with_stack = any(lane.kind is LaneKind.PYTHON for lane in self.builder.lanes)
        self.builder.capture = replace(self.builder.capture, with_stack=with_stack)

    def _usable(self, plane: Plane) -> BOOL:
        good = (np.abs(plane.start) < _FARTHEST_NS) & (plane.duration >= 0) & (plane.duration < _FARTHEST_NS)
        good &= np.isin(plane.kind, list(plane.event_names))
        self.builder.quality.read(len(good))
        self.builder.quality.note(
            "impossible time",
            Effect.QUARANTINED,
            "an event with an impossible time, duration or kind",
            plane.name,
            int((~good).sum()),
        )
        return np.asarray(good)

    def _names(self, plane: Plane, events: I64, shown: dict[int, str]) -> I64:
        return per_value(
            plane.kind[events], lambda kind: self.builder.string(shown.get(kind, "") or "(no name)")
        )

    # --- devices

    def _device_plane(self, plane: Plane, family: str, number: int) -> None:
        device = self.builder.device(_device(plane, family, number))
        good = self._usable(plane)
        streams = any(_STREAM.match(line.name) for line in plane.lines)
        added = np.full(len(plane.start), -1, np.int64)
        kinds = np.zeros(len(plane.start), np.uint8)
        for index, line in enumerate(plane.lines):
            mine = line.first + np.flatnonzero(good[line.first : line.last])
            lane, kind = self._device_lane(line, index, device, number, streams)
            if lane.kind is LaneKind.GPU_STREAM:
                kinds[mine] = _work_kinds(plane, mine)
                self._operations.update(
                    plane.event_names.get(each, "") for each in distinct_values(plane.kind[mine])
                )
            else:
                kinds[mine] = kind
            shown = _step_names(plane) if kind is EventKind.STEP else plane.event_names
            added[mine] = self.builder.add(
                plane.start[mine],
                plane.start[mine] + plane.duration[mine],
                self._names(plane, mine, shown),
                self.builder.lane(lane),
                kinds[mine],
                plane.place[mine],
            )
            if line.name == _OPS:
                self._categories(plane, mine, device, number)
        self._describe(plane, added, kinds)
        self._correlate(plane, added, np.isin(kinds, GPU_WORK))

    def _device_lane(
        self, line: Line, place: int, device: int, number: int, streams: bool
    ) -> tuple[Lane, EventKind]:
        stream = _STREAM.match(line.name)
        if stream or (not streams and line.name in (_OPS, _ASYNC_OPS)):
            queue = int(stream[1]) if stream else int(line.name == _ASYNC_OPS)
            name = f"GPU {number} stream {queue}" if stream else line.name
            return Lane(LaneKind.GPU_STREAM, name, device=device, stream=queue), EventKind.KERNEL
        if line.name == _STEPS:
            return Lane(LaneKind.STEPS, f"steps of device {number}", process=number), EventKind.STEP
        name = line.name or f"line {line.id}"
        return Lane(LaneKind.GPU_REGION, name, device=device, stream=place), EventKind.GPU_REGION

    def _categories(self, plane: Plane, events: I64, device: int, number: int) -> None:
        """The HLO category of each operation, where the recording states it."""
        categories = {
            kind: str(stated["hlo_category"])
            for kind, stated in plane.event_statistics.items()
            if stated.get("hlo_category")
        }
        mine = events[np.isin(plane.kind[events], list(categories))]
        if not len(mine):
            return
        lane = self.builder.lane(
            Lane(LaneKind.GPU_REGION, "HLO categories", device=device, stream=len(plane.lines))
        )
        self.builder.quality.read(len(mine))
        self.builder.add(
            plane.start[mine],
            plane.start[mine] + plane.duration[mine],
            self._names(plane, mine, categories),
            lane,
            EventKind.GPU_REGION,
            plane.place[mine],
        )

    def _describe(self, plane: Plane, added: I64, kinds: U8) -> None:
        """Shapes of kernels, sizes and directions of copies, nodes of graphs, and collectives."""
        builder = self.builder
        for statistic in ("kernel_details", "memcpy_details"):
            owners, texts, which = plane.texts(statistic)
            details = [
                details_of(text, None) if statistic[0] == "k" else details_of(None, text) for text in texts
            ]
            for attribute, values in (
                (Attribute.REGISTERS, [_number(each.registers) for each in details]),
                (Attribute.BYTES, [_number(each.size) for each in details]),
                (Attribute.SOURCE_MEMORY, [each.source for each in details]),
                (Attribute.TARGET_MEMORY, [each.target for each in details]),
                (Attribute.GRID, [_product(each.grid) for each in details]),
                (Attribute.BLOCK, [_product(each.block) for each in details]),
                (Attribute.GRID_SHAPE, [_shape(builder, each.grid) for each in details]),
                (Attribute.BLOCK_SHAPE, [_shape(builder, each.block) for each in details]),
            ):
                stated = np.array([value is not None for value in values], bool)
                column = np.array([value or 0 for value in values], np.int64)
                if stated.any():
                    chosen = stated[which] & (added[owners] >= 0)
                    builder.attribute(attribute, added[owners[chosen]], column[which[chosen]])
        owners, numbers = plane.numbers("cuda_graph_node_id")
        chosen = (added[owners] >= 0) & (numbers != 0)
        builder.attribute(Attribute.GRAPH_NODE, added[owners[chosen]], numbers[chosen])
        copies = np.flatnonzero((kinds == EventKind.MEMCPY) & (added >= 0))
        for kind, rows in rows_by(plane.kind[copies]):
            direction = direction_of(plane.event_names.get(kind, ""), plane.instructions.get(kind, ""))
            if direction is not CopyKind.UNKNOWN:
                mine = copies[rows]
                builder.attribute(Attribute.COPY_KIND, added[mine], direction.value)
        kernels = np.flatnonzero((kinds == EventKind.KERNEL) & (added >= 0))
        of_kind = dict(rows_by(plane.kind[kernels]))
        for kind, shared in plane.event_statistics.items():
            category = str(shared.get("hlo_category", "")).replace("-", "_")
            if (kind in of_kind) and (collective := collective_of(category)):
                mine = kernels[of_kind[kind]]
                builder.attribute(Attribute.COLLECTIVE, added[mine], builder.string(collective))

    def _correlate(self, plane: Plane, added: I64, is_work: BOOL) -> None:
        owners, numbers = plane.numbers("correlation_id")
        known = added[owners] >= 0
        owners, numbers = owners[known], numbers[known]
        self._correlated.append((added[owners], numbers, is_work[owners]))

    # --- the host

    def _host_plane(self, plane: Plane) -> None:
        good = self._usable(plane)
        kinds = self._host_kinds(plane)
        thread = np.zeros(len(plane.start), np.int64)
        for place, line in enumerate(plane.lines):
            thread[line.first : line.last] = place
        is_call = np.zeros(len(good), bool)
        is_call[plane.numbers("correlation_id")[0]] = True
        is_call &= good
        is_work = np.isin(kinds, (HostEvent.RUNTIME, HostEvent.OPERATOR)) & good
        end = plane.start + np.where(good, plane.duration, 0)
        moved = np.arange(len(plane.lines))
        for calls, owner in owners_of_calls(plane.start, end, thread, is_call, is_work).items():
            moved[calls] = owner
        thread[is_call] = moved[thread[is_call]]
        shown = {key: frame_name(name) for key, name in plane.event_names.items()}
        added = np.full(len(plane.start), -1, np.int64)
        steps = self._add_steps(plane, good, added)
        for kind, (lane_kind, event_kind) in PLACES.items():
            of_kind = np.flatnonzero(good & (kinds == kind) & ~steps)
            for place, rows in rows_by(thread[of_kind]):
                mine = of_kind[rows]
                added[mine] = self.builder.add(
                    plane.start[mine],
                    end[mine],
                    self._names(plane, mine, shown),
                    self.builder.lane(_thread_lane(plane.lines[place], lane_kind)),
                    event_kind,
                    plane.place[mine],
                )
        self._correlate(plane, added, np.zeros(len(added), bool))

    def _host_kinds(self, plane: Plane) -> U8:
        keys = sorted(plane.event_names)
        table = host_events([plane.event_names[key] for key in keys], self._operations)
        place = np.minimum(np.searchsorted(keys, plane.kind), max(len(keys) - 1, 0))
        kinds = table[place] if len(keys) else np.zeros(len(plane.kind), np.uint8)
        if not self._operations:
            kinds[plane.numbers("is_eager")[0]] = HostEvent.OPERATOR
        kinds[plane.numbers("correlation_id")[0]] = HostEvent.CALL
        return kinds

    def _add_steps(self, plane: Plane, good: BOOL, added: I64) -> BOOL:
        """Annotations that state the number of a step, named with it."""
        owners, numbers = plane.numbers("step_num")
        owners, firsts = np.unique(owners, return_index=True)
        numbers = numbers[firsts]
        owners, numbers = owners[good[owners]], numbers[good[owners]]
        names = [
            self.builder.string(f"{plane.event_names.get(kind, 'step')} {number}")
            for kind, number in zip(plane.kind[owners].tolist(), numbers.tolist(), strict=True)
        ]
        steps = np.zeros(len(plane.start), bool)
        steps[owners] = True
        if len(owners):
            added[owners] = self.builder.add(
                plane.start[owners],
                plane.start[owners] + plane.duration[owners],
                np.array(names),
                self.builder.lane(Lane(LaneKind.STEPS, "steps")),
                EventKind.STEP,
                plane.place[owners],
            )
        return steps


def _device(plane: Plane, family: str, number: int) -> Device:
    stated = plane.properties

    def whole(name: str) -> int | None:
        value = stated.get(name)
        return value if isinstance(value, int) and 0 < value < 1 << 62 else None

    vendor = str(stated.get("device_vendor", ""))
    model = stated.get("gpu_device_name") or stated.get("device_type_string")
    major, minor = stated.get("compute_cap_major"), stated.get("compute_cap_minor")
    of_nvidia = isinstance(major, int) and isinstance(minor, int) and vendor.lower() == "nvidia"
    bandwidth = whole("memory_bandwidth")
    return Device(
        number,
        str(model) if model else f"{vendor} {family}".strip() if vendor or family != "GPU" else "",
        memory_bytes=whole("memory_size"),
        sm_count=whole("core_count"),
        compute_capability=(int(major or 0), int(minor or 0)) if of_nvidia else None,
        memory_bandwidth=float(bandwidth) if bandwidth else None,
    )


def _work_kinds(plane: Plane, events: I64) -> U8:
    return per_value(plane.kind[events], lambda kind: kind_of(plane.event_names.get(kind, "")), np.uint8)


def _step_names(plane: Plane) -> dict[int, str]:
    return {key: f"step {name}" if name.isdigit() else name for key, name in plane.event_names.items()}


def _thread_lane(line: Line, kind: LaneKind) -> Lane:
    thread = re.search(r"/(\d{1,7})$", line.name)
    number = int(thread[1]) if thread else line.id
    suffix = {LaneKind.PYTHON: " Python", LaneKind.CUDA_API: " calls", LaneKind.REGION: " regions"}.get(
        kind, ""
    )
    if kind is LaneKind.OTHER:
        suffix = " runtime"
    return Lane(kind, f"{line.name or f'thread {number}'}{suffix}", process=0, thread=number)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and len(text) < 19 else None


def _sides(text: bytes) -> list[int]:
    sides = text.decode("ascii", "replace").split(",")
    good = len(sides) == 3 and all(side.isdigit() and len(side) < 7 for side in sides)
    return [int(side) for side in sides] if good else []


def _product(text: bytes) -> int | None:
    sides = _sides(text)
    return sides[0] * sides[1] * sides[2] if sides else None


def _shape(builder: TraceBuilder, text: bytes) -> int | None:
    sides = _sides(text)
    return builder.string(",".join(map(str, sides))) if sides else None
