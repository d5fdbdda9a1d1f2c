"""The builder: what is added in any order comes out sorted, with every index remapped once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.model import (
    Attribute,
    AttributeColumn,
    Counter,
    Device,
    EventKind,
    EventTable,
    Lane,
    LaneKind,
    Links,
    TraceInput,
)
from parsers.model.builder import TraceBuilder
from tests.examples import examples

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
EVENTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-100, 100), st.integers(0, 50)), min_size=1, max_size=40
)


def column(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def stream_lane(builder: TraceBuilder, stream: int = 7) -> int:
    device = builder.device(Device(0))
    return builder.lane(Lane(LaneKind.GPU_STREAM, f"stream {stream}", device=device, stream=stream))


@examples(150)
@given(EVENTS, st.integers(1, 5))
def test_indices_lead_to_the_same_events_after_sorting(events: list[tuple[int, int, int]], size: int) -> None:
    builder = TraceBuilder()
    lanes = [
        builder.lane(Lane(LaneKind.CPU_THREAD, f"thread {each}", process=1, thread=each)) for each in range(3)
    ]
    numbers = []
    for first in range(0, len(events), size):
        part = events[first : first + size]
        start = column(*(each[1] for each in part))
        numbers.append(
            builder.add(
                start,
                start + column(*(each[2] for each in part)),
                np.array([builder.string(f"event {first + each}") for each in range(len(part))]),
                np.array([lanes[each[0]] for each in part]),
                EventKind.CPU_OP,
            )
        )
    all_numbers = np.concatenate(numbers)
    builder.attribute(Attribute.BYTES, all_numbers, all_numbers * 10)
    builder.link(all_numbers[1:], all_numbers[:-1])
    trace = builder.build()
    original = [int(trace.name(event).split()[1]) for event in range(len(events))]
    zero = min(each[1] for each in events)
    assert trace.events.start.tolist() == [events[each][1] - zero for each in original]
    assert trace.events.duration.tolist() == [events[each][2] for each in original]
    assert [trace.lanes[lane].thread for lane in trace.events.lane.tolist()] == [
        events[each][0] for each in original
    ]
    everything = np.arange(len(events))
    assert trace.attribute(Attribute.BYTES, everything).tolist() == [each * 10 for each in original]
    launches = trace.links.launch_of(everything).tolist()
    assert [original[launch] if launch >= 0 else -1 for launch in launches] == [each - 1 for each in original]
    assert trace.quality.events_kept == len(events)


def test_later_statements_of_an_attribute_win() -> None:
    builder = TraceBuilder()
    numbers = builder.add(
        column(0, 10), column(5, 15), builder.string("k"), stream_lane(builder), EventKind.KERNEL
    )
    builder.attribute(Attribute.BYTES, numbers, column(1, 2))
    builder.attribute(Attribute.BYTES, numbers[1:], 7)
    trace = builder.build()
    assert trace.attribute(Attribute.BYTES, numbers).tolist() == [1, 7]
    assert trace.attributes[Attribute.BYTES].event.tolist() == [0, 1]


def test_counters_and_wall_clock_move_with_the_zero() -> None:
    builder = TraceBuilder(epoch_ns=1000)
    builder.add(column(50), column(60), builder.string("k"), stream_lane(builder), EventKind.KERNEL)
    builder.counters.append(Counter("c", "", column(40, 70), np.array([1.0, 2.0])))
    trace = builder.build()
    assert trace.events.start.tolist() == [10]
    assert trace.counters[0].time.tolist() == [0, 30]
    assert trace.epoch_ns == 1040
    assert trace.duration == 30


def test_nothing_builds_an_empty_trace() -> None:
    builder = TraceBuilder()
    builder.inputs.append(TraceInput("x", "none", "test"))
    trace = builder.build()
    assert (len(trace.events), trace.duration, len(trace.links.operation)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([("gemm", EventKind.KERNEL, 10), (NCCL, EventKind.KERNEL, 11)], LaneKind.NCCL),
        ([("gemm", EventKind.KERNEL, 10), (NCCL, EventKind.KERNEL, 10)], LaneKind.GPU_STREAM),
        ([("Memcpy", EventKind.MEMCPY, 10), ("Memset", EventKind.MEMSET, 50)], LaneKind.COPY),
        ([("Memcpy", EventKind.MEMCPY, 90), ("gemm", EventKind.KERNEL, 1)], LaneKind.GPU_STREAM),
        ([("Memcpy", EventKind.MEMCPY, 90), ("graph", EventKind.GRAPH, 1)], LaneKind.GPU_STREAM),
        ([("Memset", EventKind.MEMSET, 50)], LaneKind.GPU_STREAM),
    ],
)
def test_streams_are_named_after_what_they_mostly_do(
    events: list[tuple[str, EventKind, int]], kind: LaneKind
) -> None:
    builder = TraceBuilder()
    lane = stream_lane(builder)
    other = stream_lane(builder, 9)
    builder.add(column(0), column(1000), builder.string("gemm"), other, EventKind.KERNEL)
    for number, (name, event_kind, length) in enumerate(events):
        start = column(number * 100)
        builder.add(start, start + length, builder.string(name), lane, event_kind)
    trace = builder.build()
    assert {each.name: each.kind for each in trace.lanes} == {
        "stream 7": kind,
        "stream 9": LaneKind.GPU_STREAM,
    }


def test_lanes_stand_by_rank_then_cpu_before_gpu() -> None:
    builder = TraceBuilder()
    device = builder.device(Device(0))
    wanted = [
        Lane(LaneKind.STEPS, "steps", rank=0, process=5),
        Lane(LaneKind.REGION, "regions", rank=0, process=5, thread=8),
        Lane(LaneKind.CPU_THREAD, "thread", rank=0, process=5, thread=8),
        Lane(LaneKind.OVERHEAD, "overhead", rank=0, process=-1, thread=0),
        Lane(LaneKind.GPU_STREAM, "stream", rank=0, device=device, stream=7),
        Lane(LaneKind.GPU_REGION, "gpu regions", rank=0, device=device, stream=7),
        Lane(LaneKind.CPU_THREAD, "thread of rank 1", rank=1, process=4, thread=8),
    ]
    for lane in reversed(wanted):
        builder.add(column(0), column(1), builder.string("x"), builder.lane(lane), EventKind.OTHER)
    assert [lane.name for lane in builder.build().lanes] == [lane.name for lane in wanted]


def test_a_device_is_one_however_often_it_is_named() -> None:
    builder = TraceBuilder()
    assert [builder.device(Device(1, "a")), builder.device(Device(2)), builder.device(Device(1))] == [0, 1, 0]
    assert builder.device(Device(1, rank=3)) == 2


def table(**changes: object) -> EventTable:
    columns: dict[str, object] = {
        "start": column(0, 5), "end": column(5, 9), "name": np.zeros(2, np.int32), "lane": np.zeros(2, np.int32),
        "depth": np.zeros(2, np.int32), "kind": np.zeros(2, np.uint8), "source_row": column(-1, -1),
    }  # fmt: skip
    return EventTable(**{**columns, **changes})  # type: ignore[arg-type]


def test_a_thread_that_cannot_be_had_is_told_as_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refuse)
    builder, many = TraceBuilder(), np.arange(1 << 14)
    lane = builder.lane(Lane(LaneKind.CPU_THREAD, "thread"))
    builder.add(many, many, builder.string("op"), lane, EventKind.CPU_OP)
    with pytest.raises(MemoryError):
        builder.build()


def test_readings_that_no_quantity_can_have_are_left_out_and_counted() -> None:
    builder = TraceBuilder()
    builder.counters.append(Counter("clock", "MHz", column(1, 2, 3), np.array([1e308, 5.0, -np.inf])))
    builder.counters.append(Counter("power", "W", column(1), np.array([1e18])))
    trace = builder.build()
    assert [(each.name, each.time.tolist(), each.value.tolist()) for each in trace.counters] == [
        ("clock", [1], [5.0])
    ]
    assert [(note.kind, note.count, note.example) for note in trace.quality.notes] == [
        ("impossible reading", 3, "clock")
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"end": column(5, 4)}, "ends before"),
        ({"end": column(6, 9)}, "overlap"),
        ({"lane": np.array([1, 0], np.int32)}, "not sorted"),
        ({"name": np.zeros(1, np.int32)}, "differ in length"),
    ],
)
def test_the_table_refuses_columns_that_break_its_promises(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table(**changes)


def test_the_table_is_read_only_and_windows_touch_it() -> None:
    events = table()
    assert not events.start.flags.writeable
    assert [events.window(0, 0, *span) for span in ((0, 5), (5, 6), (4, 6), (9, 20))] == [
        slice(0, 1), slice(1, 2), slice(0, 2), slice(2, 2),
    ]  # fmt: skip


def test_missing_attributes_and_links_have_defaults() -> None:
    empty = AttributeColumn(column(), column())
    assert empty.of(column(1, 2), -7).tolist() == [-7, -7]
    assert Links.empty().launch_of(column(1)).tolist() == [-1]
    links = Links.of(column(5, 3), column(1, 2))
    assert links.launch_of(column(3, 4, 5, 99)).tolist() == [2, -1, 1, -1]
