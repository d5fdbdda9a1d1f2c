"""Numbers by which profiled kernels are judged, each with a case on either side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers.model.kernels import MetricValue
from rules.analysis.analysis import Analysis
from rules.catalog.kernel_atomics import KernelAtomics
from rules.catalog.kernel_cache_misses import KernelCacheMisses
from rules.catalog.kernel_pipe_saturated import KernelPipeSaturated
from rules.fixes.catalog import faster_kernels
from rules.kernels import join, operator_roofs
from rules.kernels.checks.memory import global_waste, memory_beyond_the_gpu, shared_memory_conflicts
from rules.kernels.checks.occupancy import Advice, _why_not_full, occupancy_verdict
from rules.kernels.checks.speed_of_light import fills_the_gpu
from rules.kernels.gpu_peaks import peaks_of
from rules.kernels.pair_distances import pair_distances
from rules.kernels.roofline import _tensor_rates_from_pipe
from rules.losses.kernel_findings import _takes_nearly_all
from tests.rules.builder import TinyTrace
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


@pytest.mark.parametrize(("requests", "told"), [(25, True), (24, False)])
def test_conflicts_are_told_up_to_forty_ways(requests: int, told: bool) -> None:
    profile = kernel(
        {
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 900,
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 1_000,
            "smsp__sass_inst_executed_op_shared_ld.sum": requests,
        }
    )
    (result,) = shared_memory_conflicts(profile)
    assert ("-way on average" in result.text) is told


@pytest.mark.parametrize(
    ("busy", "remote", "found"), [(51.0, 41, True), (49.0, 41, False), (51.0, 39, False)]
)
def test_memory_beyond_the_gpu_matters_where_two_fifths_of_misses_of_a_busy_cache_go_there(
    busy: float, remote: int, found: bool
) -> None:
    profile = kernel(
        {
            "lts__t_sectors_srcunit_tex.avg.pct_of_peak_sustained_elapsed": busy,
            "lts__t_sectors_srcunit_tex_lookup_miss.sum": 100,
            "dram__bytes.sum.per_second": 1e12,
            "lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum": remote,
        }
    )
    assert bool(list(memory_beyond_the_gpu(profile))) is found


@pytest.mark.parametrize(("sectors", "waste"), [(1_600, 0.0), (2_000, 0.2)])
def test_sixteen_sectors_are_what_a_warp_may_ask_for_at_once(sectors: int, waste: float) -> None:
    profile = kernel(
        {
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": sectors,
            "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 100,
        }
    )
    assert global_waste(profile) == pytest.approx(waste)


@pytest.mark.parametrize(
    ("best", "second", "certainty"),
    [
        (0.9, 0.79, join.Certainty.SHAPE),
        (0.9, 0.81, join.Certainty.AMBIGUOUS),
        (0.76, 0.1, join.Certainty.SHAPE),
        (0.74, 0.1, join.Certainty.NONE),
    ],
)
def test_a_launch_is_that_whose_name_is_alike_and_clearly_more_so_than_any_other(
    best: float, second: float, certainty: join.Certainty, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = {"best": best, "second": second}
    monkeypatch.setattr(join, "similarity", lambda name, _: scores[name])
    trace = cast(Any, SimpleNamespace(kernels=tuple(kernel(name=name) for name in scores)))
    shape = join._shape(trace.kernels[0])
    assert join._choose(trace, [0, 1], "gemm", shape)[1] is certainty


def test_a_roofline_has_no_more_than_2000_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    row = SimpleNamespace(
        name="aten::mm", dims="[[8, 8]]", dtype="float", kernel=0, ns=10, calls=1, event=0,
        work=SimpleNamespace(operations=1.0, moved=1.0),
    )  # fmt: skip
    monkeypatch.setattr(operator_roofs, "operator_roofs", lambda *_, **__: [row] * 2_001)
    trace = TinyTrace()
    trace.operation(0, 10, "gemm")
    assert len(operator_roofs.estimated_roofline(trace.build()).points) == 2_000


@pytest.mark.parametrize(("points", "found"), [(4, True), (3, False)])
def test_distances_of_pairs_need_four_times_as_many_differences_as_numbers(points: int, found: bool) -> None:
    trace, between = TinyTrace(), [9, points, 8]
    shapes = {
        "aten::sub": [[9, 1, 8], [1, points, 8], []],
        "aten::pow": [between, []],
        "aten::sum": [between, []],
    }
    operators = []
    for number, (name, dims) in enumerate(shapes.items()):
        operators.append(trace.op(10 * number, 10 * number + 9, name))
        trace.shapes(operators[-1], dims, ["float"] * len(dims))
    assert bool(len(pair_distances(trace.build(), np.array(operators)).operators)) is found


@pytest.mark.parametrize(("busy", "told"), [(5.0, True), (4.9, False)])
def test_tensor_pipes_that_are_busy_for_a_twentieth_compute_products(busy: float, told: bool) -> None:
    profile = kernel({"sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active": busy})
    assert bool(_tensor_rates_from_pipe(profile, peaks_of("NVIDIA H100 80GB HBM3"))) is told


def test_an_operator_that_is_slow_reaches_half_of_its_roof_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    row = SimpleNamespace(name="aten::add", share=0.1, roof="memory")
    slow = SimpleNamespace(rows=(row,), kernels=(np.array([0]),))
    monkeypatch.setattr(faster_kernels, "slow_operators", lambda *_: slow)
    monkeypatch.setattr(faster_kernels, "durations_times", lambda _, factor: factor)
    device = SimpleNamespace(duration=np.array([100.0]), meeting=np.array([-1]), event=np.array([0]))
    device = type("Device", (SimpleNamespace,), {"__len__": lambda _: 1})(**vars(device))
    replay = SimpleNamespace(device=device, steps=1, spans=(1,), in_step="in a step")
    analysis = cast(Analysis, SimpleNamespace(active_devices=(0,)))
    (made,) = faster_kernels.UseFasterKernels().proposals(analysis, cast(Any, replay))
    assert cast(Any, made.high).tolist() == [0.2]
