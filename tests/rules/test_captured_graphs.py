"""CUDA graphs that a program captures anew in each step: what is noted down in them is not lost, and costs time."""

from __future__ import annotations

import pytest

from parsers.model import EventKind, Trace
from rules.analysis.analysis import Analysis
from rules.analysis.recording.captures import captures_in_steps
from rules.analysis.recording.completeness import completeness_of
from rules.analysis.recording.subject import SubjectKind, subject_of
from rules.fixes.plan import Promise, make_plan
from tests.rules.builder import TinyTrace, steps

NOTED = 40
LENGTH = 4_000.0


def program(
    every: int = 1,
    launches: bool = True,
    noted: int = NOTED,
    warms: int = 0,
    rows: int = 8,
    lost: bool = False,
    count: int = 6,
) -> Trace:
    """Steps of which each ``every``-th captures a graph, after ``warms`` passes over as many rows, and launches it."""

    def product(trace: TinyTrace, at: float, rows: int) -> None:
        trace.shapes(trace.op(at, at + 9, "aten::mm"), [[rows, 64], [64, 64]], ["float", "float"])

    def body(trace: TinyTrace, index: int) -> None:
        at = 10.0
        for _ in range(warms * noted):
            product(trace, at, rows)
            trace.operation(at + 9, at + 12, "void gemm", at + 2)
            at += 10
        if index % every == 0:
            if not lost:
                trace.call(at, at + 5, "cudaStreamBeginCapture")
            for _ in range(noted):
                at += 10
                product(trace, at, 8)
                trace.call(at + 2, at + 7, "cudaLaunchKernel")
            if not lost:
                trace.call(at + 15, at + 20, "cudaStreamEndCapture")
                trace.call(at + 25, at + 125, "cudaGraphInstantiate")
            at += 140
        if launches:
            kind = EventKind.GRAPH
            trace.operation(at + 20, at + 60, "CUDA graph 1", at + 5, kind=kind, call="cudaGraphLaunch")
        for place in range(10):
            launch = at + 70 + place * 10
            trace.operation(launch + 8, launch + 14, "void other", launch)

    return steps(count, LENGTH, body).build()


def told(trace: Trace) -> Promise | None:
    made = make_plan(Analysis(trace), reaches={})
    assert (made.reason, made.crashed) == ("", ())
    return next((each for each in made.promises if each.proposal.fix == "capture-once"), None)


@pytest.mark.parametrize("lost", [False, True], ids=["captured", "lost"])
def test_launches_that_a_graph_notes_down_are_not_lost(lost: bool) -> None:
    trace = program(lost=lost)
    assert completeness_of(trace).has_lost_records is lost
    subject = subject_of(Analysis(trace))
    assert (subject is not None and subject.kind is SubjectKind.LOST_RECORDS) is lost


@pytest.mark.parametrize(
    ("every", "launches", "count", "again"),
    [
        (1, True, 6, True),
        (2, True, 6, True),
        (3, True, 6, False),
        (1, False, 6, False),
        (1, True, 2, True),
        (2, True, 2, False),
    ],
    ids=["each step", "half of the steps", "a third", "never launched", "two steps", "one of two"],
)
def test_a_graph_is_captured_anew_where_most_steps_capture_and_launch_one(
    every: int, launches: bool, count: int, again: bool
) -> None:
    assert captures_in_steps(Analysis(program(every, launches, count=count))) is again


@pytest.mark.parametrize(
    ("launches", "shows"), [(True, False), (False, True)], ids=["a program", "its start"]
)
def test_what_captures_and_launches_in_each_step_is_no_start(launches: bool, shows: bool) -> None:
    """A capture of 3 of 4 ms in each step is what was recorded, unless its graph is launched there."""
    subject = subject_of(Analysis(program(launches=launches, noted=300)))
    assert (subject is not None and subject.kind is SubjectKind.GRAPH_CAPTURE) is shows


def test_the_capture_and_what_makes_it_executable_are_gone() -> None:
    promise = told(program())
    assert promise is not None
    assert promise.proposal.title.startswith("Capture the CUDA graph once: it is captured anew, 5")
    assert 1.05 < promise.expected < 1.25


@pytest.mark.parametrize(
    ("rows", "warms_up"), [(8, True), (16, False)], ids=["the same shapes", "other shapes"]
)
def test_passes_of_the_same_operators_right_before_warm_up_for_a_capture(rows: int, warms_up: bool) -> None:
    promise = told(program(warms=2, rows=rows))
    assert promise is not None
    assert ("1.3" in promise.proposal.title.partition("anew, ")[2]) is warms_up
    assert (promise.expected > 1.2) is warms_up
    assert promise.low < 1.1
