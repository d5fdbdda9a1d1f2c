"""Constants that are built from sizes alone in each step, and what looks like them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from parsers.model import Attribute
from rules import diagnose
from rules.fixes.plan import Plan
from rules.losses.built_constants import built
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import plan_of_body, promised

T, D = 64, 32
Called = tuple[str, list[Any]]
TABLE: tuple[Called, ...] = (
    ("arange", []),
    ("unsqueeze", [[T]]),
    ("arange", []),
    ("mul", [[D]]),
    ("exp", [[D]]),
    ("mul", [[T, 1], [D]]),
    ("sin", [[T, D]]),
)
GRID: tuple[Called, ...] = (
    ("linspace", []),
    ("linspace", []),
    ("meshgrid", [[[8], [8]]]),
    ("stack", [[[8, 8], [8, 8]]]),
    ("flatten", [[2, 8, 8]]),
    ("mul", [[2, 64]]),
    ("expand", [[2, 64]]),
)


def found(called: tuple[Called, ...], shaped: bool = True, numbered: int = -1) -> int:
    """How many of these operators in a row build constants, where autograd numbers those from one place on."""
    trace = TinyTrace()
    events = np.array(
        [trace.op(20 * at, 20 * at + 10, "aten::" + name) for at, (name, _) in enumerate(called)]
    )
    for event, (_, dims) in zip(events, called, strict=True):
        if shaped:
            text = trace.builder.string(json.dumps([*dims, []]))
            trace.builder.attribute(Attribute.INPUT_DIMS, np.array([event]), text)
    if numbered >= 0:
        trace.builder.attribute(Attribute.SEQUENCE, events, (np.arange(len(events)) >= numbered).astype(int))
    made = trace.build()
    return len(built(made, np.arange(len(called))).operators)


@pytest.mark.parametrize(
    ("behind", "more"),
    [
        (("add", [[2, T, D], [T, D]]), 0),
        (("to", [[T, D]]), 1),
        (("slice", [[T, D]]), 1),
        (("embedding", [[100, D], [T]]), 0),
        (("sum", [[2, T, D]]), 0),
    ],
    ids=["added to data", "moved", "a part of it", "rows of weights", "data"],
)
def test_a_table_ends_where_something_else_is_handed_over(behind: Called, more: int) -> None:
    assert found((*TABLE, behind)) == len(TABLE) + more


def test_a_grid_is_followed_through_shapes_that_are_not_known() -> None:
    data = ("cat", [[[4, 64], [4, 2, 64]]])
    assert found((*GRID, data)) == len(GRID)


@pytest.mark.parametrize(("most", "elements"), [("slice", T * D), ("sum", T * D)])
def test_a_part_is_no_larger_than_what_it_is_of(most: str, elements: int) -> None:
    parts: tuple[Called, ...] = (*TABLE, (most, [[T, D]]))
    assert found((*parts, ("exp", [[elements]]))) == len(parts) + 1
    assert found((*parts, ("exp", [[elements + 1]]))) == len(parts)


@pytest.mark.parametrize(("elements", "more"), [(3 * T * D, 1), (3 * T * D + 1, 0)])
def test_what_is_repeated_is_several_times_as_large(elements: int, more: int) -> None:
    parts: tuple[Called, ...] = (*TABLE, ("repeat", [[T, D]]))
    assert found((*parts, ("exp", [[elements]]))) == len(parts) + more


def test_room_for_a_table_waits_for_what_is_written_in_it() -> None:
    room: tuple[Called, ...] = (("zeros", []), *TABLE, ("slice", [[T, 2 * D]]), ("copy_", [[T, D], [T, D]]))
    assert found(room) == len(TABLE) + 3


def test_nothing_is_known_without_shapes() -> None:
    assert found(TABLE, shaped=False) == 0


@pytest.mark.parametrize(("numbered", "count"), [(0, 7), (3, 3)])
def test_what_autograd_numbers_in_between_is_computed_from_weights(numbered: int, count: int) -> None:
    assert found(TABLE, numbered=numbered) == count


def test_so_many_operators_build_one_constant() -> None:
    assert found((("arange", []), *[("exp", [[T]])] * 80)) == 64


def test_twenty_thousand_that_begin_one_are_looked_at() -> None:
    apart: tuple[Called, ...] = (("arange", []), ("relu_by_hand", [[T, D]]))
    assert found(apart * 5) == 5
    assert found(apart * 20_001) == 20_000


def layers(table_us: float, in_steps: int = 1, *, sent: bool = False, count: int = 6) -> Plan:
    """Layers of 40 us on the GPU, each with a table that is built before it."""

    def body(trace: TinyTrace, index: int) -> None:
        at = on_gpu = 20.0
        for _layer in range(10):
            if index % in_steps == 0:
                trace.shapes(trace.op(at, at + 4, "aten::arange"), [[]], [""])
                trace.shapes(trace.op(at + 5, at + 9, "aten::sin"), [[T]], ["float"])
                if sent:
                    trace.copy(on_gpu, on_gpu + table_us, "HtoD", at + 6)
                else:
                    trace.operation(on_gpu, on_gpu + table_us, "sin_kernel", at + 6)
                on_gpu += table_us
            trace.shapes(trace.op(at + 10, at + 14, "aten::mm"), [[8, T], [T, T]], ["float", "float"])
            trace.operation(on_gpu, on_gpu + 40, "sm90_gemm", at + 11)
            on_gpu += 40
            at += 15
        trace.call(at + 5, on_gpu + 5, "cudaDeviceSynchronize")

    return plan_of_body(body, count, length=10 * (table_us + 40) + 100)


@pytest.mark.parametrize(("in_steps", "tells"), [(1, True), (2, False)])
def test_tables_that_a_gpu_builds_in_each_step_are_kept(in_steps: int, tells: bool) -> None:
    assert ("keep-constants" in promised(layers(20, in_steps))) is tells


def test_without_tables_the_layers_remain() -> None:
    (made,) = [each for each in layers(20).promises if each.proposal.fix == "keep-constants"]
    assert 650 / 500 <= made.expected <= 600 / 400  # the wait at the end of a step remains


@pytest.mark.parametrize(("sent", "category"), [(False, "launch-bound"), (True, "host-bound")])
def test_tables_that_the_cpu_makes_are_copied_too(sent: bool, category: str) -> None:
    (made,) = [each for each in layers(20, sent=sent).promises if each.proposal.fix == "keep-constants"]
    assert made.proposal.categories[0] == category


def test_of_one_step_nobody_knows_whether_it_builds_them_again() -> None:
    assert "keep-constants" not in promised(layers(20, count=1))


def test_a_step_without_them_says_that_they_are_not_built_in_each() -> None:
    def body(trace: TinyTrace, index: int) -> None:
        if index % 2 == 0:
            trace.shapes(trace.op(0, 3_000, "aten::eye"), [[]], [""])
        trace.op(3_000, 9_900, "aten::mm")

    rules = {each.rule for each in diagnose(steps(6, 10_000, body).build()).findings}
    assert "cpu-built-constants" not in rules
