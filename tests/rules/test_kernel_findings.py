"""Findings about kernels: the planted faults are named, sound kernels are left alone, both sides of each threshold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from parsers.model import KernelProfile, Trace
from parsers.model.kernels import MetricValue, RuleResult
from rules.catalog.kernel_atomics import KernelAtomics
from rules.diagnosis import diagnose
from rules.findings.base import EXPLANATION_HEADINGS, Category, Finding, Need, Severity, counter_rules, rules
from rules.kernels.checks.explanations import explain_metric, report_sections, stall_reasons
from rules.kernels.checks.occupancy import Advice, occupancy_verdict
from rules.kernels.checks.speed_of_light import waves_of
from rules.kernels.checks.stalls import stalls
from rules.kernels.launch_groups import kernel_groups
from rules.losses.kernel_findings import advice_for_libraries
from rules.verdict.promises import gain
from tests.opened import opened
from tests.rules.kernel_profiles import (
    ACHIEVED,
    COMPUTE,
    DRAM,
    ISSUED,
    MEMORY,
    SOUND,
    THEORETICAL,
    kernel,
    stall,
    trace_of,
)
from tests.rules.test_kernel_checks import conflicts, cycles, fp

Metrics = dict[str, MetricValue]
PLANTED = {
    "copy_coalesced": {"latency-bound", "memory-bound"},
    "copy_strided": {"uncoalesced-access"},
    "random_gather": {"uncoalesced-access"},
    "fma_compute": {"compute-bound"},
    "fp64_compute": {"fp64"},
    "transpose_bank_conflict": {"bank-conflicts"},
    "shared_bank_hammer": {"bank-conflicts"},
    "divergent": {"divergence"},
    "pointer_chase": {"latency-bound"},
    "atomic_contention": {"atomics"},
    "barrier_heavy": {"barrier-stall"},
    "low_occupancy": {"low-occupancy"},
    "tiny_grid": {"small-grid"},
    "register_spill": {"register-spill", "local-memory"},
    "sfu_heavy": {"compute-bound"},
}
OTHER_FAULTS = {
    "aos_access": "uncoalesced-access",
    "transpose_naive": "uncoalesced-access",
    "stride_two": "uncoalesced-access",
    "histogram_global": "atomics",
    "spill_unrolled": "register-spill",
    "uneven_blocks": "imbalance",
    "odd_block": "divergence",
    "switch_divergence": "divergence",
    "accidental_double": "fp64",
    "many_registers": "low-occupancy",
    "half_grid": "small-grid",
    "exp_heavy": "pipe-saturated",
    "block_reduce": "barrier-stall",
}
WAITING: Metrics = {COMPUTE: 30.0, MEMORY: 20.0, DRAM: 20.0, ISSUED: 0.2}


def found(trace: Trace) -> list[Finding]:
    diagnosis = diagnose(trace)
    assert diagnosis.crashed == {}
    return [finding for finding in diagnosis.findings if finding.kernel is not None]


def categories(*kernels: KernelProfile) -> set[Category]:
    return {finding.category for finding in found(trace_of(*kernels))}


@pytest.fixture(scope="session", params=["kernels.raw.csv.gz", "kernels.details.csv.gz"])
def planted(request: pytest.FixtureRequest, fixtures: Path) -> Trace:
    return opened(fixtures / "ncu" / str(request.param))


def test_every_planted_fault_is_named_for_a_launch_after_the_warm_up(planted: Trace) -> None:
    by_id = {each.id: each for each in planted.kernels}
    first = {group.launches[0].id for group in kernel_groups(planted.kernels) if group.count > 1}
    named: dict[str, set[str]] = {}
    for finding in found(planted):
        assert finding.kernel is not None
        assert finding.kernel not in first
        named.setdefault(by_id[finding.kernel].name, set()).add(finding.category.value)
    details_only = planted.kernels[0].rule_results != ()
    for name, wanted in PLANTED.items():
        if details_only and name in {"register_spill", "atomic_contention"}:
            continue  # the details page has no counter of local memory or atomics
        assert named[name] & wanted, name


def test_library_kernels_near_their_limits_are_not_accused(fixtures: Path) -> None:
    for finding in found(opened(fixtures / "ncu" / "library.raw.csv.gz")):
        assert finding.category not in {
            Category.UNCOALESCED_ACCESS,
            Category.BANK_CONFLICTS,
            Category.BARRIER_STALL,
            Category.IMBALANCE,
            Category.TAIL_EFFECT,
            Category.LOCAL_MEMORY,
            Category.ATOMICS,
        }, finding.title
        if finding.severity in {Severity.HIGH, Severity.MEDIUM}:
            assert "softmax_warp_forward" in finding.title


def test_other_faults_are_named_and_sound_kernels_get_only_their_verdict(fixtures: Path) -> None:
    trace = opened(fixtures / "ncu" / "faults.raw.csv.gz")
    names = {each.id: each.name.partition("(")[0] for each in trace.kernels}
    named: dict[str, set[str]] = {}
    for finding in found(trace):
        named.setdefault(names[finding.kernel or ""], set()).add(finding.category.value)
    for name, wanted in OTHER_FAULTS.items():
        assert wanted in named[name], name
    verdicts = {"memory-bound", "compute-bound", "latency-bound", "balanced"}
    for name in ("healthy_saxpy4", "transpose_fixed", "stencil_healthy", "l2_resident", "gemm_naive"):
        assert named[name] <= verdicts, name


def test_a_quarter_of_occupancy_without_stalls_is_fine() -> None:
    few_warps: Metrics = {THEORETICAL: 25.0, ACHIEVED: 25.0, "smsp__maximum_warps_avg_per_active_cycle": 4}
    assert Category.LOW_OCCUPANCY not in categories(kernel(few_warps))
    assert occupancy_verdict(kernel(few_warps)).advice is Advice.DONE


def test_not_selected_is_no_problem() -> None:
    ready = kernel(WAITING, {ISSUED: 0.75}, stall("not_selected", 0.9))
    assert occupancy_verdict(ready).advice is Advice.DONE
    assert categories(ready) == {Category.LATENCY_BOUND}


LOW: Metrics = {THEORETICAL: 25.0, ACHIEVED: 24.0, "smsp__maximum_warps_avg_per_active_cycle": 4,
                "launch__occupancy_limit_registers": 2}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({**WAITING, **stall("long_scoreboard", 0.8), **LOW}, Advice.RAISE_OCCUPANCY),
        ({**WAITING, **stall("long_scoreboard", 0.8)}, Advice.FIX_THE_STALL),
        ({**WAITING, **stall("long_scoreboard", 0.8), ACHIEVED: 20.0}, Advice.LAUNCH_MORE_WORK),
        ({**WAITING, **stall("wait", 0.1)}, Advice.LAUNCH_MORE_WORK),
        ({COMPUTE: 70.0, **stall("long_scoreboard", 0.8), **LOW}, Advice.DONE),
        ({**WAITING, ISSUED: 0.6, **stall("long_scoreboard", 0.8), **LOW}, Advice.DONE),
        (
            {**WAITING, **stall("long_scoreboard", 0.8), **LOW,
             "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active": 5.0},
            Advice.BY_DESIGN,
        ),
    ],
)  # fmt: skip
def test_the_occupancy_decision(changes: Metrics, advice: Advice) -> None:
    verdict = occupancy_verdict(kernel(changes))
    assert verdict.advice is advice
    assert verdict.text.endswith(".")


def test_low_occupancy_names_its_limiter() -> None:
    slow = kernel(WAITING, stall("long_scoreboard", 0.8), LOW)
    finding = next(each for each in found(trace_of(slow)) if each.category is Category.LOW_OCCUPANCY)
    assert "limited by registers" in finding.title
    assert any("registers" in advice for advice in finding.advice)


@pytest.mark.parametrize(
    ("name", "of_library"),
    [
        ("void internal::gemvx::kernel<int, __nv_bfloat16, cublasGemvParamsEx<int>>(T13)", True),
        ("ampere_sgemm_128x64_tn", True),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)", True),
        ("gemm_naive(float*, float*, float*, int)", False),
        ("void cutlass::Kernel2<MyGemm>(Params)", False),
        ("void gemv2T_kernel_val<int, int, float>(int)", True),
        ("void gemv_kernel_part1<double>(const double *)", False),
    ],
)
def test_nobody_is_told_to_rewrite_a_librarys_kernel(name: str, of_library: bool) -> None:
    slow = kernel(WAITING, stall("long_scoreboard", 0.8), LOW, name=name)
    finding = next(each for each in found(trace_of(slow)) if each.category is Category.LOW_OCCUPANCY)
    assert any("a library kernel" in advice for advice in finding.advice) is of_library
    assert any("__launch_bounds__" in advice for advice in finding.advice) is not of_library


def test_what_limits_a_librarys_kernel_from_outside_is_advised_as_for_others() -> None:
    assert advice_for_libraries("ampere_sgemm_128x64_tn", Category.MEMORY_BOUND) == ()


def scattered(ideal: int) -> Metrics:
    return {"memory_l2_theoretical_sectors_global": 1000, "memory_l2_theoretical_sectors_global_ideal": ideal,
            "lts__cycles_active.sum": 100, "lts__cycles_elapsed.sum": 100}  # fmt: skip


def local(share: float) -> Metrics:
    return {
        f"l1tex__t_sectors_pipe_lsu_mem_{space}_op_{op}.sum": 1000 * part
        for space, part in (("local", share), ("global", 1 - share))
        for op in ("ld", "st")
    }


def atomics(share: float) -> Metrics:
    return {
        "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum": 1000 * share,
        "smsp__sass_inst_executed_op_global_ld.sum": 1000 * (1 - share),
    }


ALU = "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed"
XU = "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed"
THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"
HITS = "lts__t_sector_hit_rate.pct"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
LOADS = stall("long_scoreboard", 0.8)


@pytest.mark.parametrize(
    ("category", "quiet", "loud"),
    [
        (Category.UNCOALESCED_ACCESS, scattered(951), scattered(949)),
        (Category.UNCOALESCED_ACCESS, {**scattered(500), COMPUTE: 95.0}, scattered(500)),
        (Category.BANK_CONFLICTS, conflicts(0.24), conflicts(0.26)),
        (Category.BANK_CONFLICTS, {**conflicts(0.9), COMPUTE: 80.0}, {**conflicts(0.9), COMPUTE: 79.0}),
        (Category.DIVERGENCE, {THREADS: 24.0}, {THREADS: 23.0}),
        (Category.DIVERGENCE, {THREADS: 20.0, COMPUTE: 10.0}, {THREADS: 20.0, COMPUTE: 30.0}),
        (Category.BARRIER_STALL, {**WAITING, **stall("barrier", 0.29)}, {**WAITING, **stall("barrier", 0.31)}),
        (Category.LOCAL_MEMORY, {**local(0.09), **LOADS}, {**local(0.11), **LOADS}),
        (Category.FP64, fp(0.1, 0.1), fp(0.1, 0.5)),
        (Category.ATOMICS, {**WAITING, **LOADS, **atomics(0.19)}, {**WAITING, **LOADS, **atomics(0.21)}),
        (Category.ATOMICS, {**WAITING, **atomics(0.9)}, {**WAITING, **LOADS, **atomics(0.9)}),
        (Category.ATOMICS, {**WAITING, **LOADS, **atomics(0.9), REQUESTS: 9_000}, {**WAITING, **LOADS, **atomics(0.9)}),
        (Category.TAIL_EFFECT, {"launch__waves_per_multiprocessor": 3.5, ACHIEVED: 80.0, MEMORY: 70.0},
         {"launch__waves_per_multiprocessor": 3.5, ACHIEVED: 79.0, MEMORY: 70.0}),
        (Category.TAIL_EFFECT, {"launch__waves_per_multiprocessor": 3.7, ACHIEVED: 50.0, MEMORY: 70.0},
         {"launch__waves_per_multiprocessor": 3.5, ACHIEVED: 50.0, MEMORY: 70.0}),
        (Category.PIPE_SATURATED, {ALU: 79.9}, {ALU: 80.0}),
        (Category.PIPE_SATURATED, {XU: 79.9}, {XU: 80.0}),
        (Category.CACHE_MISSES, {**WAITING, **LOADS, HITS: 50.0}, {**WAITING, **LOADS, HITS: 20.0}),
        (Category.CACHE_MISSES, {**WAITING, **LOADS, HITS: 20.0, DRAM: 30.0}, {**WAITING, **LOADS, HITS: 20.0}),
        (Category.IMBALANCE, {**cycles(880, 1000, 700), MEMORY: 70.0, "gpu__time_duration.sum": 9_999},
         {**cycles(880, 1000, 700), MEMORY: 70.0}),
        (Category.IMBALANCE, {**cycles(950, 1000, 900), MEMORY: 70.0}, {**cycles(880, 1000, 700), MEMORY: 70.0}),
    ],
)  # fmt: skip
def test_each_fault_on_both_sides_of_its_threshold(category: Category, quiet: Metrics, loud: Metrics) -> None:
    assert category not in categories(kernel(quiet))
    assert category in categories(kernel(loud))


def test_a_small_grid() -> None:
    slow: Metrics = {**WAITING, **stall("long_scoreboard", 0.8), "launch__waves_per_multiprocessor": 0.2}
    assert Category.LATENCY_BOUND not in categories(kernel(slow, grid=(98, 1, 1)))
    assert Category.SMALL_GRID in categories(kernel(slow, grid=(98, 1, 1)))
    assert Category.LATENCY_BOUND in categories(kernel(slow, grid=(99, 1, 1)))


def test_where_most_sms_get_no_block_that_comes_before_what_happens_inside_the_blocks() -> None:
    waiting: Metrics = {**WAITING, **stall("barrier", 0.75), "launch__waves_per_multiprocessor": 0.01}
    few, some = (found(trace_of(kernel(waiting, grid=(blocks, 1, 1)))) for blocks in (33, 34))
    assert [few[0].category, few[0].severity] == [Category.SMALL_GRID, Severity.HIGH]
    assert some[0].category is Category.BARRIER_STALL
    (one,) = (each for each in found(trace_of(kernel(waiting))) if each.category is Category.BARRIER_STALL)
    assert gain(one).startswith("at most ")
    single = found(trace_of(kernel(waiting, {"gpu__time_duration.sum": 1e6}, grid=(1, 1, 1))))[0]
    assert single.speedup_at_most > 50.0
    assert gain(single) == "up to 99 % of the time"


def test_of_a_grid_that_fits_on_the_gpu_at_once_more_room_for_warps_is_not_asked_for() -> None:
    few: Metrics = {**WAITING, **LOW, "launch__waves_per_multiprocessor": 0.9}
    assert categories(kernel(few, grid=(200, 1, 1))) & {Category.SMALL_GRID, Category.LOW_OCCUPANCY} == {
        Category.SMALL_GRID
    }
    full: Metrics = {**few, "launch__waves_per_multiprocessor": 1.0}
    assert Category.LOW_OCCUPANCY in categories(kernel(full, grid=(200, 1, 1)))


def test_the_profilers_own_words_say_how_many_waves_there_were() -> None:
    told = RuleResult(
        "SOLBottleneck", "SpeedOfLight", "optimization", "... resulting in only 0.7 full waves ..."
    )
    bare = replace(kernel({**WAITING, **LOW}, grid=(200, 1, 1)), rule_results=(told,))
    metrics = {name: value for name, value in bare.metrics.items() if "waves" not in name}
    assert waves_of(replace(bare, metrics=metrics)) == 0.7
    assert waves_of(replace(bare, metrics=metrics, rule_results=())) is None


def test_some_idle_sms() -> None:
    def titles(blocks: int, changes: Metrics) -> str:
        return " ".join(each.title for each in found(trace_of(kernel(changes, grid=(blocks, 1, 1)))))

    slow: Metrics = {**WAITING, **stall("long_scoreboard", 0.8), "launch__waves_per_multiprocessor": 0.2}
    assert "SMs without a block" in titles(118, slow)
    assert "SMs without a block" not in titles(119, slow)
    assert "SMs without a block" not in titles(118, {**slow, MEMORY: 60.0})


def test_counted_spills_are_register_spills() -> None:
    spilling = kernel(local(0.5), LOADS, {"derived__local_spilling_requests": 1000})
    assert Category.REGISTER_SPILL in categories(spilling)


def test_equal_launches_make_one_finding_and_different_blocks_make_two() -> None:
    same = [kernel(scattered(500), ident=str(number)) for number in range(40)]
    other = kernel(scattered(500), block=(128, 1, 1), ident="40")
    loud = [each for each in found(trace_of(*same, other)) if each.category is Category.UNCOALESCED_ACCESS]
    assert len(loud) == 2
    assert loud[0].ceiling_ns == pytest.approx(40 * 0.5 * 100_000)
    assert loud[0].kernel != "0"


def test_a_share_is_rounded_alike_wherever_it_is_told() -> None:
    told = " ".join(f"{each.title} {each.explanation}" for each in found(trace_of(kernel(scattered(125)))))
    assert told.count("88 % of the traffic") > 1
    assert "87" not in told


def test_the_launch_that_speaks_for_its_group_is_typical_and_not_the_first() -> None:
    times = [900_000, 100_000, 120_000, 110_000]
    (group,) = kernel_groups(
        [kernel({"gpu__time_duration.sum": time}, ident=str(at)) for at, time in enumerate(times)]
    )
    assert group.representative.id == "3"
    assert group.total_ns == sum(times)


def test_tiny_kernels_of_a_long_report_are_left_out() -> None:
    many = [
        kernel(
            {"gpu__time_duration.sum": 1_000_000 if number < 5 else 10}, name=f"k{number}", ident=str(number)
        )
        for number in range(40)
    ]
    assert {finding.kernel for finding in found(trace_of(*many))} == {"0", "1", "2", "3", "4"}


def test_kernel_rules_state_their_needs_and_explain_themselves() -> None:
    ours = [rule for rule in rules() if rule.id.startswith("kernel-")]
    assert len(ours) >= 13
    assert sorted(rule.id for rule in ours) == sorted(counter_rules())  # known without importing them
    for rule in ours:
        assert rule.needs == {Need.KERNEL_COUNTERS}
        lines = rule.explanation.splitlines()
        assert [line for line in lines if line in EXPLANATION_HEADINGS] == list(EXPLANATION_HEADINGS), rule.id


def test_every_stall_and_section_of_a_real_report_is_explained(fixtures: Path) -> None:
    trace = opened(fixtures / "ncu" / "kernels.raw.csv.gz")
    assert {each.reason for each in stalls(trace.kernels[0])} <= stall_reasons().keys()
    details = opened(fixtures / "ncu" / "kernels.details.csv.gz")
    sections = {result.section for each in details.kernels for result in each.rule_results}
    assert sections <= report_sections().keys()
    for explanation in [*stall_reasons().values(), *report_sections().values()]:
        for text in (explanation.meaning, explanation.cost, explanation.fix, explanation.harmless):
            assert text.endswith(".")
    assert explain_metric("dram__bytes.sum") == "the GPU's memory"


def test_the_main_verdict_leaves_the_ceiling_to_the_fault_that_explains_it() -> None:
    explained = kernel(WAITING, LOADS, {HITS: 20.0})
    findings = {each.category: each for each in found(trace_of(explained))}
    assert findings[Category.LATENCY_BOUND].severity is Severity.INFO
    assert findings[Category.LATENCY_BOUND].ceiling_ns == 0
    assert "waits for one cache miss after another" in findings[Category.LATENCY_BOUND].explanation
    assert findings[Category.CACHE_MISSES].explanation.startswith(
        "Mostly waits (30 % compute, 20 % memory). "
    )
    alone = found(trace_of(kernel(WAITING, LOADS)))
    assert [each.category for each in alone] == [Category.LATENCY_BOUND]
    assert alone[0].ceiling_ns == pytest.approx((1 - 30 / 80) * 100_000)


def test_a_launch_that_is_too_short_to_tell_says_so() -> None:
    short = trace_of(kernel({"gpu__time_duration.sum": 4_999}), kernel({"gpu__time_duration.sum": 4_999}))
    assert all("percentages mean little" in each.cannot_tell for each in found(short))
    assert not any("percentages" in each.cannot_tell for each in found(trace_of(kernel(), kernel())))


@pytest.mark.parametrize(
    ("duration_ns", "severity"), [(4_999, Severity.LOW), (5_000, Severity.HIGH), (2_100, Severity.LOW)]
)
def test_of_a_launch_that_start_up_dominates_nothing_is_made_much(
    duration_ns: int, severity: Severity
) -> None:
    launch = kernel({**scattered(250), "gpu__time_duration.sum": duration_ns})
    told = [each for each in found(trace_of(launch)) if each.category is Category.UNCOALESCED_ACCESS]
    assert [each.severity for each in told] == [severity]


@pytest.mark.parametrize(
    ("sections", "checked"),
    [
        ((), False),
        (("Occupancy", "SpeedOfLight", "SchedulerStats"), False),
        (("MemoryWorkloadAnalysis_Tables",), True),
        (("WarpStateStats", "SourceCounters"), True),
    ],
)
def test_a_check_is_made_where_the_profiler_recorded_its_section_or_a_large_set(
    sections: tuple[str, ...], checked: bool
) -> None:
    results = tuple(RuleResult("SomeRule", section, "ok", "") for section in sections)
    assert KernelAtomics.reads.are_in(replace(kernel({}), metrics={}, rule_results=results)) is checked


@pytest.mark.parametrize(("time", "told"), [(9_900.0, False), (10_200.0, True)])
def test_what_limits_a_kernel_of_less_than_a_hundredth_of_the_time_is_not_told(
    time: float, told: bool
) -> None:
    took = "gpu__time_duration.sum"
    recording = trace_of(
        kernel({took: 1_000_000.0}, name="long"), kernel({**WAITING, took: time}, name="short")
    )
    assert any(each.title.startswith("short: mostly waits") for each in found(recording)) is told


@pytest.mark.parametrize(
    ("page", "explained"),
    [("raw", "88 % of the traffic is waste"), ("details", "excessive sectors (88% of the total")],
)
def test_the_wasted_traffic_is_the_same_in_title_and_explanation(
    page: str, explained: str, fixtures: Path
) -> None:
    (finding, *_) = [
        each
        for each in found(opened(fixtures / "ncu" / f"kernels.{page}.csv.gz"))
        if each.category is Category.UNCOALESCED_ACCESS
    ]
    assert "88 % of the traffic wasted" in finding.title
    assert explained in finding.explanation


@pytest.mark.parametrize(("measured", "said"), [(True, "30 % memory"), (False, "memory not measured")])
def test_one_throughput_alone_says_what_it_says(measured: bool, said: str) -> None:
    levels = [name for name in SOUND if name.startswith(("l1tex__throughput", "lts__throughput"))]
    lacking = () if measured else (MEMORY, DRAM, *levels)
    busy = kernel({COMPUTE: 97.0, MEMORY: 30.0, DRAM: 30.0}, without=lacking)
    (limit,) = (each for each in found(trace_of(busy)) if each.rule == "kernel-speed-of-light")
    assert "limited by compute (97 % compute" in limit.title
    assert said in limit.title
