"""Copies where the GPU computes enough to hide them, and where it does not: other advice."""

from __future__ import annotations

import pytest

from rules import diagnose
from tests.rules.builder import TinyTrace, steps

TOO_LITTLE = "he GPU computes too little to hide "


@pytest.mark.parametrize(("computed", "little"), [(41, False), (39, True)])
@pytest.mark.parametrize("pageable", [True, False])
@pytest.mark.parametrize("direction", ["HtoD", "DtoH"])
def test_a_stream_of_its_own_helps_only_where_something_runs_beside_it(
    direction: str, pageable: bool, computed: float, little: bool
) -> None:
    """Copies of 400 us, beside kernels of a tenth of that."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(10, 410, direction, 5, pageable=pageable)
        trace.call(7, 412, "cudaStreamSynchronize")
        trace.operation(420, 420 + computed, "kernel", 415)

    rule = "copies-to-gpu" if direction == "HtoD" else "copies-from-gpu"
    (found,) = [each for each in diagnose(steps(6, 600, body).build()).findings if each.rule == rule]
    advice = " ".join(found.advice)
    assert ("own stream" in advice) is not little
    assert (TOO_LITTLE in advice) is little
    assert ("pinned memory" in advice or "pin_memory" in advice) is pageable


@pytest.mark.parametrize(
    ("from_gpu_at", "said"),
    [(210, "no kernel runs on the GPU for 400 of"), (420, "nothing else runs on the GPU for 400 of")],
)
def test_copies_that_go_both_ways_at_once_do_not_run_alone(from_gpu_at: float, said: str) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(10, 410, "HtoD", 5)
        trace.copy(from_gpu_at, from_gpu_at + 190, "DtoH", 7, stream=9)
        trace.operation(700, 740, "kernel", 650)

    text = " ".join(
        each.explanation
        for each in diagnose(steps(6, 800, body).build()).findings
        if each.rule == "copies-to-gpu"
    )
    assert said in text
    assert ("is also copied the other way" in text) is (from_gpu_at < 410)


@pytest.mark.parametrize(("computed", "earlier"), [(41, True), (39, False)])
@pytest.mark.parametrize("direction", ["HtoD", "DtoH"])
def test_unified_memory_is_prefetched_earlier_only_where_kernels_run_that_long(
    direction: str, computed: float, earlier: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(5, 5 + computed / 2, "kernel", 1)
        trace.copy(50, 450, direction, unified=True)
        trace.operation(460, 460 + computed / 2, "kernel", 455)

    rule = "copies-to-gpu" if direction == "HtoD" else "copies-from-gpu"
    (found,) = [each for each in diagnose(steps(6, 600, body).build()).findings if each.rule == rule]
    advice = " ".join(found.advice)
    assert ("Prefetch earlier" in advice) is earlier
    assert (TOO_LITTLE in advice) is not earlier
    assert "Leave data on the GPU" in advice
