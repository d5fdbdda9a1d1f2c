"""What must hold for any trace: budgets add up, rows do not overlap; order, time and file names do not matter."""

from __future__ import annotations

import gzip
import json
import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.model import Cancelled, EventKind, Lane, LaneKind, Progress, Trace
from parsers.model.builder import TraceBuilder
from rules import Diagnosis, combined_ceiling, diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.innermost import Innermost
from rules.findings.base import Category, Finding, Severity
from rules.remedies.remedy import Remedy
from rules.wording.words import Headline
from tests.examples import examples
from tests.rules.builder import AUTOGRAD, MAIN, TinyTrace

YEAR_US = 365 * 24 * 3600 * 1_000_000
KERNELS = (
    "sm90_gemm",
    "elementwise_kernel<a>",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    "volta_sgemm_64x64_nn",
)
REGIONS = ("load_batch", "tokenize", "forward", "step_1", "step_2", "optimizer")
CALLS = ("cudaStreamSynchronize", "cudaMalloc", "cudaEventRecord", "cudaMemcpyAsync", "cudaGraphLaunch")

moments = st.integers(0, 4000)
lengths = st.integers(0, 900)
events = st.lists(
    st.tuples(
        st.sampled_from(["kernel", "copy", "region", "call", "op", "step", "frame"]),
        moments,
        lengths,
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=40,
)


def built(
    described: list[tuple[str, int, int, int, bool]], order: list[int] | None = None, shift: float = 0.0
) -> Trace:
    trace = TinyTrace(shift=shift)
    for index in order or range(len(described)):
        what, start, length, which, flag = described[index]
        end = start + length
        thread = AUTOGRAD if flag else MAIN
        if what == "kernel":
            launch = max(start - 7 - 40 * which, 0) if flag else None
            trace.operation(start, end, KERNELS[which], launch, stream=7 + which % 2, launch_us=3)
        elif what == "copy":
            trace.copy(
                start, end, "HtoD" if which % 2 else "DtoH", start if flag else None, launch_us=2, bytes=1000
            )
        elif what == "region":
            trace.region(start, end, REGIONS[which], thread)
        elif what == "call":
            trace.call(start, end, CALLS[which], thread)
        elif what == "op":
            trace.op(
                start, end, ("aten::mm", "aten::item", "aten::add", "enumerate(DataLoader)#x")[which], thread
            )
        elif what == "step":
            trace.step(start, end, f"ProfilerStep#{which}")
        else:
            trace.frame(start, end, "train.py(1): f", thread)
    return trace.build()


def summary(diagnosis: Diagnosis) -> list[tuple[Any, ...]]:
    return sorted(
        (each.rule, each.severity.value, each.title, each.culprit.text, each.ceiling_ns, each.explanation)
        for each in diagnosis.findings
    )


@examples(150, suppress_health_check=list(HealthCheck))
@given(events)
def test_budgets_add_up_and_idle_rows_cover_the_idle_time(
    described: list[tuple[str, int, int, int, bool]],
) -> None:
    trace = built(described)
    diagnosis = diagnose(trace)
    assert diagnosis.crashed == {}
    analysis = Analysis(trace)
    table = analysis.idle
    for device in range(len(trace.devices)):
        budget = analysis.budgets(device)
        assert budget.residual_ns == 0
        mine = table.device == device
        assert (table.end[mine] > table.start[mine]).all()
        assert (table.start[mine][1:] >= table.end[mine][:-1]).all()
    for finding in diagnosis.findings:
        assert 0 <= finding.ceiling_ns <= finding.window_ns
        assert all(start < end for start, end in finding.intervals)


@examples(60, suppress_health_check=list(HealthCheck))
@given(events, st.randoms(use_true_random=False))
def test_the_order_of_events_in_a_file_does_not_matter(
    described: list[tuple[str, int, int, int, bool]], chance: random.Random
) -> None:
    distinct = list({(each[0], each[1], each[3]): each for each in described}.values())
    order = list(range(len(distinct)))
    chance.shuffle(order)
    assert summary(diagnose(built(distinct))) == summary(diagnose(built(distinct, order)))


@examples(60, suppress_health_check=list(HealthCheck))
@given(events)
def test_when_it_was_recorded_does_not_matter(described: list[tuple[str, int, int, int, bool]]) -> None:
    assert summary(diagnose(built(described))) == summary(diagnose(built(described, shift=YEAR_US)))


def test_a_file_shuffled_shifted_and_renamed_gets_the_same_diagnosis(
    repository: Path, tmp_path: Path
) -> None:
    source = repository / "resources" / "samples" / "pageable_copy.pt.trace.json.gz"
    content = json.loads(gzip.decompress(source.read_bytes()))
    random.Random(7).shuffle(content["traceEvents"])
    for event in content["traceEvents"]:
        if "ts" in event:
            event["ts"] += YEAR_US
    other = tmp_path / "healthy_fast.json"
    other.write_text(json.dumps(content), "utf-8")
    before, after = (
        [
            (each.rule, each.severity, each.title, each.culprit.text)
            for each in diagnose(open_trace([path])).findings
        ]
        for path in (source, other)
    )
    assert before == after


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=25))
def test_the_innermost_open_event_is_the_one_that_began_last(described: list[tuple[int, int]]) -> None:
    """Of those that began together it is the one that ends first; events nest, else the trace splits them."""
    tiny = TinyTrace()
    for start, length in described:
        tiny.op(start, start + length, "aten::mm")
    trace = tiny.build()
    table = trace.events
    nested = [
        event
        for event in range(len(table))
        if not any(
            table.start[event] < table.start[other] < table.end[event] < table.end[other]
            or table.start[other] < table.start[event] < table.end[other] < table.end[event]
            for other in range(len(table))
        )
    ]
    chosen = np.array(nested, np.int64)
    found = Innermost.of(trace, chosen)
    for moment in range(0, 44_000, 500):
        open_events = [event for event in nested if table.start[event] <= moment < table.end[event]]
        answer = int(found.at(np.array([moment]))[0])
        if not open_events:
            assert answer == -1
            continue
        innermost = min(open_events, key=lambda event: (-table.start[event], table.end[event]))
        assert (table.start[answer], table.end[answer]) == (table.start[innermost], table.end[innermost])


@pytest.mark.parametrize("count", [10, 31_000])
def test_events_nested_deeply_still_have_an_innermost_one(count: int) -> None:
    builder = TraceBuilder()
    lane = builder.lane(Lane(LaneKind.CPU_THREAD, "thread", None, 1, 1))
    own = np.arange(count, dtype=np.int64)
    builder.add(own, 3 * count - own, builder.string("op"), lane, EventKind.CPU_OP)
    trace = builder.build()
    found = Innermost.of(trace, np.arange(count))
    assert trace.events.start[found.at(np.array([count // 2, count + 5, 3 * count - 2]))].tolist() == [
        count // 2,
        count - 1,
        1,
    ]


def test_a_diagnosis_can_be_cancelled_while_idle_time_is_attributed_and_made_again() -> None:
    trace = built([("kernel", 100 * index, 20, 1, True) for index in range(20)])
    stop = threading.Event()
    said: list[str] = []

    def listen(fraction: float, doing: str) -> None:
        said.append(doing)
        if doing == "looking at what the CPU did":
            stop.set()

    with pytest.raises(Cancelled):
        diagnose(trace, Progress(listen, stop))
    assert not any(doing.startswith("checking") for doing in said)
    assert summary(diagnose(trace)) == summary(
        diagnose(built([("kernel", 100 * index, 20, 1, True) for index in range(20)]))
    )


def test_a_diagnosis_reports_its_progress_forwards() -> None:
    fractions: list[float] = []
    diagnose(
        built([("kernel", 100 * index, 20, 1, True) for index in range(20)]),
        Progress(lambda fraction, _: fractions.append(fraction)),
    )
    assert fractions == sorted(fractions)
    assert len(fractions) > 15


def test_an_empty_trace_is_diagnosed_without_a_crash() -> None:
    diagnosis = diagnose(TraceBuilder().build())
    assert diagnosis.findings == ()
    assert diagnosis.crashed == {}
    assert "waiting-for-python" in diagnosis.skipped


def test_a_trace_without_a_gpu_skips_what_needs_one_and_says_so() -> None:
    trace = TinyTrace()
    trace.op(0, 100, "aten::mm")
    trace.region(0, 200, "forward")
    diagnosis = diagnose(trace.build())
    assert [each.rule for each in diagnosis.findings] == ["cpu-recording"]
    assert diagnosis.skipped["gpu-bound"] == "no timeline of a GPU was recorded"


def finding(ceiling: int, intervals: tuple[tuple[int, int], ...], window: int = 1000) -> Finding:
    return Finding(
        "r",
        Category.HOST_BOUND,
        Severity.HIGH,
        Headline("t"),
        "e.",
        Remedy(("a",)),
        ceiling,
        window,
        intervals=intervals,
    )


def test_fixing_two_things_counts_shared_time_once() -> None:
    first, second = finding(300, ((0, 300),)), finding(300, ((100, 400),))
    assert combined_ceiling([first, second]) == 400
    assert combined_ceiling([first]) == 300


def test_a_part_of_its_time_counts_as_that_part() -> None:
    half = finding(150, ((0, 300),))
    assert combined_ceiling([half, finding(100, ((300, 400),))]) == 250
    assert combined_ceiling([half, finding(300, ((0, 300),))]) == 300


def test_what_two_rest_on_never_exceeds_the_window() -> None:
    assert combined_ceiling([finding(900, ()), finding(800, ())]) == 1000
    assert combined_ceiling([]) == 0
    assert combined_ceiling([finding(900, ()), replace(finding(100, ()), window_ns=5000)]) == 900


def test_what_follows_from_a_trace_is_worked_out_once_and_not_taken_along_by_a_changed_copy() -> None:
    trace = built([("kernel", 0, 10, 0, True)])
    first, second = Analysis(trace), Analysis(trace)
    assert first.idle is first.idle is not second.idle
    assert trace.gpu_operations is trace.gpu_operations
    copy = replace(trace, lanes=tuple(replace(lane, device=None) for lane in trace.lanes))
    assert [len(each.operations_of_device(0)) for each in (trace, copy)] == [1, 0]
