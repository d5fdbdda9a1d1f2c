"""What bringing late ranks up to the others promises."""

from __future__ import annotations

import pytest

from parsers.model import CopyKind
from parsers.ranks.merge import merge
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal
from rules.fixes.catalog.mend_late_ranks import MendLateRanks
from rules.fixes.changes import copies
from rules.fixes.plan import Plan, make_plan
from rules.replay.late_ranks import gain_without_late_ranks
from rules.wording.words import ANYBODY
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


def mended_ranks(
    extra: int = 0,
    slow: float = 20.0,
    waited_for: bool = True,
    grids: tuple[int, int] | None = None,
    reads: bool = False,
) -> Plan:
    """Three ranks, of which rank 1 launches more, and for longer kernels; else the others begin late.

    ``grids``: the blocks of a kernel on rank 1, and on the others. Where it ``reads``, rank 1 waits for a value.
    """
    trace = TinyTrace()
    for rank in range(3):
        own, each = (extra, slow) if rank == 1 else (0, 20.0)
        begun = 330 + (0 if waited_for or rank == 1 else 400)
        size = {"grid": grids[rank != 1]} if grids else {}

        def body(
            made: TinyTrace,
            _: int,
            own: int = own,
            each: float = each,
            rank: int = rank,
            begun: int = begun,
            size: dict[str, int] = size,
        ) -> None:
            made.kernels(10, 40, 5, 8, device=rank, **size)
            launch = begun - 20
            for place in range(40 + own):
                at = begun + place * each
                made.operation(at, at + each, "void some_kernel", launch + place * 5, device=rank, **size)
            ready = begun + (40 + own) * each
            if reads and rank == 1:
                launched = launch + (40 + own) * 5
                made.copy(ready, ready + 2, "DtoH", launched + 1, device=1, bytes=4, launch_us=1)
                made.call(launched + 3, ready + 5, "cudaStreamSynchronize")
                launch += ready + 8 - launched
            end = 10 + max(330 + (40 + extra) * slow, 0 if waited_for else 730 + 40 * 20)
            made.collective(ready, end, launch + (40 + own) * 5, device=rank, stream=7)
            made.call(launch + 10 + (40 + own) * 5, end + 10, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, 4_000, body, into=trace)
    return make_plan(Analysis(trace.build()))


@pytest.mark.parametrize(
    ("extra", "launched"), [(42, True), (19, False), (0, False)], ids=["half as many again", "fewer", "none"]
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


LOOK, GIVE = "Look at rank 1's GPU", "Give rank 1 the same amount of GPU work as the others"


def proposed(made: Plan) -> list[Proposal]:
    return list(MendLateRanks().proposals(made.replay.analysis, made.replay))


@pytest.mark.parametrize(
    ("slow", "grids", "title", "advised"),
    [
        (24.0, (50, 50), "the same kernels take 16 % longer on its GPU", [LOOK]),
        (21.5, (50, 50), "the same kernels take 6.0 % longer on its GPU", [LOOK]),
        (24.0, (51, 50), "the same kernels take 16 % longer on its GPU", [LOOK]),
        (24.0, (60, 50), "its GPU has 20 % more work", [GIVE]),
        (24.0, None, "its kernels take longer", [GIVE, LOOK]),
    ],
    ids=["same work", "just slower", "grids as large but for chance", "larger grids", "grids unknown"],
)
def test_a_rank_whose_same_kernels_take_longer_is_told_to_look_at_its_gpu(
    slow: float, grids: tuple[int, int] | None, title: str, advised: list[str]
) -> None:
    (mended,) = proposed(mended_ranks(slow=slow, grids=grids))
    assert title in mended.title
    assert [text.split(":")[0] for text in mended.remedy.advice_for(ANYBODY)] == advised


def test_a_rank_whose_same_kernels_take_hardly_longer_is_not_mended() -> None:
    assert not proposed(mended_ranks(slow=20.8, grids=(50, 50)))


def test_a_rank_that_launches_more_is_not_told_that_the_same_kernels_take_longer() -> None:
    (mended,) = proposed(mended_ranks(42, 24.0, grids=(50, 50)))
    assert "same kernels" not in mended.title
    assert mended.remedy.advice_for(ANYBODY)[0].startswith(GIVE)


def test_a_rank_that_has_more_to_compute_gives_it_to_the_others() -> None:
    """Two thirds of what it takes longer are gained: the rest is then computed by all three."""
    more, slower = (
        next(
            each.expected for each in mended_ranks(slow=30.0, grids=grids).promises if each.proposal.rank == 1
        )
        for grids in ((75, 50), (50, 50))
    )
    assert (1 - 1 / more) / (1 - 1 / slower) == pytest.approx(2 / 3, abs=0.04)


@pytest.mark.parametrize(("extra", "left"), [(77, True), (83, False)])
def test_a_value_that_is_read_in_work_of_which_the_others_do_less_than_half_is_read_no_more(
    extra: int, left: bool
) -> None:
    """The others launch 80 kernels and a collective."""
    made = mended_ranks(extra, reads=True)
    (mended,) = proposed(made)
    after = made.replay.overlay([mended.expected])
    assert after.present[copies(made.replay, CopyKind.D2H)].all() == left


def launched_slowly(each: float, blocks: tuple[int, int] = (50, 150), late: int = 0) -> Plan:
    """Two ranks that launch slowly, as under a profiler; rank 1's kernels take ``each`` us of 190, the others 50.

    Rank ``late`` arrives last at the collectives.
    """
    trace = TinyTrace()
    for rank in range(2):
        kernel = each if rank else 50.0

        def body(made: TinyTrace, _: int, rank: int = rank, kernel: float = kernel) -> None:
            for place in range(20):
                for record in range(12):
                    made.op(20 + place * 190 + record * 14, 30 + place * 190 + record * 14, "aten::view")
                launch = 195 + place * 190
                made.operation(
                    launch + 8, launch + 8 + kernel, "void gemm", launch, device=rank, grid=blocks[rank]
                )
            for place in range(2):
                begin = 4_000 + place * 200 + (130 if rank == late else 0)
                made.collective(begin, 4_160 + place * 200, begin - 10, device=rank, stream=7)
            made.call(4_350, 4_370, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, 4_400, body, into=trace)
    return make_plan(Analysis(trace.build()))


@pytest.mark.parametrize(("each", "bounds"), [(150.0, True), (55.0, False)], ids=["nearly all", "a third"])
def test_a_gpu_that_computes_nearly_all_of_a_step_is_waited_for_without_the_profiler(
    each: float, bounds: bool
) -> None:
    """Rank 0 arrives last in the recording, and has nothing of its own to mend."""
    made = proposed(launched_slowly(each))
    assert [one.problem for one in made] == (["Work is unequal: rank 1 computes longest"] if bounds else [])


@pytest.mark.parametrize(
    ("blocks", "gains"), [((50, 50), True), ((50, 150), False)], ids=["as large grids", "larger grids"]
)
def test_more_work_of_another_rank_does_not_go_with_a_late_one(blocks: tuple[int, int], gains: bool) -> None:
    """Kernels that take longer beside a waiting collective go as far as the work is the same."""
    gain = gain_without_late_ranks(launched_slowly(150.0, blocks).replay.analysis)
    assert gain is not None
    assert (gain > 1.1) is gains


def worked(ranks: int = 2, own_us: float = 2_000.0, others_us: float = 0.0) -> Plan:
    """Ranks of which the first works on its own for 2 ms of each step, and the others less, until all meet."""
    traces = []
    for rank in range(ranks):
        trace = TinyTrace(rank=rank)
        takes = others_us if rank else own_us

        def body(made: TinyTrace, _: int, takes: float = takes) -> None:
            made.kernels(10, 30, 8, 10)
            made.kernels(320 + takes, 30, 8, 10)
            made.collective(640 + takes, 3_500, 630 + takes)
            made.call(650 + takes, 3_510, "cudaDeviceSynchronize")

        traces.append(steps(6, 3_600, body, into=trace).build())
    return make_plan(Analysis(merge(traces) if ranks > 1 else traces[0]))


@pytest.mark.parametrize(
    ("changed", "alone"),
    [
        ({}, True),
        ({"ranks": 3}, True),
        ({"own_us": 2_700.0, "others_us": 270.0}, True),
        ({"own_us": 2_200.0, "others_us": 270.0}, False),
        ({"others_us": 2_000.0}, False),
        ({"ranks": 1}, False),
    ],
    ids=["one of two", "one of three", "nearly all", "most", "all ranks do", "there is one rank"],
)
def test_work_that_one_rank_alone_does_is_told_as_its_own(changed: dict[str, float], alone: bool) -> None:
    plan = worked(**changed)  # type: ignore[arg-type]
    (proposal,) = (each.proposal for each in plan.promises if each.proposal.fix == "move-host-phase")
    assert (", which only rank 0 does, off the critical path: " in proposal.title) is alone
    assert (Category.STRAGGLER in proposal.categories) is alone
    assert (proposal.rank == 0) is alone
