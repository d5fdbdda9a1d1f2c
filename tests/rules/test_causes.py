"""Findings that one change takes away are one cause, and all shares are those of a step without the recorder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parsers.model.units import percent
from rules import causes
from rules.analysis.analysis import Analysis
from rules.causes import in_order, leading
from rules.diagnosis import Diagnosis
from rules.findings.base import Category, Finding, Severity, severity_of
from rules.fixes.base import Proposal
from rules.fixes.changes import host_time_times
from rules.fixes.plan import Plan, Promise, plan_of
from rules.fixes.step_time import step_times
from rules.remedies.remedy import Remedy
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay, replay_of
from rules.verdict.promises import first_step_in_a_line, step_with, worded
from rules.wording.words import Headline, Part, ours, part_of, part_of_steps
from tests.opened import diagnosed
from tests.rules.builder import TinyTrace, steps

# The cases lie on either side of these.
ADDS_NOTHING = 1.02
AS_MUCH = 0.8
IN_PART = 0.1
LITTLE_THAT_MAY_BE_NOTHING = 0.1
MOSTLY = 0.5
NOTEWORTHY_IDLE = 0.15
OTHER_BASIS = 0.02
SMALL_BESIDE_COMPUTING = 0.1
MIN_LEFT = 0.2

STEP_US = 1_000
Change = Callable[[Overlay], None]


@pytest.fixture(scope="session", name="analysis")
def busy_in_python() -> Analysis:
    """Of each step the CPU works 400 us in Python, then launches 20 kernels that are over at once."""

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(20):
            start = 400 + 25 * number
            trace.operation(start + 8, start + 12, "gemm", start)

    return Analysis(steps(6, STEP_US, body).build())


def finding(
    category: Category, share: float, *intervals: tuple[float, float], rank: int | None = None
) -> Finding:
    """One that takes a share of the window; intervals are us in the third step."""
    ceiling = round(share * 1_000_000)
    return Finding(
        f"about-{category.value}",
        category,
        severity_of(ceiling, 1_000_000),
        Headline("It costs time", Part(share, 6)),
        "It does.",
        Remedy(),
        ceiling,
        1_000_000,
        rank=rank,
        intervals=[(round((3_000 + a) * 1000), round((3_000 + b) * 1000)) for a, b in intervals],
    )


def nothing(_: Overlay) -> None:
    """Changes nothing."""


def promise(
    number: int,
    gain: float,
    *categories: Category,
    change: Change = nothing,
    after: float | None = None,
    rank: int | None = None,
) -> Promise:
    proposal = Proposal("Change it", categories, Remedy(), change, fix="change", rank=rank)
    return Promise(
        f"change-{number}", proposal, gain / 1.15, gain, gain * 1.15, gain if after is None else after
    )


def with_plan(*promises: Promise) -> Analysis:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(20, 40, "gemm", 0)

    ran = Analysis(steps(6, STEP_US, body).build())
    plan_of.keep(ran, Plan(replay_of(ran), promises))
    return ran


def told(analysis: Analysis, findings: list[Finding], *promises: Promise) -> list[tuple[str, str, bool]]:
    """(category, fix, whether it leads) of each finding in order."""
    found = in_order(analysis, Plan(replay_of(analysis), promises), findings)
    return [(each.category.value, each.fix, each.leads) for each in found.findings]


def before_launches(replay: Replay, from_us: float, to_us: float) -> Change:
    """Takes away all that the CPU does in these us of each step."""
    inside = (replay.host.start % (STEP_US * 1000) > from_us * 1000) & (
        replay.host.start % (STEP_US * 1000) <= to_us * 1000
    )
    return host_time_times(np.asarray(inside), 0.0)


def test_a_finding_goes_with_the_fix_that_takes_most_of_its_time(analysis: Analysis) -> None:
    replay = replay_of(analysis)
    python, launching = (
        finding(Category.HOST_BOUND, 0.3, (10, 395)),
        finding(Category.LAUNCH_BOUND, 0.4, (410, 890)),
    )
    phase = promise(1, 1.4, Category.COPY_D2H, change=before_launches(replay, 0, 400))
    assert told(analysis, [python, launching], phase) == [
        ("launch-bound", "", True),
        ("host-bound", "change-1", True),
    ]
    both = promise(1, 2.5, Category.LAUNCH_BOUND, change=before_launches(replay, 0, 1_000))
    assert told(analysis, [python, launching], both) == [
        ("launch-bound", "change-1", True),
        ("host-bound", "change-1", False),
    ]


@pytest.mark.parametrize(
    ("category", "share", "named", "first"),
    [
        (Category.LAUNCH_BOUND, 0.31, 0.3, False),
        (Category.LAUNCH_BOUND, 0.32, 0.3, True),
        (Category.LAUNCH_BOUND, 0.31, 0.28, False),
        (Category.LAUNCH_BOUND, 0.31, 0.27, True),
        (Category.COPY_H2D, 0.29, 0.3, True),
        (Category.COPY_H2D, 0.28, 0.3, False),
    ],
)
def test_launching_that_nothing_mends_comes_after_a_cause_that_is_nearly_as_large_and_gives_as_much(
    analysis: Analysis,
    category: Category,
    share: float,
    named: float,
    first: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(causes, "told_step_times", lambda _: {})
    findings = [finding(Category.HOST_BOUND, named, (10, 395)), finding(category, share, (410, 890))]
    phase = promise(1, 1.4, Category.HOST_BOUND, change=before_launches(replay_of(analysis), 0, 400))
    assert (told(analysis, findings, phase)[0][0] == category.value) is first


@pytest.mark.parametrize("left", [0.0, 200_000.0])
def test_a_loss_that_was_all_the_recorder_s_is_told_as_recorded_and_as_information(
    analysis: Analysis, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    (time,) = step_times(analysis).values()
    usual = replace(time, parts={**time.parts, "launch-bound": left})
    monkeypatch.setattr(causes, "told_step_times", lambda _: {time.device: usual})
    launching = finding(Category.LAUNCH_BOUND, 0.4)
    (found,) = in_order(analysis, Plan(replay_of(analysis)), [launching]).findings
    assert (found.severity is Severity.INFO) is (not left)
    assert ("The profiler may account for all of it." in found.explanation) is (not left)
    assert (found.title == launching.title) is (not left)
    assert (found.share == 0) is (not left)


@pytest.mark.parametrize(("category", "goes"), [(Category.SMALL_GRID, False), (Category.HOST_BOUND, True)])
def test_how_a_kernel_is_launched_stays_whatever_else_goes_at_the_same_time(
    analysis: Analysis, category: Category, goes: bool
) -> None:
    phase = promise(1, 1.4, Category.VARIABILITY, change=before_launches(replay_of(analysis), 0, 400))
    fixes = {name: fix for name, fix, _ in told(analysis, [finding(category, 0.3, (10, 395))], phase)}
    assert fixes[category.value] == ("change-1" if goes else "")


@pytest.mark.parametrize(
    ("until", "belongs"), [(400 + 490 * (MOSTLY + 0.1), True), (400 + 490 * (MOSTLY - 0.1), False)]
)
def test_a_fix_that_takes_less_than_half_of_a_finding_of_another_kind_does_not_mend_it(
    analysis: Analysis, until: float, belongs: bool
) -> None:
    change = before_launches(replay_of(analysis), 405, until)
    launching = finding(Category.LAUNCH_BOUND, 0.4, (410, 890))
    found = told(analysis, [launching], promise(1, 1.2, Category.COPY_H2D, change=change))
    assert ("launch-bound", "change-1", True) in found if belongs else ("launch-bound", "", True) in found


@pytest.mark.parametrize(("part", "leads"), [(IN_PART + 0.08, True), (IN_PART - 0.03, False)])
def test_of_a_finding_that_it_is_named_for_a_fix_may_take_a_part(
    analysis: Analysis, part: float, leads: bool
) -> None:
    change = before_launches(replay_of(analysis), 405, 410 + 480 * part)
    launching, python = (
        finding(Category.LAUNCH_BOUND, 0.4, (410, 890)),
        finding(Category.HOST_BOUND, 0.3, (5, 8)),
    )
    also_python = [change, before_launches(replay_of(analysis), 0, 402)]

    def both(overlay: Overlay) -> None:
        for each in also_python:
            each(overlay)

    found = in_order(
        analysis,
        Plan(replay_of(analysis), (promise(1, 1.3, Category.LAUNCH_BOUND, change=both),)),
        [launching, python],
    )
    (cause,) = (each for each in found.causes if each.fix)
    assert found.findings[cause.findings[0]].category is (
        Category.LAUNCH_BOUND if leads else Category.HOST_BOUND
    )
    assert cause.partial is leads


@pytest.mark.parametrize(("after", "apart"), [(ADDS_NOTHING + 0.001, True), (ADDS_NOTHING - 0.001, False)])
def test_a_fix_that_adds_nothing_is_another_way_to_mend_the_same(
    analysis: Analysis, after: float, apart: bool
) -> None:
    copies, communication = finding(Category.COPY_D2H, 0.3), finding(Category.COMMUNICATION_LATENCY, 0.2)
    made = promise(1, 2.0, Category.COPY_D2H), promise(2, 1.5, Category.COMMUNICATION_LATENCY, after=after)
    found = told(analysis, [copies, communication], *made)
    assert found[1] == ("communication-latency", "change-2" if apart else "change-1", apart)


@pytest.mark.parametrize(("part", "first"), [(AS_MUCH + 0.02, "straggler"), (AS_MUCH - 0.02, "input-bound")])
def test_that_ranks_wait_for_one_is_told_first_where_bringing_it_up_gives_as_much(
    analysis: Analysis, part: float, first: str
) -> None:
    data, late = finding(Category.INPUT_BOUND, 0.2), finding(Category.STRAGGLER, 0.4, rank=1)
    gain = 1 / (1 - 0.5 * part)
    made = (promise(1, 2.0, Category.INPUT_BOUND), promise(2, gain, Category.STRAGGLER, after=1.0, rank=1))
    found = told(analysis, [data, late], *made)
    assert found[0] == (first, "change-1", True)
    assert {each[1] for each in found} == {"change-1"}


@pytest.mark.parametrize(("share", "place"), [(0.34, 0), (0.32, 1)])
def test_what_no_fix_mends_stands_where_its_share_puts_it(
    analysis: Analysis, share: float, place: int
) -> None:
    copies, memory = finding(Category.COPY_D2H, 0.1), finding(Category.VARIABILITY, share)
    found = told(analysis, [copies, memory], promise(1, 1.5, Category.COPY_D2H))
    assert found[place] == ("variability", "", True)


def test_a_late_rank_and_what_it_does_are_one_cause(analysis: Analysis) -> None:
    late, python = finding(Category.STRAGGLER, 0.1, rank=1), finding(Category.HOST_BOUND, 0.16, rank=1)
    other = finding(Category.HOST_BOUND, 0.14, rank=0)
    found = in_order(analysis, Plan(replay_of(analysis)), [late, python, other])
    assert [(each.category.value, each.rank) for each in found.findings] == [
        ("straggler", 1),
        ("host-bound", 1),
        ("host-bound", 0),
    ]
    assert [each.findings for each in found.causes] == [(0, 1), (2,)]
    assert found.findings[0].share == pytest.approx(0.1)
    assert found.findings[0].cost == pytest.approx(0.1)


def test_what_leads_keeps_its_share_and_costs_no_less_than_its_fix_gives(analysis: Analysis) -> None:
    copies = finding(Category.COPY_D2H, 0.04)
    (found,) = in_order(
        analysis, Plan(replay_of(analysis), (promise(1, 2.0, Category.COPY_D2H),)), [copies]
    ).findings
    assert found.share == pytest.approx(0.04)
    assert found.cost == pytest.approx(0.5)
    assert found.severity is Severity.HIGH
    assert found.title.endswith(": 4.0 % of every step, 50 % with delays")
    assert found.explanation.endswith(" Including what it delays, it costs 50 % of a step.")
    assert found.speedup_at_most == pytest.approx(2.0)
    for more, delays in ((1e-6, f", {percent(0.04 + OTHER_BASIS)} with delays"), (-1e-6, "")):
        gives = promise(1, 1 / (0.96 - OTHER_BASIS - more), Category.COPY_D2H)
        (found,) = in_order(analysis, Plan(replay_of(analysis), (gives,)), [copies]).findings
        assert found.title.endswith(f": 4.0 % of every step{delays}")
        assert ("Including what it delays" in found.explanation) is bool(delays)


@pytest.mark.parametrize(
    ("gives", "severity"),
    [(LITTLE_THAT_MAY_BE_NOTHING + 0.01, Severity.MEDIUM), (LITTLE_THAT_MAY_BE_NOTHING - 0.01, Severity.LOW)],
)
def test_a_little_that_may_be_nothing_makes_no_finding_louder(
    analysis: Analysis, gives: float, severity: Severity
) -> None:
    copies = finding(Category.COPY_D2H, 0.02)
    made = replace(promise(1, 1 / (1 - gives), Category.COPY_D2H), low=0.99)
    (found,) = in_order(analysis, Plan(replay_of(analysis), (made,)), [copies]).findings
    assert found.severity is severity


@pytest.mark.parametrize(("mended", "gain"), [(True, 1.3), (True, 1.2), (False, 1.3)])
def test_a_long_wait_leads_where_no_other_fix_mends_it(mended: bool, gain: float) -> None:
    ran = with_plan(promise(1, 1.1), promise(2, gain, Category.HOST_BOUND))
    copies = replace(finding(Category.COPY_D2H, 0.12), fix="change-1")
    waiting = replace(finding(Category.HOST_BOUND, 0.6), fix="change-2" if mended else "")
    assert leading(ran, [copies, waiting]) is (copies if mended and gain > 1.25 else waiting)


def test_the_first_step_in_a_line_tells_a_step_before_and_after(analysis: Analysis) -> None:
    replay, made = replay_of(analysis), promise(1, 2.0, Category.COPY_D2H)
    first = replace(finding(Category.COPY_D2H, 0.5), fix=made.id)
    times = part_of(replay.usual_ns, replay.usual_ns / 2, "→")
    line = f"{made.proposal.title} · {times} a step · {worded(made)}"
    assert first_step_in_a_line(Plan(replay, (made,)), Diagnosis((first,))) == line
    other = finding(Category.ALLOCATOR, 0.6)
    told = first_step_in_a_line(Plan(replay, (made,)), Diagnosis((other, first)))
    assert told == f"With a known gain: {line}"
    wide = replace(made, low=1.2, high=9.0)
    told = first_step_in_a_line(Plan(replay, (wide,)), Diagnosis((first,)))
    assert told == f"{made.proposal.title} · 830 → 92.2 to 692 us a step · {worded(wide)}"
    assert step_with(replace(made, expected=1.005, low=1.0, high=1.01), Plan(replay)) == ""
    assert first_step_in_a_line(Plan(replay), Diagnosis((first,))) == ""


@pytest.mark.parametrize(("is_mean", "said"), [(True, " ms a step"), (False, " ms in a typical step")])
def test_a_fix_says_whether_its_step_is_the_mean_one(
    analysis: Analysis, is_mean: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Replay, "is_mean", is_mean)
    told = step_with(promise(1, 1.5, Category.COPY_D2H), Plan(replay_of(analysis)))
    assert told.replace(" us", " ms").endswith(said)


def test_what_others_wait_for_a_late_rank_is_a_part_of_their_step_and_not_of_its_own(
    shared_data: Path,
) -> None:
    ranks = sorted((shared_data / "ddp").glob("straggler_cpu.rank*"))
    (late,) = (each for each in diagnosed(*ranks).findings if each.category is Category.STRAGGLER)
    times = diagnosed(*ranks).step_times
    longest = max(times.values(), key=lambda each: each.recorded["communication"])
    assert late.device != longest.device
    assert late.recorded_share * longest.scale("communication") == pytest.approx(late.share, rel=0.01)
    assert late.share > 2 * late.recorded_share * times[late.device].scale("communication")


def test_all_shares_are_those_of_a_step_without_the_recorder(analysis: Analysis) -> None:
    (time,) = step_times(analysis).values()
    assert sum(time.parts.values()) == pytest.approx(time.length_ns)
    assert sum(time.recorded.values()) == pytest.approx(time.recorded_ns)
    assert time.length_ns == pytest.approx(replay_of(analysis).usual_ns)
    assert time.parts["compute"] <= time.recorded["compute"]
    assert time.parts["launch-bound"] >= MIN_LEFT * time.recorded["launch-bound"]
    assert all(time.parts[key] <= time.recorded[key] + 1e-6 for key in time.parts)
    assert time.recorder_ns > 0
    whole = analysis.window_ns
    launching = replace(finding(Category.LAUNCH_BOUND, 0.4), ceiling_ns=0.4 * whole, window_ns=whole)
    (found,) = in_order(analysis, Plan(replay_of(analysis)), [launching]).findings
    assert found.share == pytest.approx(0.4 * time.scale("launch-bound"))
    without = f"{part_of_steps(found.share * time.length_ns, time.length_ns, 1)} ({percent(found.share)})"
    assert found.explanation.endswith(f"Without the profiler it is {without}.")
    assert found.recorded_share == pytest.approx(0.4)
    assert found.headline.amount == Part(found.share, 6, without_profiler=True)
    short = replace(launching, ceiling_ns=0.04 * whole, window_ns=whole // 10)
    (found,) = in_order(analysis, Plan(replay_of(analysis)), [short]).findings
    assert found.explanation.endswith(f"Without the profiler it is {percent(found.share)} of the time.")


@pytest.mark.parametrize(("is_mean", "said"), [(True, " of a step ("), (False, " of a typical step (")])
def test_a_step_that_is_not_the_mean_one_is_called_typical(
    analysis: Analysis, is_mean: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (time,) = step_times(analysis).values()
    assert time.is_mean
    time = replace(time, is_mean=is_mean)
    monkeypatch.setattr("rules.causes.told_step_times", lambda _: {time.device: time})
    whole = analysis.window_ns
    launching = replace(finding(Category.LAUNCH_BOUND, 0.4), ceiling_ns=0.4 * whole, window_ns=whole)
    launching = replace(launching, account=ours("Of a $CUDA graph."))
    (found,) = in_order(analysis, Plan(replay_of(analysis)), [launching]).findings
    assert found.explanation.startswith(launching.explanation + " Without the profiler it is ")
    assert said in found.explanation.partition("Without the profiler it is ")[2]


@pytest.mark.parametrize(("share", "kept"), [(NOTEWORTHY_IDLE + 0.01, True), (NOTEWORTHY_IDLE - 0.01, False)])
def test_idle_time_that_nobody_explains_leads_where_it_is_large(
    analysis: Analysis, share: float, kept: bool
) -> None:
    unexplained = replace(
        finding(Category.UNEXPLAINED_IDLE, 0.0),
        intervals=((0, round(share * 1_000_000)),),
        severity=Severity.INFO,
    )
    assert leading(analysis, [unexplained]) is (unexplained if kept else None)


@pytest.mark.parametrize(
    ("first", "wait", "category", "leads"),
    [
        (0.12, 0.41, Category.LAUNCH_BOUND, True),
        (0.12, 0.39, Category.LAUNCH_BOUND, False),  # it limits less than two fifths
        (0.15, 0.44, Category.LAUNCH_BOUND, False),  # mending the first gives a third of it
        (0.12, 0.60, Category.EXPOSED_COMMUNICATION, False),  # no wait of the GPU for its own CPU
    ],
)
def test_a_wait_that_limits_the_run_leads_whatever_is_mended_first(
    analysis: Analysis, first: float, wait: float, category: Category, leads: bool
) -> None:
    small, large = finding(Category.SYNCHRONIZATION, first), finding(category, wait)
    assert leading(analysis, [small, large]) is (large if leads else small)


@pytest.mark.parametrize(("gain", "leads"), [(1.05, True), (1.4, False)])
def test_what_the_fix_of_the_first_problem_gives_decides_whether_a_longer_wait_leads(
    gain: float, leads: bool
) -> None:
    ran = with_plan(promise(1, gain, Category.HOST_BOUND))
    first = replace(finding(Category.HOST_BOUND, 0.26), fix="change-1")
    wait = finding(Category.LAUNCH_BOUND, 0.46)
    assert leading(ran, [first, wait]) is (wait if leads else first)


@pytest.mark.parametrize(
    ("accused", "first"), [(Severity.LOW, "gpu-bound"), (Severity.MEDIUM, "synchronisation")]
)
def test_the_limit_comes_first_where_nothing_else_is_accused(
    accused: Severity, first: str, analysis: Analysis
) -> None:
    bound = replace(finding(Category.GPU_BOUND, 0.0), severity=Severity.INFO, rule="gpu-bound")
    wait = replace(finding(Category.SYNCHRONIZATION, 0.3), severity=accused, rule="synchronisation")
    told = in_order(analysis, Plan(replay_of(analysis)), [wait, bound]).findings
    assert told[0].rule == first


def test_what_is_small_beside_computing_comes_after_it() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(20, 990, "gemm", 0)

    busy = Analysis(steps(6, STEP_US, body).build())
    bound = replace(finding(Category.GPU_BOUND, 0.0), severity=Severity.INFO)
    small = finding(Category.COPY_H2D, SMALL_BESIDE_COMPUTING - 0.01)
    large = finding(Category.COPY_H2D, SMALL_BESIDE_COMPUTING + 0.01)
    assert leading(busy, [small, bound]) is bound
    assert leading(busy, [large, bound]) is large
