"""ROCm Profile Data databases open with their calls, operations, links, copies and monitored clocks."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Attribute, CopyKind, EventKind, LaneKind, Trace
from tests.parsers.nsys_exports import write_table

STRINGS = {
    1: "",
    2: "hipLaunchKernel",
    3: "hipMemcpyAsync",
    4: "gemm",
    5: "KernelExecution",
    6: "CopyHostToDevice",
    7: "UserMarker",
    8: "forward",
    9: "hipExtModuleLaunchKernel",
}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "run.rpd"
    connection = sqlite3.connect(path)
    write_table(connection, "rocpd_string", [{"id": key, "string": text} for key, text in STRINGS.items()])

    def call(number: int, start: int, end: int, name: int, args: int = 1) -> dict[str, int]:
        return {
            "id": number,
            "pid": 7,
            "tid": 7,
            "start": start,
            "end": end,
            "apiName_id": name,
            "args_id": args,
        }

    def operation(number: int, start: int, end: int, kind: int, description: int = 1) -> dict[str, int]:
        return {
            "id": number,
            "gpuId": 2,
            "queueId": 1,
            "start": start,
            "end": end,
            "description_id": description,
            "opType_id": kind,
        }

    calls = [call(10, 100, 110, 2), call(11, 120, 130, 3), call(12, 90, 200, 7, 8), call(13, 140, 150, 9)]
    operations = [
        operation(1, 150, 180, 5),
        operation(2, 190, 195, 6),
        operation(3, 200, 220, 5, 4),
        operation(4, 9, 3, 5),
    ]
    write_table(connection, "rocpd_api", calls)
    write_table(connection, "rocpd_op", operations)
    write_table(
        connection,
        "rocpd_api_ops",
        [{"api_id": 10, "op_id": 1}, {"api_id": 11, "op_id": 2}, {"api_id": 13, "op_id": 3}],
    )
    shape = {
        "gridX": 512,
        "gridY": 2,
        "gridZ": 1,
        "workgroupX": 256,
        "workgroupY": 1,
        "workgroupZ": 1,
        "kernelName_id": 4,
    }
    write_table(connection, "rocpd_kernelapi", [{"api_ptr_id": 10, **shape}, {"api_ptr_id": 13, **shape}])
    write_table(connection, "rocpd_copyapi", [{"api_ptr_id": 11, "size": 4096}])
    samples = [("gpu", 2, "sclk", 100, "800"), ("gpu", 2, "sclk", 150, "1700"), ("cpu", 0, "load", 1, "x")]
    columns = ("deviceType", "deviceId", "monitorType", "start", "value")
    write_table(connection, "rocpd_monitor", [dict(zip(columns, sample, strict=True)) for sample in samples])
    connection.commit()
    connection.close()
    return path


def named(trace: Trace, kind: EventKind) -> list[str]:
    return [trace.name(event) for event in trace.events.of_kind(kind)]


def test_calls_operations_and_ranges_are_told_apart(database: Path) -> None:
    trace = open_trace([database])
    assert named(trace, EventKind.API) == ["hipLaunchKernel", "hipMemcpyAsync", "hipExtModuleLaunchKernel"]
    assert named(trace, EventKind.REGION) == ["forward"]
    assert named(trace, EventKind.KERNEL) == ["gemm", "gemm"]
    assert named(trace, EventKind.MEMCPY) == ["Memcpy HtoD"]
    assert [lane.kind for lane in trace.lanes] == [LaneKind.REGION, LaneKind.CUDA_API, LaneKind.GPU_STREAM]
    assert trace.quality.quarantined == 1


def test_operations_are_linked_to_their_calls(database: Path) -> None:
    trace = open_trace([database])
    launches = trace.links.launch_of(trace.gpu_operations)
    assert [trace.name(launch) for launch in launches] == [
        "hipLaunchKernel",
        "hipMemcpyAsync",
        "hipExtModuleLaunchKernel",
    ]


def test_grids_are_in_blocks_whichever_call_stated_them(database: Path) -> None:
    trace = open_trace([database])
    kernels = trace.events.of_kind(EventKind.KERNEL)
    assert trace.attribute(Attribute.GRID, kernels).tolist() == [1024, 4]
    assert [trace.text_attribute(Attribute.GRID_SHAPE, kernel) for kernel in kernels] == ["512,2,1", "2,2,1"]
    assert trace.attribute(Attribute.BLOCK, kernels).tolist() == [256, 256]


def test_copies_have_their_size_and_direction(database: Path) -> None:
    trace = open_trace([database])
    copies = trace.events.of_kind(EventKind.MEMCPY)
    assert trace.attribute(Attribute.BYTES, copies).tolist() == [4096]
    assert trace.attribute(Attribute.COPY_KIND, copies).tolist() == [CopyKind.H2D.value]
    assert trace.arguments(int(copies[0]))["opType"] == "CopyHostToDevice"


def test_monitored_clocks_are_counters(database: Path) -> None:
    (counter,) = open_trace([database]).counters
    assert (counter.name, counter.unit, counter.value.tolist()) == ("GPU 2 sclk", "MHz", [800, 1700])


def test_monitored_values_that_are_no_numbers_are_left_out(database: Path) -> None:
    connection = sqlite3.connect(database)
    rows = [("gpu", 2, "power", 100, "N/A"), ("gpu", 2, "temp", 100, "nan"), ("gpu", 2, "sclk", 200, "inf")]
    connection.executemany(
        "INSERT INTO rocpd_monitor (deviceType, deviceId, monitorType, start, value) VALUES (?, ?, ?, ?, ?)",
        rows,
    )
    connection.commit()
    connection.close()
    assert [(each.name, each.value.tolist()) for each in open_trace([database]).counters] == [
        ("GPU 2 sclk", [800, 1700])
    ]


@pytest.mark.parametrize(
    "missing",
    [
        "rocpd_api",
        "rocpd_api_ops",
        "rocpd_kernelapi",
        "rocpd_copyapi",
        "rocpd_monitor",
        "rocpd_string",
        "rocpd_op",
    ],
)
def test_a_table_that_is_missing_costs_only_what_it_holds(database: Path, missing: str) -> None:
    connection = sqlite3.connect(database)
    connection.execute(f"DROP TABLE {missing}")
    connection.commit()
    connection.close()
    trace = open_trace([database])
    assert len(trace.events) == {"rocpd_api": 3, "rocpd_op": 4}.get(missing, 7)


def test_a_recording_equals_its_export_as_json(shared_data: Path) -> None:
    ours, theirs = (
        open_trace([shared_data / "public" / "rocm" / f"matmul_result.{suffix}"])
        for suffix in ("rpd", "json")
    )
    kernels, exported = (trace.events.of_kind(EventKind.KERNEL) for trace in (ours, theirs))
    assert len(kernels) == len(exported) == 29
    difference = np.abs(ours.events.duration[kernels] - theirs.events.duration[exported])
    assert difference.max() <= 1000, "the export has whole microseconds"
    assert len(ours.links.operation) == 85


def test_the_least_of_all_numbers_is_no_time(database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("UPDATE rocpd_op SET start = ? WHERE id = 1", (-(1 << 63),))
    connection.commit()
    connection.close()
    trace = open_trace([database])
    assert named(trace, EventKind.KERNEL) == ["gemm"]
    assert trace.quality.quarantined == 2
