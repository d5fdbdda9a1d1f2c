"""Which ranks others wait for, and what mending these gives: cases on either side of each limit."""

from __future__ import annotations

import pytest

from parsers.model import Trace
from parsers.ranks.merge import merge
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.fixes.catalog.mend_late_ranks import MendLateRanks
from rules.replay.late_ranks import gain_without_late_ranks
from rules.replay.replay import replay_of
from tests.rules.builder import TinyTrace, steps


def left_without_lateness(silence: float) -> float:
    """Us of a step of three ranks that do nothing known for so long, of which rank 1 then works 1.3 ms alone."""
    trace = TinyTrace()
    for rank in range(3):
        own = silence + (1_300.0 if rank == 1 else 0.0)

        def body(made: TinyTrace, _: int, own: float = own, rank: int = rank) -> None:
            made.kernels(10 + own, 12, 20, 50, device=rank)
            end = 1_940 + silence
            made.collective(630 + own, end, 620 + own, device=rank, stream=7)
            made.call(640 + own, end + 10, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, 1_960 + silence, body, into=trace)
    analysis = Analysis(trace.build())
    gain = gain_without_late_ranks(analysis)
    assert gain is not None
    return replay_of(analysis).usual_ns / gain / 1_000


@pytest.mark.parametrize(("silence", "may_wait"), [(260.0, True), (155.0, False)])
def test_ranks_of_which_nothing_is_recorded_for_long_may_wait_for_the_late_one(
    silence: float, may_wait: bool
) -> None:
    assert (left_without_lateness(silence) < left_without_lateness(0.0) + silence / 2) is may_wait


def late_in_turn(often: int) -> str:
    """Who is mended of four ranks, of which rank 1 is late so often of ten times, and rank 2 otherwise."""
    trace = TinyTrace()
    for rank in range(4):

        def body(made: TinyTrace, _: int, rank: int = rank) -> None:
            for place in range(10):
                at = 10 + place * 400
                late = 1 if place < often else 2
                own = 250 if rank == late else 0
                made.operation(at + own + 6, at + own + 26, "void gemm", at + own, device=rank)
                made.collective(at + own + 40, at + 310, at + own + 30, device=rank, stream=7)
                made.call(at + own + 40, at + 320, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, 4_020, body, into=trace)
    replay = replay_of(Analysis(trace.build()))
    assert replay.reason == ""
    return " ".join(each.key for each in MendLateRanks().proposals(replay.analysis, replay))


@pytest.mark.parametrize(("often", "mended"), [(3, True), (2, False)])
def test_a_rank_that_is_waited_for_a_quarter_of_the_time_is_mended(often: int, mended: bool) -> None:
    key = late_in_turn(often)
    assert "rank 2" in key
    assert ("rank 1" in key) is mended


@pytest.mark.parametrize(
    ("late", "in_turn", "said"),
    [(600, 200, "waiting for rank 0, up to 667 us a step, is not counted"), (250, 800, "they take turns")],
)
def test_waiting_is_told_of_the_late_rank_or_of_all_in_turn_by_which_costs_more(
    late: int, in_turn: int, said: str
) -> None:
    def one(rank: int) -> Trace:
        def body(trace: TinyTrace, index: int) -> None:
            first = 900 if rank == 0 else 900 - late
            second = 1_900 if index % 3 == rank else 1_900 - in_turn
            trace.operation(5, first, "gemm", 0)
            trace.collective(first, 1_000, 2)
            trace.operation(1_005, second, "gemm", 1_000)
            trace.collective(second, 2_000, 1_002)

        trace = TinyTrace(rank=rank)
        trace.call(0, 1, "cudaEventQuery")
        return steps(6, 2_200, body, into=trace).build()

    findings = diagnose(merge([one(rank) for rank in range(3)])).findings
    assert said in next(each.explanation for each in findings if each.rule == "exposed-communication")
