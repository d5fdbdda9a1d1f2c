"""What the model says about Kineto's events: lanes, kinds, attributes, links, counters, header."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parsers.model import Attribute, CopyKind, EventKind, LaneKind, MemoryKind, SyncKind
from tests.parsers.chrome.traces import (
    balanced,
    complete,
    kernel,
    launch,
    names,
    note,
    opened,
    text_of,
    trace_of,
)


def only(trace, kind: EventKind) -> int:  # type: ignore[no-untyped-def]
    found = trace.events.of_kind(kind)
    assert len(found) == 1
    return int(found[0])


@pytest.mark.parametrize(
    ("category", "kind", "lane"),
    [
        ("cpu_op", EventKind.CPU_OP, LaneKind.CPU_THREAD),
        ("Operator", EventKind.CPU_OP, LaneKind.CPU_THREAD),
        ("user_annotation", EventKind.REGION, LaneKind.REGION),
        ("python_function", EventKind.PYTHON, LaneKind.PYTHON),
        ("cuda_runtime", EventKind.API, LaneKind.CUDA_API),
        ("cuda_driver", EventKind.API, LaneKind.CUDA_API),
        ("Runtime", EventKind.API, LaneKind.CUDA_API),
        ("hip_runtime", EventKind.API, LaneKind.CUDA_API),
        ("xpu_runtime", EventKind.API, LaneKind.CUDA_API),
        ("mtia_runtime", EventKind.API, LaneKind.CUDA_API),
        ("privateuse1_runtime", EventKind.API, LaneKind.CUDA_API),
        ("overhead", EventKind.OVERHEAD, LaneKind.OVERHEAD),
        ("FEE", EventKind.PYTHON, LaneKind.PYTHON),
        ("kernel", EventKind.KERNEL, LaneKind.GPU_STREAM),
        ("Kernel", EventKind.KERNEL, LaneKind.GPU_STREAM),
        ("gpu_memcpy", EventKind.MEMCPY, LaneKind.COPY),
        ("Memcpy", EventKind.MEMCPY, LaneKind.COPY),
        ("gpu_memset", EventKind.MEMSET, LaneKind.GPU_STREAM),
        ("gpu_user_annotation", EventKind.GPU_REGION, LaneKind.GPU_REGION),
        ("cuda_sync", EventKind.GPU_SYNC, LaneKind.OTHER),
        ("something new", EventKind.OTHER, LaneKind.OTHER),
    ],
)
def test_every_category_has_its_kind_and_lane(
    tmp_path: Path, category: str, kind: EventKind, lane: LaneKind
) -> None:
    trace = trace_of(tmp_path, [complete("event", 1, 2, category)])
    assert trace.events.kind.tolist() == [kind]
    assert trace.lanes[0].kind is lane


def test_a_synchronisation_on_the_device_is_not_work(tmp_path: Path) -> None:
    wait = complete(
        "Stream Sync", 0, 50, "cuda_sync", args={"device": 0, "stream": 7, "cuda_sync_kind": "Stream Sync"}
    )
    trace = trace_of(tmp_path, [wait, kernel("k", 10, 5)])
    assert len(trace.gpu_operations) == 1
    waiting = np.array([only(trace, EventKind.GPU_SYNC)])
    assert trace.attribute(Attribute.SYNC_KIND, waiting).tolist() == [SyncKind.STREAM.value]


def test_kernel_arguments_become_attributes(tmp_path: Path) -> None:
    arguments = {"grid": [4, 5, 6], "block": [32, 2, 1], "registers per thread": 40, "graph node id": 9}
    trace = trace_of(tmp_path, [kernel("k", 0, 5, 3, **arguments)])
    event = np.array([only(trace, EventKind.KERNEL)])
    stated = {
        Attribute.GRID: 120, Attribute.BLOCK: 64, Attribute.REGISTERS: 40,
        Attribute.GRAPH_NODE: 9, Attribute.CORRELATION: 3,
    }  # fmt: skip
    assert {which: int(trace.attribute(which, event)[0]) for which in stated} == stated
    assert trace.text_attribute(Attribute.GRID_SHAPE, int(event[0])) == "4,5,6"
    assert trace.text_attribute(Attribute.BLOCK_SHAPE, int(event[0])) == "32,2,1"
    assert trace.arguments(int(event[0])) == {"device": 0, "stream": 7, "correlation": 3, **arguments}


@pytest.mark.parametrize(
    ("name", "kind", "source", "target"),
    [
        ("Memcpy HtoD (Pageable -> Device)", CopyKind.H2D, MemoryKind.PAGEABLE, MemoryKind.DEVICE),
        ("Memcpy DtoH (Device -> Pinned)", CopyKind.D2H, MemoryKind.DEVICE, MemoryKind.PINNED),
        ("Memcpy DtoD (Device -> Device)", CopyKind.D2D, MemoryKind.DEVICE, MemoryKind.DEVICE),
        ("Memcpy PtoP (Device -> Device)", CopyKind.P2P, MemoryKind.DEVICE, MemoryKind.DEVICE),
        ("Memcpy HtoD (Host -> Device)", CopyKind.H2D, MemoryKind.UNKNOWN, MemoryKind.DEVICE),
        ("something else", CopyKind.UNKNOWN, MemoryKind.UNKNOWN, MemoryKind.UNKNOWN),
    ],
)
def test_copies_state_direction_memory_and_bytes(
    tmp_path: Path, name: str, kind: CopyKind, source: MemoryKind, target: MemoryKind
) -> None:
    trace = trace_of(
        tmp_path, [complete(name, 0, 5, "gpu_memcpy", args={"device": 0, "stream": 7, "bytes": 4096})]
    )
    event = np.array([only(trace, EventKind.MEMCPY)])
    assert trace.attribute(Attribute.COPY_KIND, event).tolist() == [kind.value]
    assert trace.attribute(Attribute.SOURCE_MEMORY, event).tolist() == [source.value]
    assert trace.attribute(Attribute.TARGET_MEMORY, event).tolist() == [target.value]
    assert trace.attribute(Attribute.BYTES, event).tolist() == [4096]


def test_a_copy_without_bytes_takes_those_of_its_call(tmp_path: Path) -> None:
    call = complete(
        "hipMemcpyAsync", 0, 2, "cuda_runtime", args={"correlation": 5, "size": "2560", "kind": "1"}
    )
    copy = complete(
        "Memcpy HtoD (Host -> Device)", 3, 1, "gpu_memcpy", args={"device": 0, "stream": 0, "correlation": 5}
    )
    trace = trace_of(tmp_path, [call, copy])
    assert trace.attribute(Attribute.BYTES, trace.gpu_operations).tolist() == [2560]
    assert len(trace.attributes[Attribute.BYTES].event) == 1


def test_of_two_calls_with_one_correlation_the_launch_wins(tmp_path: Path) -> None:
    events = [
        complete("cudaStreamIsCapturing", 0, 1, "cuda_runtime", args={"correlation": 5}),
        launch(2, 5, "cuLaunchKernel", 10),
        launch(3, 5, "cudaLaunchKernel", 4),
        kernel("k", 20, 5, 5),
    ]
    trace = trace_of(tmp_path, events)
    assert trace.name(int(trace.links.launch_of(trace.gpu_operations)[0])) == "cudaLaunchKernel"


def test_kernels_of_one_graph_launch_are_linked_to_it_and_marked(tmp_path: Path) -> None:
    events = [
        launch(0, 1, "cudaGraphLaunch"),
        *(kernel(f"k{each}", 10 + each * 5, 4, 1) for each in range(3)),
    ]
    events += [launch(30, 2), kernel("alone", 40, 4, 2)]
    trace = trace_of(tmp_path, events)
    inside = trace.attribute(Attribute.GRAPH_NODE, trace.gpu_operations)
    assert inside.tolist() == [1, 1, 1, 0]
    graph = trace.links.launch_of(trace.gpu_operations[:1])[0]
    assert len(trace.links.operations_of(int(graph))) == 3


def test_a_kernel_without_a_launch_has_no_link(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, [launch(0, 1), kernel("a", 10, 5, 1), kernel("b", 20, 5, 2), kernel("c", 30, 5, 0)]
    )
    assert (trace.links.launch_of(trace.gpu_operations) >= 0).tolist() == [True, False, False]


NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
STATED = {
    "Collective name": "allreduce", "In msg nelems": 1000, "dtype": "BFloat16", "Group size": 4,
    "Process Group Name": "0", "Seq": 12,
}  # fmt: skip


def collective_attributes(trace, event: int) -> tuple[str, int, str, str, int]:  # type: ignore[no-untyped-def]
    at = np.array([event])
    return (
        trace.text_attribute(Attribute.COLLECTIVE, event),
        int(trace.attribute(Attribute.MESSAGE_BYTES, at)[0]),
        trace.text_attribute(Attribute.MESSAGE_DTYPE, event),
        trace.text_attribute(Attribute.GROUP, event),
        int(trace.attribute(Attribute.GROUP_SIZE, at)[0]),
    )


def test_collectives_state_what_their_kernel_says(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [kernel(NCCL, 0, 5, 1, 20, **STATED)])
    event = only(trace, EventKind.KERNEL)
    assert collective_attributes(trace, event) == ("allreduce", 2000, "BFloat16", "0", 4)
    assert trace.attribute(Attribute.COLLECTIVE_SEQUENCE, np.array([event])).tolist() == [12]
    assert trace.lanes[trace.events.lane[event]].kind is LaneKind.NCCL


def test_collectives_without_arguments_take_those_of_the_range_around_their_launch(tmp_path: Path) -> None:
    events = [
        complete("record_param_comms", 0, 50, args=STATED),
        launch(10, 1),
        launch(60, 2),
        kernel(NCCL, 100, 5, 1, 20),
        kernel(NCCL, 200, 5, 2, 20),
    ]
    trace = trace_of(tmp_path, events)
    inside, outside = trace.collective_kernels.tolist()
    assert collective_attributes(trace, inside) == ("allreduce", 2000, "BFloat16", "0", 4)
    assert collective_attributes(trace, outside) == ("allreduce", 0, "", "", 0)


def test_collectives_take_their_size_from_the_shapes_of_an_nccl_range(tmp_path: Path) -> None:
    shapes = {"Input Dims": [[16, 8]], "Input type": ["c10::BFloat16"]}
    events = [
        complete("nccl:all_reduce", 0, 50, "user_annotation", args=shapes),
        launch(10, 1),
        kernel(NCCL, 60, 5, 1),
    ]
    trace = trace_of(tmp_path, events)
    assert trace.attribute(Attribute.MESSAGE_BYTES, trace.collective_kernels).tolist() == [256]


def test_shapes_of_operators_are_kept_as_text(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        [complete("aten::mm", 0, 5, args={"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]})],
    )
    assert trace.text_attribute(Attribute.INPUT_DIMS, 0) == "[[2,3],[3,4]]"
    assert trace.text_attribute(Attribute.INPUT_TYPES, 0) == '["float","float"]'


@pytest.mark.parametrize("category", ["user_annotation", "Operator", "cpu_op"])
def test_steps_are_found_in_every_generation(tmp_path: Path, category: str) -> None:
    trace = trace_of(
        tmp_path, [complete("ProfilerStep#12", 0, 50, category), complete("aten::add", 1, 2, category)]
    )
    step = only(trace, EventKind.STEP)
    assert trace.lanes[trace.events.lane[step]].kind is LaneKind.STEPS
    assert trace.name(step) == "ProfilerStep#12"


def test_shapes_under_the_name_of_2020_are_kept(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [complete("aten::mm", 0, 5, "Operator", args={"Input dims": [[2, 3]]})])
    assert trace.text_attribute(Attribute.INPUT_DIMS, 0) == "[[2,3]]"


def test_allocator_samples_become_counters(tmp_path: Path) -> None:
    def sample(time: int, device_type: int, device: int, allocated: int, reserved: int) -> dict[str, object]:
        arguments = {
            "Total Allocated": allocated, "Total Reserved": reserved, "Device Id": device, "Device Type": device_type,
        }  # fmt: skip
        return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": time, "args": arguments}

    events = [kernel("k", 0, 5), sample(3, 1, 0, 200, 500), sample(1, 1, 0, 100, 500), sample(2, 0, -1, 8, 0)]
    trace = trace_of(tmp_path, events)
    found = {counter.name: counter for counter in trace.counters}
    assert set(found) == {"GPU 0 allocated memory", "GPU 0 reserved memory", "CPU allocated memory"}
    allocated = found["GPU 0 allocated memory"]
    assert (allocated.unit, allocated.device) == ("B", 0)
    assert allocated.value.tolist() == [100, 200]
    assert allocated.time.tolist() == [1000, 3000]


def test_what_an_allocator_states_may_be_text_and_what_is_no_number_is_0(tmp_path: Path) -> None:
    def sample(time: int, **stated: object) -> dict[str, object]:
        arguments = {"Total Reserved": 500, "Device Id": 0, "Device Type": 1, **stated}
        return {
            "ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": "7", "ts": time,
            "args": {key.replace("_", " "): value for key, value in arguments.items()},
        }  # fmt: skip

    said: tuple[object, ...] = (8, "0x10", 24.0, "many", 2**62, 2**70, -(2**62))
    events = [kernel("k", 0, 20)]
    events += [sample(time, Total_Allocated=each) for time, each in enumerate(said)]
    events.insert(3, {**sample(30), "name": "a mark"})
    trace = trace_of(tmp_path, events)
    allocated = next(each for each in trace.counters if each.name == "GPU 0 allocated memory")
    assert allocated.value.tolist() == [8, 16, 24, 0, 0, 0, 0]
    assert names(trace) == ["k", "a mark"]


def test_counter_events_become_counters(tmp_path: Path) -> None:
    events = [complete("op", 0, 10)] + [
        {"ph": "C", "name": "queue", "pid": 1, "ts": time, "args": {"length": time * 2, "text": "x"}}
        for time in (3, 1, 2)
    ]
    trace = trace_of(tmp_path, events)
    assert [(each.name, each.value.tolist()) for each in trace.counters] == [("queue length", [2, 4, 6])]


def test_begin_and_end_events_are_matched_as_brackets(tmp_path: Path) -> None:
    def end(phase: str, time: int, name: str = "") -> dict[str, object]:
        return {"ph": phase, "pid": 1, "tid": 1, "ts": time, **({"name": name} if name else {})}

    trace = trace_of(
        tmp_path, [end("B", 0, "outer"), end("B", 2, "inner"), end("E", 5), end("E", 9, "outer")]
    )
    assert names(trace) == ["outer", "inner"]
    assert sorted(trace.events.duration.tolist()) == [3000, 9000]
    assert balanced(trace)


def test_asynchronous_events_are_matched_by_id(tmp_path: Path) -> None:
    def end(phase: str, time: int, number: int) -> dict[str, object]:
        return {"ph": phase, "cat": "io", "name": "read", "id": number, "pid": 1, "tid": 1, "ts": time}

    trace = trace_of(
        tmp_path, [end("b", 0, 1), end("b", 2, 2), end("e", 5, 1), end("n", 6, 2), end("e", 9, 2)]
    )
    ranges = trace.events.of_kind(EventKind.REGION)
    assert sorted(trace.events.duration[ranges].tolist()) == [5000, 7000]
    assert len(trace.events.of_kind(EventKind.MARK)) == 1


def test_threads_are_named_for_people(tmp_path: Path) -> None:
    def thread_name(tid: int, name: str) -> dict[str, object]:
        return {"ph": "M", "name": "thread_name", "pid": 10, "tid": tid, "ts": 0, "args": {"name": name}}

    events = [
        complete("aten::add", 0, 5, pid=10, tid=10),
        complete("autograd::engine::evaluate_function: AddBackward0", 0, 5, pid=10, tid=11),
        complete("aten::copy_", 0, 5, pid=10, tid=12),
        complete("aten::copy_", 0, 5, pid=10, tid=13),
        {"ph": "M", "name": "process_name", "pid": 10, "tid": 0, "ts": 0, "args": {"name": "python3"}},
        thread_name(10, "thread 10 (python3)"),
        thread_name(12, "thread 12 (pt_data_pin)"),
        thread_name(13, "thread 13 (python3)"),
    ]
    trace = trace_of(tmp_path, events)
    assert [lane.name for lane in trace.lanes] == [
        "Main thread",
        "Autograd thread 11",
        "pt_data_pin",
        "Thread 13",
    ]
    assert {lane.process_name for lane in trace.lanes} == {"python3"}


def test_the_profilers_own_markers_do_not_widen_the_view(tmp_path: Path) -> None:
    events = [
        complete("op", 1000, 5),
        complete("PyTorch Profiler (0)", 0, 9000, "Trace", pid="Spans", tid="PyTorch Profiler"),
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 99_999},
    ]
    trace = trace_of(tmp_path, events)
    assert trace.duration == 5000


def test_the_category_trace_of_other_tools_is_shown(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [complete("load", 0, 5, "trace"), complete("own", 0, 5, "Trace", pid="Spans")])
    assert names(trace) == ["load"]
    assert balanced(trace)


def test_the_header_says_how_it_was_recorded(tmp_path: Path) -> None:
    keys = {
        "schemaVersion": 1, "baseTimeNanoseconds": 1_790_857_026_000_000_000, "record_shapes": 1, "profile_memory": 0,
        "distributedInfo": {"rank": 3, "world_size": 8},
        "deviceProperties": [
            {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150, "computeMajor": 9, "computeMinor": 0,
             "numSms": 132},
            {"id": 1, "name": "NVIDIA H200"},
        ],
    }  # fmt: skip
    trace = trace_of(
        tmp_path, [complete("op", 4_361_799_000_000, 5), kernel("k", 4_361_799_000_001, 1)], **keys
    )
    assert (trace.capture.record_shapes, trace.capture.profile_memory, trace.capture.with_stack) == (
        True,
        False,
        False,
    )
    assert trace.epoch_ns == 1_790_857_026_000_000_000 + 4_361_799_000_000_000
    assert [(rank.rank, rank.world_size) for rank in trace.ranks] == [(3, 8)]
    (device,) = trace.devices
    assert (device.name, device.rank, device.sm_count, device.compute_capability) == (
        "NVIDIA H200",
        3,
        132,
        (9, 0),
    )
    assert {lane.rank for lane in trace.lanes} == {3}
    assert trace.inputs[0].producer.startswith("PyTorch")


@pytest.mark.parametrize(
    ("stated", "count"),
    [
        ({"numSms": 4096}, 4096),
        ({"numSms": 167_936, "multiProcessorCount": 108}, 108),
        ({"numSms": 167_936}, None),
        ({"numSms": 0}, None),
        ({"numSms": True, "multiProcessorCount": "108"}, None),
    ],
)
def test_a_number_of_processors_that_no_gpu_has_is_not_believed(
    tmp_path: Path, stated: dict[str, Any], count: int | None
) -> None:
    trace = trace_of(
        tmp_path, [kernel("k", 1, 1)], schemaVersion=1, deviceProperties=[{"id": 0, "name": "A800", **stated}]
    )
    assert [device.sm_count for device in trace.devices] == [count]


def test_absolute_times_are_the_wall_clock(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [complete("op", 1_707_417_525_509_905, 5)], schemaVersion=1)
    assert trace.epoch_ns == 1_707_417_525_509_905_000


def test_a_file_without_wall_clock_says_so(tmp_path: Path) -> None:
    assert trace_of(tmp_path, [complete("op", 5, 5)]).epoch_ns is None


def test_a_gpu_without_any_work_is_noted(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, [complete("op", 5, 5)], schemaVersion=1, deviceProperties=[{"id": 0, "name": "H200"}]
    )
    note(trace, "no-gpu-events")


def test_kernels_with_counters_alone_are_gpu_work_without_times(tmp_path: Path) -> None:
    kernel = complete("gemm", 5, 5, "cuda_profiler_range", args={"sm__cycles_elapsed.max": 7})
    about = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "H200"}]}
    trace = trace_of(tmp_path, [complete("op", 1, 3), kernel, kernel], **about)
    assert trace.quality.kernels_without_times == 2
    assert "no-gpu-events" not in {each.kind for each in trace.quality.notes}


def test_streams_of_xprof_traces_are_gpu_lanes(tmp_path: Path) -> None:
    def metadata(name: str, tid: int, text: str) -> dict[str, object]:
        return {"ph": "M", "pid": 2, "tid": tid, "name": name, "args": {"name": text}}

    events = [
        metadata("process_name", 0, "/device:GPU:0"),
        metadata("thread_name", 7, "Stream #13(Compute,MemcpyD2D)"),
        metadata("thread_name", 9, "XLA Modules"),
        {"ph": "X", "pid": 2, "tid": 7, "ts": 1, "dur": 2, "name": "fusion_3"},
        {"ph": "X", "pid": 2, "tid": 7, "ts": 4, "dur": 2, "name": "MemcpyD2D"},
        {"ph": "X", "pid": 2, "tid": 9, "ts": 1, "dur": 9, "name": "jit_step"},
    ]
    trace = opened(tmp_path, text_of(events, displayTimeUnit="ns", metadata={"highres-ticks": True}))
    assert trace.events.kind[trace.gpu_operations].tolist() == [EventKind.KERNEL, EventKind.MEMCPY]
    assert {lane.name for lane in trace.lanes} == {"GPU 0 stream 13", "XLA Modules"}


def test_arguments_are_fetched_from_every_form_of_file_and_vanish_with_it(tmp_path: Path) -> None:
    events = [complete(f"op{number}", number, 1, args={"value": number}) for number in range(100)]
    trace = trace_of(tmp_path, events)
    at = [int(trace.arguments(event)["value"]) for event in range(100)]
    assert at == [int(trace.name(event)[2:]) for event in range(100)]
    (tmp_path / "trace.json").write_text("{}")
    assert trace.arguments(0) == {}
    (tmp_path / "trace.json").unlink()
    assert trace.arguments(0) == {}


def test_arguments_of_a_damaged_chunk_are_those_of_the_right_event(tmp_path: Path) -> None:
    events = [complete(f"op{number}", number, 1, args={"value": number}) for number in range(20)]
    trace = opened(
        tmp_path, text_of(events).replace('"name":"op5"', '"name":"op"5"').replace('"value":9', '"value":NaN')
    )
    found = {trace.name(event): trace.arguments(event).get("value") for event in range(len(trace.events))}
    assert found == {f"op{number}": (None if number == 9 else number) for number in range(20) if number != 5}
