"""Chrome traces of the parts of kernels: how people name multiprocessors and warps, and what their times count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.files.base import parser_of
from parsers.files.source import identify
from parsers.model import LaneKind, Trace, TraceError
from viewer.cli import main


def part(
    name: str, ts: float, dur: float, pid: str | int = "SM 3", tid: str | int = "block 5 warp 1"
) -> dict[str, Any]:
    return {"name": name, "ph": "X", "ts": ts, "dur": dur, "pid": pid, "tid": tid}


def opened(folder: Path, events: list[dict[str, Any]], bare: bool = False) -> Trace:
    path = folder / "trace.json"
    path.write_text(json.dumps(events if bare else {"displayTimeUnit": "ns", "traceEvents": events}))
    return open_trace([path])


def rows(trace: Trace) -> list[tuple[str, str, int, int]]:
    table = trace.events
    return [
        (trace.lanes[table.lane[row]].name, trace.name(row), int(table.start[row]), int(table.end[row]))
        for row in range(len(table))
    ]


def test_parts_lie_inside_the_life_of_their_warp(tmp_path: Path) -> None:
    trace = opened(tmp_path, [part("load", 100, 20), part("mma", 120, 50)])
    assert rows(trace) == [
        ("SM 3, warp 1", "the kernel, block 5", 0, 70),
        ("SM 3, warp 1", "load", 0, 20),
        ("SM 3, warp 1", "mma", 20, 70),
    ]
    assert all(lane.kind is LaneKind.INSIDE_KERNEL for lane in trace.lanes)
    assert any("does not say of what" in note.reason for note in trace.quality.notes)


def test_times_with_fractions_are_microseconds(tmp_path: Path) -> None:
    trace = opened(tmp_path, [part("load", 1.5, 0.25), part("mma", 1.75, 1.0)])
    assert [(start, end) for *_, start, end in rows(trace)] == [(0, 1250), (0, 250), (250, 1250)]
    assert not any("does not say of what" in note.reason for note in trace.quality.notes)


@pytest.mark.parametrize(
    ("pid", "tid", "lane"),
    [
        ("SM 3", "Block 5, Warp 1", "SM 3, warp 1"),
        ("sm_3", "cta5_wg2", "SM 3, warp 2"),
        ("GPU 0 SM#12", "warp 7", "SM 12, warp 7"),
        ("SM0", "block=9", "SM 0, warp 0"),
    ],
)
def test_names_differ(pid: str, tid: str, lane: str, tmp_path: Path) -> None:
    trace = opened(tmp_path, [part("load", 1, 2, "SM 99", "warp 0"), part("load", 1, 2, pid, tid)])
    assert lane in {each.name for each in trace.lanes}


@pytest.mark.parametrize("bare", [False, True])
def test_names_may_stand_in_metadata_and_parts_be_marked_by_their_ends(bare: bool, tmp_path: Path) -> None:
    events = [
        {"name": "process_name", "ph": "M", "pid": 7, "args": {"name": "SM 2"}},
        {"name": "thread_name", "ph": "M", "pid": 7, "tid": 1, "args": {"name": "block 4 warp 6"}},
        {"name": "outer", "ph": "B", "pid": 7, "tid": 1, "ts": 10},
        {"name": "inner", "ph": "B", "pid": 7, "tid": 1, "ts": 12},
        {"name": "inner", "ph": "E", "pid": 7, "tid": 1, "ts": 15},
        {"name": "outer", "ph": "E", "pid": 7, "tid": 1, "ts": 20},
        {"name": "lost", "ph": "E", "pid": 7, "tid": 1, "ts": 21},
        part("launch", 5, 1, "host", 3),
    ]
    trace = opened(tmp_path, events, bare)
    assert {row[1:] for row in rows(trace)} == {
        ("the kernel, block 4", 0, 10),
        ("outer", 0, 10),
        ("inner", 2, 5),
    }
    assert trace.quality.quarantined == 2


def test_parts_that_overlap_without_nesting_end_where_the_next_begins(tmp_path: Path) -> None:
    trace = opened(tmp_path, [part("wait", 20, 80), part("load", 0, 50), part("mma", 30, 10)])
    assert [row[1:] for row in rows(trace)] == [
        ("the kernel, block 5", 0, 100),
        ("load", 0, 20),
        ("wait", 20, 100),
        ("mma", 30, 40),
    ]
    assert trace.quality.repaired == 1


def test_blocks_on_one_multiprocessor_at_once_lie_beside_one_another(tmp_path: Path) -> None:
    both = [part("load", 0, 9, tid="block 1 warp 0"), part("load", 5, 9, tid="block 2 warp 0")]
    assert [lane.name for lane in opened(tmp_path, both).lanes] == ["SM 3, warp 0", "SM 3, warp 0 (2)"]


def test_the_verdict_names_the_part_that_takes_most(
    fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(fixtures / "instrumented" / "parts.json")]) == 0
    assert capsys.readouterr().out.startswith("the kernel: 81 % of its warps' time is in mma")


def test_other_chrome_traces_are_left_to_their_parser(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(
        json.dumps({"traceEvents": [part("SM 3 usage", 1, 2, 5, 6), part("warp 2", 1, 2, "GPU", 6)]})
    )
    parser = parser_of(identify(path))
    assert parser is not None
    assert parser.format == "chrome"


@given(
    st.lists(
        st.tuples(
            st.sampled_from("XBE"),
            st.integers(-3, 30),
            st.integers(-3, 30),
            st.sampled_from(["warp 1", "warp 2"]),
        ),
        max_size=12,
    ),
    st.integers(0, 400),
)
def test_any_events_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str, int, int, str]], cut: int
) -> None:
    path = tmp_path_factory.mktemp("parts") / "trace.json"
    events = [part("a", 1, 2)] + [{**part("b", ts, dur, tid=tid), "ph": ph} for ph, ts, dur, tid in told]
    text = json.dumps({"traceEvents": events})
    path.write_text(text[: len(text) - cut])
    try:
        main(["diagnose", str(path)])
    except TraceError:
        return
