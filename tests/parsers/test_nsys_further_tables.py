"""Tables beside those of GPU work and calls: when threads ran, what the GPUs are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Attribute, EventKind, LaneKind, Trace
from parsers.model.memory import AFTER
from rules import diagnose
from rules.analysis.analysis import Analysis
from tests.parsers.nsys_exports import PROCESS, THREAD, call, export, kernel
from viewer.reports.text_report import as_text

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def opened(tmp_path: Path, **tables: list[dict[str, object]]) -> Trace:
    return open_trace([export(tmp_path / "run.sqlite", tables)])


def test_the_time_of_threads_on_processors_is_shown_from_switch_to_switch(tmp_path: Path) -> None:
    other = THREAD + 1

    def switch(start: object, put: int, cpu: int | None = 3, thread: int = THREAD) -> dict[str, object]:
        return {"start": start, "cpu": cpu, "isSchedIn": put, "globalTid": thread}

    rows = [
        switch(5, 0), switch(10, 1), switch(20, 0), switch(20, 1, 4), switch(30, 0, 4), switch(90, 1),
        switch(12, 1, None, other), switch(14, 1, None, other), switch(18, 0, None, other), switch(None, 1),
    ]  # fmt: skip
    trace = opened(tmp_path, **{KERNELS: [kernel(1, 100)], "SCHED_EVENTS": rows[::-1]})
    lanes = {lane.name: index for index, lane in enumerate(trace.lanes) if lane.kind is LaneKind.OTHER}
    assert sorted(lanes) == ["Main thread on processors", f"Thread {other & 0xFFFFFF} on processors"]
    shown = {
        name: [
            (trace.name(event), int(trace.events.start[event]) + 1, int(trace.events.end[event]) + 1)
            for event in range(*trace.events.lane_slice(lane).indices(len(trace.events)))
        ]
        for name, lane in lanes.items()
    }
    assert shown["Main thread on processors"] == [("CPU 3", 10, 20), ("CPU 4", 20, 30)]
    assert shown[f"Thread {other & 0xFFFFFF} on processors"] == [("CPU", 14, 18)]
    assert {note.kind: note.count for note in trace.quality.notes}["scheduled in part"] == 3
    assert trace.quality.events_read == trace.quality.events_kept == 4


def test_gpu_descriptions_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    tables: dict[str, list[dict[str, object]]] = {
        KERNELS: [kernel(1, 2)],
        "TARGET_INFO_GPU": [
            {"id": 0, "name": None, "smCount": float("inf"), "totalMemory": "much", "computeMajor": b""}
        ],
        "TARGET_INFO_CUDA_DEVICE": [
            {"gpuId": b"", "cudaId": 0, "pid": 100},
            {"gpuId": "x", "cudaId": 1, "pid": 100},
        ],
    }
    (device,) = opened(tmp_path, **tables).devices
    assert (device.id, device.name, device.sm_count, device.memory_bytes) == (0, "", None, None)


@pytest.mark.parametrize(
    ("table", "kind", "lane"),
    [
        ("CUBLAS_EVENTS", EventKind.CPU_OP, LaneKind.CPU_THREAD),
        ("CUDNN_EVENTS", EventKind.CPU_OP, LaneKind.CPU_THREAD),
        ("MPI_COLLECTIVES_EVENTS", EventKind.REGION, LaneKind.REGION),
        ("MPI_OTHER_EVENTS", EventKind.REGION, LaneKind.REGION),
        ("UCP_SUBMIT_EVENTS", EventKind.REGION, LaneKind.REGION),
        ("UCP_EVENTS", EventKind.REGION, LaneKind.REGION),
        ("NVSHMEM_EVENTS", EventKind.REGION, LaneKind.REGION),
        ("OSRT_API", EventKind.OS_RUNTIME, LaneKind.OS_RUNTIME),
        ("SYSCALL", EventKind.OS_RUNTIME, LaneKind.OS_RUNTIME),
        ("PROFILER_OVERHEAD", EventKind.OVERHEAD, LaneKind.OVERHEAD),
        ("CUPTI_ACTIVITY_KIND_OVERHEAD", EventKind.OVERHEAD, LaneKind.OVERHEAD),
        ("CUDNN_EVENTS_V2", EventKind.CPU_OP, LaneKind.CPU_THREAD),
    ],
)
def test_calls_of_libraries_and_systems_are_events_of_their_thread(
    tmp_path: Path, table: str, kind: EventKind, lane: LaneKind
) -> None:
    trace = opened(tmp_path, **{table: [call(10, 20, nameId=4), call(30, 40, nameId=4)], KERNELS: []})
    assert trace.events.kind.tolist() == [kind, kind]
    assert [trace.name(event) for event in range(2)] == ["cudaMemcpyAsync"] * 2
    assert [(each.kind, each.thread) for each in trace.lanes] == [(lane, THREAD & 0xFFFFFF)]
    assert not any(note.kind.startswith("not shown") for note in trace.quality.notes)


@pytest.mark.parametrize(
    ("table", "chains"), [("OSRT_API", "OSRT_CALLCHAINS"), ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUDA_CALLCHAINS")]
)
def test_a_call_has_its_chain_from_the_innermost_function_outwards(
    tmp_path: Path, table: str, chains: str
) -> None:
    frames: list[dict[str, object]] = [
        {"id": 9, "symbol": symbol, "module": module, "stackDepth": depth}
        for depth, (symbol, module) in enumerate(((2, 5), (3, None), (404, 5)))
    ]
    tables: dict[str, list[dict[str, object]]] = {
        table: [call(1, 2, callchainId=9)],
        chains: [*frames[::-1], {"id": 1}],
    }
    strings = {1: "poll", 2: "inner", 3: "outer", 5: "/usr/lib/libcuda.so"}
    trace = open_trace([export(tmp_path / "run.sqlite", tables, strings)])
    assert trace.arguments(0)["call chain"] == ["inner [libcuda.so]", "outer", "(unknown) [libcuda.so]"]


def test_samples_without_a_chain_and_threads_states_are_shown(tmp_path: Path) -> None:
    tables: dict[str, list[dict[str, object]]] = {
        "COMPOSITE_EVENTS": [
            {"id": 1, "start": 10, "cpu": 0, "threadState": 1, "globalTid": THREAD},
            {"id": 2, "start": 20, "cpu": 0, "threadState": 7, "globalTid": THREAD},
        ],
        "SAMPLING_CALLCHAINS": [
            {"id": 1, "symbol": 2, "module": None, "stackDepth": 0},
            {"id": 1, "symbol": 3, "module": None, "stackDepth": 1},
        ],
        "ENUM_SAMPLING_THREAD_STATE": [{"id": 7, "name": "WAITING", "label": "Waiting"}],
    }
    trace = opened(tmp_path, **tables)
    samples = trace.events.of_kind(EventKind.SAMPLE).tolist()
    assert [trace.name(each) for each in samples] == ["gemm", "(sample without a call chain)"]
    assert trace.arguments(samples[0])["call chain"] == ["gemm", "void gemm<float>(float*)"]
    assert trace.arguments(samples[1])["threadState"] == "Waiting"


@pytest.mark.parametrize(("severity", "words"), [(2, "warned"), (3, "reported an error"), (1, ""), (4, "")])
def test_what_the_recorder_warned_of_is_passed_on(tmp_path: Path, severity: int, words: str) -> None:
    rows: list[dict[str, object]] = [
        {"timestamp": 1, "severity": severity, "text": "Not all events were collected.\nmore"},
        {"timestamp": 2, "severity": 2, "text": None},
    ]
    trace = opened(tmp_path, **{KERNELS: [kernel(1, 2)], "DIAGNOSTIC_EVENT": rows})
    told = [note.reason for note in trace.quality.notes if note.kind.startswith("profiler")]
    assert told == ([f"The profiler {words}: Not all events were collected."] if words else [])


@pytest.mark.parametrize("supported", [True, False])
def test_a_driver_that_the_profiler_does_not_know_asks_for_a_newer_one(
    tmp_path: Path, supported: bool
) -> None:
    warning = (
        f"Installed CUDA driver version (13.3) is {'new' if supported else 'not supported by this build of'}"
    )
    rows: list[dict[str, object]] = [
        {"timestamp": 1, "severity": 2, "text": f"{warning} Nsight Systems. Other"}
    ]
    tables = {"CUPTI_ACTIVITY_KIND_RUNTIME": [call(1, 2, nameId=5)], "DIAGNOSTIC_EVENT": rows}
    trace = open_trace([export(tmp_path / "run.sqlite", tables, {5: "cuInit"})])
    text = " ".join(as_text(trace, diagnose(trace), Analysis(trace)).split())
    assert ("Record again with a newer Nsight Systems" in text) is not supported
    assert ("Record the GPU as well" in text) is supported


def test_memory_of_each_kind_is_a_counter_of_its_gpu(tmp_path: Path) -> None:
    def change(start: int, size: int, operation: int, kind: int = 2, device: int = 0) -> dict[str, object]:
        return {
            "start": start, "globalPid": PROCESS, "deviceId": device, "bytes": size, "memKind": kind,
            "memoryOperationType": operation, "address": size << 20,
        }  # fmt: skip

    rows = [
        change(5, 100, 0),
        change(7, 50, 0),
        change(9, 100, 1),
        change(6, 30, 0, 1),
        change(8, 4, 0, device=1),
    ]
    trace = opened(tmp_path, **{KERNELS: [kernel(1, 20)], "CUDA_GPU_MEMORY_USAGE_EVENTS": rows})
    counters = {each.name: (each.unit, each.value.tolist()) for each in trace.counters}
    assert counters == {
        "GPU 0 allocated memory": ("B", [100, 150, 50]),
        "GPU 0 pinned memory": ("B", [30]),
        "GPU 1 allocated memory": ("B", [4]),
    }
    (memory,) = trace.memory  # of GPU 0: the other did no work
    lives = memory.allocations
    assert list(zip(lives.start.tolist(), lives.end.tolist(), lives.size.tolist(), strict=True)) == [
        (4, 8, 100),
        (6, AFTER, 50),
    ]


@pytest.mark.parametrize("details", [False, True])
def test_gpus_of_the_first_exports_have_their_names_and_details(tmp_path: Path, details: bool) -> None:
    tables: dict[str, list[dict[str, object]]] = {
        "TARGET_INFO_GPU": [{"deviceId": 0, "name": "NVIDIA GeForce RTX 3080"}],
        KERNELS: [kernel(10, 20)],
    }
    if details:
        tables["TARGET_INFO_CUDA_GPU"] = [
            {
                "deviceId": 0,
                "name": "NVIDIA GeForce RTX 3080",
                "globalMemorySize": 10_495_524_864,
                "globalMemoryBandwidth": 760_080_000,
                "numMultiprocessors": 68,
                "computeCapabilityMajor": 8,
                "computeCapabilityMinor": 6,
            }
        ]
    (device,) = opened(tmp_path, **tables).devices
    assert device.name == "NVIDIA GeForce RTX 3080"
    assert device.sm_count == (68 if details else None)
    assert device.memory_bandwidth == (760.08e9 if details else None)
    assert device.compute_capability == ((8, 6) if details else None)


@pytest.mark.parametrize(
    ("name", "noted"), [("cudaGraphLaunch_v10000", True), ("cudaEventQuery_v3020", False)]
)
def test_only_launches_that_return_an_error_have_failed(tmp_path: Path, name: str, noted: bool) -> None:
    tables = {"CUPTI_ACTIVITY_KIND_RUNTIME": [call(1, 2, returnValue=600), call(3, 4)]}
    trace = open_trace([export(tmp_path / "run.sqlite", tables, {1: name})])
    assert trace.attribute(Attribute.ERROR, np.arange(2), 0).tolist() == [600 if noted else 0, 0]
    assert any("failed with error 600" in note.reason for note in trace.quality.notes) is noted
