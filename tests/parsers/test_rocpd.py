"""Databases of rocprofv3 open with kernels, calls, ranges, links, copies and devices, in every layout of their rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Attribute, CopyKind, EventKind, LaneKind, Trace, TraceError
from tests.parsers.nsys_exports import write_table

GUID = "_0198c0de_1234_7abc_8def_0123456789ab"
STRINGS = (
    "",
    "HIP_RUNTIME_API",
    "hipLaunchKernel",
    "hipMemcpyAsync",
    "MARKER_CORE_RANGE_API",
    "roctxRangePushA",
    "MEMORY_COPY_HOST_TO_DEVICE",
    "KERNEL_DISPATCH",
    "MEMORY_COPY",
    "roctxMarkA",
)
MESSAGE = '{"message": "train_step"}'


class Rocpd:
    """Writes rows as the schema has them, with the times in the rows or in a table of their own."""

    def __init__(self, path: Path, times_apart: bool, suffixes: Sequence[str] = (GUID,)) -> None:
        self.path = path
        self._apart = times_apart
        with sqlite3.connect(path) as connection:
            for number, suffix in enumerate(suffixes):
                self._times: list[dict[str, Any]] = []
                self._tracks: list[dict[str, Any]] = []
                for name, rows in self._tables(1000 + number).items():
                    write_table(connection, f"rocpd_{name}{suffix}", rows)
        connection.close()

    def _placed(self, start: int, end: int, **places: int) -> dict[str, int]:
        if not self._apart:
            return {"start": start, "end": end, **places}
        self._tracks.append({"id": len(self._tracks) + 1, **places})
        for value in (start, end):
            self._times.append({"id": len(self._times) + 1, "value": value})
        last = len(self._times)
        return {"start_id": last - 1, "end_id": last, "track_id": len(self._tracks)}

    def _tables(self, pid: int) -> dict[str, list[dict[str, Any]]]:
        host = {"pid": pid, "tid": pid}
        queue = {**host, "agent_id": 4, "queue_id": 7, "stream_id": 2}
        size = {
            f"{what}_size_{axis}": value
            for what, values in (("workgroup", (64, 1, 1)), ("grid", (640, 2, 1)))
            for axis, value in zip("xyz", values, strict=True)
        }
        kernel = {"kernel_id": 5, "dispatch_id": 1, **size}
        tables: dict[str, list[dict[str, Any]]] = {
            "string": [{"id": key, "string": text} for key, text in enumerate(STRINGS, 1)],
            "info_process": [{"id": pid, "pid": pid, "command": "app", "environment": "SECRET=1"}],
            "info_thread": [{"id": pid, "tid": pid, "pid": pid}],
            "info_agent": [
                {"id": 0, "type": "CPU", "type_index": 0, "product_name": "a CPU", "extdata": "{}"},
                {
                    "id": 4,
                    "type": "GPU",
                    "type_index": 0,
                    "product_name": "AMD Instinct MI300X",
                    "extdata": '{"cu_count": 304}',
                },
                {"id": 5, "type": "GPU", "type_index": 1, "product_name": "idle", "extdata": "{}"},
            ],
            "info_kernel_symbol": [
                {
                    "id": 5,
                    "display_name": "gemm(float*)",
                    "kernel_name": "_Z4gemmPf.kd",
                    "arch_vgpr_count": 32,
                }
            ],
            "event": [
                {"id": 1, "category_id": 2, "stack_id": 11, "extdata": "{}"},
                {"id": 2, "category_id": 8, "stack_id": 11, "extdata": "{}"},
                {"id": 3, "category_id": 2, "stack_id": 12, "extdata": "{}"},
                {"id": 4, "category_id": 9, "stack_id": 12, "extdata": "{}"},
                {"id": 5, "category_id": 5, "stack_id": 13, "extdata": MESSAGE},
            ],
            "region": [
                {"id": 11, "name_id": 3, "event_id": 1, **self._placed(100, 110, **host)},
                {"id": 12, "name_id": 4, "event_id": 3, **self._placed(120, 130, **host)},
                {"id": 13, "name_id": 6, "event_id": 5, **self._placed(90, 300, **host)},
            ],
            "kernel_dispatch": [
                {"id": 1, "event_id": 2, **kernel, **self._placed(150, 180, **queue)},
                {"id": 2, "event_id": 99, **kernel, **self._placed(200, 190, **queue)},
            ],
            "memory_copy": [
                {
                    "id": 1,
                    "name_id": 7,
                    "dst_agent_id": 4,
                    "src_agent_id": 0,
                    "size": 4096,
                    "event_id": 4,
                    **self._placed(200, 210, **queue),
                }
            ],
            "memory_allocate": [{"id": 1, "size": 8}],
        }
        if self._apart:
            tables |= {"timestamp": self._times, "track": self._tracks}
        return tables


@pytest.fixture(params=[False, True], ids=["times in the rows", "times in a table"])
def trace(request: pytest.FixtureRequest, tmp_path: Path) -> Trace:
    return open_trace([Rocpd(tmp_path / "run.db", request.param).path])


def named(trace: Trace, kind: EventKind) -> list[str]:
    return [trace.name(event) for event in trace.events.of_kind(kind)]


def test_kernels_copies_calls_and_ranges_are_told_apart(trace: Trace) -> None:
    assert named(trace, EventKind.KERNEL) == ["gemm(float*)"]
    assert named(trace, EventKind.MEMCPY) == ["Memcpy HtoD"]
    assert named(trace, EventKind.API) == ["hipLaunchKernel", "hipMemcpyAsync"]
    assert named(trace, EventKind.REGION) == ["train_step"]
    assert [lane.kind for lane in trace.lanes] == [LaneKind.REGION, LaneKind.CUDA_API, LaneKind.GPU_STREAM]


def test_times_are_those_of_the_rows_and_impossible_ones_are_counted(trace: Trace) -> None:
    kernel = trace.events.of_kind(EventKind.KERNEL)
    assert (trace.events.start[kernel].tolist(), trace.events.end[kernel].tolist()) == ([60], [90])
    assert (trace.quality.events_read, trace.quality.events_kept, trace.quality.quarantined) == (6, 5, 1)


def test_operations_are_linked_to_the_calls_of_their_correlation(trace: Trace) -> None:
    launches = trace.links.launch_of(trace.gpu_operations)
    assert [trace.name(launch) for launch in launches] == ["hipLaunchKernel", "hipMemcpyAsync"]


def test_only_the_gpu_that_ran_something_is_a_device(trace: Trace) -> None:
    assert [(each.id, each.name, each.sm_count) for each in trace.devices] == [
        (0, "AMD Instinct MI300X", 304)
    ]


def test_sizes_are_in_blocks_and_copies_state_bytes_and_direction(trace: Trace) -> None:
    kernels, copies = trace.events.of_kind(EventKind.KERNEL), trace.events.of_kind(EventKind.MEMCPY)
    assert [trace.text_attribute(Attribute.GRID_SHAPE, each) for each in kernels] == ["10,2,1"]
    assert trace.attribute(Attribute.BLOCK, kernels).tolist() == [64]
    assert trace.attribute(Attribute.REGISTERS, kernels).tolist() == [32]
    assert trace.attribute(Attribute.BYTES, copies).tolist() == [4096]
    assert trace.attribute(Attribute.COPY_KIND, copies).tolist() == [CopyKind.H2D.value]


def test_a_click_shows_the_row_with_its_names(trace: Trace) -> None:
    call = int(trace.events.of_kind(EventKind.API)[0])
    assert trace.arguments(call)["name"] == "hipLaunchKernel"


def test_rows_that_nothing_shows_are_named(trace: Trace) -> None:
    assert any("rocpd_memory_allocate" in note.example for note in trace.quality.notes)


def test_the_environment_of_the_program_is_never_read(trace: Trace) -> None:
    assert not any("SECRET" in text for text in trace.strings)


def test_each_process_of_a_joined_database_is_a_rank(tmp_path: Path) -> None:
    other = GUID.replace("0198", "0199")
    trace = open_trace([Rocpd(tmp_path / "both.db", False, (GUID, other)).path])
    assert [rank.rank for rank in trace.ranks] == [0, 1]
    assert len(trace.devices) == 2
    assert np.count_nonzero(trace.links.launch_of(trace.gpu_operations) >= 0) == 4


def test_a_database_without_events_is_refused_and_not_called_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    with sqlite3.connect(path) as connection:
        write_table(connection, f"rocpd_string{GUID}", [{"id": 1, "string": ""}])
        write_table(connection, f"rocpd_info_agent{GUID}", [{"id": 1, "type": "GPU"}])
    connection.close()
    with pytest.raises(TraceError, match="no event"):
        open_trace([path])


def test_columns_of_other_types_cost_only_their_rows(tmp_path: Path) -> None:
    path = Rocpd(tmp_path / "odd.db", False).path
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE rocpd_region{GUID} SET start = 'soon', event_id = 'x' WHERE id = 12")
        connection.execute(f"UPDATE rocpd_info_agent{GUID} SET extdata = '[[', type_index = 'one'")
        connection.execute(f"UPDATE rocpd_event{GUID} SET extdata = x'80' WHERE id = 5")
    connection.close()
    trace = open_trace([path])
    assert "hipLaunchKernel" in named(trace, EventKind.API)
    assert named(trace, EventKind.REGION) == ["roctxRangePushA"]
    assert len(trace.events) == 5


def test_a_database_cut_after_its_tables_shows_what_is_left(tmp_path: Path) -> None:
    whole = Rocpd(tmp_path / "whole.db", False).path.read_bytes()
    path = tmp_path / "cut.db"
    path.write_bytes(whole[: int(len(whole) * 0.97)])
    trace = open_trace([path])
    assert trace.inputs[0].format == "rocpd"
    assert len(trace.events)
    assert "cut-off database" in [note.kind for note in trace.quality.notes]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_a_database_cut_before_its_rows_is_refused_as_damaged(tmp_path: Path, share: float) -> None:
    whole = Rocpd(tmp_path / "whole.db", True).path.read_bytes()
    path = tmp_path / "cut.db"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(TraceError, match=r"damaged|cannot be read") as refused:
        open_trace([path])
    assert refused.value.hint


@pytest.mark.parametrize("selects", [5, 400])
def test_a_view_that_joins_many_queries_is_no_damage(tmp_path: Path, selects: int) -> None:
    path = Rocpd(tmp_path / "run.db", False).path
    with sqlite3.connect(path) as connection:
        joined = " UNION ALL ".join(f'SELECT id FROM "rocpd_kernel_dispatch{GUID}"' for _ in range(selects))
        connection.execute(f"CREATE VIEW top AS {joined}")
    connection.close()
    trace = open_trace([path])
    assert named(trace, EventKind.KERNEL) == ["gemm(float*)"]
    assert all(note.kind != "cut-off database" for note in trace.quality.notes)
