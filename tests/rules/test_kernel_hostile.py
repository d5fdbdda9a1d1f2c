"""Counters with values that no GPU counts: every check of a launch answers or is silent, and none fails."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parsers.model import KernelProfile
from parsers.model.kernels import MetricValue
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.kernels.checks.every import evaluate
from tests.examples import one_of
from tests.opened import opened
from tests.rules.kernel_profiles import trace_of
from viewer.reports.text_report import as_text

EXTREMES: tuple[MetricValue | None, ...] = (
    None, 0, 0.0, -1, -0.5, 1, 1e-320, 1e308, -1e308, 2**63, float("nan"), float("inf"), float("-inf"), "n/a", "",
)  # fmt: skip


@pytest.fixture(scope="session")
def launches(fixtures: Path) -> list[KernelProfile]:
    """Real launches with all their counters."""
    return list(opened(fixtures / "ncu" / "kernels.raw.csv.gz").kernels)


class Watched(dict[str, MetricValue]):
    """Counters that note which of them were read."""

    def __init__(self, metrics: Mapping[str, MetricValue], read: set[str]) -> None:
        super().__init__(metrics)
        self.read = read

    def get(self, metric: str, default: Any = None) -> Any:
        self.read.add(metric)
        return super().get(metric, default)

    def __getitem__(self, metric: str) -> MetricValue:
        self.read.add(metric)
        return super().__getitem__(metric)


@pytest.fixture(scope="session")
def read_metrics(launches: list[KernelProfile]) -> set[str]:
    """The counters that the checks read of any launch."""
    read: set[str] = set()
    for launch in launches:
        evaluate(replace(launch, metrics=Watched(launch.metrics, read)))
    return read


def changed(launch: KernelProfile, values: dict[str, MetricValue | None]) -> KernelProfile:
    metrics = {name: value for name, value in {**launch.metrics, **values}.items() if value is not None}
    return replace(launch, metrics=metrics)


@pytest.mark.parametrize("extreme", EXTREMES, ids=repr)
def test_one_counter_with_an_impossible_value_fails_no_check(
    launches: list[KernelProfile], read_metrics: set[str], extreme: MetricValue | None
) -> None:
    launch = launches[8]
    assert len(read_metrics & set(launch.metrics)) > 100
    for metric in read_metrics:
        for result in evaluate(changed(launch, {metric: extreme})):
            assert result.text


@pytest.mark.parametrize("share", [3, 10, 40])
@pytest.mark.parametrize("seed", one_of(4, range(12)))
def test_many_counters_with_impossible_values_fail_no_rule(
    launches: list[KernelProfile], seed: int, share: int
) -> None:
    chance = random.Random(seed)
    hurt = []
    for number in range(2):
        launch = chance.choice(launches)
        values = {name: chance.choice(EXTREMES) for name in launch.metrics if chance.randrange(share) == 0}
        hurt.append(replace(changed(launch, values), id=str(number)))
    trace = trace_of(*hurt)
    diagnosis = diagnose(trace)
    assert diagnosis.crashed == {}
    assert as_text(trace, diagnosis, Analysis(trace))


def test_accesses_that_are_fewer_than_none_waste_nothing(launches: list[KernelProfile]) -> None:
    metric = "memory_l2_theoretical_sectors_global"
    hurt = changed(launches[8], {metric: 0, f"{metric}_ideal": -1})
    fired = {result.rule: result.fired for result in evaluate(hurt)}
    assert fired["UncoalescedGlobalAccess"] is False
