"""What bringing late ranks up to the others promises."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.fixes.plan import Plan, make_plan
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import promised


@pytest.mark.parametrize(("late", "found"), [(900, True), (60, False)])
def test_a_rank_with_more_work_of_its_own_is_mended(late: float, found: bool) -> None:
    trace = TinyTrace()
    for rank in range(3):
        own = late if rank == 1 else 0.0

        def body(made: TinyTrace, _: int, own: float = own, rank: int = rank) -> None:
            made.kernels(10 + own, 12, 20, 50, device=rank)
            end = 640 + late
            made.collective(630 + own, end, 620 + own, device=rank, stream=7)
            for place in range(6):
                begin = end + place * 20
                made.operation(begin, begin + 20, "void some_kernel", 640 + own + place * 10, device=rank)
            made.call(720 + own, end + 130, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, 800 + late, body, into=trace)
    made = make_plan(Analysis(trace.build()))
    assert ("mend-late-ranks" in promised(made)) is found
    if found:
        promise = next(each for each in made.promises if each.proposal.fix == "mend-late-ranks")
        assert promise.proposal.rank == 1


def test_loading_takes_what_the_rank_that_loads_longest_waits_for() -> None:
    trace = TinyTrace()
    for rank in range(3):
        loads = 3_000 if rank == 1 else 400

        def body(made: TinyTrace, _: int, loads: float = loads, rank: int = rank) -> None:
            made.op(5, 5 + loads, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
            made.kernels(20 + loads, 12, 20, 50, device=rank)
            made.collective(700 + loads, 3_800, 690 + loads, device=rank, stream=7)
            made.call(700 + loads, 3_810, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, 4_000, body, into=trace)
    promises = make_plan(Analysis(trace.build())).promises
    (loading,) = (each for each in promises if each.proposal.fix == "load-data-in-workers")
    assert "loading a batch takes 3.00 ms in a step" in loading.proposal.title


def mended_ranks(extra: int = 0, slow: float = 20.0, waited_for: bool = True) -> Plan:
    """Three ranks, of which rank 1 launches more, and for longer kernels; else the others begin late."""
    trace = TinyTrace()
    for rank in range(3):
        own, each = (extra, slow) if rank == 1 else (0, 20.0)
        begun = 330 + (0 if waited_for or rank == 1 else 400)

        def body(
            made: TinyTrace, _: int, own: int = own, each: float = each, rank: int = rank, begun: int = begun
        ) -> None:
            made.kernels(10, 40, 5, 8, device=rank)
            launch = begun - 20
            for place in range(40 + own):
                at = begun + place * each
                made.operation(at, at + each, "void some_kernel", launch + place * 5, device=rank)
            ready = begun + (40 + own) * each
            end = 10 + max(330 + (40 + extra) * slow, 0 if waited_for else 730 + 40 * 20)
            made.collective(ready, end, launch + (40 + own) * 5, device=rank, stream=7)
            made.call(launch + 10 + (40 + own) * 5, end + 10, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, 4_000, body, into=trace)
    return make_plan(Analysis(trace.build()))


@pytest.mark.parametrize(
    ("extra", "launched"),
    [(42, True), (19, False), (0, False)],
    ids=["half as many again", "fewer", "none"],
)
def test_operations_that_only_one_rank_launches_are_counted(extra: int, launched: bool) -> None:
    made = [each for each in mended_ranks(extra).promises if each.proposal.fix == "mend-late-ranks"]
    assert (
        any(
            f"it launches {extra} more operations in a step than the others" in each.proposal.title
            for each in made
        )
        is launched
    )


def test_a_rank_that_nobody_waits_for_may_be_as_slow_as_it_likes() -> None:
    slow = {each.proposal.fix for each in mended_ranks(slow=24.0).promises}
    assert "mend-late-ranks" in slow
    ignored = {each.proposal.fix for each in mended_ranks(slow=24.0, waited_for=False).promises}
    assert "mend-late-ranks" not in ignored
