"""Exports of any schema open: missing tables and columns, newer versions, oddly typed values, unfinished rows."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Attribute, EventKind, LaneKind, MemoryKind, SyncKind, Trace, TraceError
from tests.parsers.nsys_exports import LOCAL, PROCESS, THREAD, call, copy, export, kernel, nvtx

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
WAITS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"


def opened(tmp_path: Path, **tables: list[dict[str, object]]) -> Trace:
    return open_trace([export(tmp_path / f"run{len(list(tmp_path.iterdir()))}.sqlite", tables)])


def of_kind(trace: Trace, kind: EventKind) -> list[str]:
    return [trace.name(event) for event in trace.events.of_kind(kind)]


def test_a_kernel_is_named_placed_and_linked(tmp_path: Path) -> None:
    trace = opened(tmp_path, **{KERNELS: [kernel(100, 180, 5)], CALLS: [call(40, 60, 5)]})
    (event,) = trace.events.of_kind(EventKind.KERNEL)
    assert trace.name(event) == "void gemm<float>(float*)"
    assert (trace.events.start[event], trace.events.end[event]) == (60, 140)
    launch = int(trace.links.launch_of(np.array([event]))[0])
    assert trace.name(launch) == "cudaLaunchKernel"
    assert trace.attribute(Attribute.GRID, np.array([event]))[0] == 8
    assert trace.text_attribute(Attribute.GRID_SHAPE, event) == "4,2,1"
    assert trace.attribute(Attribute.BLOCK, np.array([event]))[0] == 128
    lane = trace.lanes[trace.events.lane[event]]
    assert (lane.kind, lane.name, lane.stream) == (LaneKind.GPU_STREAM, "GPU 0 stream 7", 7)


@pytest.mark.parametrize("suffix", ["_V2", "_V3"])
def test_a_table_with_a_version_in_its_name_is_read(tmp_path: Path, suffix: str) -> None:
    trace = opened(tmp_path, **{KERNELS + suffix: [kernel(1, 2), kernel(3, 4)]})
    assert len(trace.gpu_operations) == 2


@pytest.mark.parametrize(
    "column",
    [
        "deviceId",
        "streamId",
        "correlationId",
        "globalPid",
        "demangledName",
        "shortName",
        "gridX",
        "blockZ",
        "registersPerThread",
    ],
)
def test_a_column_that_is_missing_costs_only_what_it_holds(tmp_path: Path, column: str) -> None:
    row = kernel(10, 20, 1)
    del row[column]
    trace = opened(tmp_path, **{KERNELS: [row], CALLS: [call(1, 2, 1)]})
    assert len(trace.gpu_operations) == 1
    assert (len(trace.links.operation) == 1) == (column != "correlationId")
    assert (Attribute.GRID in trace.attributes) == (column != "gridX")


def test_a_kernel_without_a_long_name_has_its_short_one(tmp_path: Path) -> None:
    trace = opened(
        tmp_path,
        **{KERNELS: [kernel(1, 2, demangledName=None), kernel(3, 4, demangledName=None, shortName=None)]},
    )
    assert of_kind(trace, EventKind.KERNEL) == ["gemm", "(no name)"]


def test_rows_without_times_cannot_be_shown_and_are_counted(tmp_path: Path) -> None:
    timeless = {key: value for key, value in kernel(10, 20).items() if key != "start"}
    trace = opened(tmp_path, **{KERNELS: [kernel(10, 20), timeless]})
    assert (len(trace.events), trace.quality.quarantined, trace.quality.events_read) == (1, 1, 2)
    with pytest.raises(TraceError, match="no event in this recording, apart from 1 that cannot be used"):
        opened(tmp_path, **{KERNELS: [timeless]})


def test_unknown_columns_and_tables_are_no_obstacle(tmp_path: Path) -> None:
    trace = opened(
        tmp_path, **{KERNELS: [kernel(1, 2, newColumn="?")], "FUTURE_EVENTS": [{"start": 1, "x": 2}]}
    )
    assert len(trace.events) == 1
    (note,) = (note for note in trace.quality.notes if note.kind.startswith("not shown"))
    assert (note.example, note.count) == ("FUTURE_EVENTS", 1)


def test_empty_tables_are_no_obstacle(tmp_path: Path) -> None:
    empty: dict[str, list[dict[str, object]]] = {
        CALLS: [],
        "NVTX_EVENTS": [],
        "OSRT_API": [],
        "GPU_METRICS": [],
    }
    assert len(opened(tmp_path, **{KERNELS: [kernel(1, 2)]}, **empty).events) == 1
    with pytest.raises(TraceError, match="no event"):
        opened(tmp_path, **{KERNELS: []}, **empty)


def test_values_of_another_type_are_converted(tmp_path: Path) -> None:
    rows = [
        kernel(10, 20),
        kernel("30", "40"),
        kernel(50.0, 60.9, registersPerThread="many"),
        kernel(70, 80, gridX=None),
    ]
    trace = opened(tmp_path, **{KERNELS: rows})
    assert sorted((trace.events.start + 10).tolist()) == [10, 30, 50, 70]
    assert trace.quality.quarantined == 0


def test_impossible_times_are_quarantined_with_their_place(tmp_path: Path) -> None:
    rows = [
        kernel(100, 200),
        kernel(300, 250),
        kernel(0, 0),
        kernel(400, 400 + 236 * 365 * 86_400 * 10**9),
        kernel(-(1 << 63), 5),
        kernel(-(1 << 31), (1 << 63) - 1),
    ]
    trace = opened(tmp_path, **{KERNELS: rows})
    assert len(trace.events) == 1
    assert trace.quality.events_read == trace.quality.events_kept + trace.quality.quarantined == 6
    places = {note.kind: note.example for note in trace.quality.notes if note.effect.value == "quarantined"}
    assert places["ends before it starts"] == f"{KERNELS} row 2"
    assert places["time never recorded"] == f"{KERNELS} row 3"
    assert places["impossible duration"] == f"{KERNELS} row 4"
    assert places["no time"] == f"{KERNELS} row 5"


def test_correlation_numbers_are_matched_inside_their_process_only(tmp_path: Path) -> None:
    other = LOCAL | 200 << 24
    kernels = [kernel(100, 110, 7), kernel(100, 110, 7, globalPid=other, deviceId=1)]
    calls = [call(10, 20, 7), call(30, 40, 7, globalTid=other | 200)]
    trace = opened(tmp_path, **{KERNELS: kernels, CALLS: calls})
    for operation in trace.gpu_operations:
        launch = trace.links.launch_of(np.array([operation]))[0]
        assert trace.lanes[trace.events.lane[launch]].rank == trace.lanes[trace.events.lane[operation]].rank
    assert [rank.rank for rank in trace.ranks] == [0, 1]


def test_correlation_numbers_far_apart_and_zero(tmp_path: Path) -> None:
    kernels = [kernel(100, 110, 1), kernel(120, 130, 1 << 61), kernel(140, 150, 0)]
    calls = [call(10, 20, 1 << 61), call(30, 40, 1), call(50, 60, 0)]
    trace = opened(tmp_path, **{KERNELS: kernels, CALLS: calls})
    starts = trace.events.start[trace.links.launch_of(trace.gpu_operations)][:2]
    assert starts.tolist() == [20, 0]
    assert trace.links.launch_of(trace.gpu_operations)[2] == -1


def test_operations_before_their_own_launch_are_reported(tmp_path: Path) -> None:
    kernels = [kernel(100, 110, 1), kernel(120, 130, 2), kernel(140, 150, 3)]
    calls = [call(10, 20, 1), call(120, 125, 2), call(2140, 2150, 3)]
    trace = opened(tmp_path, **{KERNELS: kernels, CALLS: calls})
    (note,) = trace.quality.notes
    assert (note.kind, note.count, note.example) == ("before-launch", 1, "by up to 2.00 us")


def test_ids_of_a_negative_process_keep_their_parts(tmp_path: Path) -> None:
    prefix = -144115188075855872
    trace = opened(
        tmp_path,
        **{
            KERNELS: [kernel(1, 5, 3, globalPid=prefix | 9 << 24)],
            CALLS: [call(0, 1, 3, globalTid=prefix | 9 << 24 | 11)],
        },
    )
    assert {(lane.process, lane.thread) for lane in trace.lanes} == {(9, None), (9, 11)}
    assert len(trace.links.operation) == 1


def test_ranges_left_open_end_with_the_recording_and_are_counted(tmp_path: Path) -> None:
    rows = [nvtx(10, None, "outer"), nvtx(20, 30, "inner"), nvtx(25, None, "a mark", 34)]
    trace = opened(tmp_path, **{KERNELS: [kernel(100, 900)], "NVTX_EVENTS": rows, CALLS: [call(50, None)]})
    ends = {trace.name(event): int(trace.events.end[event]) + 10 for event in range(len(trace.events))}
    assert ends["outer"] == 900
    assert ends["cudaLaunchKernel"] == 900
    assert ends["a mark"] == 25
    assert of_kind(trace, EventKind.MARK) == ["a mark"]
    assert trace.quality.repaired == 2


def test_domains_that_were_made_long_before_do_not_stretch_the_trace(tmp_path: Path) -> None:
    rows = [nvtx(-2_000_000_000, None, "NCCL", 75, domainId=1), nvtx(50, 60, "ncclAllReduce", domainId=1)]
    trace = opened(tmp_path, NVTX_EVENTS=rows)
    assert trace.duration == 10
    assert trace.text_attribute(Attribute.NVTX_DOMAIN, 0) == "NCCL"
    assert trace.text_attribute(Attribute.COLLECTIVE, 0) == "allreduce"


def test_names_come_from_the_text_or_else_from_the_string_table(tmp_path: Path) -> None:
    rows = [nvtx(1, 2, "spelled"), nvtx(3, 4, None, textId=2), nvtx(5, 6, None, textId=404), nvtx(7, 8, None)]
    trace = opened(tmp_path, NVTX_EVENTS=rows)
    assert of_kind(trace, EventKind.REGION) == ["spelled", "gemm", "(string 404)", "(no name)"]


def test_ranges_of_pyprof_are_named_after_the_function_or_the_line_they_are_about(tmp_path: Path) -> None:
    calls = [
        "{'mod': 'torch.nn.functional', 'op': 'conv2d', 'args': [{'name': '', 'shape': (1, 3)}]}",
        "{'traceMarker': ['train.py:34', '/opt/torch/module.py:7'], 'funcStack': '/main'}",
        "{'mod': 'odd",
    ]
    trace = opened(tmp_path, NVTX_EVENTS=[nvtx(at, at + 9, text) for at, text in enumerate(calls)])
    assert of_kind(trace, EventKind.REGION) == ["torch.nn.functional.conv2d", "train.py:34", "{'mod': 'odd"]


def test_operators_of_emit_nvtx_become_operators_with_shapes(tmp_path: Path) -> None:
    rows = [
        nvtx(0, 100, "forward"),
        nvtx(1, 9, "aten::mul, seq = 12, op_id = 7, sizes = [[2, 3], []], input_op_ids = [(1,0)]"),
        nvtx(10, 19, "aten::add, op_id = 8"),
        nvtx(20, 29, "text, with a comma"),
        nvtx(30, 35, "aten::relu"),
        nvtx(40, 45, "nccl:all_reduce, op_id = 9"),
    ]
    trace = opened(tmp_path, NVTX_EVENTS=rows)
    operators = trace.events.of_kind(EventKind.CPU_OP)
    assert [trace.name(event) for event in operators] == ["aten::mul", "aten::add", "aten::relu"]
    assert trace.attribute(Attribute.SEQUENCE, operators, -1).tolist() == [12, -1, -1]
    assert trace.text_attribute(Attribute.INPUT_DIMS, operators[0]) == "[[2, 3], []]"
    assert of_kind(trace, EventKind.REGION) == ["forward", "text, with a comma", "nccl:all_reduce"]


@pytest.mark.parametrize(
    ("ranges", "steps"),
    [
        ([(0, 10, "step_1"), (10, 20, "step_2")], 2),
        ([(0, 10, "Iteration 5"), (12, 20, "Iteration 6")], 2),
        ([(0, 10, "train_step 1"), (12, 20, "train_step 2")], 2),
        ([(0, 10, "step_1")], 0),
        ([(0, 10, "step_2"), (10, 20, "step_1")], 0),
        ([(0, 99, "epoch"), (0, 10, "step_1"), (10, 20, "step_2")], 0),
        ([(0, 10, "layer_1"), (10, 20, "layer_2")], 0),
        ([(0, 10, "decode_1"), (10, 20, "decode_2")], 0),
    ],
)
def test_only_outermost_ranges_that_count_up_are_steps(
    tmp_path: Path, ranges: list[tuple[int, int, str]], steps: int
) -> None:
    trace = opened(tmp_path, NVTX_EVENTS=[nvtx(*each) for each in ranges])
    assert len(of_kind(trace, EventKind.STEP)) == steps
    assert len(trace.events) == len(ranges)


def test_graphs_traced_as_a_whole_are_shown_and_called_opaque(tmp_path: Path) -> None:
    graph = {**kernel(100, 200, 4), "graphExecId": 12}
    trace = opened(tmp_path, **{"CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [graph], CALLS: [call(10, 20, 4)]})
    assert of_kind(trace, EventKind.GRAPH) == ["CUDA graph 12"]
    assert len(trace.links.operation) == 1
    assert trace.capture.graph_mode_opaque


def test_waits_have_a_lane_of_their_own_and_are_no_work(tmp_path: Path) -> None:
    waits = [{**kernel(5, 9), "syncType": 3}, {**kernel(5, 9), "syncType": 2, "streamId": 0xFFFFFFFF}]
    trace = opened(tmp_path, **{KERNELS: [kernel(1, 20)], WAITS: waits})
    assert len(trace.gpu_operations) == 1
    events = trace.events.of_kind(EventKind.GPU_SYNC)
    assert sorted(trace.attribute(Attribute.SYNC_KIND, events)) == [
        SyncKind.STREAM_WAIT_EVENT.value,
        SyncKind.STREAM.value,
    ]
    assert sorted(trace.lanes[lane].name for lane in trace.events.lane[events]) == [
        "GPU 0 stream 7 waits",
        "GPU 0 waits",
    ]


def test_kinds_of_memory_follow_the_files_own_numbers(tmp_path: Path) -> None:
    kinds = [
        {"id": 0, "name": "KIND_UNKNOWN"},
        {"id": 1, "name": "KIND_PAGEABLE"},
        {"id": 3, "name": "KIND_DEVICE"},
    ]
    trace = opened(tmp_path, **{COPIES: [copy(1, 2, srcKind=1, dstKind=3)], "ENUM_CUDA_MEM_KIND": kinds})
    assert trace.attribute(Attribute.SOURCE_MEMORY, np.array([0]))[0] == MemoryKind.PAGEABLE.value
    assert trace.name(0) == "Memcpy HtoD (Pageable -> Device)"


def test_the_first_pseudo_row_of_system_calls_is_no_call(tmp_path: Path) -> None:
    rows = [call(1, 1, eventClass=31), call(5, 9, eventClass=27)]
    trace = opened(tmp_path, OSRT_API=rows)
    assert len(of_kind(trace, EventKind.OS_RUNTIME)) == 1


def test_library_and_mpi_calls_are_shown(tmp_path: Path) -> None:
    trace = opened(
        tmp_path, CUDNN_EVENTS=[call(1, 2)], MPI_P2P_EVENTS=[{**call(3, 4), "size": 1024, "textId": 2}]
    )
    (message,) = trace.events.of_kind(EventKind.REGION)
    assert trace.attribute(Attribute.MESSAGE_BYTES, np.array([message]))[0] == 1024
    assert len(of_kind(trace, EventKind.CPU_OP)) == 1


def test_message_sizes_and_ranks_that_nccl_wrote_out_are_believed(tmp_path: Path) -> None:
    other = LOCAL | 200 << 24
    begin = '{"NCCL communicator ID": 1, "No. of ranks": 2, "Rank": %d, "CUDA device": 0}'
    rows = [
        nvtx(1, 2, "ncclCommInitRank", jsonText=begin % 1),
        nvtx(1, 2, "ncclCommInitRank", jsonText=begin % 0, globalTid=other | 200),
        nvtx(5, 9, "ncclAllReduce", jsonText='{"Message size [bytes]": 4096}'),
        nvtx(10, 11, "ncclAllReduce", jsonText="{broken"),
    ]
    kernels = [kernel(20, 30), kernel(20, 30, globalPid=other)]
    trace = opened(tmp_path, **{"NVTX_EVENTS": rows, KERNELS: kernels})
    assert {lane.process: lane.rank for lane in trace.lanes} == {100: 1, 200: 0}
    regions = trace.events.of_kind(EventKind.REGION)
    sizes = trace.attribute(Attribute.MESSAGE_BYTES, regions, -1)
    assert sorted(sizes.tolist()) == [-1, -1, -1, 4096]


def test_times_that_are_wall_clock_already_have_no_other_epoch(tmp_path: Path) -> None:
    start = 1_700_000_000_000_000_000
    tables = {
        KERNELS: [kernel(start, start + 5)],
        "META_DATA_EXPORT": [{"name": "EXPORT_PARAM_TIME_NORMALIZE", "value": "true"}],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": start}],
    }
    trace = opened(tmp_path, **tables)
    assert (trace.epoch_ns, trace.duration) == (start, 5)


def test_gpu_numbers_are_those_of_the_process(tmp_path: Path) -> None:
    tables = {
        KERNELS: [kernel(1, 2, deviceId=0)],
        "TARGET_INFO_GPU": [
            {"id": 0, "name": "wrong", "smCount": 1},
            {"id": 3, "name": "right", "smCount": 132},
        ],
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 3, "cudaId": 0, "pid": 100}],
        "GPU_METRICS": [{"timestamp": 1, "typeId": 3, "metricId": 0, "value": 50}],
        "TARGET_INFO_GPU_METRICS": [{"typeId": 3, "metricId": 0, "metricName": "SM Active"}],
    }
    trace = opened(tmp_path, **tables)
    assert [(device.id, device.name, device.sm_count) for device in trace.devices] == [(0, "right", 132)]
    assert [(counter.name, counter.device) for counter in trace.counters] == [("GPU 0 SM active", 0)]


def test_metrics_that_older_exports_kept_as_json_become_counters(tmp_path: Path) -> None:
    rows = [
        {
            "timestamp": 10,
            "typeId": 256,
            "data": '{"SM Active": "50", "GPC Clock Frequency": 1500000000, "name": "x"}',
        },
        {"timestamp": 20, "typeId": 256, "data": '{"SM Active": "60"}'},
        {"timestamp": 30, "typeId": 999, "data": "not json"},
    ]
    trace = opened(tmp_path, GENERIC_EVENTS=rows, ANALYSIS_DETAILS=[{"start": 0}])
    counters = {(counter.name, counter.unit): counter.value.tolist() for counter in trace.counters}
    assert counters == {("GPU 0 SM active", "%"): [50, 60], ("GPU 0 GPC clock frequency", "MHz"): [1500]}
    assert [note.count for note in trace.quality.notes if note.kind == "not shown: GENERIC_EVENTS"] == [1]


def test_network_adapters_become_counters(tmp_path: Path) -> None:
    tables = {
        "NET_NIC_METRIC": [
            {"start": 5, "end": 9, "globalId": 7, "metricsListId": 1, "metricsIdx": 0, "value": 300}
        ],
        "TARGET_INFO_NETWORK_METRICS": [
            {"metricsListId": 1, "metricsIdx": 0, "name": "Bytes sent", "unit": "B/s"}
        ],
        "TARGET_INFO_NIC_INFO": [{"nicId": 2, "name": "mlx5_0"}],
        "NIC_ID_MAP": [{"nicId": 2, "globalId": 7}],
    }
    (counter,) = opened(tmp_path, **tables).counters
    assert (counter.name, counter.unit, counter.value.tolist()) == ("NIC mlx5_0 Bytes sent", "B/s", [300])


def test_ranks_that_mpi_states_are_believed(tmp_path: Path) -> None:
    other = LOCAL | 200 << 24
    tables = {
        KERNELS: [kernel(1, 2), kernel(1, 2, globalPid=other)],
        "MPI_RANKS": [{"globalTid": THREAD, "rank": 5}, {"globalTid": other | 3, "rank": 4}],
    }
    trace = opened(tmp_path, **tables)
    assert {lane.process: lane.rank for lane in trace.lanes} == {100: 5, 200: 4}


def test_thirty_thousand_names_are_looked_up(tmp_path: Path) -> None:
    strings = {number: f"kernel {number}" for number in range(30_000)}
    rows = [kernel(number * 10 + 1, number * 10 + 5, demangledName=number) for number in range(30_000)]
    trace = open_trace([export(tmp_path / "run.sqlite", {KERNELS: rows}, strings)])
    assert trace.name(29_999) == "kernel 29999"


def test_a_large_table_is_read_in_stretches_in_order(tmp_path: Path) -> None:
    rows = [kernel(number * 10 + 1, number * 10 + 5, number + 1) for number in range(150_000)]
    path = export(tmp_path / "run.sqlite", {KERNELS: rows})
    connection = sqlite3.connect(path)
    connection.execute(f"DELETE FROM {KERNELS} WHERE rowid BETWEEN 60000 AND 130000")
    connection.execute(f'UPDATE {KERNELS} SET gridX = "odd" WHERE rowid = 140000')
    connection.commit()
    connection.close()
    trace = open_trace([path])
    assert len(trace.events) == 150_000 - 70_001
    assert trace.events.start[0] == 0
    assert (np.diff(trace.events.start) > 0).all()
    assert trace.arguments(len(trace.events) - 1)["correlationId"] == 150_000


def test_rows_far_apart_are_found_at_once(tmp_path: Path) -> None:
    path = export(tmp_path / "run.sqlite", {KERNELS: [kernel(1, 2), kernel(3, 4), kernel(5, 6)]})
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE {KERNELS} SET rowid = (rowid - 2) * (1 << 62) WHERE rowid <> 2")
    connection.commit()
    connection.close()
    assert len(open_trace([path]).events) == 3


def test_threads_and_processes_have_their_names(tmp_path: Path) -> None:
    tables = {
        CALLS: [call(1, 2), call(3, 4, globalTid=PROCESS | 101)],
        "ThreadNames": [
            {"nameId": 2, "priority": 1, "globalTid": PROCESS | 101},
            {"nameId": 3, "priority": 1, "globalTid": 5},
        ],
        "PROCESSES": [
            {"globalPid": PROCESS, "pid": 100, "name": "/usr/bin/python3.12"},
            {"globalPid": 1, "pid": 1, "name": "secret"},
        ],
        "NVTX_EVENTS": [nvtx(1, None, "loader", 39, globalTid=THREAD)],
    }
    trace = opened(tmp_path, **tables)
    assert [lane.name for lane in trace.lanes] == ["loader (100) CUDA calls", "gemm (101) CUDA calls"]
    assert {lane.process_name for lane in trace.lanes} == {"python3.12"}
    assert "secret" not in str(trace.strings)
