"""A changed constant is another number wherever it is known, and can be put back; each is read by somebody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parsers.smi import clock
from rules.catalog import cpu_item_loop
from rules.losses import cpu_loops
from rules.terms.thresholds import DEFAULTS, MIN_SHARE
from tests.mutation.changing import change
from tests.mutation.constants import Constant, constants, read_by

FACTOR = 2
LATEST_NS = clock._LATEST_NS


@pytest.fixture(scope="session")
def known() -> dict[tuple[str, str], Constant]:
    return {(each.file, each.name): each for each in constants()}


@pytest.fixture
def changed(known: dict[tuple[str, str], Constant], request: pytest.FixtureRequest) -> Iterator[Constant]:
    constant = known[request.param]
    change(constant, constant.value * FACTOR)
    yield constant
    change(constant, constant.value)


@pytest.mark.thorough
@pytest.mark.parametrize("changed", [("rules/terms/thresholds.py", "MIN_SHARE")], indirect=True)
def test_a_threshold_has_another_default(changed: Constant) -> None:
    assert DEFAULTS[MIN_SHARE] == 2 * changed.value == 0.02


@pytest.mark.thorough
@pytest.mark.parametrize("changed", [("rules/losses/cpu_loops.py", "MIN_TIMES")], indirect=True)
def test_modules_that_import_a_constant_know_the_change(changed: Constant) -> None:
    assert cpu_loops.MIN_TIMES == cpu_item_loop.MIN_TIMES == 2 * changed.value == 32


@pytest.mark.thorough
@pytest.mark.parametrize("changed", [("parsers/smi/clock.py", "NS")], indirect=True)
def test_constants_that_are_made_of_it_follow(changed: Constant) -> None:
    assert 2 * changed.value == clock.NS
    assert clock._LATEST_NS == 2 * LATEST_NS


@pytest.mark.parametrize(
    ("value", "changes"),
    [(3, (4, 2)), (4, (5, 3)), (5, (10, 2)), (0.5, (1.0, 0.25)), (1_000_000, (2_000_000, 500_000))],
)
def test_small_counts_are_changed_by_one_and_all_else_by_a_factor(
    value: float, changes: tuple[float, float]
) -> None:
    assert Constant("x.py", "X", 1, value).changes() == changes


@pytest.mark.thorough
def test_every_constant_is_read_by_somebody(known: dict[tuple[str, str], Constant]) -> None:
    assert [str(each) for each in known.values() if not read_by(each)] == []
