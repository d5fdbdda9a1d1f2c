"""Work of GPUs and their counters in a Perfetto trace, which drivers and recorders write as packets of their own.

Field numbers are those of Perfetto's ``gpu_render_stage_event.proto``, ``gpu_counter_event.proto``,
``gpu_counter_descriptor.proto`` and ``interned_data.proto``; compute kernels are its extension 1000.
"""

from __future__ import annotations

import numpy as np

from parsers.model import F64, I64, Attribute, Counter, Device, Effect, EventKind, Lane, LaneKind, Progress
from parsers.model.arrays import MAX_NUMBER, rows_by
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.perfetto.packets import Packets
from parsers.protobuf.columns import Fields, Spans, decode
from parsers.protobuf.wire import FIXED64
from parsers.xprof.details import direction_of, kind_of

_SPECIFICATIONS_OF, _EVENT_NAMES, _COMPUTE_KERNELS = 24, 2, 1000  # interned data
_TEXT, _DEMANGLED = 2, 3
_DURATION, _OLD_QUEUE, _OLD_STAGE, _SUBMISSION, _SPECIFICATIONS = 2, 3, 4, 10, 7
_GPU, _QUEUE, _STAGE, _NAME, _KERNEL, _NAME_ID, _LAUNCH = 11, 13, 14, 17, 19, 20, 21
_WANTED = (
    *(_DURATION, _OLD_QUEUE, _OLD_STAGE, _SUBMISSION, _SPECIFICATIONS),
    *(_GPU, _QUEUE, _STAGE, _NAME, _KERNEL, _NAME_ID, _LAUNCH),
)
_GRID, _WORKGROUP = 1, 2
_QUEUES, _STAGES = 2, 3  # of the older list of descriptions
_DESCRIPTOR, _COUNTERS, _COUNTER_GPU = 1, 2, 3
_SPECS, _ID, _TITLE, _UNIT, _PER = 1, 1, 2, 7, 8
_WHOLE, _REAL = 2, 3
_UNITS = {
    7: ("B", 1.0), 8: ("B", 1e3), 9: ("B", 1e6), 10: ("B", 1e9),
    13: ("MHz", 1e-6), 14: ("MHz", 1e-3), 15: ("MHz", 1.0), 16: ("MHz", 1e3),
    28: ("W", 1e-3), 29: ("W", 1.0), 30: ("W", 1e3), 34: ("C", 1.0), 37: ("%", 1.0),
}  # fmt: skip
_SECOND = 22
_QUEUE_NUMBER = regex(r"(\d{1,9})\D*$")
_FARTHEST_NS = MAX_NUMBER // 2


def add_gpu_work(builder: TraceBuilder, trace: Packets, progress: Progress) -> None:
    """Add the work of GPUs, on a lane for each of their queues."""
    packets = trace.gpu_work
    count = len(packets.spans)
    if not count:
        return
    fields = decode(packets.spans, progress, _WANTED)
    duration = fields.numbers(_DURATION, count)
    good = (np.abs(packets.time) < _FARTHEST_NS) & (duration >= 0) & (duration < _FARTHEST_NS)
    described = _described(fields, progress)
    is_event = fields.numbers(_QUEUE, count, -1) >= 0
    is_event |= fields.numbers(_OLD_QUEUE, count, -1) >= 0
    is_event |= duration > 0
    good &= is_event
    specified = trace.interned(_SPECIFICATIONS_OF, _TEXT)
    queue = _names(packets.epoch, fields, _QUEUE, _OLD_QUEUE, specified, described[_QUEUES], count)
    stage = _names(packets.epoch, fields, _STAGE, _OLD_STAGE, specified, described[_STAGES], count)
    kernels = trace.interned(_COMPUTE_KERNELS, _TEXT) | trace.interned(_COMPUTE_KERNELS, _DEMANGLED)
    kernel = _looked_up(packets.epoch, fields.numbers(_KERNEL, count), kernels)
    named = _looked_up(packets.epoch, fields.numbers(_NAME_ID, count), trace.interned(_EVENT_NAMES, _TEXT))
    owners, own = fields.spans(_NAME)
    for index, owner in enumerate(owners.tolist()):
        named[owner] = own.text(index)
    gpu = fields.numbers(_GPU, count)
    names = [
        of_kernel or own_name or of_stage or "GPU work"
        for of_kernel, own_name, of_stage in zip(kernel, named, stage, strict=True)
    ]
    kind_of_work = {each: _kind(*each) for each in set(zip(names, stage, strict=True))}
    kinds = np.array([kind_of_work[each] for each in zip(names, stage, strict=True)], np.uint8)
    strings = np.array([builder.string(name) for name in names], np.int32)
    lanes = _lanes(builder, gpu, queue)
    rows = np.flatnonzero(good)
    start = packets.time[rows]
    builder.quality.read(len(rows))
    numbers = builder.add(start, start + duration[rows], strings[rows], lanes[rows], kinds[rows])
    _add_launches(builder, fields, progress, rows, numbers)
    copies = kinds[rows] == EventKind.MEMCPY
    directions = [direction_of(names[row]).value for row in rows[copies].tolist()]
    builder.attribute(Attribute.COPY_KIND, numbers[copies], np.array(directions, np.int64))
    bad = int((is_event & ~good).sum())
    builder.quality.read(bad)
    builder.quality.note("impossible time", Effect.QUARANTINED, "GPU work without a usable time", "", bad)


def add_gpu_counters(builder: TraceBuilder, trace: Packets, progress: Progress) -> None:
    """Add one counter for each that a descriptor names, of each GPU."""
    packets = trace.gpu_counters
    count = len(packets.spans)
    if not count:
        return
    fields = decode(packets.spans, progress, (_DESCRIPTOR, _COUNTERS, _COUNTER_GPU))
    specs = _specs(trace.gpu_descriptors, progress) | _specs(fields.spans(_DESCRIPTOR)[1], progress)
    owners, samples = fields.spans(_COUNTERS)
    stated = decode(samples, progress, (_ID, _WHOLE, _REAL))
    value: F64 = stated.numbers(_WHOLE, len(samples)).astype(np.float64)
    doubles = stated.of(_REAL, FIXED64)
    value[doubles.message] = doubles.value.view(np.float64)
    gpu = fields.numbers(_COUNTER_GPU, count)[owners]
    time = packets.time[owners]
    keys = np.stack([gpu, stated.numbers(_ID, len(samples))], axis=1)
    for (number, counter), rows in rows_by(keys):
        mine = rows[np.isfinite(value[rows]) & (np.abs(time[rows]) < _FARTHEST_NS)]
        if not len(mine):
            continue
        mine = mine[np.argsort(time[mine], kind="stable")]
        name, unit, factor = specs.get(counter, (f"counter {counter}", "", 1.0))
        device = builder.device(Device(_gpu_number(number)))
        builder.quality.read(len(mine))
        builder.quality.keep(len(mine))
        builder.counters.append(
            Counter(f"GPU {_gpu_number(number)} {name}", unit, time[mine], value[mine] * factor, None, device)
        )


def _kind(name: str, stage: str) -> EventKind:
    kind = kind_of(name)
    return kind if kind is not EventKind.KERNEL else kind_of(stage)


def _names(
    epoch: I64,
    fields: Fields,
    number: int,
    older: int,
    interned: dict[tuple[int, int], str],
    described: list[str],
    count: int,
) -> list[str]:
    """By interning id, else by the place in the older list of descriptions."""
    found = _looked_up(epoch, fields.numbers(number, count), interned)
    places = fields.numbers(older, count, -1).tolist()
    return [
        name or (described[place] if 0 <= place < len(described) else "")
        for name, place in zip(found, places, strict=True)
    ]


def _looked_up(epoch: I64, ids: I64, table: dict[tuple[int, int], str]) -> list[str]:
    return [table.get(key, "") for key in zip(epoch.tolist(), ids.tolist(), strict=True)]


def _described(fields: Fields, progress: Progress) -> dict[int, list[str]]:
    """Names of queues and stages in the list that older recorders write once."""
    _, lists = fields.spans(_SPECIFICATIONS)
    stated = decode(lists, progress, (_QUEUES, _STAGES))
    found: dict[int, list[str]] = {}
    for which in (_QUEUES, _STAGES):
        _, entries = stated.spans(which)
        named = decode(entries, progress, (1,))
        owners, texts = named.spans(1)
        names = [""] * len(entries)
        for index, owner in enumerate(owners.tolist()):
            names[owner] = texts.text(index)
        found[which] = names
    return found


def _lanes(builder: TraceBuilder, gpu: I64, queue: list[str]) -> I64:
    known: dict[tuple[int, str], int] = {}
    lanes = np.empty(len(queue), np.int64)
    for row, key in enumerate(zip(gpu.tolist(), queue, strict=True)):
        if key not in known:
            number = _gpu_number(key[0])
            found = _QUEUE_NUMBER.search(key[1])
            stream = int(found[1]) if found else len(known)
            name = f"GPU {number} {key[1] or f'queue {stream}'}"
            device = builder.device(Device(number))
            known[key] = builder.lane(Lane(LaneKind.GPU_STREAM, name, device=device, stream=stream))
        lanes[row] = known[key]
    return lanes


def _gpu_number(number: int) -> int:
    return number if 0 <= number < 1 << 16 else 0


def _add_launches(builder: TraceBuilder, fields: Fields, progress: Progress, rows: I64, numbers: I64) -> None:
    """State grids and blocks of the kernels that say them."""
    owners, launches = fields.spans(_LAUNCH)
    if not len(launches):
        return
    stated = decode(launches, progress, (_GRID, _WORKGROUP))
    number_of = dict(zip(rows.tolist(), numbers.tolist(), strict=True))
    for which, product, shape in (
        (_GRID, Attribute.GRID, Attribute.GRID_SHAPE),
        (_WORKGROUP, Attribute.BLOCK, Attribute.BLOCK_SHAPE),
    ):
        of_launch, sizes = stated.spans(which)
        axes = decode(sizes, progress, (1, 2, 3))
        x, y, z = (axes.numbers(axis, len(sizes), 1) for axis in (1, 2, 3))
        events = np.array([number_of.get(row, -1) for row in owners[of_launch].tolist()], np.int64)
        usable = (events >= 0) & (x > 0) & (y > 0) & (z > 0) & (np.maximum(np.maximum(x, y), z) < 1 << 31)
        texts = [
            builder.string(f"{a},{b},{c}") for a, b, c in zip(x.tolist(), y.tolist(), z.tolist(), strict=True)
        ]
        with np.errstate(over="ignore"):
            builder.attribute(product, events[usable], (x * y * z)[usable])
        builder.attribute(shape, events[usable], np.array(texts, np.int64)[usable])


def _specs(descriptors: Spans, progress: Progress) -> dict[int, tuple[str, str, float]]:
    """Name, unit and the factor to it, of each counter."""
    _, entries = decode(descriptors, progress, (_SPECS,)).spans(_SPECS)
    stated = decode(entries, progress, (_ID, _TITLE, _UNIT, _PER))
    ids = stated.numbers(_ID, len(entries)).tolist()
    unit, per = stated.numbers(_UNIT, len(entries)).tolist(), stated.numbers(_PER, len(entries)).tolist()
    names = [""] * len(entries)
    owners, texts = stated.spans(_TITLE)
    for index, owner in enumerate(owners.tolist()):
        names[owner] = texts.text(index)
    found = {}
    for row, counter in enumerate(ids):
        name, factor = _UNITS.get(unit[row], ("", 1.0))
        rate = "/s" if per[row] == _SECOND and name == "B" else ""
        found[counter] = names[row] or f"counter {counter}", name + rate, factor
    return found
