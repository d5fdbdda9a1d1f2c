"""Where only whole graphs were recorded, they are what the GPU does, and not the few kernels beside them."""

from __future__ import annotations

import pytest

from parsers.model import EventKind
from rules import diagnose
from tests.rules.builder import TinyTrace, steps


@pytest.mark.parametrize(("graph", "named"), [(900.0, True), (20.0, False)])
def test_what_takes_the_time_is_named_whether_graph_or_kernel(graph: float, named: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(5, 5 + graph, "CUDA graph 5", 0, kind=EventKind.GRAPH, call="cudaGraphLaunch")
        trace.operation(6 + graph, 995, "advance_cells", 2, grid=1)

    (bound,) = (each for each in diagnose(steps(6, 1_000, body).build()).findings if each.rule == "gpu-bound")
    assert ("CUDA graph 5 91 %" in bound.explanation) is named
    assert ("has 1 block" in bound.explanation) is not named
