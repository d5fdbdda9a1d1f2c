"""Payloads of NVTX ranges that an export keeps as bytes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from parsers import open_trace
from parsers.model import Attribute, EventKind, Trace
from tests.parsers.nsys_exports import LOCAL, export, kernel, nvtx

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
REDUCE, BEGIN = 16777221, 16777218


def opened(tmp_path: Path, **tables: list[dict[str, Any]]) -> Trace:
    return open_trace([export(tmp_path / "run.sqlite", tables)])


def test_binary_payloads_that_nothing_describes_are_counted_as_unread(tmp_path: Path) -> None:
    rows = [nvtx(1, 2, "ncclAllReduce", binaryData=None), nvtx(3, 4, "ncclAllReduce", binaryData="0x00")]
    trace = opened(tmp_path, NVTX_EVENTS=rows)
    assert {note.kind: note.count for note in trace.quality.notes}["binary payloads"] == 1


def _schemas(**changed: object) -> dict[str, list[dict[str, Any]]]:
    """What NCCL declares about ncclAllReduce and ncclCommInitRank, as exports of 2025 hold it."""
    fields = {
        REDUCE: [
            (18, "NCCL communicator ID", None),
            (22, "Message size [bytes]", 8),
            (16777236, "Reduction", 16),
        ],
        BEGIN: [
            (18, "NCCL communicator ID", None),
            (5, "No. of ranks", 8),
            (5, "Rank", 12),
            (5, "CUDA device", 16),
        ],
    }
    schemas = [{"domainId": 1, "schemaId": schema, "payloadSize": 24} for schema in fields]
    entries = [
        {
            "domainId": 1,
            "schemaId": schema,
            "idx": place,
            "flags": None,
            "type": kind,
            "name": name,
            "offset": offset,
        }
        for schema, listed in fields.items()
        for place, (kind, name, offset) in enumerate(listed)
    ]
    for each in entries:
        each.update(changed if each["schemaId"] == REDUCE and each["idx"] == 1 else {})
    return {"NVTX_PAYLOAD_SCHEMAS": schemas * 2, "NVTX_PAYLOAD_SCHEMA_ENTRIES": entries * 2}


def _packed(schema: int, layout: str, *values: int, size: int = 24, domain: int = 1) -> bytes:
    payload = struct.pack(layout, *values).ljust(24, b"\xaa")
    return struct.pack("<QQQQ", domain, schema, size, 32) + payload


def _sizes(trace: Trace) -> list[int]:
    return sorted(
        trace.attribute(Attribute.MESSAGE_BYTES, trace.events.of_kind(EventKind.REGION), -1).tolist()
    )


def test_binary_payloads_are_read_as_their_schema_says(tmp_path: Path) -> None:
    other = LOCAL | 200 << 24
    rows = [
        nvtx(1, 2, "ncclCommInitRank", binaryData=_packed(BEGIN, "<Qiii", 77, 2, 1, 0)),
        nvtx(
            1, 2, "ncclCommInitRank", binaryData=_packed(BEGIN, "<Qiii", 77, 2, 0, 0), globalTid=other | 200
        ),
        nvtx(5, 9, "ncclAllReduce", binaryData=_packed(REDUCE, "<QQi", 77, 4096, 0)),
    ]
    kernels = [kernel(20, 30), kernel(20, 30, globalPid=other)]
    trace = opened(tmp_path, **{"NVTX_EVENTS": rows, KERNELS: kernels, **_schemas()})
    assert _sizes(trace) == [-1, -1, 4096]
    assert {lane.process: lane.rank for lane in trace.lanes} == {100: 1, 200: 0}
    assert not [note for note in trace.quality.notes if note.kind == "binary payloads"]


@pytest.mark.parametrize(
    "data",
    [
        _packed(REDUCE, "<QQ", 77, 4096)[:-1],
        _packed(REDUCE, "<QQ", 77, 4096, size=16),
        _packed(REDUCE, "<QQ", 77, 4096, domain=2),
        _packed(1, "<QQ", 77, 4096),
        b"",
        "text",
        17,
    ],
    ids=["cut", "of another size", "of another domain", "of another schema", "empty", "text", "a number"],
)
def test_bytes_that_do_not_fit_their_schema_are_not_believed(tmp_path: Path, data: object) -> None:
    trace = opened(tmp_path, NVTX_EVENTS=[nvtx(5, 9, "ncclAllReduce", binaryData=data)], **_schemas())
    assert _sizes(trace) == [-1]
    assert {note.kind: note.count for note in trace.quality.notes}["binary payloads"] == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"flags": 2},
        {"type": 19},
        {"offset": 17},
        {"offset": -8},
        {"offset": "8"},
        {"offset": None},
        {"name": None},
    ],
    ids=str,
)
def test_a_field_that_is_no_plain_number_inside_the_payload_is_left_out(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    rows = [nvtx(5, 9, "ncclAllReduce", binaryData=_packed(REDUCE, "<QQ", 77, 4096))]
    assert _sizes(opened(tmp_path, NVTX_EVENTS=rows, **_schemas(**changed))) == [-1]


def test_processes_that_declare_one_schema_differently_are_not_believed(tmp_path: Path) -> None:
    rows = [nvtx(5, 9, "ncclAllReduce", binaryData=_packed(REDUCE, "<QQ", 77, 4096))]
    tables = _schemas()
    moved = _schemas(offset=16)["NVTX_PAYLOAD_SCHEMA_ENTRIES"]
    tables["NVTX_PAYLOAD_SCHEMA_ENTRIES"] = [*tables["NVTX_PAYLOAD_SCHEMA_ENTRIES"], *moved]
    assert _sizes(opened(tmp_path, NVTX_EVENTS=rows, **tables)) == [-1]
