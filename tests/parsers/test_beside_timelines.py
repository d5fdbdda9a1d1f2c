"""What is recorded beside timelines joins them: by wall clock, under its rank, and never instead of a timeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import LaneKind, Trace
from parsers.ranks.joining import complete_each_other, goes_beside
from tests.parsers.flight_dumps import START, entry, pickled

# The cases lie on either side of these.
MAX_PAUSE_NS = 3_600 * 1_000_000_000

STACKS = "run (a.py:1);go (b.py:4) 2\n"


@pytest.fixture
def timeline(fixtures: Path) -> Path:
    return fixtures / "ddp" / "no_overlap.rank0.pt.trace.json.gz"


def dumped(folder: Path, epoch_ns: int, rank: int = 0) -> Path:
    path = folder / f"nccl_trace_rank_{rank}"
    path.write_bytes(pickled(entry(1, (epoch_ns - START) / 1e6)))
    return path


def kinds(trace: Trace) -> set[LaneKind]:
    return {lane.kind for lane in trace.lanes}


@pytest.mark.parametrize(("later_ns", "shown"), [(MAX_PAUSE_NS, True), (MAX_PAUSE_NS + 1_000_000, False)])
def test_a_dump_of_another_time_is_left_out_and_named(
    timeline: Path, tmp_path: Path, later_ns: int, shown: bool
) -> None:
    run = open_trace([timeline])
    assert run.epoch_ns is not None
    joined = open_trace([timeline, dumped(tmp_path, run.epoch_ns + run.duration + later_ns)])
    assert (LaneKind.FLIGHT_RECORDER in kinds(joined)) is shown
    said = [note.example for note in joined.quality.notes if note.kind == "left-out"]
    assert [("nccl_trace_rank_0" in each, "another time" in each) for each in said] == [(True, True)] * (
        not shown
    )


def test_samples_without_a_clock_begin_with_the_timeline_and_leave_its_clock_alone(
    fixtures: Path, tmp_path: Path
) -> None:
    timelines = [fixtures / "ddp" / f"no_overlap.rank{rank}.pt.trace.json.gz" for rank in range(2)]
    samples = tmp_path / "cpu.txt"
    samples.write_text(STACKS)
    run, joined = open_trace(timelines), open_trace([*timelines, samples])
    assert joined.epoch_ns == run.epoch_ns
    assert len(joined.events) == len(run.events) + 2
    assert [rank.rank for rank in joined.ranks] == [rank.rank for rank in run.ranks]
    (lane,) = (number for number, each in enumerate(joined.lanes) if each.kind is LaneKind.SAMPLED_STACKS)
    assert joined.events.start[joined.events.lane_slice(lane)].tolist() == [0, 0]
    for number, each in enumerate(run.lanes):
        same = joined.lanes.index(each)
        assert (
            joined.events.start[joined.events.lane_slice(same)].tolist()
            == run.events.start[run.events.lane_slice(number)].tolist()
        )


def test_two_dumps_of_one_rank_are_not_two_ranks(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        dumped(tmp_path / folder, START)
    dumped(tmp_path, START, rank=1)
    trace = open_trace([tmp_path])
    assert [rank.rank for rank in trace.ranks] == [0, 1]
    assert any("another file is of rank 0" in note.example for note in trace.quality.notes)


def test_what_goes_where_is_told_by_first_bytes(timeline: Path, tmp_path: Path, fixtures: Path) -> None:
    run, dump = open_trace([timeline]), dumped(tmp_path, START)
    alone = open_trace([dump])
    assert goes_beside(run, dump)
    assert goes_beside(alone, fixtures / "flight" / "early_end.rank1.pickle")
    assert goes_beside(alone, timeline)
    assert not goes_beside(run, timeline)
    assert complete_each_other(run, alone)
    assert not complete_each_other(alone, alone)


@pytest.mark.parametrize(
    "name",
    [
        "lightning/simple.txt",
        "results/deepspeed_flops.txt",
        "results/inductor_bandwidth.txt",
        "results/nsys_stats.csv",
        "smi/topology.txt",
        "stacks/feed.lines.txt",
        "stacks/feed.prof",
        "stacks/feed.scalene.json",
        "stacks/loop.gprof.txt",
        "stacks/loop.perf_report.txt",
        "stacks/loop.perf_stat.txt",
    ],
)
def test_tables_that_were_printed_go_beside_a_timeline(name: str, fixtures: Path, timeline: Path) -> None:
    run = open_trace([timeline])
    assert goes_beside(run, fixtures / name)
    assert complete_each_other(run, open_trace([fixtures / name]))
