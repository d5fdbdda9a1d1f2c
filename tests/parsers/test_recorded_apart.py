"""Recordings of different times: ranks are shown each from its own start, two runs of one program are no ranks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parsers.model import Trace
from parsers.model.lanes import TraceInput
from parsers.ranks.merge import merge
from parsers.ranks.rank_choice import LEFT_OUT, NO_RANKS, Member, members_of_one_run
from tests.rules.builder import TinyTrace

SECOND = 1_000_000_000
APART, TOGETHER = (2 * SECOND, 3 * SECOND), (SECOND // 2, 3 * SECOND)


def member(span: tuple[int, int], path: str = "run.json", **said: object) -> Member:
    return replace(Member(path, None, None, span), **said)


@pytest.mark.parametrize(
    ("one", "other", "kept"),
    [
        (member((0, SECOND)), member(APART, "run.fixed.json"), (0,)),
        (member(APART), member((0, SECOND), "run.fixed.json"), (0,)),
        (member((0, SECOND)), member(TOGETHER, "run.fixed.json"), (0, 1)),
        (member((0, SECOND), "run.rank0.json"), member(APART, "run.rank1.json"), (0, 1)),
        (member((0, SECOND), rank=0), member(APART, rank=1), (0, 1)),
        (member((0, SECOND), world_size=2), member(APART), (0, 1)),
        (member((0, SECOND), of_several=True), member(APART), (0, 1)),
        (member((0, SECOND)), replace(member(APART), span=None), (0, 1)),
    ],
)
def test_of_recordings_made_one_after_another_the_first_stays_where_nothing_says_they_are_ranks(
    one: Member, other: Member, kept: tuple[int, ...]
) -> None:
    found = members_of_one_run([one, other])
    assert found.kept == kept
    assert found.left_out == (() if len(kept) == 2 else ((1, NO_RANKS),))


def recorded(rank: int | None, at_ns: int) -> Trace:
    trace = TinyTrace(rank=rank)
    trace.step(0, 1000, "ProfilerStep#1")
    trace.op(10, 900, "aten::mm")
    made = TraceInput("run.json", "PyTorch profiler (Kineto)", "", rank)
    return replace(trace.build(), epoch_ns=at_ns, inputs=(made,))


@pytest.mark.parametrize(("later_ns", "apart"), [(SECOND, True), (500_000, False)])
def test_ranks_that_share_no_moment_are_shown_each_from_its_own_start(later_ns: int, apart: bool) -> None:
    merged = merge([recorded(0, 0), recorded(1, later_ns)])
    assert {lane.rank for lane in merged.lanes} == {0, 1}
    assert merged.duration == (1_000_000 if apart else 1_500_000)
    assert any(note.kind == "recorded-apart" for note in merged.quality.notes) is apart


def test_what_is_left_out_is_noted_with_its_reason() -> None:
    merged = merge([recorded(None, 0), recorded(None, SECOND)])
    (note,) = [each for each in merged.quality.notes if each.kind == LEFT_OUT]
    assert note.example.endswith(NO_RANKS)
    assert merged.duration == 1_000_000
