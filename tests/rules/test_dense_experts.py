"""Experts that compute all tokens though few are sent to each, and what looks like that."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from parsers.model import Attribute
from rules.fixes.catalog.dense_experts import SendTokensToExperts
from rules.fixes.plan import Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

Step = tuple[str, list[object], float]  # an operator, the shapes that it is given, and its time (us)
TOKENS, EXPERTS, WIDTH, INNER = 1024, 8, 256, 512
REST = 400.0  # us of other work in a step


def chosen(
    tokens: int = TOKENS, experts: int = EXPERTS, picked: int = 2, name: str = "aten::topk"
) -> list[Step]:
    """A router, and the best experts of each token."""
    router: Step = ("aten::linear", [[tokens, WIDTH], [experts, WIDTH]], 5.0)
    return [router, (name, [[tokens, experts]], 5.0), ("aten::softmax", [[tokens, picked]], 5.0)]


def expert(tokens: int = TOKENS, *, weighed: bool = True, inner: int = INNER) -> list[Step]:
    """One of them, and its part of the result."""
    weighs: list[Step] = [("aten::mul", [[tokens, 1], [tokens, WIDTH]], 10.0)] if weighed else []
    return [
        ("aten::linear", [[tokens, WIDTH], [inner, WIDTH]], 40.0),
        ("aten::gelu", [[tokens, inner]], 10.0),
        ("aten::linear", [[tokens, inner], [WIDTH, inner]], 40.0),
        *weighs,
        ("aten::add", [[tokens, WIDTH], [tokens, WIDTH]], 0.0),
    ]


def batched(rows: int) -> list[Step]:
    """All of them at once, each with so many rows."""
    return [
        ("aten::bmm", [[EXPERTS, rows, WIDTH], [EXPERTS, WIDTH, INNER]], 300.0),
        ("aten::bmm", [[EXPERTS, rows, INNER], [EXPERTS, INNER, WIDTH]], 300.0),
    ]


def promised(called: Sequence[Step], rest: float = REST, gradients: int = 0) -> dict[str, Promise]:
    """So many of the last operators compute the gradient of the first one."""

    def body(trace: TinyTrace, _: int) -> None:
        at, on_gpu = 10.0, 20.0
        trace.operation(20, 20 + rest, "sm90_gemm", 2)
        on_gpu += rest
        for place, (name, shapes, us) in enumerate(called):
            number = None if place else trace.op(at, at + 5, "aten::linear")
            if place >= len(called) - gradients:
                number = trace.op(at, at + 5.5, "autograd::engine::evaluate_function: AddmmBackward0")
            if number is not None:
                trace.builder.attribute(Attribute.SEQUENCE, np.array([number]), 7)
            event = np.array([trace.op(at, at + 5, name)])
            text = trace.builder.string(json.dumps(shapes))
            trace.builder.attribute(Attribute.INPUT_DIMS, event, text)
            if us:
                trace.operation(on_gpu, on_gpu + us, f"void {name[6:]}_kernel", at, launch_us=4.0)
                on_gpu += us
            at += 6
        trace.call(at, max(at, on_gpu) + 5, "cudaDeviceSynchronize")

    made = plan_of_body(body, length=40 + max(rest + sum(each[-1] for each in called), 6.0 * len(called)))
    assert made.crashed == ()
    return {each.proposal.fix: each for each in made.promises}


NORM: Step = ("aten::mul", [[TOKENS, 1], [TOKENS, WIDTH]], 10.0)
STACKED: Step = ("aten::stack", [[[TOKENS, WIDTH]] * EXPERTS], 40.0)


@pytest.mark.parametrize(
    ("called", "found"),
    [
        ([*chosen(), *expert() * EXPERTS], True),
        ([*chosen(), *expert(weighed=False) * EXPERTS, STACKED], True),
        ([*chosen(), *expert(weighed=False) * EXPERTS], False),
        ([*chosen(), *expert(weighed=False) * EXPERTS, *[NORM] * EXPERTS], False),
        ([*chosen(name="aten::argmax"), *expert() * EXPERTS], True),
        ([*chosen(name="aten::sum"), *expert() * EXPERTS], False),
        ([*chosen(picked=4), *expert() * EXPERTS], True),
        ([*chosen(picked=5), *expert() * EXPERTS], False),
        ([*chosen(), *expert(TOKENS // 4) * EXPERTS], False),
        ([*chosen(), *expert() * 6], False),
        ([*chosen(experts=4), *expert() * 4], True),
        ([*chosen(experts=3), *expert() * 3], False),
        ([*chosen(tokens=64), *expert(64) * EXPERTS], True),
        ([*chosen(tokens=63), *expert(63) * EXPERTS], False),
        ([*chosen(), *batched(TOKENS)], True),
        ([*chosen(), *batched(TOKENS // 4)], False),
        ([*chosen(picked=1), *batched(TOKENS // EXPERTS)], False),
    ],
    ids=[
        "weighed",
        "stacked",
        "neither",
        "weights that are no expert's",
        "one for each token",
        "nothing is chosen",
        "half of the pairs",
        "more than half",
        "tokens of its own",
        "fewer than there are experts",
        "4 experts",
        "3 experts",
        "64 tokens",
        "63 tokens",
        "all at once",
        "all at once with rows of their own",
        "all at once with as many rows together as tokens",
    ],
)
def test_experts_that_compute_all_tokens(called: Sequence[Step], found: bool) -> None:
    assert (SendTokensToExperts.id in promised(called)) is found


def test_a_little_more_than_the_chosen_part_remains() -> None:
    made = promised([*chosen(), *expert() * EXPERTS])[SendTokensToExperts.id]
    rest, all_tokens = REST + 15 + 40, 100.0 * EXPERTS
    part = 2 / EXPERTS
    assert made.expected == pytest.approx((rest + all_tokens) / (rest + 1.3 * part * all_tokens), rel=0.05)
    assert made.low < (rest + all_tokens) / (rest + 2 * part * all_tokens) * 1.05
    assert made.proposal.title.endswith(f"all {EXPERTS} experts, and 25 % of that is used")


def test_experts_are_then_called_at_once() -> None:
    """Of many, the calls take longer than what the GPU does."""
    called = [*chosen(experts=32), *expert() * 32]
    made = promised([(name, shapes, us / 20) for name, shapes, us in called], 20.0)[SendTokensToExperts.id]
    assert made.expected > 3.0


def test_products_of_gradients_are_no_experts() -> None:
    """There are as many of equal sizes: for the queries, the keys, the values and the output of an attention."""
    called = [*chosen(), *expert() * EXPERTS]
    assert SendTokensToExperts.id in promised(called)
    assert SendTokensToExperts.id not in promised(called, gradients=5 * EXPERTS)
