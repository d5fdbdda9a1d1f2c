"""Execution traces in Chakra's form: operators as in PyTorch's own, and how long their kernels took."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Trace, TraceError
from parsers.model.results import KERNEL_TIMES_TITLE, OPERATORS_TITLE
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import verdict
from tests.parsers.protobuf_messages import message, varint

SHAPES = (
    "[[3, 4, 0, 128, 4, 'cuda:0'], None, True]",
    "[[8, 16], [], []]",
    "['Tensor(float)', 'None', 'Bool']",
)


def stated(name: str, field: int, value: int | str) -> tuple[int, bytes]:
    return 10, message((1, name), (field, value))


def operator(number: int, name: str, caller: int, inputs: tuple[str, str, str] = SHAPES) -> bytes:
    values = message(*((at + 1, each) for at, each in enumerate(inputs)))
    return message((1, number), (2, name), (4, varint(caller)), (8, values), stated("is_cpu_op", 27, 1))


def kernel(number: int, name: str, micros: int) -> bytes:
    return message((1, number), (2, name), (7, micros), stated("is_cpu_op", 27, 0), stated("tid", 9, 7))


def written(*nodes: bytes) -> bytes:
    head = message((2, message((1, "schema"), (29, "1.0.2-chakra.0.0.4"))), (2, message((1, "pid"), (13, 9))))
    return b"".join(varint(len(each)) + each for each in (head, *nodes))


SOUND = (
    operator(2, "aten::matmul(0)", 1),
    operator(3, "aten::mm(0)", 2, ("[]", "[[8, 16], [16, 4]]", "['Tensor(float)', 'Tensor(float)']")),
    operator(4, "aten::mm(1)", 2),
    kernel(5, "gemm", 30),
    kernel(6, "gemm", 50),
    kernel(7, "reduce", 20),
)


def opened(folder: Path, content: bytes) -> Trace:
    path = folder / "anything"
    path.write_bytes(content)
    return open_trace([path])


def test_operators_are_counted_once_and_kernels_by_their_time(tmp_path: Path) -> None:
    trace = opened(tmp_path, written(*SOUND))
    tables = {table.title: table for table in trace.tables}
    rows = {row[0]: row for row in tables[OPERATORS_TITLE].rows}
    assert rows.keys() == {"aten::matmul", "aten::mm"}
    assert rows["aten::mm"][1:4] == ("aten::matmul", 1.0, "[[8,16],[16,4]]")
    assert rows["aten::matmul"][4] == '["float","",""]'
    assert tables[KERNEL_TIMES_TITLE].rows == (
        ("gemm", None, 2.0, pytest.approx(0.08), pytest.approx(80.0)),
        ("reduce", None, 1.0, pytest.approx(0.02), pytest.approx(20.0)),
    )
    assert verdict(Analysis(trace), diagnose(trace)).startswith("80 % of the kernels' time is in gemm")


def test_inputs_that_are_no_list_leave_the_operator(tmp_path: Path) -> None:
    trace = opened(tmp_path, written(operator(2, "aten::add", 1, ("[1, ", "nothing", "{}"))))
    assert [row[:4] for row in trace.tables[0].rows] == [("aten::add", None, 1.0, "[]")]


@pytest.mark.parametrize("cut", [1, 20])
def test_what_comes_before_a_cut_is_counted(tmp_path: Path, cut: int) -> None:
    trace = opened(tmp_path, written(*SOUND)[:-cut])
    assert {row[0]: row[2] for row in trace.tables[-1].rows} == {"gemm": 2.0}
    assert any(note.kind == "cut" for note in trace.quality.notes)


def test_nodes_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    trace = opened(tmp_path, written(*SOUND, b"\x0a\x7f", b"\x00"))
    assert trace.quality.quarantined == 2
    assert len(trace.tables) == 2


@pytest.mark.parametrize(
    "nodes",
    [(), (message((2, "COMP_NODE_conv1_FWD"), (3, 4), (7, 13_003)),)],  # nothing; what a simulation is to run
)
def test_a_trace_without_operators_and_kernels_is_refused_with_a_hint(
    tmp_path: Path, nodes: tuple[bytes, ...]
) -> None:
    with pytest.raises(TraceError) as refused:
        opened(tmp_path, written(*nodes))
    assert "chakra_converter" in refused.value.hint
    assert ("planned for a simulator" in refused.value.problem) is bool(nodes)
