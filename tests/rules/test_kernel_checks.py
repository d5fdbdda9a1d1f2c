"""The checks of single launches: equal to the profiler's own conclusions, and exact at their thresholds."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import KernelProfile, RuleResult
from parsers.model.kernels import MetricValue
from rules import diagnose
from rules.findings.base import Category
from rules.kernels.checks import every
from rules.kernels.checks.every import evaluate
from rules.kernels.checks.launch import tail_share
from rules.kernels.checks.speed_of_light import KernelRuleResult
from tests.examples import one_of
from tests.opened import opened
from tests.rules.kernel_profiles import (
    ACHIEVED,
    COMPUTE,
    ISSUED,
    MEMORY,
    SOUND,
    THEORETICAL,
    kernel,
    stall,
    trace_of,
)

COMPARED = frozenset(
    {
        "SOLBottleneck",
        "CPIStall",
        "LaunchConfiguration",
        "AchievedOccupancy",
        "TheoreticalOccupancy",
        "IssueSlotUtilization",
        "HighPipeUtilization",
        "ThreadDivergence",
        "FPInstructions",
        "SOLFPRoofline",
        "SharedMemoryConflicts",
        "UncoalescedGlobalAccess",
        "UncoalescedSharedAccess",
        "MemoryCacheAccessPattern",
        "WorkloadImbalance",
    }
)
Conclusions = dict[tuple[str, str], list[float]]


def profilers_conclusions(details: Path) -> Conclusions:
    """(launch, rule) -> estimated speed-ups, NaN where there is none, from a details page."""
    rows = list(csv.reader(io.StringIO(gzip.decompress(details.read_bytes()).decode())))
    column = {name: at for at, name in enumerate(rows[0])}
    found: Conclusions = defaultdict(list)
    for row in rows[1:]:
        if (
            len(row) == len(rows[0])
            and row[column["Rule Type"]] == "OPT"
            and row[column["Rule Name"]] in COMPARED
        ):
            found[row[0], row[column["Rule Name"]]].append(float(row[column["Estimated Speedup"]] or "nan"))
    return found


def our_conclusions(recording: Path) -> Conclusions:
    found: Conclusions = defaultdict(list)
    for each in open_trace([recording]).kernels:
        for result in evaluate(each):
            if result.fired and result.rule in COMPARED:
                speedup = result.speedup_percent
                found[each.id, result.rule].append(math.nan if speedup is None else speedup)
    return found


@pytest.mark.parametrize(
    "page",
    one_of(
        3,
        (
            f"{name}.{page}"
            for name in ("kernels", "library", "faults", "operators")
            for page in ("raw", "details")
        ),
    ),
)
def test_conclusions_from_the_metrics_equal_the_profilers_own(fixtures: Path, page: str) -> None:
    folder = fixtures / "ncu"
    expected = profilers_conclusions(folder / f"{page.split('.')[0]}.details.csv.gz")
    found = our_conclusions(folder / f"{page}.csv.gz")
    assert found.keys() == expected.keys()
    for key, speedups in expected.items():
        assert sorted(found[key], key=str) == [
            pytest.approx(each, abs=1.0, nan_ok=True) for each in sorted(speedups, key=str)
        ], key


def results(profile: KernelProfile, rule: str) -> list[KernelRuleResult]:
    return [each for each in evaluate(profile) if each.rule == rule]


def fired(profile: KernelProfile, rule: str) -> bool:
    return any(each.fired for each in results(profile, rule))


@pytest.mark.parametrize(
    ("compute", "memory", "waves", "fires", "bound"),
    [
        (59.9, 59.9, 5.0, True, Category.LATENCY_BOUND),
        (60.0, 49.9, 5.0, True, Category.COMPUTE_BOUND),
        (60.0, 50.1, 5.0, False, Category.BALANCED),
        (50.0, 60.0, 5.0, True, Category.MEMORY_BOUND),
        (79.9, 20.0, 5.0, True, Category.COMPUTE_BOUND),
        (80.0, 20.0, 5.0, False, Category.COMPUTE_BOUND),
        (20.0, 80.0, 5.0, False, Category.MEMORY_BOUND),
        (20.0, 20.0, 0.9, True, Category.SMALL_GRID),
        (20.0, 20.0, 1.0, True, Category.LATENCY_BOUND),
    ],
)
def test_speed_of_light(compute: float, memory: float, waves: float, fires: bool, bound: Category) -> None:
    profile = kernel({COMPUTE: compute, MEMORY: memory, "launch__waves_per_multiprocessor": waves})
    (result,) = results(profile, "SOLBottleneck")
    assert (result.fired, result.category) == (fires, bound)


@pytest.mark.parametrize(
    ("rule", "at", "beyond"),
    [
        ("IssueSlotUtilization", {ISSUED: 0.6}, {ISSUED: 0.599}),
        ("TheoreticalOccupancy", {"smsp__maximum_warps_avg_per_active_cycle": 12.8},
         {"smsp__maximum_warps_avg_per_active_cycle": 12.7}),
        ("AchievedOccupancy", {THEORETICAL: 100.0, ACHIEVED: 90.0}, {THEORETICAL: 100.0, ACHIEVED: 89.9}),
        ("CPIStall", {ISSUED: 0.79, **stall("barrier", 0.3)}, {ISSUED: 0.79, **stall("barrier", 0.301)}),
        ("CPIStall", {ISSUED: 0.8, **stall("barrier", 0.9)}, {ISSUED: 0.799, **stall("barrier", 0.9)}),
        ("ThreadDivergence", {"smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": 24.0},
         {"smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": 23.9}),
        ("HighPipeUtilization", {"sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed": 59.9},
         {"sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed": 60.0}),
    ],
)  # fmt: skip
def test_thresholds(rule: str, at: dict[str, MetricValue], beyond: dict[str, MetricValue]) -> None:
    assert not fired(kernel(at), rule)
    assert fired(kernel(beyond), rule)


def test_idle_pipes_and_their_estimate() -> None:
    idle: dict[str, MetricValue] = {
        f"sm__pipe_{pipe}_cycles_active.avg.pct_of_peak_sustained_elapsed": 19.9 for pipe in ("alu", "fma")
    }
    (result,) = results(kernel(idle), "HighPipeUtilization")
    assert result.fired
    assert result.speedup_percent == pytest.approx(80.1)
    assert result.speedup_is_global is False


def test_older_reports_know_pipes_by_executed_instructions() -> None:
    old = kernel(
        {"sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": 85.0},
        without=tuple(metric for metric in SOUND if metric.startswith("sm__pipe_")),
    )
    (result,) = results(old, "HighPipeUtilization")
    assert (result.fired, result.subject) == (True, "fma")


def test_estimates_are_capped_by_free_issue_slots() -> None:
    waiting = kernel({ISSUED: 0.5, COMPUTE: 30.0, MEMORY: 70.0, **stall("long_scoreboard", 0.9)})
    (result,) = results(waiting, "CPIStall")
    assert result.speedup_percent == pytest.approx(30.0)
    assert result.speedup_is_global is True
    busy = kernel({ISSUED: 0.7, **stall("long_scoreboard", 0.9)})
    (result,) = results(busy, "CPIStall")
    assert (result.speedup_percent, result.speedup_is_global) == (pytest.approx(90.0), False)


def conflicts(share: float) -> dict[str, MetricValue]:
    return {
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 1000 * share,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 1000,
        "smsp__sass_inst_executed_op_shared_ld.sum": 500,
    }


def test_bank_conflicts() -> None:
    assert not fired(kernel(conflicts(0.099)), "SharedMemoryConflicts")
    (result,) = results(kernel(conflicts(0.5)), "SharedMemoryConflicts")
    assert result.speedup_percent == pytest.approx(0.5 * 40)
    assert "2.0-way" in result.text


def test_scattered_sectors() -> None:
    base: dict[str, MetricValue] = {
        "memory_l2_theoretical_sectors_global": 1000,
        "memory_l2_theoretical_sectors_global_ideal": 1000,
        "lts__cycles_active.sum": 50,
        "lts__cycles_elapsed.sum": 100,
    }
    assert not fired(kernel(base), "UncoalescedGlobalAccess")
    (result,) = results(
        kernel(base, {"memory_l2_theoretical_sectors_global_ideal": 250}), "UncoalescedGlobalAccess"
    )
    assert result.speedup_percent == pytest.approx(37.5)


def test_scattered_sectors_are_weighed_by_the_throughput_of_l2_where_its_cycles_were_not_counted() -> None:
    sectors: dict[str, MetricValue] = {
        "memory_l2_theoretical_sectors_global": 1000,
        "memory_l2_theoretical_sectors_global_ideal": 250,
    }
    (result,) = results(kernel(sectors), "UncoalescedGlobalAccess")
    assert result.speedup_percent == pytest.approx(0.75 * 60)
    (unknown,) = results(
        kernel(sectors, without=("lts__throughput.avg.pct_of_peak_sustained_elapsed",)),
        "UncoalescedGlobalAccess",
    )
    assert unknown.speedup_percent is None


def fp(single: float, double: float) -> dict[str, MetricValue]:
    rates: dict[str, MetricValue] = {
        f"smsp__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum.per_cycle_elapsed": 0.0
        for letter in "fd"
        for op in ("add", "mul", "fma")
    }
    rates["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed"] = single * 1000
    rates["smsp__sass_thread_inst_executed_op_dfma_pred_on.sum.per_cycle_elapsed"] = double * 500
    rates["sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained"] = 1000
    rates["sm__sass_thread_inst_executed_op_dfma_pred_on.sum.peak_sustained"] = 500
    return rates


def test_double_precision() -> None:
    assert not fired(kernel(fp(0.0, 0.15)), "SOLFPRoofline")
    assert not fired(kernel(fp(0.6, 0.9)), "SOLFPRoofline")
    (result,) = results(kernel(fp(0.0, 0.16)), "SOLFPRoofline")
    assert result.fired
    assert result.speedup_percent == pytest.approx(50.0)


def test_unfused_arithmetic_counts_opcodes_where_there_are_some() -> None:
    unfused = fp(0.1, 0.0) | {"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": 20.0}
    assert not fired(kernel(unfused), "FPInstructions")
    unfused["smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed"] = 30.0
    (result,) = results(kernel(unfused), "FPInstructions")
    assert result.speedup_percent == pytest.approx(0.5 * 30 / 130 * 30, rel=1e-3)


@pytest.mark.parametrize(
    ("grid", "block", "subject"),
    [((131, 1, 1), (256, 1, 1), "grid size"), ((263, 1, 1), (256, 1, 1), "grid size"),
     ((264, 1, 1), (250, 1, 1), "block size"), ((264, 1, 1), (256, 1, 1), "")],
)  # fmt: skip
def test_launch_configuration(grid: tuple[int, int, int], block: tuple[int, int, int], subject: str) -> None:
    found = [each for each in results(kernel(grid=grid, block=block), "LaunchConfiguration") if each.fired]
    assert [each.subject for each in found] == ([subject] if subject else [])


def test_estimates_of_launch_faults() -> None:
    (small,) = [each for each in results(kernel(grid=(33, 1, 1)), "LaunchConfiguration") if each.fired]
    assert small.speedup_percent == pytest.approx(75.0)
    (partial,) = [each for each in results(kernel(block=(48, 1, 1)), "LaunchConfiguration") if each.fired]
    assert partial.speedup_percent == pytest.approx(25.0)
    (tail,) = [
        each
        for each in results(
            kernel({"launch__waves_per_multiprocessor": 2.5, ACHIEVED: 79.0}), "LaunchConfiguration"
        )
        if each.fired
    ]
    assert tail.speedup_percent == pytest.approx(100 / 3)
    for waves in (3.0, 5.5, 0.5):
        assert not fired(kernel({"launch__waves_per_multiprocessor": waves}), "LaunchConfiguration")


def cycles(average: float, most: float, least: float) -> dict[str, MetricValue]:
    return {
        "sm__cycles_active.avg": average,
        "sm__cycles_active.max": most,
        "sm__cycles_active.min": least,
        "sm__cycles_active.sum": average * 132,
        "sm__cycles_elapsed.sum": 1000 * 132,
    }


def test_imbalance() -> None:
    assert not fired(kernel(cycles(951, 1000, 900)), "WorkloadImbalance")
    assert fired(kernel(cycles(940, 1000, 900)), "WorkloadImbalance")
    (result,) = results(kernel(cycles(800, 1000, 500)), "WorkloadImbalance")
    assert result.speedup_percent == pytest.approx(16.0)
    assert "SMs" in result.text


def test_without_metrics_a_check_says_nothing() -> None:
    bare = KernelProfile("0", "k", (1, 1, 1), (32, 1, 1), None, None, None, None, None, "", {})
    assert [each.rule for each in evaluate(bare) if each.fired] == []


def test_where_metrics_are_missing_the_reports_own_conclusion_counts() -> None:
    stored = RuleResult(
        "CPIStall", "WarpStateStats", "optimization",
        "Warps spend 9 cycles being stalled waiting for sibling warps at a CTA barrier. More.", 40.0, True,
    )  # fmt: skip
    bare = KernelProfile(
        "0", "k", (1, 1, 1), (32, 1, 1), None, None, None, None, None, "", {}, rule_results=(stored,)
    )
    (result,) = results(bare, "CPIStall")
    assert (result.category, result.subject, result.speedup_percent) == (
        Category.BARRIER_STALL,
        "barrier",
        40.0,
    )
    measured = kernel({ISSUED: 0.9, **stall("barrier", 0.1)})
    assert not fired(measured, "CPIStall")


@pytest.mark.parametrize(
    ("waves", "share"), [(-0.5, 0.0), (0.0, 0.0), (0.5, 1.0), (1.0, 0.0), (1.5, 0.5), (2.25, 1 / 3)]
)
def test_a_partly_filled_last_wave_takes_its_share_and_damaged_numbers_none(
    waves: float, share: float
) -> None:
    assert tail_share(waves) == pytest.approx(share)


def test_the_checks_of_a_launch_are_made_once_however_many_rules_ask(
    fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    evaluated = every._evaluated

    def counted(launch: KernelProfile) -> tuple[KernelRuleResult, ...]:
        checked.append(launch.id)
        return evaluated(launch)

    monkeypatch.setattr(every, "_evaluated", counted)
    launches = opened(fixtures / "ncu" / "kernels.raw.csv.gz").kernels
    trace = trace_of(*(replace(launch) for launch in launches))
    assert diagnose(trace).findings == diagnose(trace).findings
    assert 1 < len(checked) == len(set(checked)) <= len(launches)
