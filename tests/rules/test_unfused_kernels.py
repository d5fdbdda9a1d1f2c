"""The finding about kernels that only move memory says what they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from rules import Finding
from rules.terms import CulpritKind
from tests.opened import diagnosed


def unfused(fixtures: Path, name: str) -> Finding:
    found = diagnosed(fixtures / name).findings
    return next(each for each in found if each.rule == "memory-bound-kernels")


def test_the_function_that_most_of_them_come_from_is_their_place(fixtures: Path) -> None:
    found = unfused(fixtures, "causes/scores.pt.trace.json.gz")
    place = found.culprit.place
    assert place is not None
    assert (place.kind, place.name) == (CulpritKind.FRAME, "words_predicted.py(75): forward")
    assert place.at is not None
    assert place.at.text == "words_predicted.py:75"
    assert "mostly in forward (words_predicted.py:75)." in found.explanation


@pytest.mark.parametrize(
    ("name", "behind"),
    [
        ("causes/topp.pt.trace.json.gz", "“multinomial” (32 %) and “softmax” (29 %)."),
        ("programs/waves.pt.trace.json.gz", "“roll” (29 %), “sub” (23 %) and “add” (22 %)."),
    ],
)
def test_without_such_a_place_the_operators_behind_them_are_told(
    fixtures: Path, name: str, behind: str
) -> None:
    found = unfused(fixtures, name)
    assert found.culprit.place is None
    assert f"By time, the operators behind them are {behind}" in found.explanation
