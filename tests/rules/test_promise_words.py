"""What fixes and findings are said to give: a band where the replay knows one, a share where it does not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rules import Category, Diagnosis, Finding, Severity, diagnosis_of
from rules.analysis.analysis import Analysis
from rules.findings.base import severity_of
from rules.fixes.base import Proposal
from rules.fixes.plan import Plan, Promise, make_plan
from rules.remedies.remedy import Remedy
from rules.replay.replay import replay_of
from rules.terms import Culprit, CulpritKind
from rules.verdict.promises import (
    about_replay,
    first_step,
    gain,
    held_back,
    promise_for,
    worded,
    worded_shortly,
)
from rules.wording.words import Headline, Part
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import SGEMM, plan_of_body


def promise(
    low: float, expected: float, high: float, *, redesign: bool = False, rank: int | None = None
) -> Promise:
    proposal = Proposal(
        fix="move",
        key="move",
        title="Move it",
        categories=(Category.HOST_BOUND, Category.COPY_D2H),
        remedy=Remedy(()),
        expected=lambda _: None,
        depends_on="how many workers there are",
        redesign=redesign,
        rank=rank,
    )
    return Promise("move-1", proposal, low, expected, high, expected)


def finding(
    category: Category = Category.HOST_BOUND, ceiling: int = 50, amount: float = 0.5, fix: str = ""
) -> Finding:
    headline = Headline("The GPU waits", Part(amount, 5))
    culprit = Culprit(CulpritKind.REGION, "tokenize")
    return Finding(
        "r", category, severity_of(ceiling, 100), headline, "", Remedy(), ceiling, 100, culprit, fix=fix
    )


@pytest.fixture(scope="session")
def empty() -> Plan:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(10, 1000, "gemm", 0)

    return Plan(replay_of(Analysis(steps(4, 1000, body).build())))


@pytest.mark.parametrize(
    ("made", "said", "shortly"),
    [
        (promise(1.7, 2.0, 2.3), "about 2.0x faster (1.7 to 2.3x)", "about 2.0x"),
        (promise(0.9, 1.1, 1.3), "about 1.10x faster (possibly nothing, up to 1.3x)", "about 1.10x"),
        (
            promise(1.2, 2.0, 4.0),
            "at least 1.2x, possibly up to 4.0x faster, depending on how many workers there are",
            "1.2x to 4.0x",
        ),
        (
            promise(0.8, 2.0, 4.0),
            "possibly nothing, possibly up to 4.0x faster, depending on how many workers there are",
            "up to 4.0x",
        ),
        (
            promise(1.5, 2.0, 12.0, redesign=True),
            "1.5x to 12x faster, how many workers there are",
            "1.5x to 12x",
        ),
    ],
)
def test_a_promise_is_a_band_and_names_what_decides_where_it_is_wide(
    made: Promise, said: str, shortly: str
) -> None:
    assert worded(made) == said
    assert worded_shortly(made) == shortly


def test_beside_a_finding_stands_what_its_fix_gives_and_no_limit_as_if_it_were_a_promise(empty: Plan) -> None:
    plan = replace(empty, promises=(promise(1.7, 2.0, 2.3),))
    mended = finding(fix="move-1")
    assert gain(mended, plan) == "about 2.0x faster"
    assert gain(mended, plan, short=True) == "about 2.0x"
    assert gain(mended, empty) == gain(mended) == ""
    assert gain(finding(), plan) == ""


def test_the_gain_of_a_cause_stands_beside_one_of_its_findings_only(empty: Plan) -> None:
    plan = replace(empty, promises=(promise(1.7, 2.0, 2.3),))
    beside = replace(finding(Category.COPY_D2H, fix="move-1"), leads=False)
    assert gain(beside, plan) == "fixed by change 1"
    assert gain(beside, plan, short=True) == ""


def test_a_share_that_the_title_does_not_tell_is_told() -> None:
    assert gain(finding(ceiling=20)) == "up to 20 % of the time"
    assert gain(finding(ceiling=0)) == ""


@pytest.mark.parametrize(("amount", "said"), [(0.494, "up to 50 % of the time"), (0.496, "")])
def test_a_share_is_told_that_differs_by_half_a_percent_from_the_title_s(amount: float, said: str) -> None:
    assert gain(finding(amount=amount)) == said


@pytest.mark.parametrize(
    ("ceiling", "said"), [(979, "at most 47.6x faster"), (981, "up to 98 % of the time")]
)
def test_no_kernel_gets_fifty_times_as_fast(ceiling: int, said: str) -> None:
    """What arithmetic allows beyond it is told as a share."""
    assert gain(replace(finding(), kernel="0", ceiling_ns=ceiling, window_ns=1_000)) == said


@pytest.mark.parametrize(("error", "said"), [(0.0011, "by 0.1 %"), (0.0009, "by less than 0.1 %")])
def test_a_replay_is_exact_to_a_thousandth(error: float, said: str) -> None:
    replay = SimpleNamespace(steps=1, error=error, recorder_share=0.0)
    plan = SimpleNamespace(reason="", promises=(1,), once=(), withheld=(), replay=replay)
    assert said in about_replay(cast(Any, plan))


def test_a_kernels_own_limit_stays_a_limit() -> None:
    of_a_kernel = replace(finding(), kernel="0")
    assert gain(of_a_kernel) == "at most 2.00x faster"
    assert gain(of_a_kernel, short=True) == "at most 2.00x"


def test_a_finding_has_the_promise_of_its_own_fix(empty: Plan) -> None:
    plan = replace(empty, promises=(promise(1.7, 2.0, 2.3),))
    assert promise_for(finding(), plan) is None
    assert promise_for(finding(fix="move-2"), plan) is None
    assert promise_for(finding(fix="move-1"), plan) is plan.promises[0]


def test_the_first_step_says_what_else_it_mends(empty: Plan) -> None:
    plan = replace(empty, promises=(promise(1.7, 2.0, 2.3),))
    first, other = finding(fix="move-1"), finding(Category.ALLOCATOR, 10)
    copies = replace(
        finding(Category.COPY_D2H, 20, fix="move-1"), headline=Headline("Copies stand alone", Part(0.2, 5))
    )
    told = first_step(plan, Diagnosis((first, copies, other)))
    assert told == "Do this first, about 2.0x faster (1.7 to 2.3x): Move it. Also fixes: copies stand alone."
    assert first_step(plan, Diagnosis((first,))).endswith("(1.7 to 2.3x): Move it.")
    large = finding(Category.EXPOSED_COMMUNICATION, 30)
    assert first_step(plan, Diagnosis((large, first))).startswith(
        "Of the fixes with a known gain, do this first"
    )
    wide = replace(empty, promises=(promise(1.2, 2.0, 9.0),))
    assert first_step(wide, Diagnosis((first,))) == (
        "Do this first, 1.2x to 9.0x faster: Move it. The gain depends on how many workers there are."
    )
    assert first_step(empty, Diagnosis((finding(),))) == ""


def test_a_gpu_that_computes_and_that_no_change_makes_faster_is_sound(empty: Plan) -> None:
    empty = replace(empty, replay=replace(empty.replay, reason=""))
    computes = replace(finding(Category.GPU_BOUND), severity=Severity.INFO)
    little, much = finding(Category.COPY_D2H, 3), finding(Category.COPY_D2H, 30)
    sound = "Nothing to gain between the kernels: the GPU is computing nearly all the time."
    assert first_step(empty, Diagnosis((little, computes))) == sound
    assert first_step(empty, Diagnosis((much, computes))) == ""
    assert first_step(empty, Diagnosis((little,))) == ""
    unknown = replace(empty, replay=replace(empty.replay, reason="its launches are missing"))
    assert first_step(unknown, Diagnosis((computes,))) == ""


def test_the_words_fit_a_recording() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 2, "aten::mm")
        trace.region(5, 1200, "tokenize")
        trace.kernels(1210, 20, 30, 40)

    analysis = Analysis(steps(6, 2100, body).build())
    plan, diagnosis = make_plan(analysis), diagnosis_of(analysis)
    assert first_step(plan, diagnosis).startswith("Do this first, ")
    assert gain(diagnosis.findings[0], plan).startswith("about ")


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (Part(0.54, 0), "54 % of the recorded time"),
        (Part(0.54, 0, without_profiler=True), "54 % without the profiler"),
        (Part(0.19, 0, 0, 0.25, without_profiler=True), "19 % without the profiler, 25 % with delays"),
        (Part(0.54, 5, without_profiler=True), "54 % of every step"),
    ],
)
def test_a_part_of_what_the_profiler_left_is_not_one_of_all_that_was_recorded(part: Part, said: str) -> None:
    assert str(part) == said


@pytest.mark.parametrize(
    ("products_us", "apart_us", "told"),
    [
        (215, 200, True),
        (215, 20, False),
        (80, 200, True),
        (75, 200, False),
        (51, 213, True),
        (46, 213, False),
    ],
)
def test_what_the_gpu_saves_and_the_step_does_not_is_told(
    products_us: int, apart_us: int, told: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(9):
            called, at = place * apart_us, 10 + place * 215
            trace.op(called, called + apart_us - 1, "aten::linear")
            trace.operation(at, at + products_us, SGEMM, called + 5)
            if products_us < 215:
                trace.operation(at + products_us, at + 215, "sort_kernel", called + 8)
        trace.call(9 * apart_us, 1990, "cudaDeviceSynchronize")

    plan = plan_of_body(body, into=TinyTrace(capability=(9, 0)))
    (promise,) = (each for each in plan.promises if each.proposal.fix == "use-tensor-cores")
    assert ("the GPU then waits for the CPU" in held_back(plan, promise)) is told
