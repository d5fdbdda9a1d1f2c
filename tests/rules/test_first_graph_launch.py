"""The first launch of a graph comes late in any program; the GPU waits for later ones where something is wrong."""

from __future__ import annotations

import pytest

from parsers.model import EventKind
from rules import diagnose
from tests.rules.builder import TinyTrace, steps

STEP = 1_000.0


def graphs(late: tuple[int, ...], built: tuple[int, ...] = (), us: float = 200) -> set[str]:
    """Five steps of one graph each, launched while the one before runs, but in these steps so much later."""

    def body(trace: TinyTrace, index: int) -> None:
        begin = us if index in late else 4
        launch = 20 if index in late else -100
        if index in built:
            trace.call(5, 15, "cudaGraphInstantiate")
        trace.operation(0, 2, "first_kernel", -150)
        kind = EventKind.GRAPH
        trace.operation(
            begin, STEP - 1, "CUDA graph 1", launch, kind=kind, call="cudaGraphLaunch", launch_us=us
        )

    trace = TinyTrace()
    trace.shift = STEP
    found = diagnose(steps(5, STEP, body, into=trace).build()).findings
    return {each.title.partition(":")[0] for each in found if each.rule == "launching-too-slowly"}


@pytest.mark.parametrize(
    ("late", "built", "told"),
    [
        ((0,), (), False),
        ((1,), (), True),
        ((0, 1), (), True),
        ((1,), (1,), False),
        ((0, 1, 2), (1, 2), False),
    ],
    ids=["the first", "another one", "both", "a new graph's first", "each first of a new graph"],
)
def test_the_gpu_may_wait_for_the_first_launch_of_a_graph(
    late: tuple[int, ...], built: tuple[int, ...], told: bool
) -> None:
    assert graphs(late, built) == ({"CUDA graphs are launched too late"} if told else set())


@pytest.mark.parametrize(("us", "told"), [(60, True), (45, False)])
def test_what_remains_beside_the_first_launch_counts_from_one_percent_of_the_time(
    us: float, told: bool
) -> None:
    """Two launches come late, of which one is the first: half of the idle time."""
    assert bool(graphs((0, 1), us=us)) is told
