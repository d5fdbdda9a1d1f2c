"""A forward pass that is computed again inside a CUDA graph is told by the names of its kernels."""

from __future__ import annotations

import numpy as np
import pytest

from rules.fixes.plan import Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

GEMM, NORM, BACK = "sm90_gemm", "void vectorized_layer_norm_kernel", "void layer_norm_grad_input_kernel"
FORWARD, BACKWARD, LOSS = [GEMM, NORM], [GEMM, GEMM, BACK], ["void nll_loss_backward_kernel"]


def promised(kernels: list[str]) -> list[Promise]:
    """For a training whose step is one launch of a graph of these kernels of 20 us."""

    def body(trace: TinyTrace, _: int) -> None:
        made = trace.call(5, 10, "cudaGraphLaunch")
        nodes = [
            trace.operation(12 + 20 * number, 32 + 20 * number, name, graph_node=1)
            for number, name in enumerate(kernels)
        ]
        trace.builder.link(np.array(nodes), np.full(len(nodes), made))
        at = 12.0 + 20 * len(kernels)
        for number in range(4):
            trace.operation(
                at + 5 * number, at + 5 + 5 * number, "void multi_tensor_apply_kernel", 20 + 8 * number
            )
        trace.call(60, at + 40, "cudaDeviceSynchronize")

    plan = plan_of_body(body, length=60 + 20 * len(kernels) + 40)
    assert plan.reason == ""
    assert plan.crashed == ()
    return [each for each in plan.promises if each.proposal.fix == "keep-activations"]


@pytest.mark.parametrize(
    ("kernels", "found"),
    [
        (FORWARD * 6 + LOSS + (FORWARD + BACKWARD) * 6, True),
        (FORWARD * 6 + LOSS + BACKWARD * 6, False),
        (FORWARD * 3 + LOSS + (FORWARD + BACKWARD) * 3, False),
        (FORWARD * 4 + LOSS + (FORWARD + BACKWARD) * 4, True),
        (FORWARD * 6 + LOSS + (FORWARD + BACKWARD) * 3 + BACKWARD * 3, True),
        (FORWARD * 6 + LOSS + (FORWARD + BACKWARD) * 2 + BACKWARD * 4, False),
        (FORWARD * 6 + LOSS + BACKWARD * 6 + FORWARD * 6 + LOSS + BACKWARD * 6, False),
        (FORWARD * 6 + LOSS + (FORWARD * 3 + BACKWARD * 3) * 2, True),
        (FORWARD * 6 + LOSS + BACKWARD * 2 + FORWARD * 4 + BACKWARD * 4, False),
    ],
    ids=[
        "each layer",
        "no layer",
        "three layers",
        "four layers",
        "half of them",
        "a third of them",
        "micro-batches",
        "in two parts",
        "more than half in a row",
    ],
)
def test_kernels_of_the_forward_pass_between_those_of_the_backward_pass_are_computed_again(
    kernels: list[str], found: bool
) -> None:
    assert bool(promised(kernels)) is found


def test_a_graph_becomes_shorter_by_its_forward_pass() -> None:
    (promise,) = promised(FORWARD * 6 + LOSS + (FORWARD + BACKWARD) * 6)
    whole = 100 + 20 * (12 + 1 + 30)
    assert promise.expected == pytest.approx(whole / (whole - 20 * 11), rel=0.06)
    assert "Keep activations" in promise.proposal.title
