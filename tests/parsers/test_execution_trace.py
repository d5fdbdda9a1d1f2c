"""Execution traces of PyTorch: operators with who called them, alone and beside the timeline of the same steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parsers import open_trace
from parsers.model import Trace, TraceError
from rules import Finding, diagnose
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import verdict

Node = dict[str, Any]
MATRIX = "Tensor(float)"


@pytest.fixture
def recorded(fixtures: Path) -> Path:
    return fixtures / "operators"


def node(number: int, name: str, caller: int | None = 1, *inputs: tuple[Any, Any, str]) -> Node:
    """Each input with its value, its shape and its type."""
    values, shapes, types = ([each[at] for each in inputs] for at in range(3))
    return {
        "id": number,
        "name": name,
        "ctrl_deps": caller,
        "inputs": {"values": values, "shapes": shapes, "types": types, "strides": []},
        "outputs": {"values": [], "shapes": [], "types": [], "strides": []},
        "attrs": [{"name": "rf_id", "type": "uint64", "value": number}],
    }


def tensor(*shape: int, device: str = "cuda:0", of: str = MATRIX) -> tuple[Any, Any, str]:
    elements = 1
    for each in shape:
        elements *= each
    return [7, 8, 0, elements, 4, device], list(shape), of


def opened(folder: Path, *nodes: Node, tail: str = "]}") -> Trace:
    path = folder / "anything"
    head = '{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "time": "2026", "start_ts": 5, "nodes": ['
    path.write_text(head + ",\n".join(map(json.dumps, nodes)) + tail)
    return open_trace([path])


def told(trace: Trace) -> Finding:
    (finding,) = (each for each in diagnose(trace).findings if each.rule == "recorded-work")
    return finding


def test_operators_are_counted_by_shape_with_who_called_them(recorded: Path) -> None:
    operators, copies = open_trace([recorded / "execution_trace.json.gz"]).tables
    assert sum(each for each in operators.column("calls") if isinstance(each, float)) == 387
    convolution = next(row for row in operators.rows if row[0] == "aten::cudnn_convolution")
    assert convolution[1] == "aten::_convolution < aten::convolution < aten::conv2d"
    assert convolution[2] == 3
    assert json.loads(str(convolution[3]))[:3] == [[32, 3, 32, 32], [16, 3, 3, 3], []]
    assert json.loads(str(convolution[5]))[2:4] == ["[0, 0]", "[1, 1]"]
    assert copies.rows == (("cpu", "cuda", 3.0, pytest.approx(3 * 98_304 * 4 / 1e6)),)


def test_arithmetic_follows_from_shapes_and_counts_once(recorded: Path) -> None:
    """A convolution forward and one gradient, a product forward and two backward, three steps."""
    trace = open_trace([recorded / "execution_trace.json.gz"])
    convolution, product = 2 * 32 * 16 * 30 * 30 * 27, 2 * 32 * 3600 * 10
    whole = 3 * (2 * convolution + 3 * product) / 1e6
    assert f"need {whole:.0f} Mflop" in told(trace).explanation
    assert verdict(Analysis(trace), diagnose(trace)) == "44 % of all arithmetic is in aten::cudnn_convolution"


def test_beside_the_timeline_of_the_same_steps_the_rate_is_told(recorded: Path) -> None:
    paths = [recorded / "timeline.pt.trace.json.gz", recorded / "execution_trace.json.gz"]
    joined = open_trace(paths)
    assert len(joined.gpu_operations) == len(open_trace(paths[:1]).gpu_operations)
    finding = told(joined)
    assert "The timeline has the same operators" in finding.explanation
    assert not finding.cannot_tell


def test_beside_another_timeline_no_rate_is_told(recorded: Path, fixtures: Path) -> None:
    other = fixtures / "torch" / "decode_graph.pt.trace.json.gz"
    finding = told(open_trace([other, recorded / "execution_trace.json.gz"]))
    assert "The timeline has" not in finding.explanation
    assert finding.cannot_tell


def test_the_innermost_of_operators_that_call_one_another_counts(tmp_path: Path) -> None:
    product = (tensor(8, 4), tensor(4, 2))
    trace = opened(
        tmp_path,
        node(3, "aten::mm", 2, *product),
        node(2, "aten::matmul", 1, *product),
        node(4, "aten::mm", 1, *product),
    )
    assert "need 256 flop" in told(trace).explanation.replace(".00", "")


@pytest.mark.parametrize(
    ("inside", "known"), [(False, "the arithmetic that is known"), (True, "all arithmetic")]
)
def test_convolutions_of_which_too_little_was_recorded_are_not_left_out_in_silence(
    tmp_path: Path, inside: bool, known: str
) -> None:
    data = (tensor(2, 3, 8, 8), tensor(4, 3, 3, 3), tensor(4))
    numbers = ([1, 1], [], "GenericList[Int,Int]")
    nodes = [node(2, "aten::conv2d", 1, *data), node(3, "aten::mm", 1, tensor(800, 400), tensor(400, 200))]
    if inside:
        nodes.append(node(4, "aten::cudnn_convolution", 2, *data[:2], numbers, numbers, numbers))
    finding = told(opened(tmp_path, *nodes))
    assert f"of {known} is in aten::mm" in finding.title
    assert ("Not counted: 1 convolution" in finding.explanation) is not inside


def test_ranges_are_no_callers(tmp_path: Path) -> None:
    trace = opened(
        tmp_path,
        node(2, "ProfilerStep#1"),
        node(3, "aten::mm", 2, tensor(8, 4), tensor(4, 2)),
        node(5, "ProfilerStep#2"),
        node(6, "aten::mm", 5, tensor(8, 4), tensor(4, 2)),
    )
    rows = [row for row in trace.tables[0].rows if row[0] == "aten::mm"]
    assert [row[1:3] for row in rows] == [(None, 2.0)]


def test_a_trace_without_products_says_so(tmp_path: Path) -> None:
    trace = opened(tmp_path, node(2, "aten::relu", 1, tensor(8)))
    assert told(trace).title == "1 operator call without matrix products or convolutions"
    assert "1 operator call was recorded." in told(trace).explanation


def test_copies_of_several_ranks_are_told_once(recorded: Path, tmp_path: Path) -> None:
    packed = (recorded / "execution_trace.json.gz").read_bytes()
    paths = [tmp_path / f"et_{rank}.json.gz" for rank in range(2)]
    for path in paths:
        path.write_bytes(packed)
    said = told(open_trace(paths)).explanation
    assert said.count("copies from cpu to cuda moved") == 1
    assert "6 copies from cpu to cuda moved 2.36 MB." in said


def test_copies_within_one_sort_of_device_are_none(tmp_path: Path) -> None:
    copies = [
        node(2, "aten::copy_", 1, tensor(8), tensor(8, device="cuda:1")),
        node(3, "aten::copy_", 1, tensor(8, device="cpu"), tensor(8)),
    ]
    trace = opened(tmp_path, *copies)
    assert trace.tables[1].rows == (("cuda", "cpu", 1.0, 32 / 1e6),)


def test_what_comes_before_a_cut_is_counted(recorded: Path, tmp_path: Path) -> None:
    mm = node(2, "aten::mm", 1, tensor(8, 4), tensor(4, 2))
    trace = opened(tmp_path, mm, {**mm, "id": 3}, tail=',\n{"id": 4, "name": "aten::m')
    assert trace.tables[0].rows[0][2] == 2
    assert any(note.kind == "cut" for note in trace.quality.notes)


@pytest.mark.parametrize(
    "damaged", [{"id": "x"}, {"id": -1}, {"id": 2**80}, {"ctrl_deps": -7}, {"name": 5}, {"inputs": [1]}]
)
def test_nodes_that_cannot_be_read_are_counted(tmp_path: Path, damaged: Node) -> None:
    mm = node(2, "aten::mm", 1, tensor(8, 4), tensor(4, 2))
    trace = opened(tmp_path, mm, {**mm, "id": 3, **damaged})
    assert trace.tables[0].rows[0][2] == 1
    assert trace.quality.quarantined == 1


@pytest.mark.parametrize(
    "inputs",
    [
        {"values": 5, "shapes": "x", "types": None},
        {"values": [], "shapes": [[8, 4]], "types": []},
        {"values": [[1]], "shapes": [[[["deep"]]]], "types": [{"a": 1}]},
        {},
    ],
)
def test_inputs_that_say_nothing_leave_the_operator(tmp_path: Path, inputs: Node) -> None:
    trace = opened(
        tmp_path,
        {**node(2, "aten::convolution"), "inputs": inputs},
        {**node(3, "aten::copy_"), "inputs": inputs},
    )
    assert {row[0] for row in trace.tables[0].rows} == {"aten::convolution", "aten::copy_"}
    assert diagnose(trace).crashed == {}


def test_callers_in_a_circle_end(tmp_path: Path) -> None:
    trace = opened(tmp_path, node(2, "aten::a", 3), node(3, "aten::b", 2), node(4, "aten::c", 4))
    assert len(trace.tables[0].rows) == 3


def test_very_long_inputs_are_not_kept(tmp_path: Path) -> None:
    trace = opened(tmp_path, node(2, "aten::cat" + "x" * 10_000, 1, tensor(*[1] * 5_000)))
    assert all(len(str(cell)) < 5_000 for cell in trace.tables[0].rows[0])


@pytest.mark.parametrize("tail", ["]}", ""])
def test_a_trace_without_operators_is_refused_with_a_hint(tmp_path: Path, tail: str) -> None:
    with pytest.raises(TraceError) as refused:
        opened(tmp_path, node(1, "[pytorch|profiler|execution_trace|process]"), tail=tail)
    assert "unregister_callback" in refused.value.hint


@pytest.mark.parametrize("own", ["execution_trace", "execution_graph"])
def test_traces_before_schema_1_1_hold_the_same(tmp_path: Path, own: str) -> None:
    newer = [
        node(2, f"[pytorch|profiler|{own}|thread]"),
        node(4, "aten::mm", 3, tensor(8, 16), tensor(16, 4)),
        node(3, "aten::matmul", 2, tensor(8, 16), tensor(16, 4)),
        node(6, "aten::copy_", 2, tensor(10), tensor(10, device="cpu")),
    ]
    older = [
        {
            "id": each["id"],
            "name": each["name"],
            "parent": each["ctrl_deps"],
            "inputs": each["inputs"]["values"],
            "input_shapes": each["inputs"]["shapes"],
            "input_types": each["inputs"]["types"],
            "outputs": [],
        }
        for each in newer
    ]
    path = tmp_path / "older.json"
    path.write_text(json.dumps({"schema": "1.0.1", "pid": 1, "time": "2024-02-01 21:01:28", "nodes": older}))
    tables = open_trace([path]).tables
    assert tables == opened(tmp_path, *newer[1:]).tables
    assert len(tables) == 2


def test_other_json_with_a_schema_is_none(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"schema": "1.0.1", "nodes": [{"id": 1, "name": "aten::mm"}]}))
    with pytest.raises(TraceError):
        open_trace([path])
