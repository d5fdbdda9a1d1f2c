"""Traces of tools other than PyTorch's profiler: lanes, calls, streams and links, as far as they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parsers import open_trace
from parsers.chrome.decode import second_process
from parsers.model import Attribute, EventKind, LaneKind, Trace
from rules import diagnose
from rules.findings.base import Category
from tests.parsers.chrome.traces import Event, balanced, kernel, launch, note, opened, text_of

GPU = "2"


def by_rocprof(count: int = 3, padding: str = "") -> list[Event]:
    """Every number is text, nothing has a category, and arrows lead from calls to operations."""
    events: list[Event] = [
        {"name": "process_name", "ph": "M", "pid": GPU, "args": {"name": "GPU2"}},
        {"name": "process_sort_index", "ph": "M", "pid": GPU, "args": {"sort_index": "1000002"}},
        {"name": "thread_name", "ph": "M", "pid": "77", "tid": "77", "args": {"name": "Hip 77"}},
    ]
    for number in range(count):
        at = number * 100
        host: dict[str, Any] = {"pid": "77", "tid": "77"}
        device: dict[str, Any] = {"pid": GPU, "tid": "0"}
        arrow: dict[str, Any] = {"cat": "api_op", "name": "api_op", "id": str(number)}
        name = "CopyHostToDevice" if number % 3 == 0 else f"gemm{number % 3}"
        events += [
            {**host, "ph": "X", "name": "train", "ts": str(at), "dur": "90"},
            {
                **host,
                "ph": "X",
                "name": "hipLaunchKernel",
                "ts": str(at + 5),
                "dur": "20",
                "args": {"x": padding},
            },
            {**device, "ph": "X", "name": name, "ts": str(at + 40), "dur": "30", "args": {"desc": padding}},
            {**host, **arrow, "ph": "s", "ts": str(at + 10)},
            {**device, **arrow, "ph": "f", "bp": "e", "ts": str(at + 40)},
        ]
    return events


def kinds(trace: Trace) -> list[str]:
    return sorted({EventKind(kind).name for kind in trace.events.kind.tolist()})


def test_arrows_of_rocprof_link_operations_to_the_calls_they_come_from(tmp_path: Path) -> None:
    trace = opened(tmp_path, text_of(by_rocprof()))
    assert kinds(trace) == ["API", "KERNEL", "MEMCPY", "OTHER"]
    launches = trace.links.launch_of(trace.gpu_operations)
    assert [trace.name(each) for each in launches.tolist()] == ["hipLaunchKernel"] * 3
    delays = trace.events.start[trace.gpu_operations] - trace.events.start[launches]
    assert delays.tolist() == [35_000] * 3
    assert {lane.kind for lane in trace.lanes} == {LaneKind.CUDA_API, LaneKind.GPU_STREAM, LaneKind.OTHER}
    assert balanced(trace)
    assert diagnose(trace).crashed == {}


def test_arrows_that_end_with_a_step_and_write_numbers_as_numbers_link_as_well(tmp_path: Path) -> None:
    """As rocprof --hip-trace writes them: s and t, never f, and only events have their numbers as text."""
    events: list[Event] = [
        {
            **each,
            "ph": {"f": "t"}.get(each["ph"], each["ph"]),
            "pid": int(each["pid"]),
            "tid": int(each["tid"]),
        }
        if each["ph"] in "sf"
        else each
        for each in by_rocprof()
    ]
    trace = opened(tmp_path, text_of(events))
    launches = trace.links.launch_of(trace.gpu_operations)
    assert [trace.name(each) for each in launches.tolist()] == ["hipLaunchKernel"] * 3


def test_rocprof_numbers_a_process_and_writes_its_events_as_text(tmp_path: Path) -> None:
    events = [each for each in by_rocprof() if each["name"] not in ("process_name", "CopyHostToDevice")]
    named = {2: "GPU2", 1: "COPY", 77: "CPU HIP API"}
    events += [
        {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}} for pid, name in named.items()
    ]
    copy: Event = {"name": "CopyDeviceToHost", "ph": "X", "pid": "1", "tid": "0", "ts": "500", "dur": "40"}
    trace = opened(tmp_path, text_of([*events, copy]))
    ran = {trace.name(each) for each in trace.gpu_operations.tolist()}
    assert ran == {"gemm1", "gemm2", "CopyDeviceToHost"}
    assert [device.id for device in trace.devices] == [2]


def test_a_process_called_copy_is_no_gpu_without_one(tmp_path: Path) -> None:
    events: list[Event] = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "COPY"}},
        {"name": "CopyDeviceToHost", "ph": "X", "pid": "1", "tid": "0", "ts": "500", "dur": "40"},
    ]
    assert not len(opened(tmp_path, text_of(events)).gpu_operations)


@pytest.mark.parametrize(
    ("key", "is_amds"), [("HSASystemAttributes.RuntimeVersion", True), ("version", False)]
)
def test_advice_on_a_trace_of_rocprof_without_calls_is_for_amd(
    key: str, is_amds: bool, tmp_path: Path
) -> None:
    """It names neither the GPU nor a call of HIP; what it states of the system is HSA's."""
    kernels = [
        {"ph": "X", "name": f"gemm{number % 3}", "pid": GPU, "tid": "0", "ts": str(number * 90), "dur": "30"}
        for number in range(60)
    ]
    trace = opened(tmp_path, text_of([*by_rocprof(0), *kernels], otherData={key: "1.18"}))
    (finding,) = (each for each in diagnose(trace).findings if each.category is Category.UNEXPLAINED_IDLE)
    said = " ".join(finding.advice)
    assert ("rocprofv3" in said, "nsys" in said) == (is_amds, not is_amds)


def broken_arrows() -> list[Event]:
    host: dict[str, Any] = {"pid": "77", "tid": "77", "cat": "api_op", "name": "api_op"}
    device: dict[str, Any] = {"pid": GPU, "tid": "0", "cat": "api_op", "name": "api_op"}
    return [
        {**host, "ph": "s", "ts": "10", "id": "alone"},
        {**device, "ph": "f", "ts": "40", "id": "lost"},
        {**host, "ph": "s", "ts": "soon", "id": "when"},
        {**device, "ph": "f", "ts": "40", "id": "when"},
        {**host, "ph": "s", "ts": "99", "id": "into nothing"},
        {**device, "ph": "f", "ts": "99", "id": "into nothing"},
        {**host, "pid": "404", "ph": "s", "ts": "10", "id": "from nowhere"},
        {**device, "ph": "f", "ts": "40", "id": "from nowhere"},
        {"ph": "s"},
        {"ph": "f", "id": {"a": []}},
    ]


def test_arrows_that_lead_nowhere_link_nothing(tmp_path: Path) -> None:
    events = [each for each in by_rocprof() if each["ph"] not in "sf"] + broken_arrows()
    trace = opened(tmp_path, text_of(events))
    assert len(trace.links.operation) == 0
    assert note(trace, "flow-events")[0] == 10
    assert balanced(trace)


def test_arrows_found_by_a_second_process_link_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_process, "WORTH_A_PROCESS", 1)
    monkeypatch.setattr(second_process, "HEAD_START", 0)
    monkeypatch.setattr(second_process, "_has_free_processor", lambda: True)
    path = tmp_path / "large.json"
    path.write_text(text_of(by_rocprof(400, "x" * 12_000)))
    trace = open_trace([path])
    assert len(trace.links.operation) == 400
    launches = trace.links.launch_of(trace.gpu_operations)
    assert (trace.events.start[trace.gpu_operations] - trace.events.start[launches] == 35_000).all()


def test_arrows_of_pytorch_do_not_replace_its_correlation_numbers(tmp_path: Path) -> None:
    host: dict[str, Any] = {"pid": 1, "tid": 1}
    device: dict[str, Any] = {"pid": 0, "tid": 7}
    events: list[Event] = [
        launch(1, 5),
        launch(4, 6),
        kernel("k", 9, 2, 6),
        {**host, "ph": "s", "cat": "ac2g", "name": "ac2g", "id": 5, "ts": 1},
        {**device, "ph": "f", "cat": "ac2g", "name": "ac2g", "id": 5, "ts": 9, "bp": "e"},
    ]
    trace = opened(tmp_path, text_of(events, schemaVersion=1))
    (called,) = trace.links.launch_of(trace.gpu_operations).tolist()
    assert trace.events.start[called] == 3000


def test_kernels_of_xprof_have_shapes_copies_have_sizes_and_both_their_launch(tmp_path: Path) -> None:
    def metadata(pid: int, what: str, name: str, tid: int = 0) -> Event:
        return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name}}

    host: dict[str, Any] = {"ph": "X", "pid": 1, "tid": 5, "dur": 2}
    device: dict[str, Any] = {"ph": "X", "pid": 2, "tid": 7, "dur": 3}
    details = "regs:32 static_shared:0 dynamic_shared:512 grid:8,2,1 block:128,1,1 occ_pct:37.5"
    copied = "kind_src:pinned kind_dst:device size:4096 dest:0 async:1"
    events: list[Event] = [
        metadata(1, "process_name", "/host:CPU"),
        metadata(2, "process_name", "/device:GPU:0"),
        metadata(2, "thread_name", "Stream #13(Compute)", 7),
        {**host, "ts": 0, "dur": 90, "name": "PjitFunction(step)"},
        {**host, "ts": 1, "name": "cuLaunchKernel", "args": {"correlation_id": "11"}},
        {**host, "ts": 5, "name": "cuMemcpyHtoDAsync", "args": {"correlation_id": "12"}},
        {**device, "ts": 10, "name": "fusion_3", "args": {"correlation_id": "11", "kernel_details": details}},
        {**device, "ts": 20, "name": "MemcpyH2D", "args": {"correlation_id": "12", "memcpy_details": copied}},
        {**device, "ts": 30, "name": "odd", "args": {"correlation_id": "jit_x", "kernel_details": 7}},
        {**device, "ts": 40, "name": "short", "args": {"kernel_details": "regs:many grid:1,1 block:"}},
    ]  # fmt: skip
    trace = opened(tmp_path, text_of(events, displayTimeUnit="ns", metadata={"highres-ticks": True}))
    work = trace.gpu_operations
    assert [trace.name(each) for each in work.tolist()] == ["fusion_3", "MemcpyH2D", "odd", "short"]
    launches = trace.links.launch_of(work)
    assert [trace.name(each) if each >= 0 else "" for each in launches.tolist()] == [
        "cuLaunchKernel", "cuMemcpyHtoDAsync", "", "",
    ]  # fmt: skip
    assert trace.text_attribute(Attribute.GRID_SHAPE, int(work[0])) == "8,2,1"
    assert trace.text_attribute(Attribute.BLOCK_SHAPE, int(work[0])) == "128,1,1"
    assert trace.attribute(Attribute.REGISTERS, work, -1).tolist() == [32, -1, -1, -1]
    assert trace.attribute(Attribute.BYTES, work, -1).tolist() == [-1, 4096, -1, -1]
    assert diagnose(trace).crashed == {}


def test_a_trace_of_viztracer_has_python_frames_and_counters(tmp_path: Path) -> None:
    meta: dict[str, Any] = {"pid": 5, "tid": 5, "ph": "M"}
    events: list[Event] = [
        {**meta, "name": "process_name", "args": {"name": "MainProcess"}},
        {**meta, "name": "thread_name", "args": {"name": "MainThread"}},
        {"pid": 5, "tid": 5, "ts": 10.5, "dur": 20.25, "name": "f (/a/b.py:3)", "ph": "X", "cat": "FEE"},
        {"pid": 5, "tid": 5, "ts": 11, "ph": "i", "name": "here", "args": {"message": "x"}, "s": "g"},
        {"pid": 5, "tid": 5, "ts": 12, "ph": "C", "name": "loss", "args": {"value": 0.5}},
        {"pid": 5, "tid": 5, "ts": 13, "ph": "N", "id": "0x7", "name": "object", "args": {"snapshot": {}}},
    ]  # fmt: skip
    trace = opened(tmp_path, text_of(events, viztracer_metadata={"version": "1.0"}, file_info={"files": {}}))
    assert trace.inputs[0].producer == "VizTracer"
    assert kinds(trace) == ["MARK", "PYTHON"]
    assert [(each.name, each.value.tolist()) for each in trace.counters] == [("loss", [0.5])]
    assert note(trace, "phase-N")[0] == 1


def test_a_trace_exported_by_perfetto_opens_with_its_ranges_and_async_tracks(tmp_path: Path) -> None:
    events: list[Event] = [
        {
            "ph": "M",
            "pid": 9,
            "tid": 0,
            "cat": "__metadata",
            "name": "process_name",
            "ts": 0,
            "args": {"name": "app"},
        },
        {
            "ph": "M",
            "pid": 9,
            "tid": 9,
            "cat": "__metadata",
            "name": "thread_name",
            "ts": 0,
            "args": {"name": "main"},
        },
        {"ph": "B", "pid": 9, "tid": 9, "cat": "toplevel", "name": "task", "ts": 100, "args": {}},
        {"ph": "E", "pid": 9, "tid": 9, "cat": "toplevel", "name": "task", "ts": 180.125},
        {"ph": "b", "pid": 9, "tid": 9, "cat": "net", "name": "load", "id2": {"local": "0x1"}, "ts": 110},
        {"ph": "e", "pid": 9, "tid": 9, "cat": "net", "name": "load", "id2": {"local": "0x1"}, "ts": 150},
        {"ph": "I", "pid": 9, "tid": 9, "cat": "x", "name": "mark", "ts": 120, "s": "t"},
        {"ph": "S", "pid": 9, "tid": 9, "cat": "old", "name": "async", "id": 1, "ts": 120},
        {
            "ph": "T",
            "pid": 9,
            "tid": 9,
            "cat": "old",
            "name": "async",
            "id": 1,
            "ts": 125,
            "args": {"step": "x"},
        },
        {"ph": "F", "pid": 9, "tid": 9, "cat": "old", "name": "async", "id": 1, "ts": 130},
        {"ph": "P", "pid": 9, "tid": 9, "cat": "sample", "name": "stack", "ts": 131},
    ]
    trace = opened(tmp_path, text_of(events, metadata={"perfetto": True}))
    lengths = {trace.name(event): int(trace.events.duration[event]) for event in range(len(trace.events))}
    assert lengths == {"task": 80_125, "load": 40_000, "mark": 0, "async": lengths["async"]}
    starts = [
        int(trace.events.duration[event])
        for event in range(len(trace.events))
        if trace.name(event) == "async"
    ]
    assert sorted(starts) == [0, 10_000]
    assert {lane.process_name for lane in trace.lanes} == {"app"}
    assert note(trace, "phase-P")[0] == 1


def test_asynchronous_ranges_with_local_ids_of_two_processes_are_kept_apart(tmp_path: Path) -> None:
    def end(phase: str, time: int, pid: int) -> Event:
        return {
            "ph": phase,
            "cat": "io",
            "name": "read",
            "id2": {"local": "0x1"},
            "pid": pid,
            "tid": 1,
            "ts": time,
        }

    trace = opened(tmp_path, text_of([end("b", 0, 1), end("b", 10, 2), end("e", 50, 1), end("e", 70, 2)]))
    assert sorted(trace.events.duration.tolist()) == [50_000, 60_000]


def test_the_rocm_recording_of_others_has_a_launch_for_every_operation(shared_data: Path) -> None:
    folder = shared_data / "public" / "rocm"
    ours, exported = (open_trace([folder / f"matmul_result.{suffix}"]) for suffix in ("rpd", "json"))
    for trace in (ours, exported):
        launches = trace.links.launch_of(trace.gpu_operations)
        assert (launches >= 0).all()
        assert len(launches) == 85
    ours_called, theirs_called = (
        {trace.name(each) for each in trace.links.launch.tolist()} for trace in (ours, exported)
    )
    assert ours_called == theirs_called


def by_nsys2chrome() -> list[Event]:
    device: dict[str, Any] = {"ph": "X", "pid": "Device 3"}
    return [
        {"ph": "M", "cat": "__metadata", "pid": "Device 3", "name": "process_name", "args": {"name": "Device 3"}},
        {**device, "cat": "nvtx", "tid": "NVTX Thread 9", "name": "step 1", "ts": 0, "dur": 99, "args": {"raw_tid": 9}},
        {**device, "cat": "cuda_api", "tid": "CUDA API Thread 9", "name": "cudaLaunchKernel_v7000", "ts": 5, "dur": 4,
         "args": {"correlationId": 11}},
        {**device, "cat": "kernel", "tid": "Stream 7", "name": "gemm", "ts": 20, "dur": 30,
         "args": {"correlationId": 11, "deviceId": 3, "streamId": 7, "grid": [4, 2, 1], "block": [64, 1, 1],
                  "registersPerThread": 32}},
        {**device, "cat": "nvtx-kernel", "tid": "NVTX Kernel Thread 9", "name": "step 1", "ts": 20, "dur": 30},
        {**device, "cat": "osrt", "tid": "OSRT Thread 9", "name": "poll", "ts": 60, "dur": 3, "args": {}},
    ]  # fmt: skip


def test_exports_of_nsight_systems_made_to_json_keep_kernels_calls_ranges_and_links(tmp_path: Path) -> None:
    trace = opened(tmp_path, text_of(by_nsys2chrome()))
    (kernel_event,) = trace.gpu_operations.tolist()
    lane = trace.lanes[trace.events.lane[kernel_event]]
    assert (trace.name(kernel_event), lane.name, lane.stream, trace.devices[0].id) == (
        "gemm",
        "GPU 3 stream 7",
        7,
        3,
    )
    assert [trace.name(each) for each in trace.links.launch_of(trace.gpu_operations)] == [
        "cudaLaunchKernel_v7000"
    ]
    assert trace.text_attribute(Attribute.GRID_SHAPE, kernel_event) == "4,2,1"
    assert trace.attribute(Attribute.REGISTERS, trace.gpu_operations).tolist() == [32]
    assert [trace.name(each) for each in trace.events.of_kind(EventKind.REGION)] == ["step 1"]
    assert [trace.name(each) for each in trace.events.of_kind(EventKind.OS_RUNTIME)] == ["poll"]
    assert {each.thread for each in trace.lanes if each.device is None} == {9}


@pytest.mark.parametrize(
    ("process", "thread", "device"),
    [
        ("Device 1", "Stream 5", 1),
        ("GPU 2", "Stream 5", 2),
        ("CUDA HW (0000:1b)", "Stream 5", 0),
        ("/device:GPU:4", "Stream #5(Compute)", 4),
        ("Ascend Hardware", "Stream 5", 0),
    ],
)
def test_a_gpu_that_is_only_a_process_name_has_streams(
    tmp_path: Path, process: str, thread: str, device: int
) -> None:
    events: list[Event] = [
        {"ph": "X", "cat": "cuda", "pid": process, "tid": thread, "name": "gemm", "ts": 1, "dur": 2},
        {
            "ph": "X",
            "cat": "cuda",
            "pid": process,
            "tid": thread,
            "name": "[CUDA memcpy HtoD]",
            "ts": 5,
            "dur": 2,
        },
        {
            "ph": "X",
            "cat": "cuda",
            "pid": process,
            "tid": "CUDA API",
            "name": "cudaLaunchKernel",
            "ts": 0,
            "dur": 1,
        },
    ]
    trace = opened(tmp_path, text_of(events))
    assert kinds(trace) == ["API", "KERNEL", "MEMCPY"]
    assert [each.id for each in trace.devices] == [device]
    assert trace.lanes[trace.events.lane[trace.gpu_operations[0]]].stream == 5


def test_nameless_kernels_and_copies_are_the_streams_of_a_gpu(tmp_path: Path) -> None:
    events: list[Event] = [
        {"ph": "X", "pid": 1, "tid": 7, "name": "[MEMCPY] HtoD", "ts": 1, "dur": 2},
        {"ph": "X", "pid": 1, "tid": 7, "name": "void scale<float>(float*, int)", "ts": 5, "dur": 2},
    ]
    trace = opened(tmp_path, text_of(events))
    assert kinds(trace) == ["KERNEL", "MEMCPY"]
    of_library = {"ph": "X", "pid": 1, "tid": 7, "name": "ampere_sgemm_128x64_nn", "ts": 9, "dur": 2}
    assert len(opened(tmp_path, text_of([*events, of_library])).gpu_operations) == 3
    beside = {"ph": "X", "pid": 1, "tid": 7, "name": "a phase of the program", "ts": 9, "dur": 2}
    assert not len(opened(tmp_path, text_of([*events, beside])).gpu_operations)


def test_dma_requests_of_mtia_are_copies_and_its_lanes_hold_api_calls(tmp_path: Path) -> None:
    mtia: dict[str, Any] = {"ph": "X", "cat": "mtia_ccp_events", "pid": 9, "tid": 408}
    events: list[Event] = [
        {"ph": "X", "cat": "mtia_runtime", "name": "runFunction", "pid": 1, "tid": 2, "ts": 0, "dur": 5,
         "args": {"correlation": 7}},
        {**mtia, "name": "dma_request", "ts": 6, "dur": 2, "args": {"direction": "DEVICE_TO_HOST", "size": 16}},
        {**mtia, "name": "fc-dtype_Float", "ts": 9, "dur": 4, "args": {"correlation": 7}},
    ]  # fmt: skip
    trace = opened(tmp_path, text_of(events))
    assert kinds(trace) == ["API", "KERNEL", "MEMCPY"]
    (call,) = trace.events.of_kind(EventKind.API).tolist()
    assert trace.lanes[trace.events.lane[call]].name == "Thread 2 API calls"
