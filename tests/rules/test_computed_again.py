"""A forward pass that is computed again inside the backward pass, and what that costs besides."""

from __future__ import annotations

import pytest

from rules.fixes.forms.graph_passes import computed_again, saving_ns
from rules.fixes.plan import Plan
from tests.rules.builder import AUTOGRAD, TinyTrace
from tests.rules.test_fixes import plan_of_body, promised
from tests.rules.test_named_causes import FUNCTION, titles


def recomputed(
    again: float,
    filled: float = 0.0,
    operator: str = "aten::linear",
    before: bool = False,
    after: bool = False,
    multiplied: float = 0.5,
    saves: str = "",
    function: str = FUNCTION,
    inner: str = "",
    between: str = "",
    last: str = "",
) -> Plan:
    """A backward pass that first computes the forward pass again, for ``again`` us, of which products are a part.

    In the same function another operator runs right before that, or right behind it. ``saves`` runs between two
    operators of the forward pass, 10 us apart. ``inner`` is a function of autograd that runs inside of it, and
    ``between`` and ``last`` are operators around the next two calls.
    """

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(20):
            trace.op(5 + number * 100, 95 + number * 100, "aten::linear")
            trace.operation(20 + number * 100, 90 + number * 100, "void gemm", 10 + number * 100)
        if saves:
            trace.op(97, 103, saves)
        trace.op(2_100, 2_100 + 1_600, function, AUTOGRAD)
        if inner:
            trace.op(2_300, 2_100 + 1_599, inner, AUTOGRAD)
        if before:
            trace.op(2_101, 2_108, "aten::gather", AUTOGRAD)
            trace.operation(2_112, 2_120, "void gather", 2_102, thread=AUTOGRAD)
        if after:
            trace.op(2_205, 2_215, "aten::gather", AUTOGRAD)
            trace.operation(2_127 + again, 2_137 + again, "void gather", 2_206, thread=AUTOGRAD)
        trace.op(2_110, 2_150, operator, AUTOGRAD)
        product = 2_125 + again * multiplied
        trace.operation(2_125, product, "void gemm", 2_115, thread=AUTOGRAD)
        trace.operation(
            product, 2_125 + again, "void vectorized_elementwise_kernel<4>", 2_155, thread=AUTOGRAD
        )
        for begin, end, other in ((2_151, 2_159, between), (2_160, 2_200, last or operator)):
            if other:
                trace.op(begin, end, other, AUTOGRAD)
        trace.operation(2_125 + again, 2_126 + again, "void gemm", 2_165, thread=AUTOGRAD)
        for number in range(12):
            launch = 2_220 + number * 100
            trace.operation(
                launch + 10 + again / 10, launch + 95 + again / 10, "void gemm", launch, thread=AUTOGRAD
            )
        if filled:
            trace.counter("GPU 0 allocated memory", "B", [(1.0, filled * 80e9), (3_000.0, filled * 80e9)])

    return plan_of_body(body, length=4_000)


def test_a_forward_pass_inside_the_backward_pass_is_told_as_a_whole() -> None:
    plan = recomputed(400)
    assert titles(plan)["keep-activations"].startswith("Keep activations instead of recomputing them: 14 %")
    assert promised(plan)["keep-activations"] > 1.05


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"again": 160.0}, True),
        ({"again": 110.0}, False),
        ({"again": 400.0, "operator": "aten::mm"}, False),
        ({"again": 400.0, "operator": "aten::addmm"}, True),
        ({"again": 400.0, "filled": 0.69}, True),
        ({"again": 400.0, "filled": 0.71}, False),
    ],
    ids=[
        "five per cent",
        "less",
        "of the backward pass",
        "as in GPT-2",
        "room in memory",
        "memory is filled",
    ],
)
def test_what_counts_as_computed_again(changed: dict[str, float], found: bool) -> None:
    assert ("keep-activations" in promised(recomputed(**changed))) is found  # type: ignore[arg-type]


OWN = "autograd::engine::evaluate_function: PropagateBackward"


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"function": OWN}, False),
        ({"function": OWN + "0"}, True),
        ({"function": OWN, "inner": FUNCTION}, True),
        ({"function": OWN, "between": "aten::layer_norm", "last": "aten::gelu"}, True),
        ({"function": OWN, "between": "aten::layer_norm"}, False),
    ],
    ids=["its gradient", "of PyTorch", "with a pass of its own", "three kinds", "two kinds"],
)
def test_a_function_of_the_program_may_compute_its_gradient_with_the_forward_pass(
    changed: dict[str, object], found: bool
) -> None:
    plan = recomputed(400, operator="aten::addmm", **changed)  # type: ignore[arg-type]
    assert ("keep-activations" in promised(plan)) is found


@pytest.mark.parametrize(
    ("before", "after", "calls"), [(False, False, 3), (True, False, 4), (False, True, 3)]
)
def test_what_a_function_calls_before_its_activations_are_there_computes_them(
    before: bool, after: bool, calls: int
) -> None:
    plan = recomputed(400, before=before, after=after)
    again = computed_again(plan.replay.analysis, plan.replay)
    assert again.sum() == calls * plan.replay.steps


@pytest.mark.parametrize(
    ("after", "saves", "operator", "expected"),
    [
        (False, "", "aten::linear", [20]),
        (True, "", "aten::linear", [5]),
        (False, "_NoopSaveInputs", "aten::linear", [10, 20]),
        (False, "aten::alias", "aten::linear", [20]),
        (True, "_NoopSaveInputs", "aten::mm", []),
    ],
    ids=[
        "at its end",
        "before the next operator",
        "before it",
        "another operator",
        "nothing is computed again",
    ],
)
def test_storing_and_restoring_a_state_passes_outside_of_operators(
    after: bool, saves: str, operator: str, expected: list[float]
) -> None:
    replay = recomputed(400, after=after, saves=saves, operator=operator).replay
    took = saving_ns(replay.analysis, computed_again(replay.analysis, replay))
    assert took[took > 0].tolist() == [1_000.0 * each for each in expected] * replay.steps
