"""Compiled graphs that a value read back between them breaks apart are one cause."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model import Attribute
from rules.analysis.analysis import Analysis
from rules.fixes.backward import entering_graphs_behind
from rules.fixes.catalog.compilation import JoinCompiledGraphs
from rules.fixes.plan import Plan
from rules.replay.replay import replay_of
from tests.rules.builder import AUTOGRAD, TinyTrace, steps
from tests.rules.test_fixes import plan_of_body

GRAPH = "## Call CompiledFxGraph fabc ##"


def broken(
    graphs: int = 3,
    reader: str = "aten::is_nonzero",
    between: int = 0,
    trains: bool = True,
    graph: str = GRAPH,
    apart: float = 200.0,
    reads: int = 9,
    around: str = "",
) -> Plan:
    """Compiled graphs of ten kernels, each of the first with a value that is read back behind it."""

    def body(trace: TinyTrace, _: int) -> None:
        if around:
            trace.op(5, 400 + graphs * (350 + apart + 10 * between), around)
        at = 10.0
        for number in range(graphs):
            trace.region(at, at + 310, graph)
            trace.kernels(at + 5, 10, 8, 30)
            at += 310 + apart / 2
            if number < reads:
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
        ({"graphs": 2, "reads": 1}, False),
        ({"between": 3}, True),
        ({"between": 4}, False),
        ({"reader": "aten::item"}, True),
        ({"reader": "aten::item", "trains": False}, False),
        ({"reader": "aten::item", "trains": False, "around": "Torch-Compiled Region: 0/0"}, True),
        ({"reader": "aten::item", "trains": False, "around": "generate"}, False),
        ({"trains": False}, True),
        ({"graph": "some range"}, False),
    ],
    ids=[
        "a condition behind each graph",
        "two",
        "one value at the end",
        "one value between two",
        "a few eager kernels between",
        "more eager kernels between",
        "a value in training",
        "a value that a loop reads",
        "a value that compiled code reads",
        "a value that other code reads",
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


def trained(numbered: bool = True, layers: int = 1) -> Analysis:
    """Layers of two compiled graphs each, with a condition between the two, and the backward pass of all of them."""

    def body(trace: TinyTrace, at: float) -> None:
        at += 10.0
        for number in range(2 * layers):
            forward = trace.op(at, at + 50, "CompiledFunction")
            trace.region(at + 5, at + 45, GRAPH)
            trace.kernels(at + 10, 2, 8, 10)
            at += 60
            if number % 2 == 0:
                trace.op(at, at + 45, "aten::is_nonzero")
                trace.copy(at + 32, at + 34, "DtoH", at, pageable=True, bytes=1, launch_us=40)
                at += 50
            if numbered:
                trace.builder.attribute(Attribute.SEQUENCE, np.array([forward]), 7 + number)
        for number in reversed(range(2 * layers)):
            name = "autograd::engine::evaluate_function: CompiledFunctionBackward"
            backward = trace.op(at, at + 50, name, AUTOGRAD)
            trace.region(at + 5, at + 45, GRAPH, AUTOGRAD)
            trace.kernels(at + 10, 2, 8, 10, thread=AUTOGRAD)
            at += 60
            if numbered:
                trace.builder.attribute(Attribute.SEQUENCE, np.array([backward]), 7 + number)

    return Analysis(steps(6, 20 + layers * 300, lambda trace, _: body(trace, 0.0)).build())


@pytest.mark.parametrize(
    ("numbered", "layers", "behind", "later"),
    [(True, 2, 4, 2), (True, 3, 6, 4), (False, 2, 2, 1)],
    ids=["two layers", "three layers", "without the numbers that tell whose backward pass it is"],
)
def test_a_graph_behind_a_read_back_and_its_backward_pass_are_no_graphs_of_their_own(
    numbered: bool, layers: int, behind: int, later: int
) -> None:
    """Of those of other layers nobody knows."""
    analysis = trained(numbered, layers)
    found = entering_graphs_behind(analysis)
    assert [int(np.count_nonzero(each)) / 6 for each in found] == [behind, later]
    first_of_step = np.diff(replay_of(analysis).host.step, prepend=-1) > 0
    assert not (found[0] | found[1])[first_of_step].any()
    assert not (found[0] & found[1]).any()


def test_half_of_the_time_before_graphs_of_other_layers_is_gone() -> None:
    """Nothing at least, and all of it at most."""
    analysis = trained(layers=2)
    replay = replay_of(analysis)
    _, later = entering_graphs_behind(analysis)
    (made,) = JoinCompiledGraphs().proposals(analysis, replay)
    gaps = [
        replay.overlay([change]).gap[later].sum()
        for change in (made.low, made.expected, made.high)
        if change is not None
    ]
    assert gaps / replay.usual.gap[later].sum() == pytest.approx([1.0, 0.5, 0.0])
