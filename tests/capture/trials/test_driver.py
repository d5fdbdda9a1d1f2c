"""Blocks are timed by counting steps, in an order in which drift cancels, and time goes to what is close."""

from __future__ import annotations

import math
import threading

import pytest

from tests.capture.trials.pretended import PretendedProcess, Together
from viewer.capture.torch_runner.stallscope_recorder.trials.driver import (
    ENDING,
    LOSSES,
    MAX_STEPS,
    MIN_BLOCK,
    MIN_STEPS,
    SLOW_STEP,
    USUAL_STEPS,
    Driver,
    Limits,
)
from viewer.capture.torch_runner.stallscope_recorder.trials.schedule import (
    CONTROL,
    MAX_CLOSE_ROUNDS,
    MIN_LEAD,
    MIN_ROUNDS,
    TOGETHER,
    Candidate,
    Names,
    Schedule,
    Standing,
    Timed,
)

GAINS = {"quick": 2.0, "fast": 1.5, "slow": 0.5, "nothing": 1.0}


def step_time(changes: Names, step: int) -> float:
    """A step of 0.1 s with noise of 2 % that nobody can predict, divided by every gain."""
    taken = 0.1 * (1 + 0.02 * ((step * 7919 + step * step * 104729) % 101 / 100 - 0.5))
    for each in changes:
        taken /= GAINS.get(each, 1.0)
    return taken


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def test_the_order_of_blocks_cancels_drift() -> None:
    process = PretendedProcess(lambda changes, step: 0.1 + 0.001 * step)
    process.drive([Candidate("nothing")], rounds=2)
    assert process.order(CONTROL) == "ABBABAAB"
    without, with_it = (
        sum(each["ns"] for each in process.blocks(CONTROL) if each["variant"] == variant) for variant in "AB"
    )
    assert with_it == pytest.approx(without, rel=1e-6), "what grows evenly gives the same sum on both sides"


def test_what_is_clear_stops_early_and_what_is_close_gets_more_blocks() -> None:
    process = PretendedProcess(step_time)
    process.drive([Candidate("quick"), Candidate("slow"), Candidate("nothing")])
    assert process.order("quick") == process.order("slow") == "ABBABAAB"
    assert len(process.blocks("nothing")) == 4 * (3 + MAX_CLOSE_ROUNDS)
    end = process.end()
    assert (end["kind"], end["reason"], end["together"]) == ("end", "complete", ["quick"])
    assert end["steps"] == process.step


def test_a_block_holds_no_step_of_settling_and_times_what_its_changes_take() -> None:
    def taken(changes: Names, step: int) -> float:
        if process.turned and step - process.turned[-1][0] < 2:
            return 5.0
        return 0.05 if changes else 0.1

    process = PretendedProcess(taken)
    process.drive([Candidate("quick")])
    for block in process.blocks("quick"):
        assert block["steps"] == 4
        assert block["ns"] == pytest.approx(4 * (5e7 if block["variant"] == "B" else 1e8))
    changed = [each for each in process.blocks("quick") if each["settle_ns"]]
    assert [each["settle_ns"] for each in changed] == [pytest.approx(9.8e9)] * len(changed)
    assert len(changed) == 5, "A B B A B A A B changes five times after the first block"


def test_count_the_time_of_settling_against_the_limit() -> None:
    def taken(changes: Names, step: int) -> float:
        return 50.0 if process.turned and step == process.turned[-1][0] and changes else 0.1

    process = PretendedProcess(taken)
    process.drive([Candidate("slow"), Candidate("nothing")], seconds=60.0)
    assert process.end()["reason"] == "time"
    assert not process.blocks("nothing")


def test_the_first_steps_are_left_alone() -> None:
    slow_start = PretendedProcess(lambda changes, step: 60.0 if step < 7 else 0.1)
    slow_start.drive([], skip=7)
    assert all(each["ns"] == pytest.approx(4e8) for each in slow_start.blocks(CONTROL))


@pytest.mark.parametrize(
    ("step", "seconds", "steps"),
    [
        (0.1, 1000.0, USUAL_STEPS),
        (MIN_BLOCK / 39.5, 1000.0, 40),
        (MIN_BLOCK / 1e6, 1000.0, MAX_STEPS),
        (0.1, 16.6, 4),
        (0.1, 16.4, 3),
        (SLOW_STEP - 0.01, 20.0, MIN_STEPS),
        (SLOW_STEP, 20.0, 1),
    ],
)
def test_a_block_is_as_long_as_fits_the_time_and_long_enough_to_tell(
    step: float, seconds: float, steps: int
) -> None:
    process = PretendedProcess(lambda changes, number: step)
    process.drive([Candidate("nothing")], seconds=seconds, steps=0)
    assert [each["steps"] for each in process.lines if each["kind"] == "steps"] == [steps]


@pytest.mark.parametrize(("workers", "steps"), [(0, USUAL_STEPS), (2, USUAL_STEPS), (3, 12), (99, MAX_STEPS)])
def test_a_block_holds_several_turns_of_the_workers_of_a_loader(workers: int, steps: int) -> None:
    process = PretendedProcess(lambda changes, number: 0.1)
    process.drive([], seconds=10_000.0, steps=0, turn=workers)
    assert [each["steps"] for each in process.lines if each["kind"] == "steps"] == [steps]


def test_the_winners_are_timed_together_before_the_time_is_up() -> None:
    gains = {"a": 2.0, "b": 1.2, **{f"nothing{number}": 1.0 for number in range(6)}}
    compiled: list[int] = []

    def taken(changes: Names, step: int) -> float:
        compiles = "compile" in changes and not compiled
        if compiles:
            compiled.append(step)
        noise = 1 + 0.02 * ((step * 7919 + step * step * 104729) % 101 / 100 - 0.5)
        return 20.0 if compiles else 0.1 * noise / math.prod(gains.get(each, 1.0) for each in changes)

    process = PretendedProcess(taken)
    candidates = [
        *(Candidate(name) for name in gains),
        Candidate("compile", compiles=True),
        Candidate("never reached", compiles=True, compiling=60.0),
    ]
    process.drive(candidates, seconds=75.0, steps=0)
    end = process.end()
    assert end["together"] == ["a", "b"]
    assert process.order(TOGETHER)[:8] == "ABBABAAB"
    assert all(process.order(name)[:8] == "ABBABAAB" for name in gains)
    assert process.clock - 100.0 < 80.0
    assert (end["reason"], process.blocks("never reached")) == ("time", [])


@pytest.mark.parametrize(("winners", "comparisons"), [(("quick",), 1), (("quick", "fast"), 3)])
def test_time_is_left_to_compare_the_losses_of_the_unchanged_program_of_every_winner_and_of_all_together(
    winners: tuple[str, ...], comparisons: int
) -> None:
    took = {}
    for start in (0.0, 5.0):
        process = PretendedProcess(step_time)
        close = [Candidate(f"nothing {number}") for number in range(40)]
        process.drive([*map(Candidate, winners), *close], seconds=100.0, start=start)
        took[start] = process.clock - 100.0
        assert process.end()["together"] == list(winners)
    left = 100.0 - (1 + comparisons) * (5.0 + LOSSES * 0.1 + ENDING)
    assert took[5.0] < left + 0.1 * (4 * USUAL_STEPS + 20)
    assert took[5.0] < took[0.0] - 10.0


def test_what_compiles_is_told_as_left_out_where_the_time_was_up_before() -> None:
    process = PretendedProcess(step_time)
    process.drive([Candidate("nothing"), Candidate("same"), Candidate("compile", compiles=True)], seconds=7.0)
    assert not process.blocks("compile")
    assert process.end()["reason"] == "time"


@pytest.mark.parametrize(
    ("compiling", "weight", "begins"), [(20.0, 1.0, True), (80.0, 1.0, False), (80.0, 1.5, True)]
)
def test_compiling_does_not_take_the_time_of_the_winner_unless_much_is_promised_of_it(
    compiling: float, weight: float, begins: bool
) -> None:
    process = PretendedProcess(step_time)
    compiled = Candidate("compile", weight, compiles=True, compiling=compiling)
    process.drive([Candidate("quick"), compiled], seconds=100.0, start=5.0)
    assert bool(process.blocks("compile")) is begins
    assert process.end()["reason"] == ("complete" if begins else "time")


@pytest.mark.parametrize("exclude_each_other", [True, False])
def test_compiling_is_reached_where_losses_of_rivals_that_nobody_would_keep_can_wait(
    exclude_each_other: bool,
) -> None:
    """As of a small language model: twelve changes, 120 s, of which each later launch takes 11 s."""
    gains = {"bf16": 1.9, "tf32": 1.67, "fused": 1.22, "foreach": 1.17}
    groups = {"bf16": "precision", "tf32": "precision", "fused": "optimizer", "foreach": "optimizer"}
    compiled: list[int] = []

    def taken(changes: Names, step: int) -> float:
        if "compile" in changes and not compiled:
            compiled.append(step)
            return 25.0
        return 0.56 * step_time((), step) / math.prod(gains.get(each, 1.0) for each in changes)

    process = PretendedProcess(taken)
    won = [Candidate(name, group=groups[name] if exclude_each_other else "") for name in gains]
    nothing = [Candidate(f"nothing {number}", joins=False) for number in range(7)]
    slow = Candidate("compile", compiles=True, compiling=25.0)
    process.drive([*won, *nothing, slow], seconds=110.0, start=7.5, steps=0)
    measured = {each["candidate"] for each in process.lines if each["kind"] == "block"}
    assert {each.name for each in (*won, *nothing)} <= measured, "before more blocks for what is close"
    assert ("compile" in measured) is exclude_each_other
    assert process.end()["reason"] == ("complete" if exclude_each_other else "time")
    if exclude_each_other:
        assert len(process.blocks("compile")) >= 4 * MIN_ROUNDS
        assert process.clock - 100.0 < 110.0 - 3 * (7.5 + LOSSES * 0.056 + ENDING)


def test_what_is_close_leaves_the_seconds_that_compiling_takes() -> None:
    began = []
    for compiling in (0.0, 45.0, 80.0):
        process = PretendedProcess(step_time)
        close = [Candidate(f"nothing {number}", joins=False) for number in range(8)]
        process.drive(
            [*close, Candidate("compile", compiles=True, compiling=compiling)], seconds=100.0, steps=0
        )
        blocks = [each for each in process.lines if each["kind"] == "block"]
        first = next(at for at, each in enumerate(blocks) if each["candidate"] == "compile")
        began.append(blocks[first - 1]["spent_s"])
    assert began[0] > began[1] > began[2] - 1.0
    assert began[1] < 100.0 - 45.0
    assert began[2] < 0.5 * 100.0, "but what is quick has two fifths of the time at least"


def test_measuring_has_its_part_of_the_time_however_long_the_program_takes_to_start() -> None:
    process = PretendedProcess(step_time)
    process.drive([Candidate("quick"), Candidate("fast")], seconds=60.0, start=50.0, steps=0)
    assert process.end()["together"] == ["quick", "fast"]
    assert process.order(TOGETHER)[:8] == "ABBABAAB"


@pytest.mark.parametrize(
    ("compiled", "together"),
    [(1.0, ("quick", "fast")), (1.4, ("quick", "fast", "compile")), (3.0, ("quick", "fast", "compile"))],
)
def test_what_compiles_is_joined_to_the_winners_that_were_timed_together_before(
    compiled: float, together: tuple[str, ...]
) -> None:
    def taken(changes: Names, step: int) -> float:
        return step_time(changes, step) / (compiled if "compile" in changes else 1.0)

    process = PretendedProcess(taken)
    process.drive([Candidate("compile", compiles=True), Candidate("fast"), Candidate("quick")])
    assert tuple(process.end()["together"]) == together
    names = list(dict.fromkeys(each["candidate"] for each in process.lines if each["kind"] == "block"))
    assert names.index(TOGETHER) < names.index("compile")
    made = dict.fromkeys(tuple(each["changes"]) for each in process.blocks(TOGETHER) if each["changes"])
    assert list(made)[-1] == together
    assert not [name for name in names if "after compile" in name]


def test_winners_stay_those_that_were_timed_where_no_time_is_left_for_one_more() -> None:
    def taken(changes: Names, step: int) -> float:
        return step_time(changes, step) / (1.4 if "compile" in changes else 1.0)

    process = PretendedProcess(taken)

    def run_out(driver: Driver, step: int) -> None:
        if process.blocks("compile after quick and fast"):
            process.clock += 5.0

    candidates = [Candidate("compile", compiles=True), Candidate("fast"), Candidate("quick")]
    process.drive(candidates, seconds=100.0, at_step=run_out)
    assert process.end()["together"] == ["quick", "fast"]


@pytest.mark.parametrize(
    ("step", "skip", "warm"),
    [(0.1, 10, 4), (0.59, 10, 4), (0.61, 9, 4), (1.6, 3, 3), (3.0, 2, 2), (60.0, 2, 2)],
)
def test_slow_steps_leave_less_of_the_time_to_the_beginning(step: float, skip: int, warm: int) -> None:
    limits = Limits(120.0, 10, 3).within(0.05, step)
    assert (limits.skip, limits.warm) == (skip, warm)


def test_time_is_shared_by_weight_and_what_it_does_not_reach_is_left_out() -> None:
    process = PretendedProcess(step_time)
    process.drive([Candidate("nothing", 1.0), Candidate("same", 1.0), Candidate("late", 1.0)], seconds=7.0)
    assert process.blocks("nothing")
    assert not process.blocks("late")
    assert process.end()["reason"] == "time"
    assert process.clock - 100.0 < 7.0 + 3 * 0.1 + 4 * 0.1 + 4 * 0.5, (
        "the limit is passed by one round at most"
    )


def test_winners_are_joined_from_the_best_on_and_measured_as_a_whole() -> None:
    process = PretendedProcess(step_time)
    driver = process.drive([Candidate("fast"), Candidate("nothing"), Candidate("quick"), Candidate("slow")])
    assert driver.over
    assert process.end()["together"] == ["quick", "fast"]
    added = process.blocks("fast after quick")
    assert {tuple(each["changes"]) for each in added} == {("quick",), ("quick", "fast")}
    whole = process.blocks(TOGETHER)
    assert {tuple(each["changes"]) for each in whole} == {(), ("quick", "fast")}
    times = {
        variant: median([each["ns"] for each in whole if each["variant"] == variant]) for variant in "AB"
    }
    assert times["A"] / times["B"] == pytest.approx(3.0, rel=0.03)


def test_what_adds_nothing_to_the_best_ends_the_joining() -> None:
    def overlapping(changes: Names, step: int) -> float:
        return step_time(("quick",) if "quick" in changes else changes, step)

    process = PretendedProcess(overlapping)
    process.drive([Candidate("fast"), Candidate("quick")])
    assert process.end()["together"] == ["quick"]
    assert not process.blocks(TOGETHER), "one winner was measured by itself already"


def test_ceilings_and_rivals_do_not_join() -> None:
    process = PretendedProcess(step_time)
    process.drive([Candidate("quick", joins=False), Candidate("fast", group="precision")])
    assert process.end()["together"] == ["fast"]
    rivals = PretendedProcess(step_time)
    rivals.drive([Candidate("quick", group="precision"), Candidate("fast", group="precision")])
    assert rivals.end()["together"] == ["quick"]


def test_a_change_that_cannot_be_made_is_told_once_and_passed_over() -> None:
    process = PretendedProcess(step_time, fails={"broken": "RuntimeError: no kernel"})
    process.drive([Candidate("broken"), Candidate("quick")])
    refused = [each for each in process.lines if each["kind"] == "refused"]
    assert refused == [{"kind": "refused", "candidate": "broken", "reason": "RuntimeError: no kernel"}]
    assert [each["variant"] for each in process.blocks("broken")] == ["A"]
    assert process.order("quick") == "ABBABAAB"
    assert process.made == ()


def test_a_change_that_fails_inside_its_block_is_taken_back_at_once() -> None:
    def fail(driver: Driver, step: int) -> None:
        if process.made == ("broken",):
            driver.failed("OutOfMemoryError: 3 GiB")

    process = PretendedProcess(step_time)
    process.drive([Candidate("broken"), Candidate("quick")], at_step=fail)
    assert [each["reason"] for each in process.lines if each["kind"] == "refused"] == [
        "OutOfMemoryError: 3 GiB"
    ]
    assert process.order("quick") == "ABBABAAB"


def test_a_script_that_ends_leaves_what_is_known_and_nothing_made() -> None:
    process = PretendedProcess(step_time)
    driver = process.drive([Candidate("quick")], most=60)
    driver.script_failed("ValueError: shape")
    driver.finish("stopped")
    kinds = [each["kind"] for each in process.lines]
    assert kinds.count("end") == 1
    assert process.end()["reason"] == "failed"
    assert process.made == ()


def test_ranks_change_at_the_same_step_and_the_slowest_counts() -> None:
    together = Together(2)

    def of_rank(rank: int) -> PretendedProcess:
        def taken(changes: Names, step: int) -> float:
            return step_time(changes, step) * (1 + rank * (1.0 if step % 16 < 8 else -0.4))

        return PretendedProcess(taken, together=together, rank=rank, fails={"broken": "no"} if rank else {})

    ranks = [of_rank(0), of_rank(1)]
    candidates = [Candidate("broken"), Candidate("nothing"), Candidate("quick")]
    threads = [threading.Thread(target=each.drive, args=(candidates, 40.0)) for each in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    first, second = ranks
    assert first.step == second.step
    assert [step for step, _ in first.turned] == [step for step, _ in second.turned]
    slowest = [each["slowest_ns"] for each in first.lines if each["kind"] == "block"]
    assert slowest == [each["slowest_ns"] for each in second.lines if each["kind"] == "block"]
    for mine, other in zip(first.blocks("quick"), second.blocks("quick"), strict=True):
        assert mine["slowest_ns"] == max(mine["ns"], other["ns"])
    refused = [[each["reason"] for each in one.lines if each["kind"] == "refused"] for one in ranks]
    assert refused == [["it failed on another rank"], ["no"]]


def test_blocks_of_batches_of_different_size_are_compared_by_element() -> None:
    def batch(step: int) -> int:
        return 1000 if step // 16 % 2 else 4000

    process = PretendedProcess(
        lambda changes, step: step_time(changes, step) * batch(step) / 1000, batch=batch, settle=0
    )
    process.drive([Candidate("fast"), Candidate("nothing")], rounds=3)
    assert process.end()["together"] == ["fast"]


@pytest.mark.parametrize(("better", "wins"), [(9, True), (8, False)])
def test_a_winner_is_shorter_in_nearly_all_pairs(better: int, wins: bool) -> None:
    standing = Standing()
    for number in range(10):
        standing.add("B", Timed(0.9 if number < better else 1.1))
    standing.add("A", Timed(1.0))
    assert (standing.lead >= MIN_LEAD) is wins


@pytest.mark.parametrize(("rounds", "clear"), [(MIN_ROUNDS - 1, False), (MIN_ROUNDS, True)])
def test_nothing_is_clear_after_too_few_blocks(rounds: int, clear: bool) -> None:
    standing = Standing()
    standing.rounds = rounds
    standing.add("A", Timed(1.0))
    standing.add("B", Timed(0.5))
    assert standing.is_clear is clear


def test_a_schedule_without_candidates_and_rounds_is_over_at_once() -> None:
    assert Schedule([], 10.0, lambda: 0.0, 0).next(None) is None


@pytest.mark.parametrize(("gain", "reached"), [(1.0, True), (1.5, False)], ids=["nothing won", "one won"])
def test_what_is_kept_for_losses_is_spent_where_nothing_has_any_to_compare(
    gain: float, reached: bool
) -> None:
    process = PretendedProcess(lambda changes, step: 1 / gain if "first" in changes else 1.0, settle=0)
    candidates = [Candidate("first", weight=4.0), Candidate("second"), Candidate("last")]
    process.drive(candidates, seconds=200.0, start=38.0)
    assert (len(process.blocks("last")) >= 4 * MIN_ROUNDS) is reached
    assert process.end()["reason"] == ("complete" if reached else "time")
