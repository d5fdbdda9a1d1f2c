"""Times that cannot be right, in every format: set aside and counted, and never a negative gap or a doubled sum."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.chrome.build import assemble
from parsers.model import Attribute, Effect, Trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from tests.parsers.chrome.traces import balanced, complete, kernel, launch, note, text_of, trace_of
from tests.parsers.nsys_exports import call, export, write_table
from tests.parsers.nsys_exports import kernel as nsys_kernel

# The cases lie on either side of these.
MIN_GAP_NS = 3_600 * 1_000_000_000

COUNT = 60
BEGIN = 5_000_000_000
Extra = list[tuple[int, int]]


def by_nsys(folder: Path, extra: Extra) -> Trace:
    kernels = [nsys_kernel(BEGIN + n * 1000, BEGIN + n * 1000 + 500, n + 1) for n in range(COUNT)]
    kernels += [nsys_kernel(start, end, COUNT + 1 + n) for n, (start, end) in enumerate(extra)]
    calls = [call(BEGIN + n * 1000 - 400, BEGIN + n * 1000 - 300, n + 1) for n in range(COUNT + len(extra))]
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": kernels, "CUPTI_ACTIVITY_KIND_RUNTIME": calls[:COUNT]}
    return open_trace([export(folder / "run.sqlite", tables)])


def by_rpd(folder: Path, extra: Extra) -> Trace:
    spans = [(BEGIN + n * 1000, BEGIN + n * 1000 + 500) for n in range(COUNT)] + extra
    connection = sqlite3.connect(folder / "run.rpd")
    write_table(
        connection, "rocpd_string", [{"id": 1, "string": "gemm"}, {"id": 2, "string": "KernelExecution"}]
    )
    operations = [
        {"id": n, "gpuId": 0, "queueId": 1, "start": start, "end": end, "description_id": 1, "opType_id": 2}
        for n, (start, end) in enumerate(spans)
    ]
    write_table(connection, "rocpd_op", operations)
    connection.commit()
    connection.close()
    return open_trace([folder / "run.rpd"])


def by_chrome(folder: Path, extra: Extra) -> Trace:
    events = [each for n in range(COUNT) for each in (
        launch(BEGIN / 1000 + n - 0.4, n + 1, duration=0.1), kernel("gemm", BEGIN / 1000 + n, 0.5, n + 1)
    )]  # fmt: skip
    events += [kernel("gemm", start / 1000, (end - start) / 1000) for start, end in extra]
    return trace_of(folder, events)


READERS = {"nsys": by_nsys, "rpd": by_rpd, "chrome": by_chrome}
Read = Callable[[Path, Extra], Trace]


@pytest.fixture(params=sorted(READERS))
def read(request: pytest.FixtureRequest) -> Read:
    return READERS[request.param]


def sound(trace: Trace) -> bool:
    """Whether the recording shows its work and nothing else, and the diagnosis can be made of it."""
    assert balanced(trace)
    assert diagnose(trace).crashed == {}
    return len(trace.gpu_operations) == COUNT and trace.duration < 100_000


@pytest.mark.parametrize(
    "stray",
    [
        (1_700_000_000_000_000_000, 1_700_000_000_000_000_500),
        (-5 * MIN_GAP_NS, -5 * MIN_GAP_NS + 500),
        (BEGIN + 50, BEGIN + 50 + 3 * 365 * 86_400 * 10**9),
    ],
    ids=["far ahead", "negative", "three years long"],
)
def test_one_event_far_away_does_not_stretch_the_recording(
    tmp_path: Path, read: Read, stray: tuple[int, int]
) -> None:
    trace = read(tmp_path, [stray])
    assert trace.quality.quarantined == 1
    assert sound(trace)


@pytest.mark.parametrize(
    "end", [-(1 << 31), -(1 << 63), BEGIN - 1, BEGIN + 236 * 365 * 86_400 * 10**9],
    ids=["least int32", "least int64", "before its start", "236 years"],
)  # fmt: skip
def test_an_impossible_end_is_set_aside(tmp_path: Path, read: Read, end: int) -> None:
    trace = read(tmp_path, [(BEGIN + 50, end)])
    assert trace.quality.quarantined == 1
    assert sound(trace)


def test_thousands_of_events_at_time_zero_are_set_aside(tmp_path: Path, read: Read) -> None:
    trace = read(tmp_path, [(0, 0)] * 3000)
    if trace.inputs[0].format != "rpd":  # which may count its time from the start of the recording
        assert trace.quality.quarantined == 3000
        assert sound(trace)
    assert balanced(trace)


def test_what_belongs_to_the_others_keeps_its_links_and_attributes(tmp_path: Path) -> None:
    trace = by_nsys(tmp_path, [(1_700_000_000_000_000_000, 1_700_000_000_000_000_500)])
    launches = trace.links.launch_of(trace.gpu_operations)
    assert (launches >= 0).all()
    assert (trace.events.start[trace.gpu_operations] - trace.events.start[launches] == 400).all()
    assert len(trace.attributes[Attribute.GRID].event) == COUNT
    assert trace.arguments(int(trace.gpu_operations[7]))["correlationId"] == 8


def test_a_pause_of_less_than_an_hour_is_no_stray(tmp_path: Path, read: Read) -> None:
    trace = read(tmp_path, [(BEGIN + MIN_GAP_NS // 2, BEGIN + MIN_GAP_NS // 2 + 500)])
    assert trace.quality.quarantined == 0
    assert len(trace.gpu_operations) == COUNT + 1


def test_two_parts_of_one_recording_hours_apart_are_both_kept(tmp_path: Path, read: Read) -> None:
    later = [(BEGIN + 3 * MIN_GAP_NS + n * 1000, BEGIN + 3 * MIN_GAP_NS + n * 1000 + 500) for n in range(20)]
    trace = read(tmp_path, later)
    assert trace.quality.quarantined == 0
    assert len(trace.gpu_operations) == COUNT + 20


def test_overlapping_kernels_of_one_stream_are_all_shown_and_counted_once(tmp_path: Path, read: Read) -> None:
    inside = [(BEGIN + n * 1000 + 400, BEGIN + n * 1000 + 900) for n in range(0, COUNT, 2)]
    inside += [(BEGIN + 1100, BEGIN + 1100)]  # of no length, inside another
    trace = read(tmp_path, inside)
    assert len(trace.gpu_operations) == COUNT + COUNT // 2 + 1
    assert trace.quality.quarantined == trace.quality.repaired == 0
    analysis = Analysis(trace)
    budget = analysis.budget(0, 0, trace.duration)
    assert budget.busy_ns == COUNT * 500 + COUNT // 2 * 400
    assert trace.events.duration[trace.gpu_operations].sum() == (COUNT + COUNT // 2) * 500


def test_a_clock_that_is_wrong_by_more_than_a_day_makes_no_negative_gap(tmp_path: Path) -> None:
    skew_us = 1e14 / 1000
    events = [each for n in range(200) for each in (
        launch(1000 + n * 100, n + 1), kernel("k", 1010 + n * 100 - skew_us, 50, n + 1)
    )]  # fmt: skip
    trace = trace_of(tmp_path, events)
    assert note(trace, "device-clock")[1] is Effect.REPAIRED
    assert_gaps_are_sound(trace)


@pytest.mark.parametrize("early_us", [0.5, 20, 5000])
def test_kernels_before_their_own_launch_are_reported_and_make_no_negative_gap(
    tmp_path: Path, early_us: float
) -> None:
    events = [each for n in range(60) for each in (
        launch(10_000 + n * 100, n + 1), kernel("k", 10_010 + n * 100 - (early_us + 10) * (n % 3 == 0), 50, n + 1)
    )]  # fmt: skip
    trace = trace_of(tmp_path, events)
    assert note(trace, "before-launch") == (20, Effect.NOTED)
    assert_gaps_are_sound(trace)


def assert_gaps_are_sound(trace: Trace) -> None:
    analysis = Analysis(trace)
    assert len(analysis.idle)
    assert (analysis.idle.end > analysis.idle.start).all()
    budget = analysis.budget(0, *analysis.window)
    assert min(budget.compute_ns, budget.residual_ns, *budget.idle_ns.values()) >= 0
    diagnosis = diagnose(trace)
    assert diagnosis.crashed == {}
    for finding in diagnosis.findings:
        assert all(0 <= each.start <= each.end for each in finding.evidence)


def test_steps_between_python_frames_and_other_annotations_are_found(tmp_path: Path) -> None:
    events = []
    for step in range(4):
        at = step * 1000
        events.append(complete(f"ProfilerStep#{step}", at + 5, 1000, "user_annotation"))
        events.append(complete("Optimizer.step#Adam.step", at + 700, 600, "user_annotation"))
        events.append(complete("train.py(5): loop", at, 1010, "python_function"))
        events += [launch(at + 50, step + 1), kernel("k", at + 60, 300, step + 1)]
    trace = trace_of(tmp_path, events, with_stack=1, schemaVersion=1)
    assert [each.name for each in Analysis(trace).steps] == [f"ProfilerStep#{step}" for step in range(4)]
    assert balanced(trace)


def test_a_recording_without_gpu_work_names_the_likely_cause(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        [complete("aten::mm", number * 10, 5) for number in range(50)],
        schemaVersion=1,
        deviceProperties=[{"id": 0, "name": "NVIDIA H200"}],
    )
    reason = next(each.reason for each in trace.quality.notes if each.kind == "no-gpu-events")
    assert "ProfilerActivity.CUDA" in reason
    skipped = diagnose(trace).skipped
    assert skipped
    assert all(skipped.values())
    path = tmp_path / "cut.json"
    events = ",\n".join(json.dumps(complete("aten::mm", number * 10, 5)) for number in range(50))
    path.write_text(
        '{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}], "traceEvents": [\n'
        + events[:-20]
    )
    reasons = {each.kind: each.reason for each in open_trace([path]).quality.notes}
    assert reasons["no-gpu-events"] == "the machine has a GPU, and the file ends before any GPU activity"


def test_the_limit_of_xprof_is_known() -> None:
    assert 1_000_000 in assemble._LIMITS_OF_EXPORTERS


def test_time_as_text_digits_and_epoch_survive_to_the_nanosecond(tmp_path: Path) -> None:
    times = ["1712345678901234.567", "1712345678901234.568", "1712345678901235"]
    events = [complete("op", time, 0.001) for time in times]
    trace = trace_of(tmp_path, events)
    assert np.diff(trace.events.start).tolist() == [1, 432]
    assert trace.epoch_ns == 1_712_345_678_901_234_567
    assert text_of(events).count('"ts":"') == 3
