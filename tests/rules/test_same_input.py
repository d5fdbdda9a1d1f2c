"""A part of a model that runs again for each token on the same input."""

from __future__ import annotations

import pytest

from rules.fixes.plan import Promise
from tests.rules.builder import AUTOGRAD, TinyTrace
from tests.rules.test_fixes import plan_of_body

IDS = 1024  # of a text


def promised(
    *,
    times: int = 6,
    operators: int = 16,
    products: int = 4,
    grows: bool = True,
    between: str = "",
    picked: int = 2 * IDS,
    kind: str = "long int",
    sent: int = 0,
    trained: bool = False,
) -> list[Promise]:
    """What is promised of rounds that embed a text, go through layers, and then work on what became of the last round.

    ``between`` is an operator on ``picked`` numbers of a kind, ``sent`` how many bytes go to the GPU, in each round.
    """

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0

        def op(name: str, dims: list[list[int]], dtype: str = "float", busy: float = 9.0) -> None:
            nonlocal at
            trace.shapes(trace.op(at - 1, at + 8, name), dims, [dtype] * len(dims))
            trace.kernels(at, 1, busy, 10, f"void {name.rpartition(':')[2]}_kernel")
            at += 10

        for number in range(times):
            op("aten::embedding", [[32_000, 64], [1, IDS]])
            for place in range(operators - 1):
                if place < products:
                    op("aten::linear", [[1, IDS, 64], [64, 64]])
                else:
                    op("aten::gelu", [[1, IDS, 64]])
            length = number + 1 if grows else 1
            for _place in range(4):
                op("aten::linear", [[1, length, 64], [64, 64]], busy=1.0)
            if between:
                op(between, [[picked]], kind)
            if sent:
                trace.copy(at + 5, at + 8, "HtoD", at, bytes=sent)
                at += 10
        if trained:
            trace.op(at, at + 4, "autograd::engine::evaluate_function: MmBackward0", AUTOGRAD)
            trace.kernels(at + 1, 1, 1, 2, "void gradient_kernel", thread=AUTOGRAD)

    rounds = operators + 4 + bool(between) + bool(sent)
    made = plan_of_body(body, length=120 + 10 * times * rounds).promises
    return [each for each in made if each.proposal.fix == "run-once-on-same-input"]


def test_a_text_is_encoded_once_for_all_tokens() -> None:
    (found,) = promised(times=10)
    assert (
        found.proposal.title == "Run a part of the model once: it runs 10 times in a step on the same input"
    )
    assert 2.5 < found.expected < 5.0


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, True),
        ({"times": 5}, False),
        ({"operators": 15}, False),
        ({"products": 3}, False),
        ({"grows": False}, False),
        ({"between": "aten::slice"}, False),
        ({"between": "aten::slice", "picked": IDS}, True),
        ({"between": "aten::slice", "kind": "float"}, True),
        ({"between": "aten::gelu"}, True),
        ({"sent": 8 * IDS}, False),
        ({"sent": 8}, True),
        ({"trained": True}, False),
    ],
    ids=[
        "six times",
        "five times",
        "fewer operators",
        "fewer products",
        "nothing grows",
        "another text is picked",
        "no more is picked from",
        "no text is picked",
        "nothing is picked",
        "another text is sent",
        "one value is sent",
        "a training",
    ],
)
def test_when_a_part_runs_on_the_same_input(changed: dict[str, object], found: bool) -> None:
    assert bool(promised(**changed)) is found  # type: ignore[arg-type]
