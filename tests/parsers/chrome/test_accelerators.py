"""Traces of other accelerators and frameworks: what waits is no work, and nothing counts twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from parsers.model import Attribute, EventKind
from rules import diagnosis_of
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import verdict
from tests.parsers.chrome.traces import Event, opened, text_of


def test_calls_of_an_npu_launch_its_kernels_and_its_lanes_are_not_called_cuda(tmp_path: Path) -> None:
    cann: dict[str, Any] = {"pid": 5, "tid": 9}
    npu: dict[str, Any] = {"pid": 8, "tid": 3}
    events: list[Event] = [
        {"ph": "M", **cann, "name": "process_name", "args": {"name": "CANN"}},
        {"ph": "M", **npu, "name": "process_name", "args": {"name": "Ascend Hardware"}},
        {"ph": "M", **npu, "name": "thread_name", "args": {"name": "Stream 3"}},
        {"ph": "X", **cann, "name": "AscendCL@aclnnMul", "ts": "1.000", "dur": 4},
        {"ph": "X", **npu, "name": "aclnnMul_MulAiCore_Mul", "ts": "9.000", "dur": 2},
        {"ph": "s", **cann, "cat": "HostToDevice", "name": "HostToDevice7", "id": "7", "ts": "2.000"},
        {
            "ph": "f",
            **npu,
            "cat": "HostToDevice",
            "name": "HostToDevice7",
            "id": "7",
            "ts": "9.000",
            "bp": "e",
        },
    ]
    trace = opened(tmp_path, text_of(events))
    (launch,) = trace.links.launch_of(trace.gpu_operations).tolist()
    assert (trace.name(launch), trace.devices[0].name) == ("AscendCL@aclnnMul", "Ascend NPU")
    assert trace.lanes[trace.events.lane[launch]].name == "Thread 9 API calls"


@pytest.mark.parametrize(("programs", "is_part"), [(1, True), (2, False)])
def test_what_ascend_s_runtime_does_belongs_to_the_program(
    tmp_path: Path, programs: int, is_part: bool
) -> None:
    called = [(pid, "Python") for pid in range(1, 1 + programs)] + [(102, "CANN"), (8, "Ascend Hardware")]
    events: list[Event] = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}} for pid, name in called
    ]
    events += [
        {"ph": "X", "pid": 1, "tid": 9, "cat": "cpu_op", "name": "aten::mul", "ts": "1.000", "dur": 9},
        {"ph": "X", "pid": 102, "tid": 9, "name": "AscendCL@aclnnMul", "ts": "2.000", "dur": 4},
        {"ph": "X", "pid": 8, "tid": 3, "name": "aclnnMul_MulAiCore_Mul", "ts": "9.000", "dur": 2},
    ]
    trace = opened(tmp_path, text_of(events))
    of_event = {trace.name(event): trace.lanes[trace.events.lane[event]].process for event in range(3)}
    assert (of_event["AscendCL@aclnnMul"] == of_event["aten::mul"]) is is_part


def test_what_the_queue_of_torch_npu_does_launches_where_ascend_s_calls_were_not_recorded(
    tmp_path: Path,
) -> None:
    """Arrows then begin in a process that has no events, on the thread of the queue."""
    npu: dict[str, Any] = {"pid": 8, "tid": 3}
    queue: dict[str, Any] = {"pid": 1, "tid": 9, "cat": "dequeue"}
    arrow: dict[str, Any] = {"cat": "HostToDevice", "name": "HostToDevice7", "id": "7"}
    events: list[Event] = [
        {"ph": "M", **npu, "name": "process_name", "args": {"name": "Ascend Hardware"}},
        {"ph": "M", **npu, "name": "thread_name", "args": {"name": "Stream 3"}},
        {"ph": "X", **queue, "name": "Dequeue@Conv2D", "ts": "1.000", "dur": 4},
        {"ph": "X", **npu, "name": "Conv2D1", "ts": "9.000", "dur": 2},
        {"ph": "s", **arrow, "pid": 777, "tid": 9, "ts": "2.000"},
        {"ph": "f", **arrow, **npu, "ts": "9.000", "bp": "e"},
    ]
    trace = opened(tmp_path, text_of(events))
    (launch,) = trace.links.launch_of(trace.gpu_operations).tolist()
    assert (trace.name(launch), EventKind(trace.events.kind[launch])) == ("Dequeue@Conv2D", EventKind.API)
    twins = [*events, {"ph": "X", "pid": 2, "tid": 9, "name": "another program's thread", "ts": 0, "dur": 9}]
    assert opened(tmp_path, text_of(twins)).links.launch_of(trace.gpu_operations).tolist() == [-1]
    called = [*events, {"ph": "X", "pid": 5, "tid": 9, "name": "AscendCL@aclnnConv", "ts": "1.500", "dur": 1}]
    calls = opened(tmp_path, text_of(called)).events.of_kind(EventKind.API)
    assert len(calls) == 1


def test_tasks_of_ascend_that_wait_are_no_work_and_its_collectives_are_communication(tmp_path: Path) -> None:
    npu: dict[str, Any] = {"ph": "X", "pid": 8, "tid": 3}
    hccl: dict[str, Any] = {"pid": 9, "tid": 0}
    events: list[Event] = [
        {"ph": "M", "pid": 8, "name": "process_name", "args": {"name": "Ascend Hardware"}},
        {"ph": "M", "pid": 8, "tid": 3, "name": "thread_name", "args": {"name": "Stream 3"}},
        {"ph": "M", "pid": 9, "name": "process_name", "args": {"name": "HCCL"}},
        {"ph": "M", **hccl, "name": "thread_name", "args": {"name": "Group 0 Communication"}},
        {**npu, "name": "MatMulV2", "ts": "0.000", "dur": 10},
        {**npu, "name": "EVENT_WAIT", "ts": "10.000", "dur": 70},
        {**npu, "name": "Notify Wait", "ts": "80.000", "dur": 5},
        {**npu, "name": "SDMA", "ts": "85.000", "dur": 5},
        {"ph": "X", **hccl, "name": "hcom_allReduce__868_0_1", "ts": "20.000", "dur": 60},
    ]
    trace = opened(tmp_path, text_of(events))
    work = trace.gpu_operations.tolist()
    assert {trace.name(each): trace.text_attribute(Attribute.COLLECTIVE, each) for each in work} == {
        "MatMulV2": "",
        "hcom_allReduce__868_0_1": "allreduce",
    }
    assert len(trace.events.of_kind(EventKind.GPU_SYNC)) == 3
    alone = opened(tmp_path, text_of([each for each in events if each["pid"] != 9]))
    assert "SDMA" in [
        alone.name(each) for each in alone.gpu_operations.tolist()
    ]  # a copy of the program's own


@pytest.mark.parametrize(("name", "is_work"), [("NOTIFY_WAIT", False), ("Other", False), ("MatMul", True)])
def test_streams_on_which_ascend_runs_nothing_but_pieces_of_collectives_do_no_work(
    tmp_path: Path, name: str, is_work: bool
) -> None:
    names = {(8, 3): "Stream 3", (8, 11): "Stream 11", (9, 0): "Group 0 Communication"}
    task: dict[str, Any] = {"ph": "X", "pid": 8, "dur": 5}
    events: list[Event] = [
        {"ph": "M", "pid": 8, "name": "process_name", "args": {"name": "Ascend Hardware"}},
        {"ph": "M", "pid": 9, "name": "process_name", "args": {"name": "HCCL"}},
        *(
            {"ph": "M", "pid": p, "tid": t, "name": "thread_name", "args": {"name": n}}
            for (p, t), n in names.items()
        ),
        {**task, "tid": 3, "name": "MatMulV2", "ts": "0.000"},
        {**task, "tid": 3, "name": "MEMCPY_ASYNC", "ts": "6.000"},
        {"ph": "X", "pid": 9, "tid": 0, "name": "hcom_allReduce__868_0_1", "ts": "20.000", "dur": 60},
        *(
            {**task, "tid": 11, "name": each, "ts": f"{20 + 6 * place}.000"}
            for place, each in enumerate((name, "MEMCPY_ASYNC", "REDUCE_ASYNC_V2", name))
        ),
    ]
    trace = opened(tmp_path, text_of(events))
    work = [trace.name(each) for each in trace.gpu_operations.tolist()]
    assert work.count("MEMCPY_ASYNC") == (2 if is_work else 1)
    assert (name in work) is is_work


def test_timelines_of_tensorflow_count_each_kernel_once(tmp_path: Path) -> None:
    """They list every kernel under its stream, under "stream:all", and its executor's share under the job."""
    processes = {
        1: "/job:localhost/replica:0/task:0/device:GPU:0 Compute",
        2: "/device:GPU:0/stream:all Compute",
        3: "/device:GPU:0/stream:13 Compute",
        4: "/device:GPU:0/memcpy Compute",
        5: "/device:GPU:0/stream:14 Compute",
    }
    named: list[Event] = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
        for pid, name in processes.items()
    ]
    op: dict[str, Any] = {"ph": "X", "cat": "Op", "tid": 0}
    trace = opened(
        tmp_path,
        text_of(
            named
            + [{**op, "pid": 1, "name": "Conv2D", "ts": 0, "dur": 9}]
            + [{**op, "pid": pid, "name": "Conv2D", "ts": 5, "dur": 20} for pid in (2, 3)]
            + [{**op, "pid": pid, "name": "MEMCPYHtoD", "ts": 1, "dur": 2} for pid in (2, 4, 5)]
        ),
    )
    assert {trace.name(each) for each in trace.events.of_kind(EventKind.CPU_OP).tolist()} == {"Conv2D"}
    lanes = {trace.lanes[each].stream for each in trace.events.lane[trace.gpu_operations].tolist()}
    assert (len(trace.gpu_operations), lanes) == (2, {13, 14})


@pytest.mark.parametrize(
    ("process", "kernels", "counted"),
    [
        ("/job:localhost/replica:0/task:0/gpu:7 Compute", False, 3),
        ("/job:localhost/replica:0/task:0/device:GPU:0 Compute", False, 3),
        ("/job:localhost/replica:0/task:0/device:GPU:0 Compute", True, 0),
        ("/job:localhost/replica:0/task:0/cpu:0 Compute", False, 0),
    ],
)
def test_operators_of_a_gpu_without_its_kernels_are_those_that_the_cpu_started(
    tmp_path: Path, process: str, kernels: bool, counted: int
) -> None:
    names = {1: process} | ({2: "/device:GPU:0/stream:13 Compute"} if kernels else {})
    events: list[Event] = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}} for pid, name in names.items()
    ]
    for pid in names:
        events += [
            {"ph": "X", "cat": "Op", "pid": pid, "tid": 0, "name": "MatMul", "ts": 20 * number, "dur": 15}
            for number in range(3)
        ]
    trace = opened(tmp_path, text_of(events))
    assert len(trace.events.of_kind(EventKind.CPU_OP)) == 3
    assert trace.quality.operators_of_an_unrecorded_gpu == counted
    assert trace.quality.operators_lie_in_rows


def test_operators_that_call_one_another_are_not_counted_twice_on_the_gpu(tmp_path: Path) -> None:
    """The profiler states the times on the GPU of outer operators, too: as export_chrome_trace of torch 1.7 writes."""
    events: list[Event] = []
    for number in range(3):
        for depth, name in enumerate(("conv2d", "convolution", "cudnn_convolution", "relu")):
            on_cpu = {"name": name, "ph": "X", "ts": 60 * number + depth, "dur": 9 - depth, "tid": 1}
            start, took = (
                (100 * number + depth, 50 - 2 * depth) if name != "relu" else (100 * number + 50, 10)
            )
            on_gpu = {"name": name, "ph": "X", "ts": start, "dur": took, "tid": 0}
            events += [{**on_cpu, "pid": "CPU functions"}, {**on_gpu, "pid": "CUDA functions"}]
    trace = opened(tmp_path, text_of(events))
    kernels = trace.events.of_kind(EventKind.KERNEL)
    assert Counter(map(trace.name, kernels.tolist())) == {"cudnn_convolution": 3, "relu": 3}
    assert Counter(map(trace.name, trace.events.of_kind(EventKind.GPU_REGION).tolist())) == {
        "conv2d": 3,
        "convolution": 3,
    }
    assert any("include waiting for its launch" in note.reason for note in trace.quality.notes)


def test_operators_on_the_gpu_that_overlap_in_part_are_all_kept(tmp_path: Path) -> None:
    spans = [("a", 0, 10), ("b", 5, 10), ("c", 15, 0), ("d", 20, 5), ("e", 20, 5)]
    events = [
        {"name": name, "ph": "X", "ts": start, "dur": took, "tid": 0, "pid": "CUDA functions"}
        for name, start, took in spans
    ]
    trace = opened(tmp_path, text_of(events))
    kernels = {trace.name(each) for each in trace.events.of_kind(EventKind.KERNEL).tolist()}
    assert {"a", "b", "c"} <= kernels
    assert len(kernels & {"d", "e"}) == 1


@pytest.mark.parametrize(("inner_us", "works"), [(30, True), (60, False)])
def test_an_operator_has_the_work_on_the_gpu_that_those_inside_it_have_not(
    tmp_path: Path, inner_us: int, works: bool
) -> None:
    """A convolution of cuDNN calls small operators first, and launches its kernel after them."""
    events = [
        {"name": name, "ph": "X", "ts": start, "dur": took, "tid": 0, "pid": "CUDA functions"}
        for number in range(3)
        for name, start, took in (
            ("cudnn_convolution", 200 * number, 100),
            ("contiguous", 200 * number + 4, 8),
            ("empty", 200 * number + 14, inner_us),
        )
    ]
    trace = opened(tmp_path, text_of(events))
    kernels = trace.events.of_kind(EventKind.KERNEL)
    table = trace.events
    of = {
        name: [(int(table.start[each]), int(table.end[each])) for each in kernels if trace.name(each) == name]
        for name in ("cudnn_convolution", "contiguous", "empty")
    }
    assert all(len(of[name]) == 3 for name in ("contiguous", "empty"))
    assert [start for start, _ in of["cudnn_convolution"]] == [end for _, end in of["empty"]] * works
    assert [end - start for start, end in of["cudnn_convolution"]] == [(86 - inner_us) * 1000] * 3 * works
    ranges = [trace.name(each) for each in table.of_kind(EventKind.GPU_REGION).tolist()]
    assert ranges == ([] if works else ["cudnn_convolution"] * 3)


@pytest.mark.parametrize(
    ("lag_us", "told"), [(200, "GPU times include waiting for the CPU"), (500, "The GPU is")]
)
def test_times_between_events_are_judged_where_the_gpu_works_on_after_the_cpu(
    tmp_path: Path, lag_us: float, told: str
) -> None:
    """The CPU has launched everything early: the GPU had a queue, and never waited inside an operator."""
    events: list[Event] = []
    for number in range(60):
        at = 40.0 * number
        on_cpu = {"name": "aten::mm", "ph": "X", "ts": at * (1 - lag_us / 2400), "dur": 20.0, "tid": 1}
        on_gpu = {"name": "aten::mm", "ph": "X", "ts": at + 10, "dur": 39.0, "tid": 0}
        events += [{**on_cpu, "pid": "CPU functions"}, {**on_gpu, "pid": "CUDA functions"}]
    analysis = Analysis(opened(tmp_path, text_of(events)))
    diagnosis = diagnosis_of(analysis)
    assert verdict(analysis, diagnosis).startswith(told)


def test_the_autograd_profiler_of_torch_1_has_operators_and_a_stream_for_each_gpu(tmp_path: Path) -> None:
    events: list[Event] = []
    for number in range(3):
        at = 100.0 + 50.0 * number
        operator = {"name": "aten::mm", "ph": "X", "ts": at, "dur": 30.0, "tid": 1, "pid": "CPU functions"}
        kernel = {
            "name": "sgemm",
            "ph": "X",
            "ts": at + 20,
            "dur": 25.0,
            "tid": number % 2,
            "pid": "CUDA functions",
        }
        arrow = {"name": "sgemm", "ph": "f", "ts": at + 20, "tid": 0, "pid": "CUDA functions", "id": number}
        events += [operator, arrow, kernel]
    trace = opened(tmp_path, text_of(events))
    assert [trace.name(each) for each in trace.events.of_kind(EventKind.CPU_OP)] == ["aten::mm"] * 3
    assert len(trace.events.of_kind(EventKind.KERNEL)) == 3
    assert sorted(device.id for device in trace.devices) == [0, 1]


def _of_a_tpu(family: str) -> list[Event]:
    """XProf's JSON of one module on two devices: products of 300 us, sums of 20 us, and starts of copies of 5 ns."""
    events: list[Event] = [
        {"ph": "M", "pid": 9, "name": "process_name", "args": {"name": "/host:CPU"}},
        {"ph": "X", "pid": 9, "tid": 1, "name": "PjitFunction(step)", "ts": "1.000", "dur": 20},
    ]
    for number in range(2):
        of_device = {"ph": "M", "pid": number}
        events += [
            {**of_device, "name": "process_name", "args": {"name": f"/device:{family}:{number}"}},
            {**of_device, "tid": 2, "name": "thread_name", "args": {"name": "XLA Modules"}},
            {**of_device, "tid": 3, "name": "thread_name", "args": {"name": "XLA Ops"}},
            {"ph": "X", "pid": number, "tid": 2, "name": "jit_step(7)", "ts": "100.000", "dur": 12_800},
        ]
        for layer in range(40):
            at = 100 + 320 * layer
            for name, after, took in (
                ("fusion", 0, 300),
                ("all-reduce", 300, 20),
                ("copy-start", 299, 0.005),
            ):
                event = {"ph": "X", "pid": number, "tid": 3, "name": f"{name}.{layer}", "dur": took}
                events.append({**event, "ts": f"{at + after:.3f}"})
    return events


def test_a_tpu_in_json_is_judged_and_its_shortest_operations_are_no_other_unit(tmp_path: Path) -> None:
    trace = opened(tmp_path, text_of(_of_a_tpu("TPU")))
    assert [device.name for device in trace.devices] == ["TPU", "TPU"]
    assert (len(trace.gpu_operations), len(trace.collective_kernels)) == (240, 80)
    analysis = Analysis(trace)
    found = diagnosis_of(analysis)
    assert verdict(analysis, found) == "The GPU is the limit: 94 % of the time it computes"
    bound = next(each for each in found.findings if each.rule == "gpu-bound")
    assert "Where its time goes: fusion 94 %" in bound.explanation


def test_attention_and_collectives_of_a_tpu_are_known_by_numbered_names(tmp_path: Path) -> None:
    names = {"fusion": "RPA-bq_32-", "all-reduce": "psum", "copy-start": "copy_bitcast_fusion"}
    events = [
        event | {"name": ".".join((names[event["name"].partition(".")[0]], event["name"].partition(".")[2]))}
        if event["name"].partition(".")[0] in names
        else event
        for event in _of_a_tpu("TPU")
    ]
    trace = opened(tmp_path, text_of(events))
    assert len(trace.collective_kernels) == 80
    assert not (trace.events.kind == EventKind.MEMCPY).any()
    bound = next(each for each in diagnosis_of(Analysis(trace)).findings if each.rule == "gpu-bound")
    assert "Where its time goes: RPA-bq_32 94 %" in bound.explanation


def test_what_xla_s_threads_repeat_of_a_gpu_s_streams_is_no_work_of_its_own(tmp_path: Path) -> None:
    trace = opened(tmp_path, text_of(_of_a_tpu("GPU")))
    assert len(trace.gpu_operations) == 0


@pytest.mark.parametrize("has_gpu", [False, True])
def test_operators_of_tensorflow_are_work_of_a_cpu_that_has_no_gpu(has_gpu: bool, tmp_path: Path) -> None:
    events = [
        {"ph": "M", "pid": 9, "name": "process_name", "args": {"name": "/host:CPU"}},
        {"ph": "X", "pid": 9, "tid": 1, "name": "EagerKernelExecute 0", "ts": "1.000", "dur": 20},
        {"ph": "X", "pid": 9, "tid": 2, "name": "MatMul", "ts": "2.000", "dur": 9, "args": {"is_eager": "0"}},
        {"ph": "X", "pid": 9, "tid": 2, "name": "my_range", "ts": "12.000", "dur": 3},
    ]
    trace = opened(tmp_path, text_of(events + (_of_a_tpu("TPU") if has_gpu else [])))
    kinds = {
        trace.strings[name]: EventKind(kind)
        for name, kind in zip(trace.events.name.tolist(), trace.events.kind.tolist(), strict=True)
    }
    assert kinds["MatMul"] is (EventKind.REGION if has_gpu else EventKind.CPU_OP)
    assert kinds["EagerKernelExecute 0"] is EventKind.OTHER
    assert kinds["my_range"] is EventKind.REGION
    assert Attribute.IS_EAGER not in trace.attributes
