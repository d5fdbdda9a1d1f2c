"""Firefox Profiler's JSON: its own layout, that of the browser, and what no recorder would write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import LaneKind, Trace, TraceError
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import verdict

MS = 1_000_000
STRINGS = ["main", "load", "train.py", "memcpy", "libc.so.6"]
Calls = list[tuple[str, int, int]]


def thread(**changes: Any) -> dict[str, Any]:
    """main (line 10) calls load (line 3), and both call memcpy of a library: stacks 0 to 3."""
    tables = {
        "name": "MainThread",
        "pid": "100",
        "tid": 7,
        "samples": {"stack": [0, 1, 1, 3], "time": [0, 10, 20, 30], "length": 4},
        "stackTable": {"frame": [0, 1, 2, 2], "prefix": [None, 0, 0, 1], "length": 4},
        "frameTable": {"func": [0, 1, 2], "line": [10, 3, None], "length": 3},
        "funcTable": {"name": [0, 1, 3], "fileName": [2, 2, None], "resource": [-1, -1, 0], "length": 3},
        "resourceTable": {"name": [4], "length": 1},
    }
    return {**tables, **changes}


def opened(folder: Path, *threads: dict[str, Any], shared: Any = None, **meta: Any) -> Trace:
    described = {"interval": 10, "startTime": 5.0, "stackwalk": 0, "preprocessedProfileVersion": 57, **meta}
    path = folder / "anything"
    path.write_text(
        json.dumps(
            {"meta": described, "threads": list(threads), "shared": shared or {"stringArray": STRINGS}}
        )
    )
    return open_trace([path])


def test_tables_of_strings_that_are_saved_as_objects_are_read(tmp_path: Path) -> None:
    old = thread(stringTable={"_array": STRINGS, "_stringToIndex": {}})
    assert calls(opened(tmp_path, old, shared={"stringArray": []})) == calls(opened(tmp_path, thread()))


def calls(trace: Trace) -> Calls:
    order = np.lexsort((trace.events.depth, trace.events.start))
    return [
        (trace.name(event), int(trace.events.start[event]) // MS, int(trace.events.end[event]) // MS)
        for event in order.tolist()
    ]


EXPECTED = [("train.py(10): main", 0, 40), ("train.py(3): load", 10, 40), ("memcpy (libc.so.6)", 30, 40)]


def test_neighbouring_samples_share_calls(tmp_path: Path) -> None:
    trace = opened(tmp_path, thread())
    assert calls(trace) == EXPECTED
    (lane,) = trace.lanes
    assert (lane.kind, lane.name, lane.process, lane.thread) == (
        LaneKind.SAMPLED_STACKS,
        "MainThread",
        100,
        7,
    )
    assert trace.epoch_ns is None


def test_texts_of_a_thread_times_as_distances_and_shared_tables_are_known(tmp_path: Path) -> None:
    whole = thread()
    of_its_own = {**whole, "stringArray": STRINGS}
    distances = thread(samples={"stack": [0, 1, 1, 3], "timeDeltas": [0, 10, 10, 10]})
    tables = {name: whole.pop(name) for name in ("stackTable", "frameTable", "funcTable", "resourceTable")}
    assert calls(opened(tmp_path, of_its_own, shared={"stringArray": []})) == EXPECTED
    assert calls(opened(tmp_path, distances)) == EXPECTED
    assert calls(opened(tmp_path, whole, shared={"stringArray": STRINGS, **tables})) == EXPECTED


def test_files_may_stand_in_a_table_of_sources(tmp_path: Path) -> None:
    functions = {"name": [0, 1, 3], "source": [0, 0, None], "resource": [-1, -1, 0]}
    shared = {"stringArray": STRINGS, "sources": {"filename": [2], "uuid": [None], "length": 1}}
    assert calls(opened(tmp_path, thread(funcTable=functions), shared=shared)) == EXPECTED


def test_the_layout_of_the_browser_is_read_with_its_processes(tmp_path: Path) -> None:
    rows = {
        "name": "GeckoMain",
        "tid": 1,
        "pid": 2,
        "samples": {
            "schema": {"stack": 0, "time": 1, "eventDelay": 2},
            "data": [[0, 0.0], [1, 10.0, 0], [None, 20.0]],
        },
        "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [[None, 0], [0, 1]]},
        "frameTable": {"schema": {"location": 0, "relevantForJS": 1}, "data": [[0, False], [1, True, None]]},
        "stringTable": ["(root)", "run (https://a.example/x.js:12:5)"],
    }
    meta = {"version": 24, "startTime": 1_700_000_000_000.25, "stackwalk": 1, "product": "Firefox"}
    inner = {"meta": meta, "threads": [{**rows, "name": "Worker"}]}
    path = tmp_path / "anything"
    path.write_text(json.dumps({"meta": meta, "threads": [rows], "processes": [inner]}))
    trace = open_trace([path])
    assert [lane.name for lane in trace.lanes] == ["GeckoMain", "Worker"]
    assert {trace.name(event) for event in range(len(trace.events))} == {
        "(root)",
        "https://a.example/x.js(12): run",
    }
    assert trace.epoch_ns == 1_700_000_000_000_250_000


@pytest.mark.parametrize(("pause", "goes_on"), [(14, True), (16, False)])
def test_a_thread_that_was_not_sampled_did_not_run(tmp_path: Path, pause: int, goes_on: bool) -> None:
    times = [0, 10, 20, 20 + pause]
    trace = opened(tmp_path, thread(samples={"stack": [0, 0, 0, 0], "time": times}))
    assert len(trace.events) == (1 if goes_on else 2)


def test_beside_a_timeline_samples_are_a_lane_of_it(tmp_path: Path, fixtures: Path) -> None:
    timeline = fixtures / "torch" / "decode_graph.pt.trace.json.gz"
    joined = open_trace([timeline, fixtures / "stacks" / "feed.firefox.json"])
    assert any(lane.kind is LaneKind.SAMPLED_STACKS for lane in joined.lanes)
    assert len(joined.gpu_operations) == len(open_trace([timeline]).gpu_operations)
    assert any(each.rule == "sampled-cpu" for each in diagnose(joined).findings)


def test_what_python_sampled_is_told_by_function_and_line(fixtures: Path) -> None:
    trace = open_trace([fixtures / "stacks" / "feed.firefox.json"])
    assert trace.inputs[0].producer == "Tachyon Sampling Profiler"
    assert any("without their folders" in note.reason for note in trace.quality.notes)
    names = {trace.name(event) for event in range(len(trace.events))}
    assert any(name.startswith("feed.py(") and name.endswith(": prepare") for name in names)
    assert verdict(Analysis(trace), diagnose(trace)).endswith("is in <listcomp> (feed.py:9)")


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": {"stack": [0, 9, -4, 2**40, None], "time": [0, 10, 20, 30, 40]}},
        {"samples": {"stack": [0, 1], "time": [0, 10, 20, 30, 40]}},
        {"stackTable": {"frame": [0, 1, 2, 2], "prefix": [0, 2, 1, 3]}},
        {"stackTable": {"frame": [0, 99, -3], "prefix": [None]}},
        {"frameTable": {"func": [7, 1], "line": [2**40]}},
        {"funcTable": {"name": [99]}},
        {"resourceTable": None},
        {"pid": "main.3", "tid": None},
    ],
)
def test_indices_that_lead_nowhere_cost_only_their_names(tmp_path: Path, changes: dict[str, Any]) -> None:
    trace = opened(tmp_path, thread(**changes))
    assert len(trace.events)
    assert int(trace.events.depth.max()) < 4


def test_times_that_cannot_be_are_counted(tmp_path: Path) -> None:
    samples = {"stack": [0, 0, 0, 0], "time": [0, None, 1e25, 10]}
    trace = opened(tmp_path, thread(samples=samples))
    assert trace.quality.quarantined == 2
    assert len(trace.events) == 1


def test_stacks_as_deep_as_no_program_s_are_cut(tmp_path: Path) -> None:
    depth = 100_000
    table = {"frame": [0] * depth, "prefix": [None, *range(depth - 1)]}
    samples = {"stack": [depth - 1, 5_000, 3], "time": [0, 10, 20]}
    trace = opened(tmp_path, thread(stackTable=table, samples=samples))
    assert int(trace.events.depth.max()) < 4_000
    assert any(note.kind == "deep" for note in trace.quality.notes)


@pytest.mark.parametrize(
    "text",
    [
        '{"meta": {"preprocessedProfileVersion": 57}, "threads": []}',
        '{"meta": {"preprocessedProfileVersion": 57}, "threads": [{"samples": {"stack": [], "time": []}}]}',
        '{"meta": {"preprocessedProfileVersion": 57}, "threads": 5}',
        '{"meta": {"preprocessedProfileVersion": 57}, "threads": [{"samples": {"stack": [0',
    ],
)
def test_a_profile_without_samples_is_refused_with_a_hint(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile"
    path.write_text(text)
    with pytest.raises(TraceError) as refused:
        open_trace([path])
    assert "profiling.sampling" in refused.value.hint


def test_collapsed_stacks_of_python_have_threads_files_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "stacks"
    path.write_text("tid:7;train.py:main:10;train.py:load:3 40\ntid:8;<string>:<module>:1;<GC> 3\n")
    trace = open_trace([path])
    assert [lane.name for lane in trace.lanes] == ["thread 7", "thread 8"]
    assert {trace.name(event) for event in range(len(trace.events))} == {
        "train.py(10): main",
        "train.py(3): load",
        "<string>(1): <module>",
        "<GC>",
    }
