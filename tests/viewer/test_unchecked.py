"""What was not checked is told once for each reason, by name while the names are few."""

from __future__ import annotations

import pytest

from rules import Diagnosis
from viewer.reports.unchecked import MAX_CHECKS, unchecked


def test_checks_that_lack_the_same_are_told_together() -> None:
    skipped = {"graph-breaks": "no log", "late-rank": "one rank", "compiled-again": "no log"}
    assert unchecked(Diagnosis(skipped=skipped)) == [
        ("compiled-again, graph-breaks", "no log"),
        ("late-rank", "one rank"),
    ]


@pytest.mark.parametrize(
    ("begins", "count", "told"),
    [
        ("kernel-", MAX_CHECKS - 1, "kernel-0, kernel-1"),
        ("kernel-", MAX_CHECKS, f"{MAX_CHECKS} checks of single kernels (--json names them)"),
        ("check-", MAX_CHECKS, f"{MAX_CHECKS} checks of what runs on a timeline (--json names them)"),
    ],
)
def test_many_checks_are_a_number(begins: str, count: int, told: str) -> None:
    ((checks, _),) = unchecked(Diagnosis(skipped={f"{begins}{each}": "no counters" for each in range(count)}))
    assert checks.startswith(told)
