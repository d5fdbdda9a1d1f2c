"""Tables beside those of GPU work and calls: when threads ran, what the GPUs are, payloads of ranges."""

from __future__ import annotations

from pathlib import Path

from parsers import open_trace
from parsers.model import LaneKind, Trace
from tests.parsers.nsys_exports import THREAD, export, kernel, nvtx

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


def test_binary_payloads_are_counted_as_unread(tmp_path: Path) -> None:
    rows = [nvtx(1, 2, "ncclAllReduce", binaryData=None), nvtx(3, 4, "ncclAllReduce", binaryData="0x00")]
    trace = opened(tmp_path, NVTX_EVENTS=rows)
    assert {note.kind: note.count for note in trace.quality.notes}["binary payloads"] == 1


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
