"""Tables of rows and summaries: the model's columns, sums that agree with each other, the form of the JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

import resources
from parsers.model import EventKind, LaneKind
from rules import diagnosis_of
from rules.analysis.analysis import Analysis
from tests.opened import analysed, diagnosed
from viewer.reports.diagnosis_report import as_html
from viewer.reports.json_report import as_json
from viewer.reports.text_report import as_text
from viewer.statistics.kernels import kernel_table
from viewer.statistics.operators import operator_table, operator_times
from viewer.tables.rows.cpu_work import gpu_spans
from viewer.tables.table import described, frame_of, row_tables, rows_of, summaries, summary_of


def test_every_table_of_every_recording_has_the_columns_that_it_describes(
    recordings: Mapping[str, Analysis],
) -> None:
    filled = set()
    for analysis in recordings.values():
        for name in row_tables():
            frame = frame_of(analysis, name)
            assert list(frame.columns) == [column.name for column in described(name)]
            filled |= {name} if len(frame) else set()
        for name in summaries():
            frame = summary_of(analysis, name)
            assert list(frame.columns) == [column.name for column in described(name)]
            filled |= {name} if len(frame) else set()
    nobody_recorded = {"memory", "system_call_summary", "engine_steps", "requests"}  # in these eight
    assert filled >= {*row_tables(), *summaries()} - nobody_recorded


def test_the_columns_of_events_are_those_of_the_model(memory_stack: Analysis) -> None:
    events, frame = memory_stack.trace.events, rows_of(memory_stack, "events")
    for column, own in (("start_ns", events.start), ("end_ns", events.end), ("lane", events.lane)):
        assert np.shares_memory(frame[column].to_numpy(), own)
    assert frame["name"].iloc[5] == memory_stack.trace.name(5)


def test_rows_add_up_to_the_summaries_of_the_window(recordings: Mapping[str, Analysis]) -> None:
    for analysis in recordings.values():
        t0, t1 = analysis.window
        events = frame_of(analysis, "events")
        work = events[events["kind"].isin(["kernel", "graph", "memcpy", "memset"])]
        work = work[(work["start_ns"] >= t0) & (work["start_ns"] < t1)]
        by_name = work.groupby("name", observed=True)["duration_ns"].agg(["size", "sum"])
        table = kernel_table(analysis, t0, t1).set_index("name")
        assert table["calls"].to_dict() == by_name["size"].to_dict()
        assert table["total_ns"].to_dict() == by_name["sum"].to_dict()
        kinds = summary_of(analysis, "kernel_kinds")
        assert kinds["total_ns"].sum() == table["total_ns"].sum()
        operators = operator_table(analysis.trace, operator_times(analysis.trace), t0, t1)
        shapes = summary_of(analysis, "operator_shapes")
        assert shapes["cpu_self_ns"].sum() <= operators["cpu_self_ns"].sum()
        budget = summary_of(analysis, "budget").groupby("name")["total_ns"].sum()
        assert set(budget) <= {t1 - t0}
        idle = analysis.window_ns * len(analysis.active_devices)
        gaps = summary_of(analysis, "gap_summary")
        assert gaps["total_ns"].sum() <= idle


def test_regions_know_where_their_work_lay_on_the_gpu(recordings: Mapping[str, Analysis]) -> None:
    trace = recordings["Nsight Systems of a loader"].trace
    regions = trace.events.of_kind(EventKind.REGION)
    first, last = gpu_spans(trace, regions)
    lane = trace.events.lane[trace.links.launch]
    for place in range(0, len(regions), 7):
        region = int(regions[place])
        home = trace.lanes[trace.events.lane[region]]
        same = [
            number
            for number, each in enumerate(trace.lanes)
            if (each.process, each.thread, each.rank) == (home.process, home.thread, home.rank)
        ]
        begun = trace.events.start[trace.links.launch]
        inside = np.isin(lane, same)
        inside &= (begun >= trace.events.start[region]) & (begun < trace.events.end[region])
        operations = trace.links.operation[inside]
        expected = (
            (int(trace.events.start[operations].min()), int(trace.events.end[operations].max()))
            if len(operations)
            else (-1, -1)
        )
        assert (int(first[place]), int(last[place])) == expected


@pytest.mark.parametrize("name", ["torch with stacks and memory", "Nsight Systems of a loader"])
def test_a_backward_region_knows_what_autograd_launched_for_it(
    name: str, recordings: Mapping[str, Analysis]
) -> None:
    analysis = recordings[name]
    trace, events = analysis.trace, analysis.trace.events
    regions = frame_of(analysis, "regions")
    engine = np.isin(
        events.lane[trace.links.launch],
        [number for number, lane in enumerate(trace.lanes) if lane.is_autograd],
    )
    launched = events.start[trace.links.launch[engine]]
    taken = events.duration[trace.links.operation[engine]]
    for row in regions[regions["name"].isin(["forward", "backward"])].itertuples():
        inside = (launched >= row.start_ns) & (launched < row.end_ns)
        assert (row.autograd_launches, row.autograd_gpu_ns) == (inside.sum(), taken[inside].sum())
    shown = summary_of(analysis, "region_summary").set_index("name")
    assert shown["gpu_ns"]["backward"] > shown["gpu_ns"]["forward"] > 0
    assert regions[regions["name"] == "backward"]["gpu_ns"].sum() < 0.01 * shown["gpu_ns"]["backward"]
    steps = regions[regions["name"].str.startswith("ProfilerStep")]
    assert not steps[
        "autograd_launches"
    ].any()  # of a whole process, launches of all its threads count already


def test_steps_without_a_thread_know_the_work_of_their_process(memory_stack: Analysis) -> None:
    regions = frame_of(memory_stack, "regions")
    lanes = frame_of(memory_stack, "lanes").set_index("lane")
    steps = regions[regions["name"].str.startswith("ProfilerStep")]
    assert len(steps)
    assert (steps["launches"] > 0).all()
    assert (lanes["kind"] == LaneKind.STEPS.value).any()


def test_texts_that_nobody_recorded_are_missing_and_not_empty(recordings: Mapping[str, Analysis]) -> None:
    operators = frame_of(recordings["torch with stacks and memory"], "operators")
    assert operators["input_shapes"].notna().any()
    copies = frame_of(recordings["torch with many copies"], "copies")
    memsets = copies[copies["operation"] == "memset"]
    assert memsets["direction"].isna().all()
    assert isinstance(copies["launch"].dtype, pd.Int64Dtype)


FORMS = [
    ["torch/memory_stack.pt.trace.json.gz"],
    [f"ddp/no_overlap.rank{rank}.pt.trace.json.gz" for rank in range(4)],
    ["ncu/kernels.live_metrics.csv"],
    ["memory/oom.snapshot.pickle.gz"],
    ["results/requests.jsonl"],
    ["results/nccl_tests.txt"],
    ["smi/query.csv"],
]


def test_the_json_has_the_form_that_its_schema_describes(fixtures: Path) -> None:
    schema = json.loads(resources.path("diagnosis.schema.json").read_text("utf-8"))
    check = jsonschema.Draft202012Validator(schema)
    check.check_schema(schema)
    for files in FORMS:
        paths = [fixtures / file for file in files]
        analysis, diagnosis = analysed(*paths), diagnosed(*paths)
        for all_tables in (False, True):
            told = as_json(analysis.trace, diagnosis, analysis, 2.0, all_tables=all_tables)
            written = json.loads(json.dumps(told, allow_nan=False))
            faults = [
                f"{files[0]}: {error.json_path}: {error.message[:200]}"
                for error in check.iter_errors(written)
            ]
            assert faults == []


def test_a_diagnosis_names_the_largest_operator_and_kernel(memory_stack: Analysis) -> None:
    trace, diagnosis = memory_stack.trace, diagnosis_of(memory_stack)
    operators = summary_of(memory_stack, "operator_summary")
    kernels = summary_of(memory_stack, "kernel_summary")
    largest = str(operators["name"].iloc[0])
    text = as_text(trace, diagnosis, memory_stack)
    assert largest in text
    assert str(kernels["short_name"].iloc[0])[:30] in text
    assert "Idle time by cause and culprit" not in text
    every = as_text(trace, diagnosis, memory_stack, all_tables=True)
    assert "Idle time by cause and culprit" in every
    told = as_json(trace, diagnosis, memory_stack)["statistics"]
    assert told["operators"]["rows"][0][0] == largest
    assert told["operators"]["rows_left_out"] == len(operators) - 5
    assert largest in as_html(trace, diagnosis, memory_stack)
    assert "Modules" in as_html(trace, diagnosis, memory_stack, all_tables=True)


@pytest.mark.parametrize("name", ["copy_summary", "api_summary", "region_summary", "operator_summary"])
def test_a_summary_of_a_span_holds_what_begins_in_it(memory_stack: Analysis, name: str) -> None:
    t0, t1 = memory_stack.window
    middle = (t0 + t1) // 2
    halves = [summary_of(memory_stack, name, span)["calls"].sum() for span in ((t0, middle), (middle, t1))]
    assert sum(halves) == summary_of(memory_stack, name)["calls"].sum()
    assert all(halves)
