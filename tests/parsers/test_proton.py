"""What Triton's profiler Proton writes: timelines, the inside of kernels, profiles; whole, damaged, beside others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import EventKind, LaneKind, Trace, TraceError
from parsers.model.names.kernels import base_name, kernel_name
from parsers.model.names.mangled import spelled_out, without_parameters
from rules import Finding, diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.beside.inside_kernels import inside_kernels
from rules.verdict.verdict import lacks_a_gpu, verdict

# The cases lie on either side of these.
UNEVEN = 1.5
NEAR_THE_LIMIT = 0.8

Event = dict[str, Any]


@pytest.fixture
def recorded(fixtures: Path) -> Path:
    return fixtures / "proton"


def written(folder: Path, *objects: list[Event], tail: str = "") -> Path:
    """One object a line, as Proton writes one for each stream."""
    path = folder / "anything"
    lines = [
        json.dumps({"displayTimeUnit": "us", "traceEvents": events}, separators=(",", ":"))
        for events in objects
    ]
    path.write_text("\n".join(lines) + tail)
    return path


def kernel(at: float, *stack: str, stream: int = 7, took: float = 2.0) -> Event:
    arguments = {"call_stack": ["ROOT", *stack]}
    return {
        "args": arguments,
        "cat": "kernel",
        "dur": took,
        "name": stack[-1],
        "ph": "X",
        "tid": stream,
        "ts": at,
    }


def part(name: str, block: int, warp: int, at: float, took: float, unit: int = 5) -> Event:
    return {
        "args": {"Frequency (MHz)": 1000.0, "call_stack": ["ROOT", "matmul"]},
        "cat": "matmul",
        "dur": took,
        "name": name,
        "ph": "X",
        "pid": f"matmul Core{unit} CTA{block}",
        "tid": f"warp {warp} (line 0)",
        "ts": at,
    }


def node(name: str, *children: Event, **metrics: Any) -> Event:
    return {"children": list(children), "frame": {"name": name, "type": "function"}, "metrics": metrics}


def leaf(name: str, ns: int, count: int = 1, **metrics: Any) -> Event:
    return node(name, **{"time (ns)": ns, "count": count, "device_id": "0", "device_type": "CUDA"}, **metrics)


def profile(folder: Path, *children: Event) -> Trace:
    path = folder / "anything"
    gpu = {"arch": "90", "bus_width": 8000, "memory_clock_rate": 500_000, "num_sms": 132}
    path.write_text(json.dumps([node("ROOT", *children), {"CUDA": {"0": gpu}}]))
    return open_trace([path])


def found(trace: Trace, rule: str) -> Finding:
    (finding,) = (each for each in diagnose(trace).findings if each.rule == rule)
    return finding


def names_of(trace: Trace, *kinds: EventKind) -> list[str]:
    return [trace.name(event) for event in trace.events.of_kind(*kinds).tolist()]


def test_kernels_lie_on_their_stream_under_the_scopes_that_launched_them(recorded: Path) -> None:
    trace = open_trace([recorded / "trace.chrome_trace"])
    assert trace.inputs[0].format == "proton-trace"
    assert len(trace.gpu_operations) == 44
    assert {lane.stream for lane in trace.lanes if lane.kind is LaneKind.GPU_STREAM} == {7}
    assert {"step_3", "forward", "loss", "backward"} <= set(names_of(trace, EventKind.GPU_REGION))
    assert names_of(trace, EventKind.STEP) == ["step_0", "step_1", "step_2", "step_3"]
    assert trace.quality.events_read == trace.quality.events_kept == len(trace.events)


def test_a_scope_lasts_from_its_first_kernel_to_its_last_one(tmp_path: Path) -> None:
    path = written(
        tmp_path, [kernel(10, "a", "b", "k1"), kernel(14, "a", "b", "k2"), kernel(20, "a", "c", "k3")]
    )
    trace = open_trace([path])
    spans = {
        trace.name(event): (int(trace.events.start[event]), int(trace.events.end[event]))
        for event in trace.events.of_kind(EventKind.GPU_REGION).tolist()
    }
    assert spans == {"a": (0, 12_000), "b": (0, 6_000), "c": (10_000, 12_000)}


def test_each_stream_has_an_object_of_its_own_and_all_are_read(tmp_path: Path) -> None:
    streams = [[kernel(10 * at, "k", stream=stream) for at in range(3)] for stream in (7, 20, 21)]
    trace = open_trace([written(tmp_path, *streams)])
    assert len(trace.gpu_operations) == 9
    assert {lane.stream for lane in trace.lanes if lane.kind is LaneKind.GPU_STREAM} == {7, 20, 21}


def test_later_versions_name_threads_and_state_when_scopes_of_the_cpu_ran(tmp_path: Path) -> None:
    def named(tid: int, name: str) -> Event:
        return {"ph": "M", "pid": 0, "tid": tid, "name": "thread_name", "args": {"name": name}}

    scope = {
        "name": "forward",
        "cat": "scope",
        "ph": "X",
        "pid": 0,
        "ts": 1.0,
        "dur": 5.0,
        "tid": 100,
        "args": {"call_stack": ["ROOT", "forward"]},
    }
    arrow = {"name": "launch->kernel", "cat": "flow", "ph": "s", "pid": 0, "tid": 100, "ts": 1.0, "id": 3}
    first = {**kernel(8, "forward", "k", stream=900), "pid": 0}
    events = [first, named(100, "CPU Thread 42"), named(900, "GPU Device 1 Stream 13"), scope, arrow]
    trace = open_trace([written(tmp_path, events)])
    assert {(lane.kind, lane.thread) for lane in trace.lanes if lane.device is None} == {
        (LaneKind.REGION, 42)
    }
    (stream,) = (lane for lane in trace.lanes if lane.kind is LaneKind.GPU_STREAM)
    assert (stream.stream, trace.devices[stream.device or 0].id) == (13, 1)
    assert trace.quality.quarantined == 0


def test_warps_of_a_multiprocessor_have_a_lane_each_with_the_parts_inside_a_block(recorded: Path) -> None:
    trace = open_trace([recorded / "inside.chrome_trace"])
    assert {lane.kind for lane in trace.lanes} == {LaneKind.INSIDE_KERNEL}
    blocks = np.flatnonzero(trace.events.depth == 0)
    assert len(blocks) == 2 * 8 * 4  # launches, blocks and warps
    assert {trace.name(event) for event in blocks} == {f"inner, block {block}" for block in range(8)}
    assert len(trace.lanes) == 4 * len({lane.process for lane in trace.lanes})
    (inside,) = inside_kernels(trace)
    assert [name for name, _ in inside.parts] == ["compute", "load", "", "store"]
    assert sum(time for _, time in inside.parts) == inside.whole


def test_where_warps_spend_their_time_is_the_verdict(recorded: Path) -> None:
    trace = open_trace([recorded / "inside.chrome_trace"])
    diagnosis = diagnose(trace)
    assert verdict(Analysis(trace), diagnosis) == "inner: 93 % of its warps' time is in compute"
    assert "64 warps" in found(trace, "inside-kernels").explanation


def test_time_outside_of_all_parts_is_told(tmp_path: Path) -> None:
    trace = open_trace([written(tmp_path, [part("load", 0, 0, 0, 10), part("store", 0, 0, 90, 10)])])
    assert (
        found(trace, "inside-kernels").title
        == "matmul: 80 % of its warps' time is in none of the marked parts"
    )


@pytest.mark.parametrize(("length", "whole"), [(25, True), (26, False)])
def test_a_title_has_room_for_a_part_of_twenty_five_letters(tmp_path: Path, length: int, whole: bool) -> None:
    name = "x" * length
    title = found(open_trace([written(tmp_path, [part(name, 0, 0, 0, 10)])]), "inside-kernels").title
    assert (name in title) is whole
    assert len(title) <= 80


@pytest.mark.parametrize(("slowest", "told"), [(15.1, True), (14.9, False)])
def test_uneven_warps_are_told_from_a_ratio_on(tmp_path: Path, slowest: float, told: bool) -> None:
    assert UNEVEN == 1.5
    warps = [part("all", 0, warp, 0, slowest if warp == 4 else 10) for warp in range(5)]
    finding = found(open_trace([written(tmp_path, warps)]), "inside-kernels")
    assert ("slowest warp" in finding.explanation) is told
    assert any("same amount of work" in each for each in finding.advice) is told


def test_blocks_at_the_same_time_on_one_multiprocessor_lie_on_lanes_of_their_own(tmp_path: Path) -> None:
    trace = open_trace([written(tmp_path, [part("all", 0, 0, 0, 10), part("all", 1, 0, 5, 10)])])
    assert [lane.name for lane in trace.lanes] == ["SM 5, warp 0", "SM 5, warp 0 (2)"]


def test_beside_a_timeline_the_inside_of_a_kernel_is_shown_and_told(recorded: Path, fixtures: Path) -> None:
    timeline = fixtures / "torch" / "decode_graph.pt.trace.json.gz"
    alone, joined = open_trace([timeline]), open_trace([timeline, recorded / "inside.chrome_trace"])
    assert len(joined.gpu_operations) == len(alone.gpu_operations)
    assert any(lane.kind is LaneKind.INSIDE_KERNEL for lane in joined.lanes)
    diagnosis = diagnose(joined)
    assert any(each.rule == "inside-kernels" for each in diagnosis.findings)
    assert not lacks_a_gpu(joined, diagnosis)


def test_a_profile_has_kernels_with_their_scopes_and_the_tree(recorded: Path) -> None:
    kernels, scopes = open_trace([recorded / "scopes.hatchet"]).tables
    assert sum(each for each in kernels.column("time") if isinstance(each, float)) == pytest.approx(0.327846)
    added = next(row for row in kernels.rows if row[0] == "add_524288")
    assert added[1:3] == ("forward", 4)
    at_once = 4 * 6_291_456 / 8_001  # bytes of all launches over their time in ns
    assert added[5] == pytest.approx(at_once, rel=0.01)
    assert added[6] == pytest.approx(2 * 3.201 * 6016 / 8)
    assert "sum · reduce_kernel" in kernels.column("kernel")
    assert scopes.rows[:2] == (("step_0", *scopes.rows[0][1:]), ("  backward", *scopes.rows[1][1:]))


def test_what_libraries_call_counts_for_the_line_that_called_them(recorded: Path) -> None:
    kernels, scopes = open_trace([recorded / "frames.hatchet"]).tables
    by_name = dict(zip(kernels.column("kernel"), kernels.column("scope"), strict=True))
    assert by_name["add_524288"] == "/home/me/train.py(17): step"
    assert not any("site-packages" in str(scope) for scope in scopes.column("scope"))


def test_a_profile_alone_is_told_by_its_longest_kernel(tmp_path: Path) -> None:
    forward = node("forward", leaf("gemm", 600, 3), leaf("norm", 100))
    trace = profile(tmp_path, forward, node("backward", leaf("gemm", 300)))
    diagnosis = diagnose(trace)
    assert verdict(Analysis(trace), diagnosis) == "90 % of the kernels' time is in gemm"
    (finding,) = diagnosis.findings
    assert finding.explanation == (
        "5 launches ran for 1.00 us in all, most of it in gemm (90 %) and norm (10 %). By scope: forward (70 %) and "
        "backward (30 %)."
    )


@pytest.mark.parametrize(
    ("moved", "advice"), [(79_900, "Nsight Compute"), (80_100, "move less"), (100_100, "Nsight Compute")]
)
def test_a_kernel_near_the_memory_s_bandwidth_is_told_to_move_less(
    tmp_path: Path, moved: int, advice: str
) -> None:
    """The memory of the profile moves 1,000 bytes a ns; what is faster than that came from a cache."""
    assert NEAR_THE_LIMIT == 0.8
    finding = found(profile(tmp_path, leaf("copy", 100, bytes=moved)), "profiled-times")
    assert advice in finding.advice[0]
    assert ("of what the memory allows" in finding.explanation) is (moved < 100_000)


def test_a_profile_of_the_inside_of_a_kernel_states_clock_cycles(recorded: Path) -> None:
    parts, scopes = open_trace([recorded / "inside.hatchet"]).tables
    assert parts.column("kernel") == ("compute", "load", "store")
    assert [column.name for column in scopes.columns] == ["scope", "clock cycles", "share"]


def test_mangled_names_are_shown_by_their_identifiers() -> None:
    assert spelled_out("_Z3addPfS_i") == "add"
    assert spelled_out("_ZN2at6native4fillILi4ENS0_11FillFunctorIfEEEEvT_") == "at::native::fill<FillFunctor>"
    for name in ("add_kernel", "_Z", "_ZN", "_ZN9999x", "_ZN0x", "_Z12ab", "_ZN4294967296a", "void f(int)"):
        assert spelled_out(name) == name == without_parameters(name)


def test_the_type_of_a_parameter_is_no_part_of_a_function_s_name() -> None:
    for name, own, plain in (
        ("_Z10matrix_mul10FixedArray5Slice", "matrix_mul", "_Z10matrix_mul"),
        (
            "_Z27ncclSumTreeLLKernel_sum_i328ncclColl",
            "ncclSumTreeLLKernel_sum_i32",
            "_Z27ncclSumTreeLLKernel_sum_i32",
        ),
    ):
        assert base_name(spelled_out(name)) == kernel_name(name) == own
        assert without_parameters(name) == plain
    assert base_name(spelled_out("_ZN3sim4stepE5State")) == "step"


def test_parameters_of_mangled_names_go_unless_a_template_says_what_it_computes_by_them() -> None:
    assert without_parameters("_Z4initP17curandStateXORWOW") == "_Z4init"
    assert without_parameters("_ZN3sim4initEP17curandStateXORWOW") == "_ZN3sim4init"
    template = "_ZN2at6native4fillILi4ENS0_11FillFunctorIfEEEEvT_"
    assert without_parameters(template) == template


@pytest.mark.parametrize("name", ["trace.chrome_trace", "inside.chrome_trace"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
def test_what_comes_before_a_cut_is_shown(recorded: Path, tmp_path: Path, name: str, share: float) -> None:
    whole = recorded / name
    path = tmp_path / "cut"
    path.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
    trace = open_trace([path])
    assert 0 < len(trace.events) < len(open_trace([whole]).events)
    assert any(note.kind == "cut" for note in trace.quality.notes)


@pytest.mark.parametrize(
    "damaged",
    [
        {"ts": -1.0},
        {"ts": 1e300},
        {"dur": -2.0},
        {"ts": "soon"},
        {"dur": None},
        {"name": 7},
        {"args": []},
        {"ph": "B"},
    ],
)
def test_events_that_cannot_be_used_are_counted(tmp_path: Path, damaged: Event) -> None:
    trace = open_trace([written(tmp_path, [kernel(1, "k"), {**kernel(5, "k"), **damaged}, kernel(9, "k")])])
    assert len(trace.gpu_operations) == 2
    assert trace.quality.quarantined == 1


@pytest.mark.parametrize("stack", ["deep", ["ROOT", 5], {"a": 1}])
def test_stacks_that_cannot_be_read_cost_only_the_scopes(tmp_path: Path, stack: Any) -> None:
    other = {**kernel(5, "a", "k"), "args": {"call_stack": stack}}
    trace = open_trace([written(tmp_path, [kernel(1, "a", "k"), other])])
    assert len(trace.gpu_operations) == 2
    assert any(note.kind == "damaged-stack" for note in trace.quality.notes)


def test_very_deep_stacks_are_shown_down_to_a_bound(tmp_path: Path) -> None:
    deep = [f"scope {number}" for number in range(5_000)]
    trace = open_trace([written(tmp_path, [kernel(10 * at, *deep, "k") for at in range(3)])])
    assert len(trace.gpu_operations) == 3
    assert int(trace.events.depth.max()) == 63


@pytest.mark.parametrize(
    "text",
    [
        '[{"frame": {"name": "ROOT"}, "children": [], "metrics": {}}]',
        '[{"children": [{"frame": {"name": "k"}, "children": [], "metrics": {"time (ns)": -5, "device_id": "0"}}]}]',
        '[{"frame": {"name": "ROOT"}, "children": 5}]',
        '[{"frame": {"name": "ROOT"}, "children": [',
        '[{"frame": {"name": "ROOT"}, "children": []}, [1, 2]]',
        "".join(
            ['[{"frame": {"name": "ROOT"}, "children": [', '{"children": [' * 20_000, "]}" * 20_000, "]}]"]
        ),
    ],
    ids=["empty", "negative", "no children", "cut", "no devices", "deep"],
)
def test_a_profile_without_any_time_is_refused_with_a_hint(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile"
    path.write_text(text)
    with pytest.raises(TraceError) as refused:
        open_trace([path])
    assert "proton.finalize()" in refused.value.hint


def test_a_trace_without_events_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as refused:
        open_trace([written(tmp_path, [{"args": {"call_stack": ["ROOT"]}, "name": "x", "ph": "M"}])])
    assert "proton.finalize()" in refused.value.hint


def test_names_from_a_profile_stay_names(tmp_path: Path) -> None:
    trace = profile(tmp_path, node("<b>forward</b>", leaf("<script>" + "x" * 100_000, 5)))
    assert trace.tables[1].rows[0][0] == "<b>forward</b>"
    assert len(str(trace.tables[0].rows[0][0])) == 300


@pytest.mark.parametrize(("length", "whole"), [(300, True), (301, False)])
def test_a_name_of_up_to_three_hundred_characters_is_shown_whole(
    tmp_path: Path, length: int, whole: bool
) -> None:
    name = "x" * length
    trace = profile(tmp_path, node(name, leaf("gemm", 5)))
    assert (trace.tables[1].rows[0][0] == name) is whole
