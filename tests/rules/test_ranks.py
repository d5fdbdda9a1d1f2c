"""Collectives are matched across ranks: transfers, waiting, the late rank, bandwidth and clocks."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.merge import merge
from parsers.model import Trace
from rules import diagnose
from rules.analysis.analysis import analyse
from rules.analysis.collective_kernels import bus_factor, whole_message
from rules.analysis.ranks import MISSING, ranks_of
from rules.base import Category
from tests.rules.builder import TinyTrace, steps


def run(
    arrivals: list[float], *, count: int = 3, end: float = 1000, clock: dict[int, float] | None = None
) -> Trace:
    """One all-reduce a step; each rank computes until its arrival and all leave together."""

    def one(rank: int, arrives: float) -> Trace:
        shift = (clock or {}).get(rank, 0.0)

        def body(trace: TinyTrace, index: int) -> None:
            trace.operation(5 + shift, arrives + shift, "gemm", shift)
            trace.collective(arrives + shift, end + shift, 2 + shift)

        # every rank sees one moment in common, so that clocks stay as they are
        trace = TinyTrace(rank=rank)
        trace.call(0, 1, "cudaEventQuery")
        return steps(count, 1100, body, into=trace).build()

    return merge([one(rank, arrives) for rank, arrives in enumerate(arrivals)])


def test_the_shortest_participant_is_the_transfer_and_the_rest_is_waiting() -> None:
    ranks = ranks_of(analyse(run([500, 900, 700])))
    assert ranks.row.shape == (3, 3)
    assert ranks.transfer.tolist() == [100_000] * 3
    assert ranks.waiting.tolist() == [[400_000, 0, 200_000]] * 3
    assert ranks.last.tolist() == [1, 1, 1]


def test_the_rank_that_came_last_is_blamed_for_the_mean_waiting_of_the_others() -> None:
    ranks = ranks_of(analyse(run([500, 900, 700])))
    assert [row.caused_ns for row in ranks.table] == [0, 3 * 300_000, 0]
    assert ranks.late == 1


def test_nobody_is_late_when_all_arrive_together() -> None:
    ranks = ranks_of(analyse(run([900, 900, 900])))
    assert ranks.late == MISSING
    assert ranks.lost_to_late == 0


def test_bandwidth_counts_as_nccl_s_own_tests_do() -> None:
    row = ranks_of(analyse(run([900, 900]))).collectives[0]
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


def test_clocks_that_are_apart_are_noticed_by_the_common_ends() -> None:
    ranks = ranks_of(analyse(run([500, 900], clock={1: 30})))
    assert ranks.clock_offset.tolist() == [0, 30_000]
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
    ranks = ranks_of(analyse(merge(traces)))
    pairs = [
        (int(ranks.columns.bytes[row[0]]), ranks.columns.start[row].tolist())
        for row in ranks.row
        if (row >= 0).all()
    ]
    assert all(first == second for _, (first, second) in pairs)
    assert len(pairs) == 5


def test_recorded_sequence_numbers_decide() -> None:
    def one(rank: int, numbers: tuple[int, ...]) -> Trace:
        trace = TinyTrace(rank=rank)
        for place, number in enumerate(numbers):
            trace.collective(10 + place * 100, 60 + place * 100, place * 100, collective_sequence=number)
        return trace.build()

    ranks = ranks_of(analyse(merge([one(0, (1, 2, 3)), one(1, (2, 3, 4))])))
    matched = [row for row in ranks.row if (row >= 0).all()]
    assert [ranks.columns.sequence[row].tolist() for row in matched] == [[2, 2], [3, 3]]


def test_waiting_by_step_and_rank_is_a_table_for_a_heat_map() -> None:
    names, table = ranks_of(analyse(run([500, 900, 700]))).waiting_by_step()
    assert names == ("ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3")
    assert table.tolist() == [[400_000, 0, 200_000]] * 3


def test_sixty_four_ranks_are_handled_and_the_late_one_is_named() -> None:
    arrivals = [500.0] * 64
    arrivals[37] = 950.0
    trace = run(arrivals)
    late = next(each for each in diagnose(trace).findings if each.category is Category.STRAGGLER)
    assert late.rank == 37
    assert "63 wait" in late.explanation
    assert len(ranks_of(analyse(trace)).table) == 64
    assert np.array(ranks_of(analyse(trace)).waiting_by_step()[1]).shape == (3, 64)


@pytest.mark.parametrize(("other", "late"), [(300.0, 0), (390.0, 0), (400.0, MISSING), (410.0, 1)])
def test_one_rank_must_cause_more_than_half_of_the_waiting(other: float, late: int) -> None:
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

    assert ranks_of(analyse(merge([one(0), one(1)]))).late == late
