"""A forward pass that comes again in the backward pass is known by its kernels where no operators were recorded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rules.fixes.forms.graph_passes import computed_again
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body, promised

LAYER = ("void layer_norm_kernel", "gemm_tn_a", "void GeluCUDAKernel", "gemm_tn_b")
MANY = ("void layer_norm_kernel", "gemm_a", "gemm_b", "gemm_c", "gemm_d", "gemm_e", "gemm_f", "gemm_g")
GRADIENTS = ("gemm_nt_a", "void GeluBackwardCUDAKernel", "gemm_nt_b", "void layer_norm_grad_input_kernel")


def found(
    *,
    layers: int = 6,
    block: Sequence[str] = LAYER * 2,
    again: Sequence[str] | None = None,
    at_once: bool = False,
    operators: bool = False,
) -> tuple[int, bool]:
    """How many calls of a step compute something again, and whether that is told.

    In front of the gradients of each layer but the last come those of ``again``, or all of them ``at_once``.
    """
    again = block if again is None else again

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0

        def launch(names: Sequence[str]) -> None:
            nonlocal at
            for name in names:
                trace.kernels(at, 1, 9, 10, name)
                at += 10

        if operators:
            trace.op(5, 8, "aten::linear")
        launch([*block] * layers)
        for layer in range(layers):
            if layer and not at_once:
                launch(again)
            launch(GRADIENTS)
            if at_once and not layer:
                launch([*again] * layers)

    plan = plan_of_body(body, length=100 + 10 * layers * (len(block) + len(again) + len(GRADIENTS)))
    calls = computed_again(plan.replay.analysis, plan.replay)
    return round(calls.sum() / plan.replay.steps), "keep-activations" in promised(plan)


def test_what_comes_again_in_the_order_of_the_forward_pass_is_computed_again() -> None:
    calls, told = found()
    assert told
    assert calls == 5 * 8


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"again": ()}, False),
        ({"layers": 4}, True),
        ({"layers": 3, "block": MANY}, False),
        ({"again": (LAYER * 2)[:7]}, False),
        ({"again": (LAYER * 2)[::-1]}, False),
        ({"block": MANY, "again": [MANY[each] for each in (0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5)]}, True),
        ({"block": MANY, "again": [MANY[each] for each in (0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5)]}, False),
        ({"at_once": True}, False),
        ({"operators": True}, False),
        ({"block": GRADIENTS[:1] * 8, "again": GRADIENTS[:1] * 8}, False),
    ],
    ids=[
        "nothing again",
        "sixteen norms and activations",
        "three",
        "seven launches in a row",
        "in another order",
        "four at a time",
        "three at a time",
        "another micro-batch",
        "with operators",
        "products alone",
    ],
)
def test_what_counts_as_computed_again_by_its_kernels(changed: dict[str, object], told: bool) -> None:
    assert found(**changed)[1] is told  # type: ignore[arg-type]
