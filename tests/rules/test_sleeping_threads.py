"""A thread that sleeps does no work: what it waits for is told, a pace is no loss, and nothing is promised for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers.model.names.sleeping import WaitFor, may_wait_for, waits_for
from rules import Finding, diagnose, diagnosis_of
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.asleep import asleep
from rules.analysis.idle.causes import Cause
from rules.findings.base import Category, Severity
from rules.fixes.plan import make_plan, plan_of
from rules.handover import found_out, known
from rules.verdict.verdict import time_parts, verdict
from tests.opened import opened
from tests.parsers.nsys_exports import THREAD, call, export, kernel
from tests.rules.builder import MAIN, TinyTrace, ns

PERIOD = 40_000.0


def rounds(
    count: int = 12,
    work: float = 4_000.0,
    gap: str = "clock_nanosleep",
    slept: float = 0.9,
    periods: list[float] | None = None,
    *,
    python: bool = False,
    scheduled: bool = False,
    region: str = "",
) -> TinyTrace:
    """Kernels of ``work`` us every ``PERIOD``; for a part of the rest the thread is in a call named ``gap``."""
    trace, at = TinyTrace(), 0.0
    for period in periods or [PERIOD] * count:
        for number in range(4):
            launch = at + 10.0 * number
            trace.operation(at + 50 + number * work / 4, at + 50 + (number + 1) * work / 4, "filter", launch)
        trace.call(at + 50, at + work + 60, "cudaStreamSynchronize")
        begin, end = at + work + 70, at + period
        if gap:
            trace.sleep(begin, begin + slept * (end - begin - 50), gap)
        if region:
            trace.region(begin - 2, end - 5, region)
        if scheduled:
            trace.on_processor(at - 20 if at else 0.0, begin)
        at += period
    trace.operation(at + 50, at + 60, "filter", at)
    if scheduled:
        trace.on_processor(at - 20, at + 70)
    if python:
        trace.op(0, 1, "aten::mm")
    return trace


def told(trace: TinyTrace) -> Finding | None:
    return next((each for each in diagnose(trace.build()).findings if each.rule == "sleeping-thread"), None)


def alternating(count: int, other: float, every: int) -> list[float]:
    return [PERIOD * (other if number % every == every - 1 else 1.0) for number in range(count)]


def test_a_camera_s_pace_is_no_loss_and_nothing_is_promised() -> None:
    analysis = Analysis(rounds().build())
    diagnosis = diagnose(analysis.trace)
    finding = next(each for each in diagnosis.findings if each.category is Category.PACED)
    assert (finding.severity, finding.ceiling_ns, finding.speedup_at_most) == (Severity.INFO, 0, 1.0)
    assert "wakes up every 40.0 ms in 100 % of 11 rounds. A timer of the program sets" in finding.explanation
    assert "25.0 a second" in finding.title
    assert verdict(analysis, diagnosis) == finding.title
    plan = plan_of(analysis)
    assert not plan.promises
    assert plan.reason == (
        "the program sleeps until its next round, 25.0 a second: whatever takes less time, it sleeps longer"
    )
    assert all(each.severity in (Severity.LOW, Severity.INFO) for each in diagnosis.findings)
    assert not any("CPU work" in each.explanation for each in diagnosis.findings)


@pytest.mark.parametrize(("late_us", "paced"), [(14_000.0, True), (25_000.0, False)])
def test_a_pace_is_told_first_unless_queued_work_waits_for_longer(late_us: float, paced: bool) -> None:
    trace = rounds()
    for number in range(11):
        at = PERIOD * (number + 1) - 100
        trace.operation(at, at + 20, "late", at - late_us)
    analysis = Analysis(trace.build())
    diagnosis = diagnose(analysis.trace)
    rules = [each.rule for each in diagnosis.findings]
    assert {"sleeping-thread", "idle-unexplained"} <= set(rules)
    assert (rules[0] == "sleeping-thread") is paced
    assert verdict(analysis, diagnosis).startswith("The program sleeps" if paced else "Queued work waits")


def test_work_of_the_same_length_is_still_work() -> None:
    analysis = Analysis(rounds(gap="").build())
    assert next(each.rule for each in diagnose(analysis.trace).findings) == "waiting-for-python"
    assert make_plan(analysis).promises[0].id == "move-host-phase-1"


@pytest.mark.parametrize(
    ("gap", "python", "paced"),
    [
        ("clock_nanosleep", True, True),
        ("poll", False, True),
        ("poll", True, False),
        ("pthread_cond_wait", False, False),
        ("", False, True),
    ],
)
def test_only_what_wakes_a_thread_from_outside_sets_a_pace(gap: str, python: bool, paced: bool) -> None:
    finding = told(rounds(gap=gap, python=python, scheduled=not gap))
    assert finding is not None
    assert (finding.category is Category.PACED) is paced
    assert finding.confidence == ("high" if paced else "medium")


@pytest.mark.parametrize(
    ("periods", "paced"),
    [
        ([PERIOD] * 9, True),
        ([PERIOD] * 8, False),
        (alternating(30, 1.04, 2), True),
        (alternating(30, 1.06, 2), False),
        (alternating(31, 1.5, 6), True),
        (alternating(31, 1.5, 5), False),
    ],
)
def test_a_pace_is_regular_in_most_of_enough_rounds(periods: list[float], paced: bool) -> None:
    finding = told(rounds(periods=periods))
    assert finding is not None
    assert (finding.category is Category.PACED) is paced


@pytest.mark.parametrize(("work", "paced"), [(32_900.0, True), (33_900.0, False)])
def test_a_program_that_hardly_sleeps_keeps_no_pace(work: float, paced: bool) -> None:
    finding = told(rounds(work=work, slept=0.95))
    assert finding is not None
    assert (finding.category is Category.PACED) is paced


def test_the_pace_of_rare_rounds_is_told_by_the_minute() -> None:
    finding = told(rounds(periods=[2_000_000.0] * 12))
    assert finding is not None
    assert "30.0 a minute" in finding.title


@pytest.mark.parametrize(
    ("gap", "severity", "says"),
    [
        ("usleep", Severity.MEDIUM, "while the program sleeps"),
        ("epoll_wait", Severity.MEDIUM, "while the program waits for I/O"),
        ("pthread_cond_wait", Severity.HIGH, "for a thread that waits for another one"),
        ("", Severity.MEDIUM, "for a thread that does not run"),
    ],
)
def test_irregular_waits_say_what_for_and_promise_nothing(gap: str, severity: Severity, says: str) -> None:
    trace = rounds(gap=gap, scheduled=not gap, periods=[PERIOD * (1 + number % 4) for number in range(20)])
    analysis = Analysis(trace.build())
    (finding,) = (each for each in diagnose(analysis.trace).findings if each.rule == "sleeping-thread")
    assert (finding.category, finding.severity) == (Category.HOST_BOUND, severity)
    assert says in finding.title
    assert finding.advice
    assert finding.cannot_tell
    assert "does not run for" in plan_of(analysis).reason


@pytest.mark.parametrize(("slept", "predicts"), [(0.52, True), (0.54, False)])
def test_nothing_is_predicted_where_the_thread_sleeps_most_of_the_time(slept: float, predicts: bool) -> None:
    trace = rounds(gap="epoll_wait", slept=slept, periods=[PERIOD * (1 + number % 3) for number in range(12)])
    analysis = Analysis(trace.build())
    assert (plan_of(analysis).reason == "") is predicts


def test_what_a_thread_sleeps_is_no_work_that_can_be_moved() -> None:
    def gain(slept: float) -> float:
        trace = rounds(gap="epoll_wait" if slept else "", slept=slept)
        (promise,) = (
            each for each in make_plan(Analysis(trace.build())).promises if each.id.startswith("move")
        )
        return promise.expected

    assert gain(0.4) < 0.75 * gain(0.0)


@pytest.mark.parametrize(("slept", "said"), [(0.18, False), (0.22, True)])
def test_less_than_half_of_the_wait_is_told_beside_the_work(slept: float, said: bool) -> None:
    findings = diagnose(rounds(gap="epoll_wait", slept=slept).build()).findings
    (work,) = (each for each in findings if each.rule == "waiting-for-python")
    assert (
        "the thread that launches does not run: it waits for I/O (epoll_wait)" in work.explanation
    ) is said


@pytest.mark.parametrize(
    ("gap", "paced"), [("clock_nanosleep", True), ("poll", True), ("pthread_cond_wait", False)]
)
def test_a_range_named_like_input_in_which_a_thread_sleeps_regularly_keeps_the_pace(
    gap: str, paced: bool
) -> None:
    rules = {each.rule for each in diagnose(rounds(gap=gap, region="load_batch").build()).findings}
    assert ("sleeping-thread" in rules) is paced
    assert ("waiting-for-data" in rules) is not paced


def test_data_that_is_waited_for_at_any_time_is_told_as_data_with_what_the_thread_does() -> None:
    trace = rounds(
        gap="poll", region="load_batch", periods=[PERIOD * (1 + number % 3) for number in range(12)]
    )
    findings = diagnose(trace.build()).findings
    (data,) = (each for each in findings if each.rule == "waiting-for-data")
    assert "it waits for I/O (poll)" in data.explanation
    assert not any(each.rule == "sleeping-thread" for each in findings)


@pytest.mark.parametrize(("length", "asleep_ns"), [(99.0, 0), (101.0, ns(101))])
def test_short_calls_and_short_breaks_are_no_sleep(length: float, asleep_ns: int) -> None:
    trace = rounds(gap="")
    trace.sleep(10_000, 10_000 + length, "poll")
    analysis = Analysis(trace.build())
    thread = analysis.threads.drivers(0)[1]
    start, end = asleep(analysis, thread)[WaitFor.IO]
    assert int((end - start).sum()) == asleep_ns


@pytest.mark.parametrize(("inside", "believed"), [(40.0, True), (60.0, False)])
def test_a_thread_that_begins_a_call_did_run_whatever_the_scheduler_s_records_say(
    inside: float, believed: bool
) -> None:
    trace = rounds(gap="", scheduled=True)
    trace.call(4_070 + inside, 4_071 + inside, "cudaEventQuery")
    analysis = Analysis(trace.build())
    start, _ = asleep(analysis, analysis.threads.drivers(0)[1])[WaitFor.UNKNOWN]
    assert bool(start.min() < ns(10_000)) is believed


def test_a_call_that_copies_what_is_there_is_a_wait_only_where_the_thread_did_not_run() -> None:
    assert told(rounds(gap="read", periods=[PERIOD * (1 + number % 3) for number in range(12)])) is None
    trace = rounds(gap="read", scheduled=True, periods=[PERIOD * (1 + number % 3) for number in range(12)])
    finding = told(trace)
    assert finding is not None
    assert "waits for I/O (read)" in finding.explanation


def test_a_thread_that_waits_while_another_one_works_is_kept_waiting_by_that_work() -> None:
    def body(other: bool) -> TinyTrace:
        trace = rounds(gap="pthread_cond_wait", scheduled=True)
        trace.operation(20, 40, "filter", 2, thread=MAIN + 1, stream=9)
        if other:
            trace.on_processor(0, 12 * PERIOD, MAIN + 1)
        return trace

    assert told(body(False)) is not None
    assert told(body(True)) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nanosleep", WaitFor.TIMER),
        ("usleep", WaitFor.TIMER),
        ("__poll_chk", WaitFor.IO),
        ("epoll_pwait", WaitFor.IO),
        ("select", WaitFor.IO),
        ("recvfrom", WaitFor.IO),
        ("waitpid", WaitFor.IO),
        ("ioctl", WaitFor.IO),
        ("pthread_cond_timedwait", WaitFor.THREAD),
        ("pthread_mutex_lock", WaitFor.THREAD),
        ("sem_wait", WaitFor.THREAD),
        ("futex", WaitFor.THREAD),
        ("sem_post", None),
        ("pthread_create", None),
        ("mmap64", None),
        ("read", None),
        ("sleepy", None),
    ],
)
def test_calls_say_what_they_wait_for(name: str, kind: WaitFor | None) -> None:
    assert waits_for(name) is kind


@pytest.mark.parametrize(
    ("name", "waits"), [("read", True), ("pread64", True), ("fwrite", True), ("mmap", False)]
)
def test_transfers_may_wait(name: str, waits: bool) -> None:
    assert (may_wait_for(name) is WaitFor.IO) is waits


@pytest.mark.parametrize("known_by", ["SCHED_EVENTS", "OSRT_API"])
def test_an_export_of_a_camera_application_is_told_as_a_pace(tmp_path: Path, known_by: str) -> None:
    kernels, calls, other = [], [], []
    for number in range(20):
        at = 1_000_000 + 40_000_000 * number
        calls.append(call(at, at + 6_000, number + 1))
        kernels.append(kernel(at + 10_000, at + 4_000_000, number + 1))
        begin, end = at + 20_000, at + 39_980_000
        if known_by == "OSRT_API":
            other.append({"start": begin, "end": end, "nameId": 9, "globalTid": THREAD, "eventClass": 27})
        else:
            switches = ((at - 10_000, 1), (begin, 0))
            other += [
                {"start": time, "cpu": 1, "isSchedIn": put, "globalTid": THREAD} for time, put in switches
            ]
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": kernels, "CUPTI_ACTIVITY_KIND_RUNTIME": calls, known_by: other}
    strings = {1: "cudaLaunchKernel", 2: "blur", 3: "blur", 9: "nanosleep"}
    trace = opened(export(tmp_path / "camera.sqlite", tables, strings))
    assert "sleeps between rounds, 25.0 a second" in verdict(Analysis(trace), diagnose(trace))


@pytest.mark.parametrize(
    ("slept", "label"), [(0.6, "waiting for a sleeping thread"), (0.4, "waiting for the CPU")]
)
def test_the_time_that_a_thread_sleeps_is_not_called_waiting_for_the_cpu(slept: float, label: str) -> None:
    analysis = Analysis(rounds(slept=slept).build())
    diagnosis = diagnosis_of(analysis)
    assert label in [each for _, each, _ in time_parts(analysis, diagnosis, 0).parts]
    again, _ = known(analysis.trace, *found_out(analysis, diagnosis))
    assert again.idle.label(Cause.HOST) == label, "also where another process found it out"
