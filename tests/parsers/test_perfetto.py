"""Binary traces of Perfetto open with slices, tracks, counters, interned names and links, on any of their clocks."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Attribute, CopyKind, EventKind, LaneKind, Trace, TraceError
from tests.parsers.protobuf_messages import message, varint

# The cases lie on either side of these.
ALWAYS_ALLOWED = 64 * 1024**2

Field = tuple[int, int | float | str | bytes]
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


def fixed(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + value.to_bytes(8, "little")


def packet(*fields: Field, sequence: int = 1, raw: bytes = b"") -> bytes:
    return message((1, message(*fields, (10, sequence)) + raw))


def slice_event(
    kind: int, track: int = 0, name: str = "", category: str = "", *more: Field, flow: int = 0
) -> bytes:
    fields: list[Field] = [(9, kind)]
    fields += [(11, track)] if track else []
    fields += [(23, name)] if name else []
    fields += [(22, category)] if category else []
    return message(*fields, *more) + (fixed(47, flow) if flow else b"")


def event(time: int, *rest: object, **more: int) -> bytes:
    return packet((8, time), (11, slice_event(*rest, **more)))  # type: ignore[arg-type]


def thread(uuid: int, name: str, tid: int = 7, pid: int = 5) -> bytes:
    return packet((60, message((1, uuid), (4, message((1, pid), (2, tid), (5, name))))))


def track(uuid: int, name: str, *more: Field) -> bytes:
    return packet((60, message((1, uuid), (2, name), *more)))


def annotation(name: str, value: int) -> Field:
    return 4, message((10, name), (3, value))


def opened(path: Path, *packets: bytes) -> Trace:
    path.write_bytes(b"".join(packets))
    return open_trace([path])


def named(trace: Trace, kind: EventKind) -> list[str]:
    return [trace.name(each) for each in trace.events.of_kind(kind)]


ROCM = (
    thread(1, "main"),
    track(2, "COMPUTE AGENT [4] QUEUE [1] (GPU)"),
    track(3, "COPY to AGENT [4] THREAD [0] (GPU)"),
    event(100, BEGIN, 1, "train_step", "marker_api"),
    event(110, BEGIN, 1, "hipLaunchKernel", "hip_api", flow=11),
    event(120, END, 1),
    event(130, BEGIN, 1, "hipMemcpyAsync", "hip_api", annotation("corr_id", 12)),
    event(140, END, 1),
    event(200, BEGIN, 2, "gemm(float*)", "kernel_dispatch", flow=11),
    event(260, END, 2),
    event(
        270,
        BEGIN,
        3,
        "MEMORY_COPY_HOST_TO_DEVICE",
        "memory_copy",
        annotation("copy_bytes", 64),
        annotation("corr_id", 12),
    ),
    event(280, END, 3),
    event(300, END, 1),
)


def test_a_recording_of_rocm_has_kernels_calls_ranges_and_links(tmp_path: Path) -> None:
    trace = opened(tmp_path / "results.pftrace", *ROCM)
    assert named(trace, EventKind.KERNEL) == ["gemm(float*)"]
    assert named(trace, EventKind.MEMCPY) == ["MEMORY_COPY_HOST_TO_DEVICE"]
    assert named(trace, EventKind.API) == ["hipLaunchKernel", "hipMemcpyAsync"]
    assert named(trace, EventKind.REGION) == ["train_step"]
    for kind, launch in ((EventKind.KERNEL, "hipLaunchKernel"), (EventKind.MEMCPY, "hipMemcpyAsync")):
        (found,) = trace.links.launch_of(trace.events.of_kind(kind))
        assert trace.name(int(found)) == launch
    assert [device.id for device in trace.devices] == [4]
    copy = trace.events.of_kind(EventKind.MEMCPY)
    assert trace.attribute(Attribute.BYTES, copy).tolist() == [64]
    assert trace.attribute(Attribute.COPY_KIND, copy).tolist() == [CopyKind.H2D.value]
    assert trace.quality.events_read == trace.quality.events_kept == 5


def test_kernels_that_overlap_on_a_queue_keep_the_times_they_state(tmp_path: Path) -> None:
    def stated(begin: int, end: int) -> tuple[Field, Field]:
        return annotation("begin_ns", begin), annotation("end_ns", end)

    trace = opened(
        tmp_path / "trace",
        track(2, "COMPUTE AGENT [1] QUEUE [0] (GPU)"),
        event(100, BEGIN, 2, "a", "kernel_dispatch", *stated(100, 200)),
        event(200, END, 2),
        event(150, BEGIN, 2, "b", "kernel_dispatch", *stated(150, 300)),
        event(300, END, 2),
    )
    times = {
        trace.name(each): (int(trace.events.start[each]), int(trace.events.end[each]))
        for each in trace.gpu_operations
    }
    assert times == {"a": (0, 100), "b": (50, 200)}


def test_interned_names_hold_until_the_state_is_cleared(tmp_path: Path) -> None:
    def interned(name: str, category: str, cleared: int) -> bytes:
        names = message((2, message((1, 3), (2, name))), (1, message((1, 4), (2, category))))
        return packet((12, names), (13, cleared))

    def use(time: int, sequence: int = 1) -> bytes:
        return packet((8, time), (11, message((9, INSTANT), (11, 9), (10, 3), (3, 4))), sequence=sequence)

    trace = opened(
        tmp_path / "trace",
        thread(9, "main"),
        interned("first", "user_annotation", 1),
        use(10),
        interned("second", "user_annotation", 1),
        use(20),
        use(30, sequence=2),
    )
    assert [trace.name(each) for each in range(3)] == ["first", "second", "(no name)"]


def test_clocks_that_count_on_from_packet_to_packet_are_added_up(tmp_path: Path) -> None:
    def clock(number: int, time: int, *more: Field) -> Field:
        return 1, message((1, number), (2, time), *more)

    snapshot = message(clock(6, 5_000), clock(1, 1_000_005_000), clock(64, 5_000, (3, 1)))
    trace = opened(
        tmp_path / "trace",
        packet((6, snapshot), (13, 1), (59, message((58, 64), (11, message((11, 9)))))),
        thread(9, "main"),
        packet((8, 100), (11, slice_event(BEGIN, name="a"))),
        packet((8, 50), (11, slice_event(END))),
        packet((8, 5_400), (58, 6), (11, slice_event(INSTANT, name="absolute"))),
        packet((8, 10), (11, slice_event(INSTANT, name="b"))),
    )
    times = {
        trace.name(each): (int(trace.events.start[each]), int(trace.events.duration[each]))
        for each in range(3)
    }
    assert times == {"a": (0, 50), "b": (60, 0), "absolute": (300, 0)}
    assert trace.epoch_ns == 1_000_000_000 + 5_100
    assert {lane.thread for lane in trace.lanes} == {7}


def test_counters_have_the_names_and_units_of_their_tracks(tmp_path: Path) -> None:
    trace = opened(
        tmp_path / "trace",
        track(4, "VRAM", (8, message((3, 3)))),
        event(10, COUNTER, 4, "", "", (30, 7)),
        event(20, COUNTER, 4, "", "", (44, 7.5)),
        event(30, COUNTER, 4, "", "", (30, -1)),
    )
    (counter,) = trace.counters
    assert (counter.name, counter.unit, counter.time.tolist(), counter.value.tolist()) == (
        "VRAM",
        "B",
        [0, 10, 20],
        [7.0, 7.5, -1.0],
    )


def test_slices_without_an_end_and_ends_without_a_slice_are_counted(tmp_path: Path) -> None:
    trace = opened(
        tmp_path / "trace",
        thread(1, "main"),
        event(5, END, 1),
        event(10, BEGIN, 1, "open"),
        event(20, BEGIN, 1, "inner"),
        event(30, END, 1),
    )
    durations = {trace.name(each): int(trace.events.duration[each]) for each in range(2)}
    assert durations == {"open": 20, "inner": 10}
    assert (trace.quality.repaired, trace.quality.quarantined) == (1, 1)
    assert trace.quality.events_read == trace.quality.events_kept + 1


def test_tracks_below_a_gpu_are_streams(tmp_path: Path) -> None:
    trace = opened(
        tmp_path / "trace",
        packet((60, message((1, 1), (3, message((1, 9), (6, "GPU 3")))))),
        track(2, "Stream 5", (5, 1)),
        event(10, BEGIN, 2, "fusion"),
        event(20, END, 2),
        event(30, BEGIN, 2, "MemcpyD2H"),
        event(40, END, 2),
    )
    assert named(trace, EventKind.KERNEL) == ["fusion"]
    assert named(trace, EventKind.MEMCPY) == ["MemcpyD2H"]
    (lane,) = trace.lanes
    assert (lane.kind, lane.stream, trace.devices[0].id) == (LaneKind.GPU_STREAM, 5, 3)


def test_packed_packets_and_packed_files_are_the_same_trace(tmp_path: Path) -> None:
    plain = opened(tmp_path / "plain", *ROCM)
    inside = packet((50, zlib.compress(b"".join(ROCM[3:]))))
    packed = opened(tmp_path / "inside", *ROCM[:3], inside)
    (tmp_path / "gz").write_bytes(gzip.compress(b"".join(ROCM)))
    outside = open_trace([tmp_path / "gz"])
    for other in (packed, outside):
        assert other.events.start.tolist() == plain.events.start.tolist()
        assert [other.name(each) for each in range(5)] == [plain.name(each) for each in range(5)]


def test_packed_packets_that_are_damaged_are_said_and_those_that_hold_too_much_are_refused(
    tmp_path: Path,
) -> None:
    whole = zlib.compress(b"".join(ROCM[3:]))
    for damaged in (whole[:-9], whole[:4] + b"\xff" * 40):
        trace = opened(tmp_path / "damaged", *ROCM, packet((50, damaged)))
        assert "damaged stretch" in [note.kind for note in trace.quality.notes]
    bomb = packet((50, zlib.compress(b"\0" * (ALWAYS_ALLOWED + 1))))
    with pytest.raises(TraceError, match="unpacks to more than 64 MB"):
        opened(tmp_path / "bomb", *ROCM, bomb)


@pytest.mark.parametrize("cut", [1, 9, 60, 200])
def test_a_cut_trace_shows_what_comes_before(tmp_path: Path, cut: int) -> None:
    whole = b"".join(ROCM)
    trace = opened(tmp_path / "cut", whole[:-cut])
    assert len(trace.events) >= 2
    assert any(note.kind == "cut" for note in trace.quality.notes)


def test_a_trace_of_the_system_alone_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no slices") as refused:
        opened(tmp_path / "trace", *(packet((8, number), (1, b"\0\0\0")) for number in range(5)))
    assert refused.value.hint


@pytest.mark.parametrize(
    "odd", [b"\xff" * 12, message((9, "text"), (11, b"x")), message((4, b"\x08"), (9, 1 << 63))]
)
def test_odd_events_harm_nobody(tmp_path: Path, odd: bytes) -> None:
    trace = opened(tmp_path / "trace", *ROCM, packet((8, (1 << 64) - 1), (11, odd)))
    assert named(trace, EventKind.KERNEL) == ["gemm(float*)"]
