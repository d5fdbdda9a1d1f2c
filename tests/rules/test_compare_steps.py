"""Step times of two recordings: what the noise allows to say, what slow steps cost, and how a gate decides."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model import Trace
from rules.comparison.compare import compare
from rules.comparison.gate import Decision, Judgement, Outcome
from rules.comparison.step_times import StepRatio, StepTimes, block_means, ratio_of, ratio_of_runs
from tests.rules.builder import TinyTrace, steps

MS = 1e6
CHECKPOINTED = [39.2, 35.2, 988.5, 49.1, 41.7, 1038.2, 45.5]
WITHOUT_CHECKPOINT = [46.9, 43.7, 47.8, 54.1, 51.7, 38.2, 42.4]
# Steady steps, ms, of recordings made on one GPU; each is set against itself, its first half against its second.
RECORDED = {
    "quiet": [6.05, 6.05, 6.04, 6.04, 6.04],
    "one slow step": [126.12, 126.78, 146.79, 129.42, 126.75],
    "two levels": [97.82, 97.58, 165.52, 121.68],
    "growing": [59.79, 60.44, 62.23, 62.68, 63.37],
    "later slower": [15.98, 16.05, 17.25, 17.25],
    "checkpoints": CHECKPOINTED,
    "a jump": [
        *(19.67, 16.32, 18.41, 16.83, 20.77, 19.51, 27.23, 28.01, 26.29, 29.27),
        *(27.27, 29.08, 28.47, 24.62, 26.4, 27.78, 25.51, 24.99, 26.45, 26.07),
    ],
}


def times(*ms: float) -> StepTimes:
    return StepTimes(np.array(ms) * MS)


def ratio(before: list[float], after: list[float]) -> StepRatio:
    found = ratio_of(times(*before), times(*after))
    assert found is not None
    return found


def decision(before: list[float], after: list[float], limit: float) -> Decision:
    return Judgement.of(ratio_of(times(*before), times(*after)), []).gate(limit)[0]


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("limit", [2, 5])
def test_halves_of_one_recording_are_never_a_regression(name: str, limit: float) -> None:
    steps_ms = RECORDED[name]
    first, second = steps_ms[: len(steps_ms) // 2], steps_ms[len(steps_ms) // 2 :]
    for before, after in ((first, second), (second, first)):
        assert decision(before, after, limit) is not Decision.FAILED
        assert not ratio(before, after).is_seen


def test_steps_that_get_steadily_longer_are_told_as_drift() -> None:
    assert times(*RECORDED["growing"]).drift == pytest.approx(0.048, abs=0.001)
    assert times(*RECORDED["a jump"]).drift > 0.1
    for name in ("quiet", "one slow step", "checkpoints"):
        assert times(*RECORDED[name]).drift == 0
    drifting = ratio(RECORDED["growing"], [30.0, 30.1, 29.9, 30.2, 30.0])
    assert any("the steps of the first drift" in said for said in drifting.about())


def test_what_a_run_costs_is_its_mean_step_and_the_slow_steps_are_named() -> None:
    found = ratio(CHECKPOINTED, WITHOUT_CHECKPOINT)
    assert 1 / found.mean == pytest.approx(6.89, abs=0.01)
    assert found.median > 1
    assert found.high < 1
    (said,) = found.about()
    assert said.startswith("by the median step it is 1.03x slower (46.9 ms instead of 45.5 ms)")
    assert "2 of 7 steady steps (number 3, 6) take 1.01 s on average" in said


def test_slow_steps_that_do_not_recur_evenly_leave_the_mean_unsure() -> None:
    by_chance = [39.2, 988.5, 1038.2, 35.2, 49.1, 41.7, 45.5]
    assert not ratio(by_chance, WITHOUT_CHECKPOINT).is_seen


def test_more_steps_narrow_the_interval() -> None:
    few, many = ratio([10.0] * 4, [10.3] * 4), ratio([10.0] * 100, [10.3] * 100)
    assert not few.is_seen
    assert many.is_seen
    assert many.low < 1.03 < many.high


def test_many_thousand_steps_give_a_narrow_interval_too() -> None:
    noise = np.random.default_rng(1).normal(10 * MS, 0.1 * MS, 30_000)
    found = ratio_of(StepTimes(noise), StepTimes(noise[::-1] * 1.05))
    assert found is not None
    assert 1.04 < found.low < 1.05 < found.high < 1.06


def test_the_same_two_recordings_give_the_same_interval() -> None:
    first, second = (ratio(RECORDED["two levels"], WITHOUT_CHECKPOINT) for _ in range(2))
    assert (first.low, first.high) == (second.low, second.high)


def test_swapped_recordings_give_the_inverse_interval() -> None:
    random = np.random.default_rng(3)
    before, after = (StepTimes(random.lognormal(mean, 0.2, count)) for mean, count in ((17.0, 9), (16.5, 14)))
    there, back = ratio_of(before, after), ratio_of(after, before)
    assert there is not None
    assert back is not None
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low))
    runs = [before, StepTimes(before.ns * 1.1)]
    there, back = ratio_of_runs(runs, [after]), ratio_of_runs([after], runs)
    assert there is not None
    assert back is not None
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low))


def test_a_single_step_allows_no_verdict() -> None:
    judgement = Judgement.of(ratio_of(times(10), times(20, 20, 20)), [])
    assert judgement.outcome is Outcome.NOT_COMPARABLE
    assert "steady steps" in judgement.reason
    assert judgement.gate(5)[0] is Decision.INCONCLUSIVE


def test_a_gate_passes_fails_or_says_that_the_limit_is_within_the_noise() -> None:
    assert decision([10.0] * 20, [10.0, *[10.01] * 19], 5) is Decision.PASSED
    assert decision([10.0] * 20, [12.0] * 20, 5) is Decision.FAILED
    assert decision([10.0] * 20, [10.5] * 20, 5) is Decision.INCONCLUSIVE
    assert decision([10.0] * 20, [10.0] * 20, 0) is Decision.PASSED


def of_length(us: float, gpu: str = "Test GPU", name: str = "void gemm", count: int = 20) -> Trace:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(0, 5, 40, us / 5, name)

    return steps(count, us, body, into=TinyTrace(gpu=gpu)).build()


def test_verdicts_carry_their_bounds() -> None:
    faster = compare(of_length(1000), of_length(500))
    assert faster.judgement.outcome is Outcome.FASTER
    assert "(between 1.9" in faster.verdict
    alike = compare(of_length(1000), of_length(1005))
    assert alike.judgement.outcome is Outcome.NO_DIFFERENCE_SEEN
    assert alike.verdict.startswith("No difference beyond the noise")


def test_another_gpu_is_not_comparable_and_the_reason_is_told() -> None:
    result = compare(of_length(1000, gpu="A"), of_length(500, gpu="B"))
    assert result.judgement.outcome is Outcome.NOT_COMPARABLE
    assert result.verdict.startswith("Not comparable: different GPUs: A and B. As recorded: 2.00x faster")
    assert result.gate(5)[0] is Decision.INCONCLUSIVE


def test_the_steps_of_several_ranks_are_one_step_each() -> None:
    both = TinyTrace()
    for rank in (0, 1):
        both.rank = rank
        steps(4, 1000, lambda trace, _: trace.kernels(0, 5, 40, 200), into=both)
    result = compare(both.build(), of_length(1000, count=4))
    assert result.judgement.ratio is not None
    assert len(result.judgement.ratio.before.ns) == 4


@pytest.mark.parametrize(
    ("ns", "slow"), [([100.0, 100, 199, 100], []), ([100.0, 100, 200, 100], [2])], ids=["1.99 times", "twice"]
)
def test_a_step_of_twice_the_median_is_slow(ns: list[float], slow: list[int]) -> None:
    assert StepTimes(np.array(ns)).slow.tolist() == slow


@pytest.mark.parametrize(
    ("ns", "drifts"),
    [
        ([100.0, 101, 102, 103, 104], True),
        ([100.0, 101, 102, 103], False),
        ([100.0, 100.5, 101, 101.5, 102], False),
        ([100.0, 100.8, 101.6, 102.4, 103.2], True),
        ([100.0, 110, 101, 109, 102, 108, 103, 107], False),
        ([100.0, 120, 105, 125, 110, 130, 115, 135], False),
    ],
    ids=["in order", "too few", "1.5 %", "2.4 %", "no order", "hardly any order"],
)
def test_steps_drift_where_their_order_is_no_chance_and_the_halves_differ(
    ns: list[float], drifts: bool
) -> None:
    assert bool(StepTimes(np.array(ns)).drift) is drifts


@pytest.mark.parametrize(("steps_", "blocks"), [(1000, 1000), (1001, 1000), (5000, 1000)])
def test_of_more_than_a_thousand_steps_means_are_resampled(steps_: int, blocks: int) -> None:
    assert len(block_means(np.arange(1.0, steps_ + 1))) == blocks


def test_steps_that_are_all_alike_may_still_differ_by_two_percent_each() -> None:
    """Of nine steps the mean by 0.67 %, in 95 of 100 samples by 2.26 times as much, as Student's t of nine says."""
    times = StepTimes(np.full(9, 100.0))
    low, high = np.quantile(times.resampled_means(times.random()) / 100, [0.025, 0.975])
    assert 1.0135 < high < 1.0170
    assert 0.9830 < low < 0.9865
    assert len(times.resampled_means(times.random())) == 4000
