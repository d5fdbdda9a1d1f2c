"""Compiled graphs that a value read back between them breaks apart are one cause."""

from __future__ import annotations

import pytest

from rules.fixes.plan import Plan
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

GRAPH = "## Call CompiledFxGraph fabc ##"


def broken(
    graphs: int = 3,
    reader: str = "aten::is_nonzero",
    between: int = 0,
    trains: bool = True,
    graph: str = GRAPH,
    apart: float = 200.0,
) -> Plan:
    """Compiled graphs of ten kernels, each with a value of its own that is read back behind it."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _graph in range(graphs):
            trace.region(at, at + 310, graph)
            trace.kernels(at + 5, 10, 8, 30)
            at += 310 + apart / 2
            trace.op(at - 5, at + 45, reader)
            trace.copy(at + 32, at + 34, "DtoH", at, pageable=True, bytes=1, launch_us=40)
            at += 50
            trace.kernels(at, between, 5, 10)
            at += between * 10 + apart / 2
        trace.kernels(at, 25, 8, 30)
        if trains:
            trace.op(at + 2, at + 4, "autograd::engine::evaluate_function: MmBackward0")

    return plan_of_body(body, length=850 + graphs * (370 + apart + 10 * between))


def told(plan: Plan) -> dict[str, str]:
    assert plan.crashed == ()
    return {each.proposal.fix: each.proposal.title for each in plan.promises}


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, True),
        ({"graphs": 2}, True),
        ({"graphs": 1}, False),
        ({"between": 3}, True),
        ({"between": 4}, False),
        ({"reader": "aten::item"}, True),
        ({"reader": "aten::item", "trains": False}, False),
        ({"trains": False}, True),
        ({"graph": "some range"}, False),
    ],
    ids=[
        "a condition behind each graph",
        "two",
        "one value at the end",
        "a few eager kernels between",
        "more eager kernels between",
        "a value in training",
        "a value that a loop reads",
        "a condition without training",
        "nothing is compiled",
    ],
)
def test_read_backs_between_compiled_graphs(changed: dict[str, object], found: bool) -> None:
    titles = told(broken(**changed))  # type: ignore[arg-type]
    assert ("join-compiled-graphs" in titles) is found
    if found:
        count = changed.get("graphs", 3)
        operator = "aten::item" if changed.get("reader") == "aten::item" else "aten::is_nonzero"
        expected = f"Join the compiled graphs: {count} graph breaks with a read-back ({operator}) in a step"
        assert titles["join-compiled-graphs"] == expected
        assert "remove-read-backs" not in titles


def test_the_time_between_broken_graphs_is_no_work_of_its_own_and_no_graph_is_captured_over_it() -> None:
    titles = told(broken(apart=800.0))
    assert "move-host-phase" not in titles
    assert "replay-cuda-graph" not in titles
    assert "move-host-phase" in told(broken(apart=800.0, graph="some range"))
