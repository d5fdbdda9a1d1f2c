"""Limits on what may get worse: how they are written, what they are on; what cannot be judged does not pass."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from rules.analysis.analysis import Analysis
from rules.comparison.gate import Decision, Judgement
from rules.comparison.step_times import StepTimes, ratio_of_runs
from rules.findings.base import Severity
from rules.gates.against_kept import compare_with_kept, judgement_on
from rules.gates.figures import Named, RunFigures, figures_of
from rules.gates.judging import Answer, judge, overall
from rules.gates.limits import Gates, Limit, Quantity, gates_of, items_of, limit_of
from tests.rules.builder import TinyTrace, steps

# The cases lie on either side of these.
MAX_STEPS = 500

PASSED, FAILED, INCONCLUSIVE = Decision.PASSED, Decision.FAILED, Decision.INCONCLUSIVE


def run(
    step_ms: float = 10.0,
    *,
    count: int = 200,
    scale: float = 1.0,
    launches: float = 30.0,
    peak: int | None = 8 << 30,
) -> RunFigures:
    """Steps of one length; ``scale`` multiplies what the GPU does in them."""

    def each(ms: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.full(count, ms * 1e6)

    return RunFigures(
        files=("a.json",),
        gpus=("Test GPU",),
        found_by="ProfilerStep",
        step_ns=each(step_ms),
        kernel_ns=each(5 * scale),
        collective_ns=each(1 * scale),
        launches=np.full(count, launches),
        memory_peak=peak,
        kernels={"gemm": Named("void lib::gemm<4>(float*)", 20.0, each(4 * scale))},
        regions={"forward": Named("forward", 1.0, each(3 * scale))},
    )


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("5", Limit(Quantity.STEP_TIME, 5)),
        ("5%", Limit(Quantity.STEP_TIME, 5)),
        ("launches=0", Limit(Quantity.LAUNCHES, 0)),
        ("kernel:void f<a=1>(int)=2.5%", Limit(Quantity.KERNEL, 2.5, "void f<a=1>(int)")),
        ("region:forward=3", Limit(Quantity.REGION, 3, "forward")),
    ],
)
def test_a_limit_is_written_as_a_percentage_or_by_what_it_is_on(text: str, limit: Limit) -> None:
    assert limit_of(text) == limit


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fast", "not a percentage such as 5 or 5%"),
        ("launches=many", "not a percentage"),
        ("speed=5", "choose from step-time, p99"),
        ("kernel=5", "needs a name"),
        ("p99:x=5", "takes no name"),
        ("throughput=100%", "cannot fall by 100 %"),
    ],
)
def test_a_limit_that_means_nothing_is_refused_with_what_it_may_be(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        limit_of(text)


def test_a_file_of_a_repository_holds_limits_items_a_level_and_thresholds() -> None:
    gates = gates_of(
        """
        per-step-items = [64, 128]
        fail-on = "high"
        [limits]
        step-time = "5%"
        launches = 0
        kernel.gemm = 3
        [thresholds]
        least-share = "5%"
        """
    )
    assert gates.limits == (
        Limit(Quantity.STEP_TIME, 5),
        Limit(Quantity.LAUNCHES, 0),
        Limit(Quantity.KERNEL, 3, "gemm"),
    )
    assert (gates.items, gates.fail_on) == ((64, 128), Severity.HIGH)
    assert gates.thresholds.chosen == {"least-share": 0.05}


@pytest.mark.parametrize(
    "text",
    [
        "[limit]\nstep-time = 5",
        "limits = 5",
        "fail-on = 'info'",
        "per-step-items = 0",
        "[thresholds]\nx = 1",
        "=",
    ],
)
def test_a_file_with_anything_else_in_it_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        gates_of(text)


def decided(text: str, before: RunFigures, after: RunFigures, items: str = "64") -> Answer:
    gates = Gates((limit_of(text),), items_of(items))
    (answer,) = judge(gates, [before], [after], judgement_on([before], [after]))
    return answer


@pytest.mark.parametrize(
    ("text", "better", "worse"),
    [
        ("step-time=5", run(10.1), run(11)),
        ("p99=5", run(10.1), run(11)),
        ("throughput=5", run(10.1), run(11)),
        ("kernel-time=5", run(scale=1.01), run(scale=1.1)),
        ("collective-time=5", run(scale=1.01), run(scale=1.1)),
        ("kernel:gemm=5", run(scale=1.01), run(scale=1.1)),
        ("region:forward=5", run(scale=1.01), run(scale=1.1)),
        ("launches=0", run(), run(launches=31)),
        ("memory-peak=5", run(peak=8 << 30), run(peak=9 << 30)),
    ],
)
def test_every_quantity_passes_below_its_limit_and_fails_above(
    text: str, better: RunFigures, worse: RunFigures
) -> None:
    assert decided(text, run(), better).decision is PASSED
    failed = decided(text, run(), worse)
    assert failed.decision is FAILED
    assert failed.before != failed.after
    assert "failed" in failed.why


@pytest.mark.parametrize(
    ("text", "after", "said"),
    [
        ("p99=5", run(count=50), "fewer than 100"),
        ("memory-peak=5", run(peak=None), "memory was not recorded after"),
        ("kernel:conv=5", run(), "a kernel 'conv' is not in the steady steps before and after"),
        ("region:backward=5", run(), "the region 'backward'"),
        ("kernel-time=5", replace(run(), gpus=("Other GPU",)), "different GPUs"),
        (
            "launches=5",
            replace(run(), found_by="", step_ns=np.zeros(0)),
            "no steps were found in one of them",
        ),
        ("kernel-time=5", run(scale=1.05), "the limit of 105 % lies between"),
    ],
)
def test_what_is_not_known_does_not_pass(text: str, after: RunFigures, said: str) -> None:
    answer = decided(text, run(), after)
    assert answer.decision is INCONCLUSIVE
    assert said in answer.why


def test_a_throughput_needs_the_items_of_a_step_and_follows_them() -> None:
    gates = Gates((limit_of("throughput=5"),))
    (answer,) = judge(gates, [run()], [run()], judgement_on([run()], [run()]))
    assert "--per-step-items" in answer.why
    assert decided("throughput=5", run(10), run(18), "64,128").decision is PASSED
    assert decided("throughput=5", run(10), run(18)).decision is FAILED
    other_batch = Judgement.of(None, ["another batch"])
    (answer,) = judge(Gates((limit_of("throughput=5"),), (64, 128)), [run(10)], [run(18)], other_batch)
    assert answer.decision is PASSED
    (answer,) = judge(Gates((limit_of("throughput=5"),), (64, 64)), [run(10)], [run(18)], other_batch)
    assert answer.decision is INCONCLUSIVE


def test_one_failure_fails_all_and_nothing_to_judge_is_no_pass() -> None:
    limit = limit_of("5")
    passed, failed, unsure = (Answer(limit, each, "") for each in (PASSED, FAILED, INCONCLUSIVE))
    assert overall([passed, failed, unsure]) is FAILED
    assert overall([passed, unsure]) is INCONCLUSIVE
    assert overall([passed]) is PASSED
    assert overall([]) is INCONCLUSIVE


def test_the_99th_percentile_follows_rare_slow_steps_that_the_mean_hides() -> None:
    slow = np.full(1000, 10e6)
    slow[::40] = 30e6
    after = replace(run(count=1000), step_ns=slow)
    assert decided("p99=50", run(count=1000), after).decision is FAILED
    assert decided("50", run(count=1000), after).decision is PASSED


def test_runs_that_differ_among_themselves_widen_the_interval() -> None:
    def times(*ms: float) -> list[StepTimes]:
        return [StepTimes(np.full(50, each * 1e6)) for each in ms]

    alike = ratio_of_runs(times(10, 10, 10), times(10.4, 10.4, 10.4))
    unlike = ratio_of_runs(times(9.5, 10, 10.5), times(9.9, 10.4, 10.9))
    assert alike is not None
    assert unlike is not None
    assert alike.is_seen
    assert not unlike.is_seen
    assert alike.mean == pytest.approx(unlike.mean)
    assert ratio_of_runs([StepTimes(np.array([1e6]))], times(1, 1)) is None


def two_ranks() -> Analysis:
    both = TinyTrace()

    def body(trace: TinyTrace, _: int) -> None:
        trace.region(0, 600, "forward")
        trace.region(100, 300, "forward")
        trace.kernels(10, 5, 40 if trace.rank == 0 else 20, 100, "void lib::gemm<4>(float*)")
        trace.collective(700, 800, 650)

    for rank in (0, 1):
        both.rank = rank
        steps(6, 1000, body, into=both)
    return Analysis(both.build())


def test_figures_are_means_over_ranks_for_every_step() -> None:
    figures = figures_of(two_ranks())
    count = len(figures.step_ns)
    assert count >= 4
    assert figures.gpus == ("Test GPU", "Test GPU")
    assert figures.launches.tolist() == [6] * count
    assert figures.collective_ns.tolist() == [100_000] * count
    assert figures.kernel_ns.tolist() == [5 * 30_000 + 100_000] * count
    assert figures.regions["forward"].ns.tolist() == [600_000] * count  # nested ones are counted once
    (gemm,) = figures.kernels_called("gemm")
    assert gemm.ns.tolist() == [5 * 30_000] * count
    assert figures.kernels_called("void lib::gemm<4>(float*)") == [gemm]


def test_kernels_and_regions_that_limits_name_are_kept_however_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rules.gates.figures.MAX_NAMES", 0)
    gates = Gates((limit_of("kernel:gemm=5"), limit_of("region:forward=5")))
    figures = gates.figures_of(two_ranks())
    assert (len(figures.kernels), list(figures.regions)) == (1, ["forward"])
    assert figures_of(two_ranks()).kernels == {}


def test_figures_survive_being_kept_and_damage_is_noticed() -> None:
    figures = replace(run(), step_ns=np.arange(1.0, 2 * MAX_STEPS + 1))
    again = RunFigures.from_data(json.loads(json.dumps(figures.shortened().to_data())))
    assert len(again.step_ns) == MAX_STEPS
    assert again.step_ns.mean() == pytest.approx(figures.step_ns.mean())
    assert again.kernels["gemm"].launches == 20
    for damage in ({}, [], {**figures.to_data(), "step_ns": [-1]}, {**figures.to_data(), "kernels": 5}):
        with pytest.raises(ValueError, match=r"figures|series"):
            RunFigures.from_data(damage)


def test_a_recording_is_compared_with_kept_figures() -> None:
    analysis = two_ranks()
    same = compare_with_kept([figures_of(analysis)], "baseline:main", analysis.trace)
    assert same.before == "baseline:main"
    assert same.judgement.gate(5)[0] is PASSED
    twice = replace(figures_of(analysis), step_ns=figures_of(analysis).step_ns / 2)
    slower = compare_with_kept([twice], "baseline:main", analysis.trace)
    assert slower.verdict.startswith("2.00x slower")
    assert any("only figures of the earlier run were kept" in said for said in slower.cautions)
