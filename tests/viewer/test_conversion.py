"""A converted recording gives the same diagnosis, with its ranks, counters and arguments; what is left out is said."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from parsers import open_trace
from parsers.model import EventKind, Lane, LaneKind, Progress, Trace, TraceError
from parsers.model.builder import TraceBuilder
from rules import Diagnosis, diagnosis_of
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.sampled_stacks import own_time
from rules.verdict.verdict import verdict
from tests.opened import analysed, diagnosed, opened
from viewer.cli import main
from viewer.reports.conversion.chrome import write_chrome
from viewer.reports.conversion.tables import write_table

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def told(analysis: Analysis, found: Diagnosis) -> object:
    """What is said of a recording as plain values."""
    findings = [
        (
            each.rule,
            each.category,
            each.rank,
            each.device,
            each.severity,
            each.title,
            each.ceiling_ns,
            each.advice,
            each.explanation,
            each.unknown,
        )
        for each in found.findings
    ]
    return verdict(analysis, found), analysis.window, findings, found.skipped, found.quiet


TIMELINES = (
    "*/*.pt.trace.json.gz", "*/*.trace.json.gz", "*/*.sqlite.gz", "*/*.xplane.pb.gz",
    "rocm/*_trace.csv", "rocm/rocprof*_results.csv", "rocm/rocprofv3.*", "rocm/*.rpd.gz", "smi/*",
)  # fmt: skip
RECORDINGS = sorted(
    {
        re.sub(r"\.rank\d+\.", ".rank*.", str(path.relative_to(FIXTURES)))
        for pattern in TIMELINES
        for path in FIXTURES.glob(pattern)
        if path.name != "topology.txt"  # links between GPUs, and no events
    }
)


# Many programs by the same recorders: of so many of these, `make test` converts one.
ONE_OF = {"programs": 64, "variants": 30, "pairs": 30, "causes": 16, "cpu": 16, "nsys": 12, "torch": 4}


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(
            each, marks=pytest.mark.thorough if number % ONE_OF.get(each.partition("/")[0], 2) else ()
        )
        for number, each in enumerate(RECORDINGS)
    ],
)
def test_the_diagnosis_survives_a_round_trip(tmp_path: Path, pattern: str) -> None:
    paths = sorted(FIXTURES.glob(pattern))
    before, said = opened(*paths), told(analysed(*paths), diagnosed(*paths))
    out = tmp_path / ("out.json" if len({lane.rank for lane in before.lanes} - {None}) < 2 else "out.zip")
    write_chrome(before, out, Progress())
    after = open_trace([out], Progress())
    again = Analysis(after)
    assert told(again, diagnosis_of(again)) == said
    assert {lane.rank for lane in after.lanes} - {None} == {lane.rank for lane in before.lanes} - {None}
    assert {each.name for each in after.counters} == {each.name for each in before.counters}
    assert [(each.rank, each.world_size) for each in after.ranks] == [
        (each.rank, each.world_size) for each in before.ranks
    ]


def test_samples_of_the_cpu_are_written_too(tmp_path: Path) -> None:
    builder = TraceBuilder()
    worker = [
        builder.lane(Lane(kind, "worker", process=1, thread=2))
        for kind in (LaneKind.CPU_THREAD, LaneKind.SAMPLES)
    ]
    when, first = np.arange(100) * 1_000_000, np.zeros(1, np.int64)
    builder.quality.read(1 + len(when))
    builder.add(first, first + 10**8, first, worker[0], EventKind.CPU_OP)
    builder.add(when + 1, when + 1, np.full(100, builder.string("parse")), worker[1], EventKind.SAMPLE)
    write_chrome(builder.build(), tmp_path / "out.json", Progress())
    again = read(tmp_path / "out.json")
    samples = np.flatnonzero(again.events.kind == EventKind.SAMPLE)
    assert len(samples) == len(when)
    assert {again.name(each) for each in samples.tolist()} == {"parse"}
    assert again.lanes[again.events.lane[samples[0]]].name == "worker samples"


def test_ranks_go_into_a_folder_and_never_into_one_file(fixtures: Path, tmp_path: Path) -> None:
    ranks = open_trace(sorted(fixtures.glob("programs/ranks_cpu.rank*.pt.trace.json.gz")), Progress())
    with pytest.raises(TraceError, match="It holds 2 ranks"):
        write_chrome(ranks, tmp_path / "out.json", Progress())
    write_chrome(ranks, tmp_path / "out", Progress())
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["rank0.json.gz", "rank1.json.gz"]


def test_what_no_analysis_reads_is_written_when_it_is_asked_for(fixtures: Path, tmp_path: Path) -> None:
    trace, out = read(fixtures / "programs" / "recompile.fixed.pt.trace.json.gz"), tmp_path / "out.json"
    assert write_chrome(trace, out, Progress()) == [
        "arguments that no analysis reads (--all-arguments writes them, slowly)"
    ]
    assert write_chrome(trace, out, Progress(), all_arguments=True) == []
    kernels = [each for each in json.loads(out.read_text())["traceEvents"] if each.get("cat") == "kernel"]
    assert all(
        {"device", "stream", "correlation", "grid", "warps per SM"} <= each["args"].keys() for each in kernels
    )


@cache
def read(path: Path) -> Trace:
    return open_trace([path], Progress())


@pytest.mark.parametrize(
    ("name", "table", "columns"),
    [
        ("ncu/kernels.live_metrics.csv", "kernels", {"name", "grid", "block", "duration_ns", "device"}),
        ("smi/dmon.txt", "counters", {"time_ns", "counter", "value", "unit", "device"}),
        ("results/nccl_tests.txt", "results", {"table", "row", "column", "unit", "value", "text"}),
        ("programs/fields.pt.trace.json.gz", "events", {"start_ns", "stream", "grid_shape", "correlation"}),
    ],
)
@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_every_kind_of_recording_is_a_table(
    fixtures: Path, tmp_path: Path, name: str, table: str, columns: set[str], to: str
) -> None:
    trace, out = read(fixtures / name), tmp_path / "out"
    write_table(trace, "", to, out, Progress())
    written = pd.read_csv(out, low_memory=False) if to == "csv" else pd.read_parquet(out)
    assert columns <= set(written.columns)
    rows = {
        "kernels": len(trace.kernels),
        "events": len(trace.events),
        "counters": sum(len(each.time) for each in trace.counters),
        "results": sum(len(each.rows) * len(each.columns) for each in trace.tables),
    }
    assert len(written) == rows[table]


def test_a_table_that_is_not_there_and_other_tables_are_said(
    fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    sampled = read(fixtures / "torch" / "memory_stack.pt.trace.json.gz")
    left_out = write_table(sampled, "allocations", "csv", out, Progress())
    assert left_out == ["events (--table events)", "counters (--table counters)"]
    assert len(pd.read_csv(out)) == sum(len(each.allocations.start) for each in sampled.memory)
    with pytest.raises(TraceError, match="It holds events, counters, allocations"):
        write_table(sampled, "kernels", "csv", out, Progress())
    with pytest.raises(TraceError, match="no events"):
        write_chrome(read(fixtures / "ncu" / "kernels.live_metrics.csv"), out, Progress())
    assert (
        main(["convert", str(fixtures / "smi" / "dmon.txt"), "--to", "csv", str(out), "--table", "events"])
        == 2
    )
    assert "It holds counters: choose one with --table" in capsys.readouterr().err


def test_sampled_calls_come_back_as_what_they_were(fixtures: Path, tmp_path: Path) -> None:
    trace = open_trace([fixtures / "stacks" / "feed.speedscope.json"])
    write_chrome(trace, tmp_path / "out.json", Progress())
    again = open_trace([tmp_path / "out.json"])
    assert {lane.kind for lane in again.lanes} == {LaneKind.SAMPLED_STACKS}
    assert own_time(again).frames[0].function == own_time(trace).frames[0].function
    assert own_time(again).sampled_ns == own_time(trace).sampled_ns
