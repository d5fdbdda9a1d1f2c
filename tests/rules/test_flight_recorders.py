"""Hangs as flight recorders tell them: real ones of torch with gloo, and what several groups and missing dumps add."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Trace
from parsers.ranks.merge import merge
from rules import Finding, diagnose
from rules.analysis.analysis import Analysis
from rules.losses.flight_recorders import ranks_in_words
from rules.verdict.verdict import verdict
from tests.parsers.flight_dumps import entry, open_entry, pickled
from tests.rules.builder import TinyTrace


def hangs(trace: Trace) -> list[Finding]:
    diagnosis = diagnose(trace)
    assert not diagnosis.crashed
    return [each for each in diagnosis.findings if each.category == "hang"]


def of_gloo(fixtures: Path, name: str, *ranks: int) -> Trace:
    return open_trace([fixtures / "flight" / f"{name}.rank{rank}.pickle" for rank in ranks])


def test_the_rank_that_left_the_loop_is_named_with_who_waits_since_when(fixtures: Path) -> None:
    trace = of_gloo(fixtures, "early_end", 0, 1, 2)
    (finding,) = hangs(trace)
    assert finding.title == "Rank 2 never reached all_reduce #10"
    assert finding.rank == 2
    assert (
        "Ranks 0 and 1 have waited in all_reduce #10 of default_pg (group 0) since 02:50:59 UTC"
        in finding.explanation
    )
    assert "Rank 2 called all_reduce #9 last, at 02:50:59 UTC (train.py:21)" in finding.explanation
    assert "pair" not in finding.explanation
    analysis = Analysis(trace)
    assert verdict(analysis, diagnose(trace)) == finding.title


def test_another_collective_is_named_with_both_lines(fixtures: Path) -> None:
    (finding,) = hangs(of_gloo(fixtures, "mismatch", 0, 1, 2))
    assert finding.title == "Rank 1 called broadcast #4, not all_reduce"
    assert "(mismatch.py:28)" in finding.explanation
    assert "(mismatch.py:26)" in finding.explanation


def test_one_dump_says_that_it_waits_and_that_the_others_would_tell_more(fixtures: Path) -> None:
    (finding,) = hangs(of_gloo(fixtures, "early_end", 1))
    assert finding.title == "Rank 1 waits in all_reduce #10"
    assert "The dumps of the other ranks show which one is missing." in finding.explanation


def test_dumps_without_anything_open_are_summed_up(fixtures: Path) -> None:
    trace = of_gloo(fixtures, "early_end", 2)
    assert verdict(Analysis(trace), diagnose(trace)) == "Flight recorder of rank 2: 9 calls, all ended"


def test_members_without_a_dump_are_named_where_the_dumps_state_who_belongs(tmp_path: Path) -> None:
    for rank in (0, 2):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickled(entry(811), open_entry(812, 5.0)))
    (finding,) = hangs(open_trace([tmp_path]))
    assert finding.title == "Ranks 0 and 2 wait in all_reduce #812; 1 left no dump"
    assert "There is no dump of rank 1." in finding.explanation


def test_a_rank_whose_gpu_has_not_begun_is_told_apart(tmp_path: Path) -> None:
    for rank, state in enumerate(("started", "started", "scheduled")):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickled(open_entry(9, state=state)))
    (finding,) = hangs(open_trace([tmp_path]))
    assert finding.title == "All reached all_reduce #9, and it did not end"
    assert "On rank 2 the GPU has not started it" in finding.explanation


def test_messages_between_two_ranks_keep_no_other_rank_waiting(tmp_path: Path) -> None:
    message = {"is_p2p": True, "p2p_seq_id": 40, "profiling_name": "nccl:send 0->1"}
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickled(entry(1), entry(1, 2.0, **message)))
    (tmp_path / "nccl_trace_rank_1").write_bytes(pickled(entry(1)))
    assert hangs(open_trace([tmp_path])) == []


def test_both_ends_that_send_first_wait_for_each_other() -> None:
    first, second = (TinyTrace(rank=rank) for rank in range(2))
    first.called(100, "send", 4, waits=900, peers="0->1", place="pipe.py:5")
    second.called(50, "send", 4, waits=900, peers="1->0", place="pipe.py:5")
    found = hangs(merge([first.build(), second.build()]))
    assert sorted(each.title for each in found) == [
        "Rank 0 never answered send 1->0 #4",
        "Rank 1 never answered send 0->1 #4",
    ]
    told = next(each.explanation for each in found if each.rank == 0)
    assert "Rank 0 waits in send 0->1 #4 of default_pg (group 0) (pipe.py:5) instead." in told


def test_of_the_messages_of_a_rank_the_first_is_told_that_its_other_end_does_not_wait_for() -> None:
    first, second = (TinyTrace(rank=rank) for rank in range(2))
    for number, other in enumerate((1, 1, 3, 2, 3)):
        first.called(100 + number, "send", 4 + number, waits=900, peers=f"0->{other}")
    second.called(90, "recv", 4, waits=900, peers="1<-0")
    found = hangs(merge([first.build(), second.build()]))
    assert [each.title for each in found] == ["Rank 0 waits in send 0->3 #6; rank 3 left no dump"]


def test_ends_of_messages_are_ranks_of_their_group(tmp_path: Path) -> None:
    message = {"is_p2p": True, "p2p_seq_id": 40, "profiling_name": "nccl:recv 1<-0"}
    (tmp_path / "nccl_trace_rank_6").write_bytes(pickled(open_entry(1, **message), ranks="[3, 6]"))
    (tmp_path / "nccl_trace_rank_3").write_bytes(pickled(entry(1), ranks="[3, 6]"))
    (finding,) = hangs(open_trace([tmp_path]))
    assert finding.title == "Rank 3 never answered recv 1<-0 #40"


def test_a_rank_that_waits_for_a_message_is_not_told_to_be_elsewhere(tmp_path: Path) -> None:
    message = {"is_p2p": True, "p2p_seq_id": 40, "profiling_name": "nccl:recv 1<-0"}
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickled(open_entry(2), ranks="[0, 1]"))
    (tmp_path / "nccl_trace_rank_1").write_bytes(
        pickled(entry(1), open_entry(1, 2.0, **message), ranks="[0, 1]")
    )
    told = {each.rule: each for each in hangs(open_trace([tmp_path]))}
    assert (
        "it waits in recv 1<-0 #40 of default_pg (group 0) (train.py:21)."
        in told["hanging-collective"].explanation
    )
    assert told["hanging-message"].title == "Rank 0 never answered recv 1<-0 #40"


def test_the_group_that_keeps_all_others_comes_first() -> None:
    first, second, third = (TinyTrace(rank=rank) for rank in range(3))
    first.called(0, sequence=3)
    first.called(100, sequence=4, waits=900)
    second.called(0, sequence=3)
    second.called(200, "broadcast", 9, waits=800, group="tensor (group 2)", place="tp.py:5")
    third.called(150, "broadcast", 8, group="tensor (group 2)", place="tp.py:4")
    root, waiting = hangs(merge([each.build() for each in (first, second, third)]))
    assert root.title == "Rank 2 never reached broadcast #9"
    assert waiting.title == "Rank 1 never reached all_reduce #4"
    assert (root.severity, waiting.severity) == ("high", "medium")
    assert waiting.ceiling_ns == 0 < root.ceiling_ns


def test_of_the_ranks_that_did_not_come_the_one_is_blamed_that_nothing_keeps() -> None:
    first, second, third = (TinyTrace(rank=rank) for rank in range(3))
    first.called(100, sequence=4, waits=900)
    for each in (second, third):
        each.called(0, sequence=3)
    second.called(200, "broadcast", 9, waits=800, group="tensor (group 2)", place="tp.py:5")
    third.called(150, "broadcast", 8, group="tensor (group 2)", place="tp.py:4")
    found = hangs(merge([each.build() for each in (first, second, third)]))
    assert [each.title for each in found] == [
        "Rank 2 never reached all_reduce #4",
        "Rank 2 never reached broadcast #9",
    ]
    assert "Rank 1 called all_reduce #3 last" in found[0].explanation


def test_ranks_that_call_two_groups_in_different_orders_wait_in_a_circle() -> None:
    first, second = (TinyTrace(rank=rank) for rank in range(2))
    for each in (first, second):
        each.called(0, sequence=3)
        each.called(10, "broadcast", 8, group="tensor (group 2)")
    first.called(100, sequence=4, waits=900)
    second.called(100, "broadcast", 9, waits=900, group="tensor (group 2)", place="tp.py:5")
    found = hangs(merge([first.build(), second.build()]))
    assert [each.severity for each in found] == ["high", "high"]
    assert all("wait for each other in a circle" in each.explanation for each in found)
    assert all("in the same order" in each.advice[0] for each in found)


def test_one_that_waits_elsewhere_is_told_with_the_place() -> None:
    first, second = (TinyTrace(rank=rank) for rank in range(2))
    first.called(100, sequence=4, waits=900)
    second.called(0, sequence=3)
    second.called(50, "broadcast", 9, waits=900, group="tensor (group 2)", place="tp.py:5")
    found = {each.title: each for each in hangs(merge([first.build(), second.build()]))}
    told = found["Rank 1 never reached all_reduce #4"].explanation
    assert "it waits in broadcast #9 of tensor (group 2) (tp.py:5)." in told
    assert "Something hangs in 2 groups." in told


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([-1], "this rank"),
        ([4], "rank 4"),
        ([1, 0], "ranks 0 and 1"),
        ([0, 1, 2], "ranks 0 to 2"),
        ([0, 2, 5, 9], "ranks 0, 2, 5 and 9"),
        ([0, 2, 5, 9, 11], "5 ranks"),
    ],
)
def test_ranks_are_listed_as_people_say_them(ranks: list[int], said: str) -> None:
    assert ranks_in_words(ranks) == said


def test_copies_of_dumps_tell_the_same_whatever_they_are_called(fixtures: Path, tmp_path: Path) -> None:
    for rank in range(3):
        shutil.copyfile(fixtures / "flight" / f"early_end.rank{rank}.pickle", tmp_path / f"fr_{rank}")
    (finding,) = hangs(open_trace([tmp_path]))
    assert finding.title == "Rank 2 never reached all_reduce #10"
