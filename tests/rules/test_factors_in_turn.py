"""Low-rank updates that are multiplied out in each call, and what looks like it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rules.fixes.catalog.written_out import MIN_THINNER, NEAR, FactorsInTurn
from tests.rules.test_written_forms import PRODUCT, Called, Program, changed

WEIGHTS, RANK = [512, 512], 512 // MIN_THINNER
SCALED = Called("aten::mul", (WEIGHTS, []), 50)
MULTIPLIED_OUT = [
    Called("aten::matmul", ([512, RANK], [RANK, 512]), 100, PRODUCT),
    SCALED,
    Called("aten::add", (WEIGHTS, WEIGHTS, []), 50),
    Called("aten::linear", ([4, 12, 512], WEIGHTS, []), 100, PRODUCT),
]
IN_TURN = [
    Called("aten::linear", ([4, 12, 512], WEIGHTS, []), 100, PRODUCT),
    Called("aten::linear", ([4, 12, 512], [RANK, 512], []), 100, PRODUCT),
    Called("aten::linear", ([4, 12, RANK], [512, RANK], []), 100, PRODUCT),
    Called("aten::add", ([4, 12, 512], [4, 12, 512], []), 50),
]


def is_found(called: Sequence[Called]) -> bool:
    return FactorsInTurn.id in Program(called).promises()


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (MULTIPLIED_OUT, True),
        (changed(MULTIPLIED_OUT, 3, name="aten::mm", shapes=([48, 512], WEIGHTS)), True),
        (changed(MULTIPLIED_OUT, 0, shapes=([512, RANK + 1], [RANK + 1, 512])), False),
        (changed(MULTIPLIED_OUT, 3, shapes=([512, 512], WEIGHTS, [])), False),
        (changed(MULTIPLIED_OUT, 3, shapes=([RANK, 512], WEIGHTS, [])), False),
        (changed(MULTIPLIED_OUT, 3, shapes=([4, 12, 512], [256, 512], [])), False),
        (changed(MULTIPLIED_OUT, 0, name="aten::bmm"), False),
        (IN_TURN, False),
        ([*MULTIPLIED_OUT[:1], *[SCALED] * NEAR, MULTIPLIED_OUT[3]], True),
        ([*MULTIPLIED_OUT[:1], *[SCALED] * (NEAR + 1), MULTIPLIED_OUT[3]], False),
        ([*MULTIPLIED_OUT[:3], Called("aten::relu", ([48, 512],), 3), MULTIPLIED_OUT[3]], False),
        ([*MULTIPLIED_OUT, Called("aten::_fused_adamw_", ([WEIGHTS, [8]], [[8]]), 9)], False),
        ([*MULTIPLIED_OUT, Called("aten::_fused_adamw_", ([[512, RANK]], [[8]]), 9)], True),
        ([MULTIPLIED_OUT[0], MULTIPLIED_OUT[3]], True),
        ([changed(MULTIPLIED_OUT, 0, us=23)[0], MULTIPLIED_OUT[3]], False),
        ([changed(MULTIPLIED_OUT, 0, us=29)[0], MULTIPLIED_OUT[3]], True),
    ],
    ids=[
        "scaled and added",
        "multiplied by a matrix",
        "not thin enough",
        "as many rows as the weights have",
        "as many rows as it is thin",
        "other weights",
        "a matrix for each item",
        "one after the other",
        "as far behind as possible",
        "too far behind",
        "something else in between",
        "weights that are trained",
        "factors that are trained",
        "used at once",
        "less than a twentieth of the GPU's time",
        "a twentieth",
    ],
)
def test_a_low_rank_update_is_multiplied_out(called: Sequence[Called], found: bool) -> None:
    assert is_found(called) is found


def test_its_gradients_go_with_it_and_the_layer_stays() -> None:
    """Of 1,150 us and a pause of 100 us, two other products and the layer, in each direction, remain."""
    gradients = [
        Called("AddmmBackward0", (), 0, number=7, backward=True),
        Called("aten::mm", ([48, 512], WEIGHTS), 100, PRODUCT),
        Called("aten::mm", ([512, 48], [48, 512]), 100, PRODUCT),
        Called("aten::mul", (WEIGHTS, []), 50),
        Called("aten::mm", ([RANK, 512], WEIGHTS), 100, PRODUCT),
        Called("aten::mm", (WEIGHTS, [512, RANK]), 100, PRODUCT),
    ]
    made = Program([*MULTIPLIED_OUT, *gradients]).promises()[FactorsInTurn.id]
    assert made.expected == pytest.approx(1_250 / (600 + 7 * 4), rel=0.05)
    assert made.low < made.expected < made.high
