"""JSON of rocprofv3 opens with kernels, copies, calls, ranges and links, however it is cut into pieces."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import json_lists, open_trace
from parsers.files.base import Source
from parsers.files.unpacking_limit import LimitedStream
from parsers.json_lists import JsonLists
from parsers.model import Attribute, CopyKind, EventKind, Progress, Trace, TraceError
from tests.examples import any_text


def handle(number: int) -> dict[str, int]:
    return {"handle": number}


def timed(start: int, end: int, correlation: int, kind: int, operation: int) -> dict[str, Any]:
    return {
        "size": 96,
        "kind": kind,
        "operation": operation,
        "thread_id": 77,
        "correlation_id": {"internal": correlation, "external": 0},
        "start_timestamp": start,
        "end_timestamp": end,
    }


def kernel(start: int, end: int, correlation: int) -> dict[str, Any]:
    info = {
        "size": 72,
        "agent_id": handle(501),
        "queue_id": handle(3),
        "kernel_id": 9,
        "workgroup_size": {"x": 64, "y": 1, "z": 1},
        "grid_size": {"x": 640, "y": 2, "z": 1},
    }
    return {**timed(start, end, correlation, 3, 2), "dispatch_info": info, "stream_id": handle(5)}


def recorded(**records: Any) -> dict[str, Any]:
    kinds = [
        {"kind": "HIP_RUNTIME_API", "operations": ["hipMalloc", "hipLaunchKernel"]},
        {"kind": "MARKER_CORE_API", "operations": ["roctxMarkA", "roctxRangePushA"]},
        {"kind": "MEMORY_COPY", "operations": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
        {"kind": "KERNEL_DISPATCH", "operations": []},
    ]
    copy = {
        **timed(300, 340, 12, 2, 1),
        "src_agent_id": handle(500),
        "dst_agent_id": handle(501),
        "bytes": 4096,
        "stream_id": handle(5),
    }
    return {
        "metadata": {"pid": 77, "command": ['a "quoted\\" ]},{ word']},
        "agents": [
            {"size": 312, "id": handle(500), "type": 1, "name": "a CPU", "caches": [{"size": 1}]},
            {
                "size": 312,
                "id": handle(501),
                "type": 2,
                "name": "gfx942",
                "product_name": "AMD Instinct MI300X",
                "logical_node_type_id": 0,
                "cu_count": 304,
            },
        ],
        "strings": {"buffer_records": kinds, "marker_api": [{"key": 10, "value": "train_step"}]},
        "kernel_symbols": [
            {"size": 88, "kernel_id": 9, "formatted_kernel_name": "gemm(float*)", "arch_vgpr_count": 32}
        ],
        "buffer_records": {
            "kernel_dispatch": [kernel(150, 180, 11), kernel(400, 390, 13)],
            "hip_api": [timed(100, 110, 11, 0, 1), timed(200, 350, 12, 0, 0)],
            "marker_api": [timed(90, 500, 10, 1, 1)],
            "memory_copy": [copy],
            "memory_allocation": [{"size": 1}],
            **records,
        },
    }


def opened(path: Path, *tools: dict[str, Any]) -> Trace:
    path.write_text(json.dumps({"rocprofiler-sdk-tool": list(tools)}))
    return open_trace([path])


def named(trace: Trace, kind: EventKind) -> list[str]:
    return [trace.name(event) for event in trace.events.of_kind(kind)]


@pytest.mark.parametrize("part_bytes", [1 << 20, 61])
def test_kernels_copies_calls_and_ranges_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    monkeypatch.setattr(json_lists, "BYTES_AT_ONCE", part_bytes)
    trace = opened(tmp_path / "results", recorded())
    assert named(trace, EventKind.KERNEL) == ["gemm(float*)"]
    assert named(trace, EventKind.MEMCPY) == ["Memcpy HtoD"]
    assert named(trace, EventKind.API) == ["hipLaunchKernel", "hipMalloc"]
    assert named(trace, EventKind.REGION) == ["train_step"]
    launches = trace.links.launch_of(trace.gpu_operations)
    assert [trace.name(each) for each in launches] == ["hipLaunchKernel", "hipMalloc"]
    assert [(each.id, each.name, each.sm_count) for each in trace.devices] == [
        (0, "AMD Instinct MI300X", 304)
    ]
    copies = trace.events.of_kind(EventKind.MEMCPY)
    assert trace.attribute(Attribute.COPY_KIND, copies).tolist() == [CopyKind.H2D.value]
    assert trace.attribute(Attribute.BYTES, copies).tolist() == [4096]
    kernels = trace.events.of_kind(EventKind.KERNEL)
    assert trace.text_attribute(Attribute.GRID_SHAPE, int(kernels[0])) == "10,2,1"
    assert (trace.quality.events_read, trace.quality.quarantined) == (6, 1)
    assert any(note.example == "memory_allocation" for note in trace.quality.notes)


def test_numbers_that_no_column_can_hold_cost_what_they_say_alone(tmp_path: Path) -> None:
    content = recorded()
    content["strings"]["marker_api"] = [{"key": 2**63, "value": "other"}, {"key": 10, "value": "train_step"}]
    content["kernel_symbols"][0]["arch_vgpr_count"] = 2**70
    content["agents"][1]["logical_node_type_id"] = -(2**70)
    trace = opened(tmp_path / "results", content)
    assert named(trace, EventKind.KERNEL) == ["gemm(float*)"]
    assert named(trace, EventKind.REGION) == ["train_step"]


def test_two_processes_keep_their_correlations_apart(tmp_path: Path) -> None:
    other = recorded(hip_api=[{**timed(1, 2, 11, 0, 0), "thread_id": 70}])
    trace = opened(tmp_path / "results", recorded(), other)
    launches = trace.links.launch_of(trace.events.of_kind(EventKind.KERNEL))
    assert sorted(trace.name(each) for each in launches) == ["hipLaunchKernel", "hipMalloc"]


def test_records_of_other_types_are_counted_and_the_rest_is_shown(tmp_path: Path) -> None:
    odd = [{"start_timestamp": "soon"}, 7, kernel(150, 180, 1 << 63), kernel(1 << 70, 1 << 71, 1)]
    trace = opened(tmp_path / "results", recorded(kernel_dispatch=odd, agents=[3], kernel_symbols="none"))
    assert named(trace, EventKind.KERNEL) == ["gemm(float*)"]
    assert trace.quality.quarantined == 3


def test_a_file_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no event"):
        opened(tmp_path / "results", {"metadata": {}, "buffer_records": {"kernel_dispatch": []}})


@pytest.mark.parametrize("left_out", [3, 200, 900])
def test_a_cut_file_shows_what_comes_before(tmp_path: Path, left_out: int) -> None:
    path = tmp_path / "cut.json.gz"
    text = json.dumps({"rocprofiler-sdk-tool": [recorded()]}).encode()
    path.write_bytes(gzip.compress(text[:-left_out]))
    trace = open_trace([path])
    assert named(trace, EventKind.KERNEL) == ["gemm(float*)"]
    assert any(note.kind == "cut" for note in trace.quality.notes)


JSON = st.recursive(
    st.none() | st.integers() | any_text(6) | st.sampled_from(['"', "\\", '\\"', "[{", "]},"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["wanted", 'a"', "\\"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=5), st.integers(1, 40))
def test_pieces_of_a_list_are_its_elements_wherever_the_file_is_cut(elements: list[Any], size: int) -> None:
    text = json.dumps({"before": '[{\\"', "wanted": elements, "after": [1]}).encode()
    source = Source(Path(__file__), b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lists, "BYTES_AT_ONCE", size)
        lists = JsonLists(LimitedStream(io.BytesIO(text), source, Progress(), ""), {"wanted"}, 2, 1)
        found = [each for piece in lists.pieces() for each in json.loads(piece.text)]
    assert found == elements
    assert lists.damage == ""


def test_a_real_file_has_every_dispatch(shared_data: Path) -> None:
    path = shared_data / "public" / "rocm" / "tracelens__rocprof__908_results.json.gz"
    if not path.exists():
        pytest.skip("needs the public recordings")
    trace = open_trace([path])
    assert len(trace.events) == 43_915
    assert (trace.quality.quarantined, len(trace.devices)) == (0, 1)
    assert int(trace.events.duration.sum()) == 4_441_741_378
