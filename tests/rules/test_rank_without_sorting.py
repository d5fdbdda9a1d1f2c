"""Ranks that are found by sorting twice, and what looks like it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from parsers.model import Attribute
from rules.fixes.catalog.written_out import RankWithoutSorting
from rules.fixes.plan import Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

Step = tuple[
    str, list[int], str, float
]  # an operator, the shape and the type that it is given, and its time (us)
PRODUCT, SORT, ORDER, PICK = (
    ("aten::mm", [8, 8], "float", 200.0),
    ("aten::argsort", [128, 1000], "float", 100.0),
    ("aten::argsort", [128, 1000], "long int", 100.0),
    ("aten::gather", [128, 1000], "long int", 3.0),
)


def promised(called: Sequence[Step]) -> dict[str, Promise]:
    def body(trace: TinyTrace, _: int) -> None:
        at, on_gpu = 10.0, 20.0
        for name, shape, kind, us in [*[PRODUCT] * 2, *called]:
            event = np.array([trace.op(at, at + 9, name)])
            for which, value in (
                (Attribute.INPUT_DIMS, [shape, []]),
                (Attribute.INPUT_TYPES, [kind, "Scalar"]),
            ):
                trace.builder.attribute(which, event, trace.builder.string(json.dumps(value)))
            trace.operation(max(on_gpu, at + 6), max(on_gpu, at + 6) + us, f"void {name[6:]}_kernel", at + 1)
            on_gpu = max(on_gpu, at + 6) + us
            at += 12
        trace.call(at, on_gpu + 5, "cudaDeviceSynchronize")

    made = plan_of_body(body, length=460 + sum(each[-1] for each in called))
    assert made.crashed == ()
    return {each.proposal.fix: each for each in made.promises}


@pytest.mark.parametrize(
    ("called", "found"),
    [
        ([SORT, ORDER, PICK], True),
        ([("aten::sort", *SORT[1:]), ("aten::sort", *ORDER[1:])], True),
        ([SORT, SORT, PICK], False),
        ([ORDER, ORDER, PICK], False),
        ([SORT, PICK, ORDER], False),
        ([SORT, ("aten::argsort", [1000, 128], "long int", 100.0), PICK], False),
        ([SORT, ("aten::topk", *ORDER[1:]), PICK], False),
        ([(*SORT[:3], 9.0), (*ORDER[:3], 9.0), PICK], False),
        ([(*SORT[:3], 12.0), (*ORDER[:3], 12.0), PICK], True),
    ],
    ids=[
        "one rank of each row",
        "all ranks",
        "other scores",
        "whole numbers",
        "something in between",
        "another shape",
        "the best of an order",
        "less than a twentieth of the GPU's time",
        "a twentieth",
    ],
)
def test_an_order_is_sorted_again(called: Sequence[Step], found: bool) -> None:
    assert (RankWithoutSorting.id in promised(called)) is found


def test_of_some_ranks_a_tenth_of_both_sorts_remains_and_of_all_a_tenth_of_the_second() -> None:
    sort, order = (*SORT[:3], 1000.0), (*ORDER[:3], 1000.0)
    some, every = (promised(called)[RankWithoutSorting.id] for called in ([sort, order, PICK], [sort, order]))
    assert some.expected == pytest.approx(2460 / (460 + 200), rel=0.05)
    assert every.expected == pytest.approx(2460 / (1460 + 100), rel=0.05)
