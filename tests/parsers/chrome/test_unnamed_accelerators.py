"""Traces of NPUs and by converters that name hardly anything: what ran on the accelerator, and its collectives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parsers.model import Attribute, EventKind
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import verdict
from tests.parsers.chrome.traces import Event, opened, text_of


def tasks_of_ascend(gap: float, *streams: int, moves: str = "REDUCE_ASYNC_V2") -> list[Event]:
    """A kernel, and two tasks of each channel after it that take 4 us each, so far (us) apart."""
    named = {3: "Stream 3", **{each: f"Stream {each}" for each in streams}}
    task: dict[str, Any] = {"ph": "X", "pid": 8, "dur": 4}
    return [
        {"ph": "M", "pid": 8, "name": "process_name", "args": {"name": "Ascend Hardware"}},
        *(
            {"ph": "M", "pid": 8, "tid": tid, "name": "thread_name", "args": {"name": name}}
            for tid, name in named.items()
        ),
        {**task, "tid": 3, "name": "MatMulV2", "ts": "0.000"},
        {**task, "tid": 3, "name": "EVENT_WAIT", "ts": "4.000", "dur": 900},
        *(
            each
            for stream in streams
            for each in (
                {**task, "tid": stream, "name": "NOTIFY_WAIT", "ts": "100.000"},
                {**task, "tid": stream, "name": moves, "ts": f"{104 + gap:.3f}"},
            )
        ),
    ]


@pytest.mark.parametrize(
    ("gap", "durations"), [(0.0, [4_000, 8_000]), (49.0, [4_000, 57_000]), (51.0, [4_000, 4_000])]
)
def test_tasks_of_a_collective_that_is_not_there_whole_are_communication(
    tmp_path: Path, gap: float, durations: list[int]
) -> None:
    trace = opened(tmp_path, text_of(tasks_of_ascend(gap, 11, 12)))
    work = trace.gpu_operations.tolist()
    assert [trace.events.kind[each] for each in work] == [EventKind.KERNEL] * 2, "of all channels together"
    assert [int(trace.events.end[each] - trace.events.start[each]) for each in work] == durations
    budget = Analysis(trace).budgets(0)
    assert budget.exposed_communication_ns == durations[1]
    assert budget.compute_ns == durations[0]


@pytest.mark.parametrize("task", ["Notify_Record", "Other"])
@pytest.mark.parametrize("waits", [True, False])
def test_channels_on_which_nothing_moves_hold_no_collective(tmp_path: Path, task: str, waits: bool) -> None:
    events = [each for each in tasks_of_ascend(0.0, 11, moves=task) if waits or each["name"] != "NOTIFY_WAIT"]
    trace = opened(tmp_path, text_of(events))
    assert [trace.name(each) for each in trace.gpu_operations.tolist()] == ["MatMulV2"]


@pytest.mark.parametrize(
    ("name", "kind"), [("Default/AllReduce-op534_0", "allreduce"), ("Default/ReduceSum-op5", "")]
)
def test_collectives_of_mindspore_are_communication(tmp_path: Path, name: str, kind: str) -> None:
    hccl: dict[str, Any] = {"pid": 9, "tid": 70000}
    events: list[Event] = [
        {"ph": "M", "pid": 9, "name": "process_name", "args": {"name": "HCCL"}},
        {"ph": "M", **hccl, "name": "thread_name", "args": {"name": "Communication Kernel"}},
        {"ph": "M", "pid": 9, "tid": 1, "name": "thread_name", "args": {"name": "Plane 1"}},
        {"ph": "X", **hccl, "name": name, "ts": "0.000", "dur": 90},
        {"ph": "X", "pid": 9, "tid": 1, "name": "Reduce_Inline", "ts": "0.000", "dur": 90},
    ]
    trace = opened(tmp_path, text_of(events))
    (work,) = trace.gpu_operations.tolist()
    assert trace.text_attribute(Attribute.COLLECTIVE, work) == kind
    assert trace.devices[0].name == "Ascend NPU"


def test_what_nvprof2json_calls_an_overview_is_what_the_gpu_ran(tmp_path: Path) -> None:
    gpu: dict[str, Any] = {"ph": "X", "pid": "[1:1] Overview", "cat": "cuda"}
    events: list[Event] = [
        {**gpu, "tid": "Compute", "name": "stddev(float*, int)", "ts": 10, "dur": 5},
        {**gpu, "tid": "MemCpy (HtoD)", "name": "Memcpy HtoD [sync]", "ts": 2, "dur": 5},
        {**gpu, "pid": "[1:1] Compute", "tid": "stddev", "name": "stddev(float*, int)", "ts": 10, "dur": 5},
    ]
    trace = opened(tmp_path, text_of(events))
    assert [(trace.name(each), trace.events.kind[each]) for each in trace.gpu_operations.tolist()] == [
        ("Memcpy HtoD [sync]", EventKind.MEMCPY),
        ("stddev(float*, int)", EventKind.KERNEL),
    ]
    assert [each.id for each in trace.devices] == [1]


@pytest.mark.parametrize(
    ("name", "is_work"), [("MatMul-op19", True), ("Default/net/Conv2D-op7", True), ("stream_540", False)]
)
def test_operators_that_mindspore_numbers_are_work_where_no_process_has_a_name(
    tmp_path: Path, name: str, is_work: bool
) -> None:
    events: list[Event] = [
        {"ph": "X", "pid": 1, "tid": 3, "name": name, "ts": 5, "dur": 4},
        {"ph": "X", "pid": 9, "tid": 3, "name": "GetNext", "ts": 1, "dur": 3},
    ]
    trace = opened(tmp_path, text_of(events))
    assert [trace.name(each) for each in trace.gpu_operations.tolist()] == ([name] if is_work else [])


@pytest.mark.parametrize(("process", "gpu"), [("gpu/0", True), ("cpu/0", False)])
def test_operators_of_mxnet_on_a_gpu_show_that_one_worked(tmp_path: Path, process: str, gpu: bool) -> None:
    events: list[Event] = [
        {"ph": "M", "pid": 16, "name": "process_name", "args": {"name": process}},
        *(
            {
                "ph": "X",
                "cat": "operator",
                "pid": 16,
                "tid": 3,
                "name": "Convolution",
                "ts": 10 * each,
                "dur": 9,
            }
            for each in range(30)
        ),
    ]
    trace = opened(tmp_path, text_of(events))
    assert trace.quality.operators_of_an_unrecorded_gpu == (30 if gpu else 0)
    assert verdict(Analysis(trace), diagnose(trace)).startswith("A GPU worked, and only the CPU") is gpu
