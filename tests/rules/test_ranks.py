"""Collectives are matched across ranks: transfers, waiting, the late rank, bandwidth and clocks."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model import Trace
from parsers.ranks.merge import merge
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.collectives import bus_factor, whole_message
from rules.analysis.ranks.late import Ranks
from rules.analysis.ranks.patterns import course_of
from rules.analysis.ranks.recorded import RecordedRun, ranks_of
from rules.findings.base import Category, Finding
from rules.wording.late_ranks import when
from tests.rules.builder import TinyTrace, steps


def run(
    arrivals: list[float],
    *,
    count: int = 3,
    end: float = 1000,
    clock: dict[int, float] | None = None,
    computes: bool = True,
) -> Trace:
    """One all-reduce a step; each rank computes until its arrival and all leave together."""

    def one(rank: int, arrives: float) -> Trace:
        shift = (clock or {}).get(rank, 0.0)

        def body(trace: TinyTrace, index: int) -> None:
            if computes:
                trace.operation(5 + shift, arrives + shift, "gemm", shift)
            trace.collective(arrives + shift, end + shift, 2 + shift)

        # every rank sees one moment in common, so that clocks stay as they are
        trace = TinyTrace(rank=rank)
        trace.call(0, 1, "cudaEventQuery")
        return steps(count, 1100, body, into=trace).build()

    return merge([one(rank, arrives) for rank, arrives in enumerate(arrivals)])


def test_the_shortest_participant_is_the_transfer_and_the_rest_is_waiting() -> None:
    meetings = ranks_of(Analysis(run([500, 900, 700]))).run.meetings
    assert meetings.size.tolist() == [3, 3, 3]
    assert meetings.transfer.tolist() == [100_000] * 3
    assert meetings.waiting.tolist() == [400_000, 0, 200_000] * 3
    assert meetings.row[meetings.last].tolist() == [1, 1, 1]


def test_the_rank_that_came_last_is_blamed_for_the_mean_waiting_of_the_others() -> None:
    ranks = ranks_of(Analysis(run([500, 900, 700])))
    assert ranks.run.meetings.caused_by_row.tolist() == [0, 3 * 300_000, 0]
    assert ranks.late == (1,)


@pytest.mark.parametrize("computes", [True, False])
def test_what_a_late_rank_does_instead_is_not_told_of_communication_alone(computes: bool) -> None:
    """Between the collectives of a recording that holds nothing else no GPU is known to be idle."""
    diagnosis = diagnose(run([500, 900, 700], computes=computes))
    (late,) = (each for each in diagnosis.findings if each.category is Category.STRAGGLER)
    assert "arrives last at 3 of 3" in late.explanation
    assert (" more of each step " in late.explanation) is computes


@pytest.mark.parametrize(
    ("count", "apart_us", "aligned"), [(3, 5_000_000.0, True), (1, 5_000_000.0, False), (3, 500.0, False)]
)
def test_a_few_collectives_align_recordings_that_otherwise_share_no_moment(
    count: int, apart_us: float, aligned: bool
) -> None:
    """Recordings that overlap tell no wrong clock from a wrong pair of so few collectives."""
    ranks = []
    for rank, arrives in enumerate((500.0, 900.0)):
        trace = TinyTrace(rank=rank)
        trace.call(0, 1, "cudaEventQuery")
        for index in range(count):
            trace.shift = 1100.0 * index + apart_us * rank
            trace.step(0, 1100, f"ProfilerStep#{index}")
            trace.operation(5, arrives, "gemm", 0)
            trace.collective(arrives, 1000, 2)
        ranks.append(trace.build())
    merged = merge(ranks)
    assert any(note.kind == "clock-skew" for note in merged.quality.notes) is aligned
    if aligned:
        (found,) = [each for each in diagnose(merged).findings if each.category is Category.STRAGGLER]
        assert found.rank == 1


def test_nobody_is_late_when_all_arrive_together() -> None:
    ranks = ranks_of(Analysis(run([900, 900, 900])))
    assert ranks.late == ()
    assert ranks.lost_to_late == 0


def test_bandwidth_counts_as_nccl_s_own_tests_do() -> None:
    row = ranks_of(Analysis(run([900, 900]))).collectives[0]
    assert (row.collective, row.bytes, row.count) == ("allreduce", 33_000_000, 3)
    assert row.algorithm_bandwidth == pytest.approx(33e6 / 100e-6)
    assert row.bus_bandwidth == pytest.approx(33e6 / 100e-6 * 2 * 3 / 4)  # the group has four ranks


@pytest.mark.parametrize(
    ("collective", "ranks", "factor"),
    [
        ("allreduce", 4, 1.5),
        ("allgather", 4, 0.75),
        ("reducescatter", 8, 0.875),
        ("broadcast", 4, 1.0),
        ("allreduce", 1, 1.0),
    ],
)
def test_bus_factors(collective: str, ranks: int, factor: float) -> None:
    assert bus_factor(collective, ranks) == factor


def test_an_all_gather_s_message_is_all_ranks_parts_together() -> None:
    assert whole_message("allgather", 10, 4) == 40
    assert whole_message("allreduce", 10, 4) == 10


def test_clocks_that_are_always_as_far_apart_are_known_exactly() -> None:
    ranks = ranks_of(Analysis(run([500, 900], clock={1: 30})))
    assert ranks.clock_error.tolist() == [0, 0]


def test_a_rank_that_lacks_a_collective_is_matched_step_by_step() -> None:
    def body(trace: TinyTrace, index: int, skip: bool) -> None:
        trace.operation(5, 400, "gemm", 0)
        if not (skip and index == 1):
            trace.collective(400, 500, 2)
        trace.collective(600, 700, 4, size=1000)

    traces = [
        steps(
            3, 1000, lambda trace, index, skip=skip: body(trace, index, skip), into=TinyTrace(rank=rank)
        ).build()
        for rank, skip in enumerate((False, True))
    ]
    ranks = ranks_of(Analysis(merge(traces)))
    meetings = ranks.run.meetings
    assert meetings.start[::2].tolist() == meetings.start[1::2].tolist()
    assert meetings.size.tolist() == [2] * 5


def test_recorded_sequence_numbers_decide() -> None:
    def one(rank: int, numbers: tuple[int, ...]) -> Trace:
        trace = TinyTrace(rank=rank)
        for place, number in enumerate(numbers):
            trace.collective(10 + place * 100, 60 + place * 100, place * 100, collective_sequence=number)
        return trace.build()

    run = ranks_of(Analysis(merge([one(0, (1, 2, 3)), one(1, (2, 3, 4))]))).run
    assert run.columns.sequence[run.places].tolist() == [2, 2, 3, 3]


def test_waiting_by_step_and_rank_is_a_table_for_a_heat_map() -> None:
    ranks = ranks_of(Analysis(run([500, 900, 700])))
    assert ranks.run.step_names == ("ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3")
    assert ranks.lateness.waited.T.tolist() == [[400_000, 0, 200_000]] * 3


def test_sixty_four_ranks_are_handled_and_the_late_one_is_named() -> None:
    arrivals = [500.0] * 64
    arrivals[37] = 950.0
    trace = run(arrivals)
    late = next(each for each in diagnose(trace).findings if each.category is Category.STRAGGLER)
    assert late.rank == 37
    assert "63 wait" in late.explanation
    assert ranks_of(Analysis(trace)).lateness.waited.shape == (64, 3)


@pytest.mark.parametrize(("other", "late"), [(300.0, 0), (390.0, 0), (400.0, None), (410.0, 1)])
def test_one_rank_must_cause_more_than_half_of_the_waiting(other: float, late: int | None) -> None:
    """Rank 0 comes 400 us late to the first of two all-reduces, rank 1 comes ``other`` us late to the second."""

    def one(rank: int) -> Trace:
        def body(trace: TinyTrace, index: int) -> None:
            first = 900.0 if rank == 0 else 500.0
            trace.operation(5, first, "gemm", 0)
            trace.collective(first, 1000, 2)
            second = 1400.0 + (other if rank == 1 else 0.0)
            trace.operation(1000, second, "gemm", 4)
            trace.collective(second, 2000, 6, size=5_000_000)

        return steps(3, 2000, body, into=TinyTrace(rank=rank)).build()

    assert ranks_of(Analysis(merge([one(0), one(1)]))).late == (() if late is None else (late,))


def names(ranks: Ranks[RecordedRun]) -> tuple[str, ...]:
    return tuple(party.name for party in ranks.parties)


def straggling(trace: Trace) -> Finding | None:
    return next((each for each in diagnose(trace).findings if each.category is Category.STRAGGLER), None)


def two_phases(late: dict[int, tuple[float, float]], ranks: int = 4, from_step: int = 0) -> Trace:
    """Two all-reduces a step of 2 ms; each rank in ``late`` comes so many us late to them, the others in time."""

    def one(rank: int) -> Trace:
        def body(trace: TinyTrace, index: int) -> None:
            first, second = late.get(rank, (0.0, 0.0)) if index >= from_step else (0.0, 0.0)
            trace.operation(5, 500 + first, "gemm", 0)
            trace.collective(500 + first, 1000, 2)
            trace.operation(1000, 1400 + second, "gemm", 4)
            trace.collective(1400 + second, 2000, 6, size=5_000_000)

        return steps(4, 2000, body, into=TinyTrace(rank=rank)).build()

    return merge([one(rank) for rank in range(ranks)])


def test_two_ranks_that_are_late_to_different_collectives_are_both_named() -> None:
    finding = straggling(two_phases({1: (400, 0), 3: (0, 390)}))
    assert finding is not None
    assert finding.rank == 1
    assert finding.culprit.text == "rank 1 and rank 3"
    assert "the other 2 wait for late ranks" in finding.explanation
    assert (
        "Rank 3 is late too: 49 % of the waiting is for it. This happens in every step."
        in finding.explanation
    )
    assert finding.ceiling_ns == 4 * 790_000


def test_a_rank_that_comes_late_but_never_last_is_named_with_its_part() -> None:
    trace = two_phases({1: (400, 400), 3: (350, 350)})
    assert ranks_of(Analysis(trace)).run.meetings.caused_by_row[3] == 0
    finding = straggling(trace)
    assert finding is not None
    assert finding.culprit.text == "rank 1 and rank 3"
    assert "Rank 3 is late too: 41 % of the waiting is for it" in finding.explanation


@pytest.mark.parametrize(("second", "named"), [(120.0, "rank 1"), (140.0, "rank 1 and rank 3")])
def test_a_second_late_rank_is_named_from_a_quarter_of_the_waiting(second: float, named: str) -> None:
    finding = straggling(two_phases({1: (400, 0), 3: (0, second)}))
    assert finding is not None
    assert finding.culprit.text == named


@pytest.mark.parametrize(("both", "named"), [(24.0, ("rank 1", "rank 3")), (20.0, ("rank 1",))])
def test_a_second_late_rank_must_cost_one_percent_of_the_step(both: float, named: tuple[str, ...]) -> None:
    trace = two_phases({1: (both, 0), 3: (0, both - 2)})
    assert names(ranks_of(Analysis(trace))) == named


@pytest.mark.parametrize(("third", "named"), [(60.0, ("rank 1", "rank 3")), (110.0, ())])
def test_equally_late_ranks_are_named_when_nearly_all_waiting_is_for_them(
    third: float, named: tuple[str, ...]
) -> None:
    """Of eight ranks, 1 and 3 each come 400 us late to one collective; rank 5 is a little late to the second."""

    def one(rank: int) -> Trace:
        def body(trace: TinyTrace, index: int) -> None:
            for place, (who, how_late) in enumerate(((1, 400.0), (3, 400.0), (5, third))):
                at = 1000 * place
                arrives = at + 500 + (how_late if rank == who else 0.0)
                trace.operation(at + 5, arrives, "gemm", at)
                trace.collective(arrives, at + 1000, at + 2, size=1_000_000 * (place + 1))

        return steps(3, 3000, body, into=TinyTrace(rank=rank)).build()

    assert names(ranks_of(Analysis(merge([one(rank) for rank in range(8)])))) == named


def test_when_most_ranks_are_late_the_early_ones_are_not_their_accusers() -> None:
    assert ranks_of(Analysis(two_phases({1: (400, 0), 2: (0, 400), 3: (390, 390)}))).late == ()


def test_since_when_is_told_for_each_late_rank() -> None:
    finding = straggling(two_phases({1: (400, 0), 3: (0, 390)}, from_step=2))
    assert finding is not None
    assert finding.explanation.count("This happens from ProfilerStep#3 on.") == 2


@pytest.mark.parametrize(("third", "named"), [(210.0, ("rank 1", "rank 3", "rank 5")), (190.0, ())])
def test_ranks_are_late_together_when_each_is_at_least_half_as_late_as_the_latest(
    third: float, named: tuple[str, ...]
) -> None:
    def one(rank: int) -> Trace:
        def body(trace: TinyTrace, index: int) -> None:
            for place, (who, how_late) in enumerate(((1, 400.0), (3, 390.0), (5, third))):
                at = 1000 * place
                arrives = at + 500 + (how_late if rank == who else 0.0)
                trace.operation(at + 5, arrives, "gemm", at)
                trace.collective(arrives, at + 1000, at + 2, size=1_000_000 * (place + 1))

        return steps(3, 3000, body, into=TinyTrace(rank=rank)).build()

    assert names(ranks_of(Analysis(merge([one(rank) for rank in range(8)])))) == named


@pytest.mark.parametrize(
    ("early", "said"),
    [(110.0, "This happens from ProfilerStep#3 on."), (130.0, "This happens in every step.")],
)
def test_a_late_rank_shows_in_steps_that_cost_a_third_of_the_costliest(early: float, said: str) -> None:
    def one(rank: int) -> Trace:
        def body(trace: TinyTrace, index: int) -> None:
            arrives = 500 + (rank == 1) * (400 if index >= 2 else early)
            trace.operation(5, arrives, "gemm", 0)
            trace.collective(arrives, 1000, 2)

        return steps(4, 1000, body, into=TinyTrace(rank=rank)).build()

    finding = straggling(merge([one(rank) for rank in range(3)]))
    assert finding is not None
    assert said in finding.explanation


@pytest.mark.parametrize(
    ("steps", "count", "told"),
    [
        ([0, 1, 2, 3], 4, "in every step"),
        ([2, 3], 4, "from step 2 on"),
        ([4, 5, 6, 7, 9], 10, "from step 4 on"),  # four of five from one on are nearly every
        ([3, 4, 5, 7], 8, "from step 3 on"),
        ([3, 4, 5], 8, "in 3 of 8 steps"),
        ([0, 3, 6], 9, "every 3rd step"),
        ([0, 3, 7], 10, "every 4th step"),
        ([0, 3, 8], 10, "in 3 of 10 steps"),
        ([5], 9, "in 1 of 9 steps"),
        ([], 9, ""),
    ],
)
def test_since_when_is_told_in_one_way(steps: list[int], count: int, told: str) -> None:
    assert (
        when(course_of(np.array(steps, np.int64), count), [f"step {number}" for number in range(count)])
        == told
    )


@pytest.mark.parametrize(("more", "told"), [(1.06, "computing: it has"), (1.04, "computing.")])
def test_who_computes_longer_has_more_to_do_from_a_twentieth_more_blocks_on(more: float, told: str) -> None:
    def one(rank: int) -> Trace:
        def body(trace: TinyTrace, index: int) -> None:
            own = (500.0, round(1000 * more)) if rank == 1 else (300.0, 1000)
            trace.operation(5, 5 + own[0], "gemm" if rank == 1 else "sgemm", 0, grid=own[1])
            trace.collective(10 + own[0], 1000, 2)

        return steps(4, 1000, body, into=TinyTrace(rank=rank)).build()

    finding = straggling(merge([one(rank) for rank in range(3)]))
    assert finding is not None
    assert told in f"{finding.explanation.split(' It ')[0]}"
