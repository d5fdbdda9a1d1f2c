"""Values that are reduced over the ranks and read back one by one are one cause, with one promise."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.fixes.plan import Promise, make_plan
from tests.rules.builder import TinyTrace, steps

ROUND_US = 450


def plan_of_values(
    rounds: int,
    *,
    bytes_read: int = 4,
    transfer: float = 5.0,
    launches: int = 1,
    own: float = 0.0,
    reads: bool = True,
    barriers: int = 0,
    loss: float = 1_000,
    updates: bool = True,
) -> dict[str, Promise]:
    """Two ranks whose steps of ``loss`` us on the GPU end with so many values, each of so many further launches."""
    trace = TinyTrace()
    for rank in range(2):

        def body(made: TinyTrace, _: int, rank: int = rank) -> None:
            made.kernels(10, 20, loss / 20 - 1, loss / 20, device=rank)
            made.call(40 + loss, 60 + loss, "cudaDeviceSynchronize")
            for number in range(rounds + barriers):
                at = loss + 100 + number * (ROUND_US + own)
                made.op(at - 30, at + 330, "c10d::allreduce_")
                for each in range(5):
                    made.op(at + each * 55, at + 50 + each * 55, "aten::linalg_vector_norm")
                for each in range(launches - 1):  # a collective is a launch as well
                    made.operation(
                        at + 20 + each * 10, at + 22 + each * 10, "norm", at + 10 + each * 10, device=rank
                    )
                made.collective(at + 300, at + 300 + transfer, at + 290, device=rank, stream=7)
                done = at + 310 + transfer
                if number < rounds and reads:
                    made.op(at + 335, at + 470, "aten::item")
                    made.copy(done + 40, done + 42, "DtoH", at + 340, bytes=bytes_read, device=rank)
                if number >= rounds or reads:
                    made.call(at + 350, max(done + 45, at + 360), "cudaStreamSynchronize")

            if updates:
                end = loss + 150 + (rounds + barriers) * (ROUND_US + own)
                made.operation(end + 6, end + 16, "void update", end, device=rank)

        trace.rank = rank
        steps(6, loss + 200 + (rounds + barriers) * (ROUND_US + own), body, into=trace)
    return {each.proposal.fix: each for each in make_plan(Analysis(trace.build())).promises}


def test_what_they_cost_is_one_promise() -> None:
    promises = plan_of_values(20)
    promise = promises["reduce-values-together"]
    assert promise.proposal.title.startswith(
        "Reduce 20 values together: each has a collective and a read-back"
    )
    assert promise.expected > 3
    assert not promises.keys() & {"remove-read-backs", "move-host-phase", "fewer-collectives"}


@pytest.mark.parametrize(("rounds", "found"), [(3, True), (2, False)])
def test_three_values_in_a_row_are_joined(rounds: int, found: bool) -> None:
    assert ("reduce-values-together" in plan_of_values(rounds)) is found


@pytest.mark.parametrize(("size", "found"), [(256, True), (260, False)])
def test_what_is_read_back_is_a_value(size: int, found: bool) -> None:
    assert ("reduce-values-together" in plan_of_values(8, bytes_read=size)) is found


@pytest.mark.parametrize(("transfer", "found"), [(100.0, True), (101.0, False)])
def test_a_collective_that_moves_much_is_no_value(transfer: float, found: bool) -> None:
    assert ("reduce-values-together" in plan_of_values(8, transfer=transfer)) is found


@pytest.mark.parametrize(("launches", "found"), [(19, True), (20, False)])
def test_rounds_that_do_much_are_no_values(launches: int, found: bool) -> None:
    # 20 launches with the copy, and 21
    assert ("reduce-values-together" in plan_of_values(8, launches=launches)) is found


def test_collectives_that_nobody_reads_back_are_another_cause() -> None:
    promises = plan_of_values(40, reads=False)
    assert "reduce-values-together" not in promises
    assert "fewer-collectives" in promises


def test_a_barrier_behind_the_values_goes_with_them() -> None:
    without, with_barrier = (
        plan_of_values(6, barriers=count)["reduce-values-together"].expected for count in (0, 3)
    )
    assert with_barrier > 1.1 * without


@pytest.mark.parametrize(("own", "stays"), [(180.0, False), (195.0, True)])
def test_what_the_program_does_itself_between_two_values_stays(own: float, stays: bool) -> None:
    gain = plan_of_values(8, own=own, loss=1_000)["reduce-values-together"].expected
    assert (gain < 2.2) is stays


def test_values_that_end_a_step_are_not_needed_in_it() -> None:
    before, behind = (plan_of_values(3, updates=each)["reduce-values-together"] for each in (True, False))
    assert before.proposal.title[:24] == behind.proposal.title[:24] == "Reduce 3 values together"
    assert behind.expected > 1.1 * before.expected
