"""Databases of nvprof open with their calls, operations, links, copies and ranges."""

from __future__ import annotations

import base64
import gzip
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.files import containers
from parsers.known_formats import looks_like
from parsers.model import Attribute, CopyKind, EventKind, LaneKind, MemoryKind, Trace, TraceError
from rules import diagnose
from tests.parsers.nsys_exports import Row
from tests.parsers.nvprof_databases import (
    COPY,
    EPOCH,
    LAUNCH,
    SYNCHRONIZE,
    THREAD,
    UNNAMED,
    call,
    kernel,
    marker,
    write,
)


def named(trace: Trace, kind: EventKind) -> list[str]:
    return [trace.name(event) for event in trace.events.of_kind(kind)]


def test_calls_operations_and_ranges_are_told_apart(tmp_path: Path) -> None:
    trace = open_trace([write(tmp_path / "run.nvvp")])
    assert [each.format for each in trace.inputs] == ["nvprof"]
    assert named(trace, EventKind.API) == [
        "cudaMalloc",
        "cudaMemcpy",
        "cudaLaunchKernel",
        "cuLaunchKernel",
        "cudaDeviceSynchronize",
        "cudaMemcpy",
    ]
    assert named(trace, EventKind.KERNEL) == ["_Z6vecAddPdS_S_i", "solve"]
    assert named(trace, EventKind.MEMCPY) == [
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy DtoH (Device -> Pinned)",
    ]
    assert named(trace, EventKind.MEMSET) == ["Memset (Device)"]
    assert named(trace, EventKind.REGION) == ["solve"]
    assert {lane.kind for lane in trace.lanes} == {LaneKind.REGION, LaneKind.CUDA_API, LaneKind.GPU_STREAM}
    assert {lane.thread for lane in trace.lanes} - {None} == {THREAD & 0xFFFFFFFF}
    assert trace.quality.quarantined == 0


def test_operations_are_linked_to_the_calls_of_the_program(tmp_path: Path) -> None:
    trace = open_trace([write(tmp_path / "run.nvvp")])
    kernels = trace.events.of_kind(EventKind.KERNEL)
    launches = trace.links.launch_of(kernels)
    assert [trace.name(launch) for launch in launches] == ["cudaLaunchKernel", "cuLaunchKernel"]
    assert (trace.events.start[kernels] > trace.events.start[launches]).all()


def test_what_is_stated_of_gpu_kernels_and_copies_is_kept(tmp_path: Path) -> None:
    trace = open_trace([write(tmp_path / "run.nvvp")])
    (device,) = trace.devices
    assert (device.name, device.sm_count, device.compute_capability) == ("Tesla T4", 40, (7, 5))
    assert device.memory_bandwidth == 320.064e9
    kernels, copies = trace.events.of_kind(EventKind.KERNEL), trace.events.of_kind(EventKind.MEMCPY)
    assert trace.attribute(Attribute.GRID, kernels).tolist() == [80, 80]
    assert trace.text_attribute(Attribute.GRID_SHAPE, int(kernels[0])) == "40,2,1"
    assert trace.attribute(Attribute.BLOCK, kernels).tolist() == [256, 256]
    assert trace.attribute(Attribute.BYTES, copies).tolist() == [8_000, 4_000]
    assert trace.attribute(Attribute.COPY_KIND, copies).tolist() == [CopyKind.H2D.value, CopyKind.D2H.value]
    source = trace.attribute(Attribute.SOURCE_MEMORY, copies).tolist()
    assert source == [MemoryKind.PAGEABLE.value, MemoryKind.DEVICE.value]
    assert trace.arguments(int(kernels[0]))["registersPerThread"] == 32


def test_a_call_that_nobody_named_keeps_its_number(tmp_path: Path) -> None:
    trace = open_trace([write(tmp_path / "run.nvvp", RUNTIME=[call(UNNAMED, 0, 5, 1)])])
    assert "CUDA call 9999" in named(trace, EventKind.API)


@pytest.mark.parametrize(
    ("thread", "kept"),
    [(THREAD, 0), (THREAD + 1, 1)],  # within a call of its own thread, or of another
)
def test_only_what_a_call_makes_on_its_own_thread_is_its_part(tmp_path: Path, thread: int, kept: int) -> None:
    made = [call(COPY, 12, 15, 9, thread)]
    trace = open_trace([write(tmp_path / "run.nvvp", RUNTIME=[call(LAUNCH, 10, 20, 3)], DRIVER=made)])
    assert len(named(trace, EventKind.API)) == 1 + kept


def test_older_databases_hold_kernels_in_a_table_of_another_name(tmp_path: Path) -> None:
    path = write(tmp_path / "run.nvprof", CONCURRENT_KERNEL=[], KERNEL=[kernel(430_000, 600_000, 3)])
    assert named(open_trace([path]), EventKind.KERNEL) == ["_Z6vecAddPdS_S_i"]


@pytest.mark.parametrize("counters", [0, 1])
def test_kernels_that_ran_alone_for_their_counters_are_told_as_such(counters: int, tmp_path: Path) -> None:
    metric = {"id": 7, "correlationId": 3, "value": b"\0" * 8, "flags": 0}
    apart = [kernel(430_000, 600_000, 3), kernel(9_600_000, 9_890_000, 5, 3)]
    trace = open_trace([write(tmp_path / "run.nvvp", METRIC=[metric] * counters, CONCURRENT_KERNEL=apart)])
    assert trace.quality.kernels_ran_one_by_one is bool(counters)
    assert any("ran each kernel alone" in note.reason for note in trace.quality.notes) is bool(counters)
    titles = [finding.title for finding in diagnose(trace).findings]
    assert any(title.startswith("Kernels ran one by one") for title in titles) is bool(counters)


def test_rows_without_a_time_and_ranges_without_an_end_are_left_out(tmp_path: Path) -> None:
    path = write(
        tmp_path / "run.nvvp",
        CONCURRENT_KERNEL=[kernel(430_000, 600_000, 3), kernel(600_000, 590_000, 5), kernel(-EPOCH, 9, 6)],
        MARKER=[marker(1, 2, 50_000, 3), marker(2, 4, 60_000, 0), {"flags": "x", "id": None}],
    )
    trace = open_trace([path])
    assert named(trace, EventKind.KERNEL) == ["_Z6vecAddPdS_S_i"]
    assert named(trace, EventKind.REGION) == []
    assert trace.quality.quarantined == 2


@pytest.mark.parametrize("missing", ["RUNTIME", "DRIVER", "MEMCPY", "MEMSET", "MARKER", "CONCURRENT_KERNEL"])
def test_a_table_that_is_not_there_is_an_empty_one(tmp_path: Path, missing: str) -> None:
    path = write(tmp_path / "run.nvvp")
    with sqlite3.connect(path) as connection:
        connection.execute(f"DROP TABLE CUPTI_ACTIVITY_KIND_{missing}")
    connection.close()
    assert len(open_trace([path]).events)


def test_a_database_without_records_is_refused(tmp_path: Path) -> None:
    kinds = ("RUNTIME", "DRIVER", "MEMCPY", "MEMSET", "MARKER", "CONCURRENT_KERNEL")
    with pytest.raises(TraceError):
        open_trace([write(tmp_path / "run.nvvp", **{kind: [] for kind in kinds})])


@pytest.mark.parametrize("changed", [{}, {"MARKER": []}, {"DRIVER": []}, {"RUNTIME": []}])
def test_what_was_read_is_kept_or_left_out(tmp_path: Path, changed: dict[str, list[Row]]) -> None:
    quality = open_trace([write(tmp_path / "run.nvvp", **changed)]).quality
    assert quality.events_read == quality.events_kept + quality.quarantined > 5


@pytest.mark.parametrize("number", [None, "two", 2.5, b"2"])
def test_a_text_whose_number_is_none_names_nothing(tmp_path: Path, number: object) -> None:
    path = write(tmp_path / "run.nvvp")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE StringTable SET _id_ = ? WHERE _id_ = 2", [number])
    connection.close()
    assert named(open_trace([path]), EventKind.KERNEL) == ["(no name)", "solve"]


def session(database: bytes, cuts: int = 1) -> str:
    """What the Visual Profiler saves: its database packed and as text, in pieces, among what its windows show."""
    packed = gzip.compress(database)
    size = -(-len(packed) // cuts)
    pieces = [base64.b64encode(packed[at : at + size]).decode() for at in range(0, len(packed), size)]
    held = "".join(f"<split>{each}\n</split>\n" for each in pieces) if database else "\nH4sIA"
    return (
        f'<?xml version="1.0"?>\n<session version="2" name="run.nvvp" hscale="4.4E-6">\n<timelinepdm>\n<pdm>{held}'
        "</pdm>\n</timelinepdm>\n<analysispdm>\n</analysispdm>\n</session>\n"
    )


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_session_of_the_visual_profiler_is_the_database_that_it_holds(tmp_path: Path, pieces: int) -> None:
    database = write(tmp_path / "run.nvprof")
    path = tmp_path / "run.nvvp"
    path.write_text(session(database.read_bytes(), pieces))
    held, own = open_trace([path]), open_trace([database])
    for kind in (EventKind.API, EventKind.KERNEL, EventKind.MEMCPY, EventKind.REGION):
        assert named(held, kind) == named(own, kind)
    assert [Path(each.path).name for each in held.inputs] == ["run.nvvp"]
    assert looks_like(path) == "an archive of recordings"


def test_a_session_without_a_database_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.nvvp"
    path.write_text(session(b""))
    with pytest.raises(TraceError, match="holds no database"):
        open_trace([path])


@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_a_cut_session_is_refused(tmp_path: Path, cut: float) -> None:
    path = tmp_path / "run.nvvp"
    text = session(write(tmp_path / "run.nvprof").read_bytes())
    path.write_text(text[: int(cut * len(text))])
    with pytest.raises(TraceError):
        open_trace([path])


def test_a_session_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "MAX_SESSION", 1_000)
    path = tmp_path / "run.nvvp"
    path.write_text(session(write(tmp_path / "run.nvprof").read_bytes()))
    with pytest.raises(TraceError, match="unpacks to more"):
        open_trace([path])


@pytest.mark.parametrize(("ahead_ns", "moved"), [(3_600 * 10**9, True), (3_598 * 10**9, False)])
def test_the_clock_of_a_gpu_that_is_another_one_is_moved_to_that_of_the_calls(
    tmp_path: Path, ahead_ns: int, moved: bool
) -> None:
    """The kernels begin 20 and 179 us after their launches, if at all by the same clock."""
    kernels = [
        kernel(430_000 + ahead_ns, 600_000 + ahead_ns, 3),
        kernel(600_000 + ahead_ns, 890_000 + ahead_ns, 5),
    ]
    path = write(tmp_path / "run.nvvp", CONCURRENT_KERNEL=kernels, MEMCPY=[], MEMSET=[])
    trace = open_trace([path])
    assert any(each.kind == "device-clock" for each in trace.quality.notes) is moved
    calls = trace.events.start[trace.events.of_kind(EventKind.API)]
    starts = trace.events.start[trace.events.of_kind(EventKind.KERNEL)]
    assert bool(starts.max() < calls.max()) is moved
    assert starts[1] - starts[0] == 170_000


@pytest.mark.parametrize(
    ("error", "told"), [(0, ""), (700, "illegal memory access"), (8, "invalid device function")]
)
def test_launches_that_returned_an_error_are_told(tmp_path: Path, error: int, told: str) -> None:
    calls: list[Row] = [
        {**call(LAUNCH, 1000 * number, 1000 * number + 500, number), "returnValue": error}
        for number in range(1, 21)
    ]
    calls.append({**call(SYNCHRONIZE, 30_000, 31_000, 30), "returnValue": 600})
    kernels = (
        [] if error else [kernel(1000 * number + 600, 1000 * number + 900, number) for number in range(1, 21)]
    )
    file = write(tmp_path / "run.nvvp", RUNTIME=calls, DRIVER=[], CONCURRENT_KERNEL=kernels, MEMSET=[])
    trace = open_trace([file])
    assert any(note.reason.startswith("A launch failed with") for note in trace.quality.notes) is bool(told)
    assert trace.attribute(Attribute.ERROR, trace.events.of_kind(EventKind.API), 0).tolist() == [
        error
    ] * 20 + [0]
    title = diagnose(trace).findings[0].title
    assert title.startswith("Every kernel launch failed") is bool(told)
    assert told in title


def test_databases_without_what_calls_returned_tell_of_no_failure(tmp_path: Path) -> None:
    rows: list[Row] = [
        {
            key: value
            for key, value in call(LAUNCH, 1000 * number, 1000 * number + 500, number).items()
            if key != "returnValue"
        }
        for number in range(1, 21)
    ]
    trace = open_trace([write(tmp_path / "run.nvvp", RUNTIME=rows, DRIVER=[])])
    assert not any(note.reason.startswith("A launch failed") for note in trace.quality.notes)


def test_unified_memory_moves_as_copies_and_faults_have_a_lane(tmp_path: Path) -> None:
    def counted(kind: int, start: int, end: int, value: int) -> Row:
        times = {"start": EPOCH + start, "end": EPOCH + end}
        return {"counterKind": kind, "value": value, **times, "srcId": 0, "dstId": 0, "streamId": 0}

    rows = [
        counted(1, 440_000, 450_000, 65_536),
        counted(2, 460_000, 470_000, 4_096),
        counted(3, 0, 0, 1),
        counted(4, 480_000, 500_000, 12),
    ]
    trace = open_trace([write(tmp_path / "run.nvvp", UNIFIED_MEMORY_COUNTER=rows)])
    moves = [
        event
        for event in trace.events.of_kind(EventKind.MEMCPY).tolist()
        if "unified memory" in trace.name(event)
    ]
    assert [trace.name(event) for event in moves] == [
        "Memcpy HtoD, unified memory",
        "Memcpy DtoH, unified memory",
    ]
    assert trace.attribute(Attribute.BYTES, np.array(moves)).tolist() == [65_536, 4_096]
    (fault,) = trace.events.of_kind(EventKind.OTHER).tolist()
    assert (trace.name(fault), trace.events.duration[fault]) == ("GPU page faults", 20_000)
    assert trace.lanes[int(trace.events.lane[fault])].device == 0
