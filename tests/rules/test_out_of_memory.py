"""Why memory ran out, and what would help, on both sides of what tells it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parsers import open_trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.memory.relief import reliefs
from rules.memory.summary import memory_of
from tests.parsers.snapshots import FORWARD, LOSS, OPTIMIZER, OWN, PLACED, Snapshot
from tests.rules.test_memory import MB, written


@pytest.mark.parametrize(("logits", "said"), [(12, True), (10, True), (8, False)])
def test_what_would_help_is_what_holds_most_with_its_bytes(tmp_path: Path, logits: int, said: bool) -> None:
    snapshot = Snapshot()
    for address, size, frames in (
        (0, 40 * MB, PLACED + OWN),
        (100 * MB, 16 * MB, OPTIMIZER + OWN),
        (200 * MB, 32 * MB, FORWARD + OWN),
        (300 * MB, logits * MB // 2, LOSS + FORWARD + OWN),
        (400 * MB, logits * MB // 2, ()),  # their gradient
    ):
        snapshot.event("alloc", address, size, 10, frames)
    (summary,) = memory_of(Analysis(written(tmp_path, snapshot)))
    assert summary.account is not None
    freed = {each.what.split()[0]: each.freed for each in reliefs(summary.account, 20_000_000, ranks=4)}
    assert freed["Use"] == 12 * MB
    assert freed["Shard"] == 12 * MB
    assert freed["Checkpoint"] == 16 * MB
    assert freed["Halve"] == (32 + logits) * MB // 2
    assert ("Compute" in freed) is said
    assert freed.get("Compute", logits * MB) == logits * MB
    alone = {each.what.split()[0] for each in reliefs(summary.account, 20_000_000)}
    assert "Shard" not in alone


def test_falls_of_reserved_memory_are_counted_once_until_it_rises_again(tmp_path: Path) -> None:
    snapshot = Snapshot()
    for time, (action, address) in enumerate(
        [("alloc", 0), ("alloc", 1), ("free", 0), ("free", 1), ("alloc", 2), ("alloc", 3), ("free", 3)]
    ):
        snapshot.event(f"segment_{action}", address * 32 * MB, 20 * MB, 10 + time)
    snapshot.event("alloc", 64 * MB, MB, 30, OWN)
    snapshot.segment(64 * MB, (MB, True), (19 * MB, False))
    (summary,) = memory_of(Analysis(written(tmp_path, snapshot)))
    assert summary.given_back == 2


def snapshot_that_fails(asked: int, hole: int, free: int) -> Snapshot:
    """100 MB held, a hole of unused memory beside each of four blocks, and a request that fails."""
    snapshot = Snapshot()
    for index in range(4):
        base = index * 1024 * MB
        snapshot.event("segment_alloc", base, 25 * MB + hole, 10 + index, FORWARD + OWN)
        snapshot.event("alloc", base, 25 * MB, 20 + index, FORWARD + OWN)
        snapshot.segment(base, (25 * MB, True), (hole, False))
    snapshot.event("oom", 0, asked, 30, OWN, device_free=free)
    return snapshot


@pytest.mark.parametrize(
    ("asked", "hole", "free", "says"),
    [
        (40 * MB, 10 * MB, 5 * MB, "fragmented"),
        (41 * MB, 10 * MB, 5 * MB, "truly full"),
        (41 * MB, 10 * MB, 82 * MB, "its own limit"),
        (41 * MB, 10 * MB, 82 * MB - 1, "truly full"),
    ],
)
def test_why_memory_ran_out_is_told_on_both_sides(
    tmp_path: Path, asked: int, hole: int, free: int, says: str
) -> None:
    (found,) = diagnose(written(tmp_path, snapshot_that_fails(asked, hole, free))).findings
    assert says in found.explanation
    assert any("expandable_segments" in each for each in found.advice) is (says == "fragmented")


@pytest.mark.parametrize("freed_since", [False, True])
def test_pieces_that_came_free_after_the_failure_are_not_told_as_those_it_met(
    tmp_path: Path, freed_since: bool
) -> None:
    snapshot = snapshot_that_fails(41 * MB, 10 * MB, 5 * MB)
    if freed_since:
        for index in range(3):
            snapshot.event("free_requested", index * 1024 * MB, 25 * MB, 40 + index)
            snapshot.event("free_completed", index * 1024 * MB, 25 * MB, 40 + index)
        snapshot.segments.clear()
        for index in range(3):
            snapshot.segment(index * 1024 * MB, (35 * MB, False))
        snapshot.segment(3 * 1024 * MB, (25 * MB, True), (10 * MB, False))
    (found,) = diagnose(written(tmp_path, snapshot)).findings
    assert "41.9 MB of it unused" in found.explanation
    assert ("the largest piece" in found.explanation) is not freed_since


@pytest.mark.parametrize(("failed_us", "start"), [(30, 0), (4_000, 3_742_000)])
def test_what_leads_up_to_a_failure_never_begins_before_the_recording(
    tmp_path: Path, failed_us: int, start: int
) -> None:
    snapshot = snapshot_that_fails(41 * MB, 10 * MB, 5 * MB)
    failure = snapshot.events[-1]
    failure["time_us"] = failed_us
    snapshot.event("alloc", 512 * MB, MB, 4_980, OWN)
    (found,) = diagnose(written(tmp_path, snapshot)).findings
    assert found.evidence[0].start == start


@pytest.mark.parametrize(
    ("held", "uneven"),
    [(19 * MB // 10, False), (21 * MB // 10, True), (49 * MB, True), (51 * MB, False)],
    ids=str,
)
def test_other_gpus_that_hold_less_show_that_the_work_is_split_unevenly(
    tmp_path: Path, held: int, uneven: bool
) -> None:
    snapshot, other = snapshot_that_fails(41 * MB, 10 * MB, 5 * MB), Snapshot()
    other.event("alloc", 0, held, 15, FORWARD + OWN)
    content = snapshot.content()
    content["device_traces"].append(other.events)
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(content))
    (found,) = [each for each in diagnose(open_trace([path])).findings if each.rule == "out-of-memory"]
    assert ("GPU 1 held at most" in found.explanation) is uneven
    assert found.advice[0].startswith("Give each GPU equally much") is uneven
