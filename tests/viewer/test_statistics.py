"""The numbers behind the tables: totals, percentiles, self time, clipping."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resources
from parsers.model import Attribute, CopyKind, Device, EventKind, Lane, LaneKind, MemoryKind, Trace
from parsers.model.builder import TraceBuilder
from rules.analysis.analysis import Analysis
from rules.findings.base import Evidence
from tests.opened import analysed, opened
from viewer.panels.tabs.memory import curves_of
from viewer.statistics.area import area_table, devices_in, events_in, instances
from viewer.statistics.budget_intervals import foremost
from viewer.statistics.call_tree import call_tree
from viewer.statistics.event_facts import call_stack, facts_of_event, facts_of_gap, stack_at
from viewer.statistics.kernels import (
    SPREAD_BINS,
    clipped,
    duration_counts,
    family_table,
    grouped,
    kernel_table,
)
from viewer.statistics.operator_roofs import roof_table
from viewer.statistics.operators import operator_table, operator_times
from viewer.statistics.steps import step_table

from .conftest import KERNELS, MS, STEP, STEPS, US

EVERYTHING = (0, 10**12)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10**9)), max_size=80))
def test_groups_agree_with_plain_arithmetic(rows: list[tuple[int, int]]) -> None:
    key = np.array([row[0] for row in rows], np.int64)
    value = np.array([row[1] for row in rows], np.int64)
    groups = grouped(key, value)
    assert groups.key.tolist() == sorted(set(key.tolist()))
    for place, each in enumerate(groups.key.tolist()):
        mine = np.sort(value[key == each])
        assert groups.count[place] == len(mine)
        assert groups.total[place] == mine.sum()
        assert groups.least[place] == mine[0]
        assert groups.most[place] == mine[-1]
        assert groups.median[place] == mine[(len(mine) + 1) // 2 - 1]
        assert groups.p99[place] == mine[int(np.ceil(0.99 * len(mine))) - 1]


def test_clipping_counts_only_what_lies_inside() -> None:
    start, end = np.array([0, 5, 20, 8]), np.array([10, 30, 25, 8])
    assert clipped(start, end, 6, 22).tolist() == [4, 16, 2, 0]


def test_the_kernels_table_adds_up(trace: Trace) -> None:
    table = kernel_table(Analysis(trace), *EVERYTHING)
    assert set(table["name"]) == {"ampere_sgemm_128x64", "softmax_warp"}
    assert table["calls"].sum() == STEPS * KERNELS
    assert table["total_ns"].sum() == STEPS * KERNELS * MS
    assert table["gpu_time_share"].sum() == pytest.approx(1.0)
    assert (table["p50_ns"] == MS).all()
    assert [trace.name(event) for event in table["event"]] == table["name"].tolist()


def test_the_kernels_table_of_one_step_counts_kernels_that_start_in_it(trace: Trace) -> None:
    table = kernel_table(Analysis(trace), 0, STEP)
    assert table["calls"].sum() == KERNELS


def test_families_sum_up_their_kernels(trace: Trace) -> None:
    kernels = kernel_table(Analysis(trace), *EVERYTHING)
    families = family_table(kernels)
    assert families["total_ns"].sum() == kernels["total_ns"].sum()
    assert set(families["family"]) == {"matrix product", "softmax"}


def nested_operators() -> Trace:
    """`outer` [0, 100) calls `inner` [10, 40) and itself [50, 90); each launches one kernel of 5 ns."""
    builder = TraceBuilder()
    device = builder.device(Device(0))
    lane = builder.lane(Lane(LaneKind.CPU_THREAD, "t", process=1, thread=1))
    calls = builder.lane(Lane(LaneKind.CUDA_API, "t", process=1, thread=1))
    stream = builder.lane(Lane(LaneKind.GPU_STREAM, "s", device=device, stream=7))
    frames = builder.lane(Lane(LaneKind.PYTHON, "t", process=1, thread=1))
    names = np.array([builder.string(name) for name in ("outer", "inner", "outer")])
    builder.add(np.array([0, 10, 50]), np.array([100, 40, 90]), names, lane, EventKind.CPU_OP)
    launches = builder.add(
        np.array([2, 20, 60]), np.array([4, 22, 62]), builder.string("cudaLaunchKernel"), calls, EventKind.API
    )
    kernels = builder.add(
        np.array([200, 210, 220]), np.array([205, 215, 225]), builder.string("k"), stream, EventKind.KERNEL
    )
    builder.add(
        np.array([0, 1]),
        np.array([100, 99]),
        np.array([builder.string("main"), builder.string("step")]),
        frames,
        EventKind.PYTHON,
    )
    builder.link(kernels, launches)
    return builder.build()


def test_self_time_leaves_out_what_an_operator_calls_and_recursion_counts_once() -> None:
    trace = nested_operators()
    table = operator_table(trace, operator_times(trace), *EVERYTHING).set_index("name")
    assert table.loc["outer", "calls"] == 2
    assert table.loc["outer", "cpu_total_ns"] == 100
    assert table.loc["outer", "cpu_self_ns"] == (100 - 30 - 40) + 40
    assert table.loc["inner", "cpu_self_ns"] == 30
    assert table.loc["outer", "gpu_total_ns"] == 15
    assert table.loc["outer", "gpu_self_ns"] == 10
    assert table.loc["inner", "gpu_total_ns"] == 5
    assert table.loc["outer", "launches"] == 3


def test_self_times_add_up_to_the_time_of_the_outermost_operators(trace: Trace) -> None:
    times = operator_times(trace)
    depth = trace.events.depth[times.event]
    assert times.cpu_self.sum() == times.cpu_total[depth == 0].sum()
    assert times.gpu_self.sum() == times.gpu_total[depth == 0].sum()


def test_a_kernel_knows_its_launch_operator_and_frame() -> None:
    trace = nested_operators()
    kernel = next(
        e for e in range(len(trace.events)) if trace.name(e) == "k" and trace.events.start[e] == 210
    )
    facts = {fact.label: fact for fact in facts_of_event(trace, kernel)}
    assert facts["Launched by"].text == "cudaLaunchKernel"
    assert facts["Operator"].text == "inner"
    assert facts["Python frame"].text == "step"
    launch = facts["Launched by"].event
    assert facts["Launch to start"].text == f"{210 - trace.events.start[launch]} ns"
    assert [trace.name(frame) for frame in call_stack(trace, kernel)] == ["main", "step"]


def test_a_launch_knows_its_kernels() -> None:
    trace = nested_operators()
    launch = next(e for e in range(len(trace.events)) if trace.name(e) == "cudaLaunchKernel")
    launched = [fact for fact in facts_of_event(trace, launch) if fact.label == "Launched"]
    assert [trace.events.start[fact.event] for fact in launched] == [200]


def test_the_stack_at_a_moment_is_what_is_open_then() -> None:
    trace = nested_operators()
    lane = next(index for index, lane in enumerate(trace.lanes) if lane.kind is LaneKind.CPU_THREAD)
    assert [trace.name(event) for event in stack_at(trace, lane, 20)] == ["outer", "inner"]
    assert [trace.name(event) for event in stack_at(trace, lane, 45)] == ["outer"]
    assert stack_at(trace, lane, 101) == []


def test_a_gap_names_its_cause_and_its_culprit(trace: Trace) -> None:
    analysis = Analysis(trace)
    longest = int(np.argmax(analysis.idle.end - analysis.idle.start))
    facts = {fact.label: fact.text for fact in facts_of_gap(analysis, longest)}
    assert facts["Cause"] == "waiting for Python"
    assert facts["Culprit"] == "tokenize"


@pytest.mark.parametrize(
    ("first_ns", "told"),
    [(8 * MS, "20.0 ms on GPU 0, part of 28.0 ms"), (30 * US, "28.0 ms on GPU 0")],
    ids=["a part", "as good as all of it"],
)
def test_a_part_of_a_longer_gap_says_so_and_other_kernels_are_called_by_their_short_names(
    first_ns: int, told: str
) -> None:
    builder = TraceBuilder()
    device = builder.device(Device(0, "NVIDIA H200"))
    main = {"process": 1, "thread": 1}
    regions = builder.lane(Lane(LaneKind.REGION, "regions", **main))
    calls = builder.lane(Lane(LaneKind.CUDA_API, "calls", **main))
    stream = builder.lane(Lane(LaneKind.GPU_STREAM, "stream", device=device, stream=7))
    kernel = builder.string("void at::native::(anonymous namespace)::layer_norm_kernel<float>(int)")
    for name, start, end in (("first", 2 * MS, 2 * MS + first_ns), ("second", 2 * MS + first_ns, 30 * MS)):
        builder.add(np.array([start]), np.array([end]), builder.string(name), regions, EventKind.REGION)
    launched = np.array([0, 30 * MS])
    api = builder.add(launched, launched + US, builder.string("cudaLaunchKernel"), calls, EventKind.API)
    builder.link(builder.add(launched + MS, launched + 2 * MS, kernel, stream, EventKind.KERNEL), api)
    trace = builder.build()
    analysis = Analysis(trace)
    row = next(row for row in range(len(analysis.idle)) if analysis.idle.culprit_of(row).text == "second")
    facts = {fact.label: fact for fact in facts_of_gap(analysis, row)}
    assert facts["Idle"].text == told
    assert facts["Ended by"].text == "layer_norm_kernel"
    assert "at::native" in facts["Ended by"].whole


@pytest.mark.parametrize(
    ("copy", "source", "target", "said"),
    [
        (CopyKind.D2D, MemoryKind.DEVICE, MemoryKind.DEVICE, "device to device"),
        (CopyKind.H2D, MemoryKind.PAGEABLE, MemoryKind.DEVICE, "host to device (pageable to device)"),
        (CopyKind.P2P, MemoryKind.UNKNOWN, MemoryKind.UNKNOWN, "GPU to GPU"),
    ],
)
def test_the_direction_of_a_copy_is_said_once(
    copy: CopyKind, source: MemoryKind, target: MemoryKind, said: str
) -> None:
    builder = TraceBuilder()
    device = builder.device(Device(0, "NVIDIA H200"))
    stream = builder.lane(Lane(LaneKind.GPU_STREAM, "stream", device=device, stream=7))
    row = builder.add(np.array([0]), np.array([MS]), builder.string("Memcpy"), stream, EventKind.MEMCPY)
    for which, value in (
        (Attribute.COPY_KIND, copy),
        (Attribute.SOURCE_MEMORY, source),
        (Attribute.TARGET_MEMORY, target),
    ):
        builder.attribute(which, row, np.array([value.value]))
    facts = {fact.label: fact.text for fact in facts_of_event(builder.build(), 0)}
    assert facts["Direction"] == said


def test_an_operator_says_what_called_it() -> None:
    trace = nested_operators()
    inner = next(e for e in range(len(trace.events)) if trace.name(e) == "inner")
    assert {fact.label: fact.text for fact in facts_of_event(trace, inner)}["Called by"] == "outer"


def test_steps_name_their_rank_only_where_there_are_several(trace: Trace) -> None:
    assert set(step_table(Analysis(trace))["rank"]) == {""}


def test_an_area_clips_durations_and_keeps_to_its_lanes(trace: Trace) -> None:
    stream = next(index for index, lane in enumerate(trace.lanes) if lane.kind is LaneKind.GPU_STREAM)
    t0, t1 = 900 * US, 2900 * US  # half a kernel, one and a half
    events = events_in(trace, t0, t1, [stream])
    table = area_table(trace, Analysis(trace), events, t0, t1).set_index("group")
    assert table["count"].sum() == 3
    assert table["total"].sum() == t1 - t0
    assert table.loc["softmax_warp", "total"] == 500 * US + 500 * US
    assert table.loc["ampere_sgemm_128x64", "total"] == MS
    everything = events_in(trace, t0, t1)
    assert len(everything) > len(events)
    by_lane = area_table(trace, Analysis(trace), everything, t0, t1, "lane").set_index("group")
    assert by_lane.loc["GPU 0 · stream 7, NVIDIA H200", "total"] == t1 - t0
    by_family = area_table(trace, Analysis(trace), everything, t0, t1, "family")
    assert by_family["total"].sum() == t1 - t0


def test_nested_time_of_an_area_is_never_added_twice() -> None:
    builder = TraceBuilder()
    main = {"process": 1, "thread": 1}
    operators = builder.lane(Lane(LaneKind.CPU_THREAD, "Main thread", **main))
    regions = builder.lane(Lane(LaneKind.REGION, "Main thread regions", **main))
    stream = builder.lane(Lane(LaneKind.GPU_STREAM, "stream 7", device=builder.device(Device(0)), stream=7))

    def add(name: str, lane: int, kind: EventKind, *spans: tuple[int, int]) -> None:
        start, end = (np.array(side) * US for side in zip(*spans, strict=True))
        builder.add(start, end, builder.string(name), lane, kind)

    add("aten::linear", operators, EventKind.CPU_OP, (0, 100))
    add("aten::mm", operators, EventKind.CPU_OP, (10, 40), (50, 90))
    add("aten::mm", operators, EventKind.CPU_OP, (55, 60))  # inside one of its own name
    add("forward", regions, EventKind.REGION, (0, 100))
    add("gemm", stream, EventKind.KERNEL, (20, 80))
    add("copy", stream, EventKind.KERNEL, (30, 40))  # at the same time on the same stream
    trace = builder.build()
    analysis = Analysis(trace)
    t0, t1 = 20 * US, 80 * US
    table = area_table(trace, analysis, events_in(trace, t0, t1), t0, t1).set_index("group")
    assert table["own"].to_dict() == {
        "forward": 60 * US, "gemm": 60 * US, "copy": 10 * US, "aten::mm": 50 * US, "aten::linear": 10 * US
    }  # fmt: skip
    assert table.loc["aten::mm", "total"] == 50 * US
    assert table.loc["aten::linear", "total"] == 60 * US
    assert table.groupby("where")["share"].sum().tolist() == pytest.approx([1, 1, 1])
    by_lane = area_table(trace, analysis, events_in(trace, t0, t1), t0, t1, "lane").set_index("group")
    assert by_lane.loc["Main thread, CPU operators", "own"] == t1 - t0
    (gpu,) = devices_in(analysis, t0, t1)
    assert (gpu.busy_ns, gpu.window_ns) == (60 * US, 60 * US)
    assert sum(ns for _, _, ns in gpu.parts) == t1 - t0
    assert devices_in(analysis, 0, t1, [operators])[0].busy_ns == 60 * US


def test_an_empty_area_gives_an_empty_table(trace: Trace) -> None:
    events = events_in(trace, 10**12, 10**12 + 1)
    assert len(area_table(trace, Analysis(trace), events, 10**12, 10**12 + 1, "family")) == 0


def test_all_events_of_a_name_come_by_time(trace: Trace) -> None:
    found = instances(trace, trace.strings.index("softmax_warp"))
    assert len(found) == STEPS * KERNELS // 2
    assert (np.diff(trace.events.start[found]) > 0).all()


def test_the_steps_table_marks_slow_steps() -> None:
    builder = TraceBuilder()
    lane = builder.lane(Lane(LaneKind.STEPS, "Steps", process=1, thread=1))
    lengths = np.array([10, 10, 10, 10, 30, 10]) * MS
    ends = np.cumsum(lengths)
    names = np.array([builder.string(f"ProfilerStep#{number}") for number in range(len(lengths))])
    builder.add(ends - lengths, ends, names, lane, EventKind.STEP)
    trace = builder.build()
    table = step_table(Analysis(trace))
    assert table["remark"].tolist().count("slow") + table["remark"].tolist().count("not steady") >= 1
    assert table.loc[4, "remark"] != ""
    assert table.loc[4, "ratio"] == pytest.approx(3.0)
    assert table.loc[1, "remark"] == ""


def test_the_steps_table_counts_gpu_work(trace: Trace) -> None:
    table = step_table(Analysis(trace))
    assert table["operations"].tolist() == [KERNELS] * STEPS
    assert (table["busy_share"] > 0.3).all()


def test_calls_of_one_name_under_one_caller_are_added_up() -> None:
    trace = nested_operators()
    lanes = [index for index, lane in enumerate(trace.lanes) if lane.kind is LaneKind.CPU_THREAD]
    tree = call_tree(trace, lanes, 0, 10**9)
    rows = {
        tuple(trace.strings[tree.name[each]] for each in tree.path(node)): (
            int(tree.total[node]),
            int(tree.own[node]),
        )
        for node in range(len(tree))
    }
    assert rows == {("outer",): (100, 30), ("outer", "inner"): (30, 30), ("outer", "outer"): (40, 40)}
    assert tree.whole == 100
    assert tree.left[tree.depth == 1].tolist() in ([0, 40], [40, 0])


def test_the_call_tree_of_an_area_is_clipped_to_it() -> None:
    trace = nested_operators()
    lanes = [index for index, lane in enumerate(trace.lanes) if lane.kind is LaneKind.CPU_THREAD]
    tree = call_tree(trace, lanes, 20, 60)
    by_path = {len(tree.path(node)) * 1000 + int(tree.total[node]) for node in range(len(tree))}
    assert by_path == {1040, 2020, 2010}


def test_children_of_the_call_tree_lie_in_their_parents(trace: Trace) -> None:
    lanes = [index for index, lane in enumerate(trace.lanes) if lane.kind is LaneKind.CPU_THREAD]
    tree = call_tree(trace, lanes, *EVERYTHING)
    inner = np.flatnonzero(tree.parent >= 0)
    parent = tree.parent[inner]
    assert (tree.left[inner] >= tree.left[parent]).all()
    assert (tree.left[inner] + tree.total[inner] <= tree.left[parent] + tree.total[parent]).all()
    assert tree.count.sum() == STEPS * KERNELS


def test_an_empty_call_tree_is_no_problem(trace: Trace) -> None:
    assert len(call_tree(trace, [], 0, 1)) == 0


def test_durations_of_each_name_are_counted_from_its_shortest_to_its_longest() -> None:
    key = np.array([5, 5, 5, 5, 9, 9, 2])
    value = np.array([10, 100, 1_000, 1_000, 7, 7, 0])
    counts = duration_counts(key, value, np.array([9, 5, 2]))
    assert counts.shape == (3, SPREAD_BINS)
    assert counts.sum(axis=1).tolist() == [2, 4, 1]
    assert (counts[1, 0], counts[1, SPREAD_BINS // 2], counts[1, -1]) == (1, 1, 2)
    assert (counts[0, 0], counts[2, 0]) == (2, 1)


@pytest.mark.parametrize(
    ("events", "first"),
    [((-1, -1, -1, -1), 2), ((4, 4, 7, 4), 1), ((4, 7, 7, 9), 2), ((-1, 4, 9, 4), 2)],
    ids=["no operation", "in pieces", "in one piece", "of one and a gap"],
)
def test_the_operation_with_most_of_a_part_comes_first_even_where_it_is_cut_into_pieces(
    events: tuple[int, ...], first: int
) -> None:
    starts, lengths = (0, 10, 20, 30), (3, 4, 6, 1)
    places = [
        Evidence(0, start, start + length, "", event)
        for start, length, event in zip(starts, lengths, events, strict=True)
    ]
    assert foremost(places) == first
    assert foremost([]) is None


def test_only_memory_of_the_gpu_is_told_as_a_part_of_it() -> None:
    trace = opened(resources.path("samples/allocator_thrash.sqlite"))
    told = [curve.told(trace) for curve in curves_of(trace, ())]
    assert [each for each in told if "% of" in each] == ["Allocated memory: peak 3.47 GB (2.3 % of 150 GB)"]
    assert "Pinned memory: peak 8 B" in told


def test_kernels_and_operators_tell_shares_of_the_same_time() -> None:
    analysis = analysed(resources.path("samples/sync_item.pt.trace.json.gz"))
    kernels = kernel_table(analysis, *analysis.window)
    roofs = roof_table(analysis.trace, *analysis.window)
    whole = {round(table["total_ns"].sum() / table["gpu_time_share"].sum()) for table in (kernels, roofs)}
    assert max(whole) - min(whole) <= len(kernels)
    assert 0 < roofs["gpu_time_share"].sum() < kernels["gpu_time_share"].sum(), (
        "copies are no operators' kernels"
    )
