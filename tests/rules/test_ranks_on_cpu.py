"""Two processes that train together on CPUs: who waits for whom, and what is only the transfer."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Progress
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.on_cpu import ranks_on_cpu

MS = 1_000_000


@pytest.fixture
def both(fixtures: Path) -> list[Path]:
    return sorted(fixtures.glob("gloo/width1024.rank*"))


def test_the_rank_that_prepares_longer_is_waited_for(both: list[Path]) -> None:
    trace = open_trace(both, Progress())
    first, *others = diagnose(trace).findings
    assert first.title == "Other ranks wait for rank 1: 31 % of every step"
    assert first.rank == 1
    assert "Rank 1 spends 12.0 ms more of a step in “data”." in first.explanation
    assert "It arrives last at 8 of 8 collectives" in first.explanation
    assert first.evidence[0].name == "gloo:all_reduce"
    assert trace.lanes[first.evidence[0].lane].rank == 0
    communication = next(each for each in others if each.rule == "cpu-communication")
    outside = next(each for each in others if each.rule == "cpu-outside-operators")
    assert outside.ceiling_ns < communication.ceiling_ns < first.ceiling_ns


def test_what_is_late_and_what_is_transferred_are_what_the_waiting_rank_waits(both: list[Path]) -> None:
    ranks = ranks_on_cpu(Analysis(open_trace(both, Progress())))
    assert ranks is not None
    assert ranks.ranks == (0, 1)
    assert ranks.late == 1
    assert ranks.lost_to_late + ranks.transfers == pytest.approx(ranks.exposed[0], abs=MS)
    assert ranks.exposed.max() < ranks.step_ns


def test_one_of_the_ranks_alone_says_that_it_may_wait_for_another(both: list[Path]) -> None:
    first = diagnose(open_trace(both[:1], Progress())).findings[0]
    assert first.rule == "cpu-communication"
    assert "only one is open" in first.explanation


def test_several_ranks_on_cpus_are_none_on_gpus(fixtures: Path) -> None:
    trace = open_trace(sorted(fixtures.glob("ddp/no_overlap.rank*")), Progress())
    assert ranks_on_cpu(Analysis(trace)) is None
