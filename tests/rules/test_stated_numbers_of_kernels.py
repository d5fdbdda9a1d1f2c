"""Numbers by which profiled kernels are judged, each with a case on either side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from parsers.model.kernels import MetricValue
from rules.catalog.kernel_atomics import KernelAtomics
from rules.catalog.kernel_cache_misses import KernelCacheMisses
from rules.catalog.kernel_pipe_saturated import KernelPipeSaturated
from rules.kernels.checks.occupancy import Advice, _why_not_full, occupancy_verdict
from rules.kernels.checks.speed_of_light import fills_the_gpu
from rules.losses.kernel_findings import _takes_nearly_all
from tests.rules.kernel_profiles import COMPUTE, DRAM, ISSUED, MEMORY, kernel, stall
from tests.rules.test_kernel_checks import results

WAITING: dict[str, MetricValue] = {COMPUTE: 30.0, MEMORY: 20.0, DRAM: 20.0, ISSUED: 0.2}
ALU = "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed"


@pytest.mark.parametrize(
    ("percent", "limit"), [(80.0, "is the bottleneck"), (79.9, "soon is the bottleneck")]
)
def test_a_pipe_is_the_bottleneck_from_four_fifths_on(percent: float, limit: str) -> None:
    (result,) = results(kernel({ALU: percent}), "HighPipeUtilization")
    assert limit in result.text
    assert (KernelPipeSaturated().fault(kernel({ALU: percent})) is not None) is (percent >= 80)


@pytest.mark.parametrize(
    ("waves", "why"),
    [(4.0, "give each thread more work"), (3.9, "end much later"), (0.9, "the grid is only 90 %")],
)
def test_many_short_blocks_are_those_of_four_waves(waves: float, why: str) -> None:
    assert why in _why_not_full(kernel({"launch__waves_per_multiprocessor": waves}))


@pytest.mark.parametrize(("active", "advice"), [(0.69, Advice.LAUNCH_MORE_WORK), (0.71, Advice.DONE)])
def test_multiprocessors_that_work_well_are_active_for_seven_tenths(active: float, advice: Advice) -> None:
    cycles: dict[str, MetricValue] = {"sm__cycles_active.sum": 1000 * active, "sm__cycles_elapsed.sum": 1000}
    assert occupancy_verdict(kernel({**WAITING, ISSUED: 0.6}, cycles)).advice is advice


@pytest.mark.parametrize(("blocks", "fills"), [(99, True), (98, False)])
def test_three_quarters_of_the_multiprocessors_have_a_block(blocks: int, fills: bool) -> None:
    """Of 132."""
    assert fills_the_gpu(kernel(grid=(blocks, 1, 1))) is fills


@pytest.mark.parametrize(("ns", "nearly"), [(901.0, True), (899.0, False)])
def test_one_kernel_takes_nearly_all_from_nine_tenths_on(ns: float, nearly: bool) -> None:
    launches = tuple(
        kernel({"gpu__time_duration.sum": each}, name=name, ident=name)
        for name, each in (("long", ns), ("short", 1000.0 - ns))
    )
    assert _takes_nearly_all(cast(Any, SimpleNamespace(kernels=launches))) is nearly


@pytest.mark.parametrize(
    ("waiting", "hits", "dram", "found"),
    [
        (0.51, 49.0, 29.0, True),
        (0.49, 49.0, 29.0, False),
        (0.51, 50.0, 29.0, False),
        (0.51, 49.0, 30.0, False),
    ],
)
def test_caches_miss_where_half_waits_half_misses_and_dram_idles(
    waiting: float, hits: float, dram: float, found: bool
) -> None:
    profile = kernel(
        WAITING, stall("long_scoreboard", waiting), {"lts__t_sector_hit_rate.pct": hits, DRAM: dram}
    )
    assert (KernelCacheMisses().fault(profile) is not None) is found


@pytest.mark.parametrize(
    ("share", "waiting", "found"), [(0.2, 0.31, True), (0.19, 0.31, False), (0.2, 0.29, False)]
)
def test_threads_queue_at_atomics_that_are_a_fifth_where_three_tenths_wait(
    share: float, waiting: float, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rules.catalog.kernel_atomics.atomic_share", lambda _: share)
    profile = kernel(WAITING, stall("long_scoreboard", waiting))
    assert (KernelAtomics().fault(profile) is not None) is found


@pytest.mark.parametrize(("memory", "saving"), [(24.0, 0.31), (26.0, 0.11)])
def test_all_of_a_wait_for_atomics_queues_where_memory_reaches_less_than_a_quarter(
    memory: float, saving: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rules.catalog.kernel_atomics.atomic_share", lambda _: 0.2)
    fault = KernelAtomics().fault(kernel(WAITING, {MEMORY: memory}, stall("long_scoreboard", 0.5)))
    assert fault is not None
    assert fault.saving == pytest.approx(saving, abs=0.02)
