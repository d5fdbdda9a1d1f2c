"""Texts that are padded far beyond the longest of their batch, and what looks like them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rules.fixes.catalog.positions import PadToLongest
from rules.fixes.plan import Plan
from tests.rules.test_fixes import plan_of_body
from tests.rules.test_written_forms import PRODUCT, Called, Program, changed

IDS, TABLE, HIDDEN = [8, 512], [1000, 64], [8, 512, 64]
NONE = Called("aten::relu", ([3, 3],))
PADDED = [
    Called("aten::pad", ([8, 128], [], [], [])),
    Called("aten::to", (IDS, [], [])),
    Called("aten::embedding", (TABLE, IDS, [], [], []), 20),
    Called("aten::linear", (HIDDEN, [64, 64], [64]), 200, PRODUCT),
    Called("aten::linear", ([8, 64], [1, 64], [1]), 30, PRODUCT),
]


def planned(called: Sequence[Called]) -> Plan:
    program = Program(called)
    return plan_of_body(program.body, length=program.length_us)


def is_found(called: Sequence[Called]) -> bool:
    replay = planned(called).replay
    return bool(list(PadToLongest().proposals(replay.analysis, replay)))


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (PADDED, True),
        (changed(PADDED, 0, name="aten::constant_pad_nd"), True),
        (changed(PADDED, 0, shapes=([8, 341], [], [], [])), True),
        (changed(PADDED, 0, shapes=([8, 342], [], [], [])), False),
        (changed(PADDED, 0, shapes=([9, 128], [], [], [])), False),
        (changed(PADDED, 0, shapes=([8, 3, 128], [], [], [])), False),
        (changed(PADDED, 0, name="aten::relu"), False),
        (changed(PADDED, 2, name="aten::linear"), False),
        ([PADDED[0], *[NONE] * 10, *PADDED[1:]], True),
        ([PADDED[0], *[NONE] * 11, *PADDED[1:]], False),
    ],
    ids=[
        "four times as long",
        "called directly",
        "1.5 times as long",
        "a little less",
        "another batch",
        "pictures",
        "not padded",
        "no ids",
        "looked up soon",
        "looked up too late",
    ],
)
def test_texts_that_are_padded_far(called: Sequence[Called], found: bool) -> None:
    assert is_found(called) is found


@pytest.mark.parametrize(("us", "found"), [(23.0, True), (22.0, False)])
def test_positions_take_a_twentieth(us: float, found: bool) -> None:
    called = [*(replace(each, us=0) for each in PADDED[:3]), replace(PADDED[3], us=us), PADDED[4]]
    assert is_found(called) is found


def test_the_part_that_holds_anything_remains() -> None:
    plan = planned([*PADDED, NONE])
    (made,) = PadToLongest().proposals(plan.replay.analysis, plan.replay)
    assert "512 positions, of which 128 can hold anything" in made.title
    left = []
    for change in (made.low, made.expected):
        assert change is not None
        left.append(float(plan.replay.overlay([change]).duration.sum() / plan.replay.steps / 1_000) - 400)
    assert left == pytest.approx([220 * 0.25**0.7 + 30, 220 / 4 + 30], rel=0.01)
