"""Packets of Perfetto with the work and the counters of GPUs: as its messages write them, older ones, damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Attribute, CopyKind, EventKind, LaneKind, Trace, TraceError
from rules import diagnose
from tests.parsers.protobuf_messages import message

US = 1_000
Field = tuple[int, int | float | str | bytes]


def packet(*fields: Field, sequence: int = 1) -> bytes:
    return message((1, message(*fields, (10, sequence))))


def interned(*entries: tuple[int, int, str]) -> bytes:
    """Field, id and text."""
    return packet((12, message(*((field, message((1, iid), (2, text))) for field, iid, text in entries))))


def work(at: int, took: int, *fields: Field, **more: int) -> bytes:
    return packet((8, at), (53, message((2, took), *fields)), **more)


def opened(folder: Path, *packets: bytes) -> Trace:
    path = folder / "anything"
    path.write_bytes(b"".join(packets))
    return open_trace([path])


NAMED = interned((24, 1, "Stream #7"), (24, 2, "Kernel"), (24, 3, "Memcpy DtoH"))
OLD = packet(
    (8, 1),
    (
        53,
        message(
            (
                7,
                message(
                    (2, message((1, "queue 0"))),
                    (2, message((1, "queue 1"))),
                    (3, message((1, "binning"))),
                    (3, message((1, "render"))),
                ),
            )
        ),
    ),
)


def test_kernels_have_names_streams_grids_and_times(fixtures: Path) -> None:
    trace = open_trace([fixtures / "perfetto" / "gpu.pftrace"])
    kernels = trace.events.of_kind(EventKind.KERNEL)
    assert sorted({trace.name(each) for each in kernels.tolist()}) == ["gemm(float*)", "norm(float*)"]
    assert {lane.stream for lane in trace.lanes if lane.kind is LaneKind.GPU_STREAM} == {7}
    first = int(kernels[0])
    assert (int(trace.events.start[first]), int(trace.events.duration[first])) == (50 * US, 500 * US)
    assert trace.attribute(Attribute.GRID, kernels[:1], -1).tolist() == [256]
    assert trace.text_attribute(Attribute.BLOCK_SHAPE, first) == "128,1,1"
    copies = trace.events.of_kind(EventKind.MEMCPY)
    assert set(trace.attribute(Attribute.COPY_KIND, copies, -1).tolist()) == {CopyKind.H2D.value}
    assert trace.epoch_ns == 1_790_000_000_000_000_000
    assert trace.quality.events_read == trace.quality.events_kept


def test_counters_have_the_units_of_their_descriptor(fixtures: Path) -> None:
    trace = open_trace([fixtures / "perfetto" / "gpu.pftrace"])
    clock, read = trace.counters
    assert (clock.name, clock.unit, clock.value[0]) == ("GPU 0 SM clock", "MHz", 1980)
    assert (read.name, read.unit, read.value[0]) == ("GPU 0 DRAM read", "B/s", 1_500.5e6)
    assert "throttling" in diagnose(trace).quiet


def test_what_drivers_wrote_before_names_were_interned(tmp_path: Path) -> None:
    trace = opened(tmp_path, OLD, work(10, 5, (3, 1), (4, 1)), work(20, 5, (3, 0), (4, 0)))
    assert {(trace.lanes[trace.events.lane[each]].name, trace.name(each)) for each in range(2)} == {
        ("GPU 0 queue 1", "render"),
        ("GPU 0 queue 0", "binning"),
    }


def test_a_kernel_s_own_name_goes_before_that_of_its_stage(tmp_path: Path) -> None:
    kernel = packet((12, message((1000, message((1, 4), (2, "_Z1kv"), (3, "k()"))))))
    event = interned((2, 6, "by id"))
    trace = opened(
        tmp_path,
        NAMED,
        kernel,
        event,
        work(10, 5, (13, 1), (14, 2), (19, 4), (17, "written")),
        work(20, 5, (13, 1), (14, 2), (17, "written")),
        work(30, 5, (13, 1), (14, 2), (20, 6)),
        work(40, 5, (13, 1), (14, 2)),
    )
    assert [trace.name(each) for each in range(4)] == ["k()", "written", "by id", "Kernel"]


def test_ids_of_another_sequence_name_nothing(tmp_path: Path) -> None:
    trace = opened(tmp_path, NAMED, work(10, 5, (13, 1), (14, 2), sequence=2), work(20, 5, (13, 1), (14, 2)))
    assert sorted(trace.name(each) for each in range(2)) == ["GPU work", "Kernel"]


def test_gpus_are_told_apart(tmp_path: Path) -> None:
    trace = opened(tmp_path, NAMED, *(work(10, 5, (13, 1), (14, 2), (11, gpu)) for gpu in (0, 1)))
    assert sorted(device.id for device in trace.devices) == [0, 1]
    assert len({int(lane) for lane in trace.events.lane}) == 2


def test_interned_descriptors_name_counters(tmp_path: Path) -> None:
    spec = message((1, message((1, 5), (2, "busy"), (7, 37))))
    descriptor = packet((12, message((47, message((1, 1), (2, spec))))))
    samples = [packet((8, at), (52, message((2, message((1, 5), (2, 40))), (4, 1)))) for at in (10, 20, 30)]
    (counter,) = opened(tmp_path, descriptor, *samples).counters
    assert (counter.name, counter.unit, counter.value.tolist()) == ("GPU 0 busy", "%", [40, 40, 40])


@pytest.mark.parametrize(
    "bad", [work(2**62, 5, (13, 1)), work(10, 2**62, (13, 1)), work(10, (1 << 64) - 5, (13, 1))]
)
def test_impossible_times_are_counted(tmp_path: Path, bad: bytes) -> None:
    trace = opened(tmp_path, NAMED, work(10, 5, (13, 1), (14, 2)), bad)
    assert len(trace.events) == 1
    assert trace.quality.quarantined == 1


@pytest.mark.parametrize(
    "launch",
    [message((1, message((1, 0), (2, 2**40), (3, 1)))), message((1, b"\xff\xff"), (2, b"\x08")), b"\x0a\xff"],
)
def test_launches_that_cannot_be_leave_the_kernel(tmp_path: Path, launch: bytes) -> None:
    trace = opened(
        tmp_path, NAMED, work(10, 5, (13, 1), (14, 2), (21, launch)), work(20, 5, (13, 1), (14, 2))
    )
    assert len(trace.gpu_operations) == 2


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_what_comes_before_a_cut_is_shown(fixtures: Path, tmp_path: Path, share: float) -> None:
    whole = (fixtures / "perfetto" / "gpu.pftrace").read_bytes()
    trace = opened(tmp_path, whole[: int(share * len(whole))])
    assert 0 < len(trace.gpu_operations) < 90
    assert any(note.kind == "cut" for note in trace.quality.notes)


def test_values_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    samples = [packet((8, at), (52, message((2, message((1, 5), (3, float("nan"))))))) for at in (10, 20, 30)]
    with pytest.raises(TraceError):
        opened(tmp_path, *samples)


def test_beside_a_log_of_the_same_time_both_are_shown(fixtures: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    begin = 1_790_000_000
    log.write_text(
        "timestamp, index, power.draw [W]\n"
        + "".join(f"{begin + each}, 0, {300 + each} W\n" for each in range(3))
    )
    joined = open_trace([fixtures / "perfetto" / "gpu.pftrace", log])
    assert len(joined.gpu_operations) == 90
    assert any("power" in counter.name for counter in joined.counters)
