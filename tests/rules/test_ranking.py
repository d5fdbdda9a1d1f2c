"""By ceiling, but a cause that can be named before launch overhead of about the same size."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.causes import _lost_by_others, in_order, leading
from rules.findings.base import Category, Finding, Severity, severity_of
from rules.fixes.plan import Plan
from rules.ranking import after_waits, ranked, weight
from rules.remedies.remedy import Remedy
from rules.replay.replay import replay_of
from rules.wording.words import Headline
from tests.rules.builder import steps

# The cases lie on either side of these.
AS_LARGE = 2.0

WINDOW = 1000


def finding(category: Category, ceiling: int) -> Finding:
    return Finding(
        category.value, category, severity_of(ceiling, WINDOW), Headline(""), "", Remedy(), ceiling, WINDOW
    )


def order(*findings: Finding) -> list[tuple[Category, int]]:
    return [(each.category, each.ceiling_ns) for each in ranked(findings)]


LAUNCH = Category.LAUNCH_BOUND


@pytest.mark.parametrize(
    "category",
    [
        Category.ALLOCATOR,
        Category.SYNCHRONIZATION,
        Category.INPUT_BOUND,
        Category.COPY_H2D,
        Category.STRAGGLER,
    ],
)
def test_a_named_cause_half_as_large_comes_before_launch_overhead(category: Category) -> None:
    assert order(finding(LAUNCH, 400), finding(category, 200)) == [(category, 200), (LAUNCH, 400)]
    assert order(finding(LAUNCH, 400), finding(category, 199)) == [(LAUNCH, 400), (category, 199)]


@pytest.mark.parametrize(("once", "is_first"), [(0.0, True), (0.49, True), (0.51, False), (1.0, False)])
def test_what_is_one_wait_comes_after_what_repeats(once: float, is_first: bool) -> None:
    """Of 400 ns what is left without it counts, beside 200 ns."""
    wait, other = replace(finding(Category.HOST_BOUND, 400), once=once), finding(Category.COPY_H2D, 200)
    assert (ranked([other, wait])[0] is wait) is is_first


def test_communication_that_is_smaller_does_not_come_before_launch_overhead() -> None:
    communication = finding(Category.EXPOSED_COMMUNICATION, 210)
    assert order(communication, finding(LAUNCH, 380))[0] == (LAUNCH, 380)
    assert order(communication, finding(LAUNCH, 200))[0] == (Category.EXPOSED_COMMUNICATION, 210)


def test_kernels_and_lesser_severities_do_not_come_before_it() -> None:
    for category, ceiling in ((Category.MEMORY_BOUND_KERNELS, 300), (Category.ALLOCATOR, 149)):
        assert order(finding(category, ceiling), finding(LAUNCH, 160 * 2))[0] == (LAUNCH, 320)
    assert order(finding(LAUNCH, 160), finding(Category.ALLOCATOR, 149))[0] == (LAUNCH, 160)


def test_profiled_kernels_that_only_inform_stay_in_the_order_of_their_time() -> None:
    long, short = (
        replace(finding(Category.MEMORY_BOUND, ceiling), kernel=name, severity=Severity.INFO)
        for name, ceiling in (("long", 0), ("short", 2))
    )
    assert [each.kernel for each in ranked([long, short])] == ["long", "short"]
    accused = replace(short, kernel="accused", severity=Severity.LOW)
    assert [each.kernel for each in ranked([long, short, accused])] == ["accused", "long", "short"]


def test_everything_else_is_told_by_size() -> None:
    told = order(
        finding(Category.ALLOCATOR, 100),
        finding(Category.EXPOSED_COMMUNICATION, 300),
        finding(Category.SYNCHRONIZATION, 500),
        finding(Category.INPUT_BOUND, 510),
    )
    assert [ceiling for _, ceiling in told] == [510, 500, 300, 100]


OF_KERNELS = (
    "no-tensor-cores",
    "memory-bound-kernels",
    "layout-conversion",
    "gemm-shape",
    "fp64",
    "slow-operator",
)
JUDGING = [
    each
    for each in Category
    if each is not Category.WHAT_WAS_RECORDED and each.value not in OF_KERNELS  # the first is always first
]
FINDINGS = st.builds(finding, st.sampled_from(JUDGING), st.integers(0, WINDOW))


def test_a_named_cause_passes_launch_overhead_and_nothing_else() -> None:
    told = order(
        finding(LAUNCH, 300), finding(Category.EXPOSED_COMMUNICATION, 290), finding(Category.INPUT_BOUND, 160)
    )
    assert [ceiling for _, ceiling in told] == [290, 160, 300]


def test_a_cause_that_is_divided_among_many_does_not_come_before_launch_overhead() -> None:
    divided = replace(finding(Category.HOST_BOUND, 260), divided=True)
    assert order(finding(LAUNCH, 400), divided)[0] == (LAUNCH, 400)
    assert order(finding(LAUNCH, 400), finding(Category.HOST_BOUND, 260))[0] == (Category.HOST_BOUND, 260)


@pytest.mark.parametrize("wait", [Category.INPUT_BOUND, Category.HOST_BOUND, LAUNCH])
def test_faster_kernels_come_after_waits_for_the_cpu_a_third_as_large(wait: Category) -> None:
    kernels = Category.NO_TENSOR_CORES
    assert order(finding(kernels, 480), finding(wait, 160)) == [(wait, 160), (kernels, 480)]
    assert order(finding(kernels, 481), finding(wait, 160)) == [(kernels, 481), (wait, 160)]
    assert order(finding(kernels, 160), finding(wait, 149)) == [(kernels, 160), (wait, 149)]
    assert order(finding(kernels, 140), finding(wait, 100)) == [(kernels, 140), (wait, 100)]


@pytest.mark.parametrize(("kernels", "before"), [(480, 2), (481, 0)])
def test_causes_up_to_the_last_wait_for_the_cpu_come_before_faster_kernels(kernels: int, before: int) -> None:
    copies, launches = [finding(Category.COPY_D2H, 300)], [finding(LAUNCH, 160)]
    faster = finding(Category.NO_TENSOR_CORES, kernels)
    assert after_waits(faster, [copies, launches, copies]) == before
    assert after_waits(faster, [copies, copies]) == 0


@pytest.mark.parametrize(
    ("conversions", "first"), [(160, Category.LAYOUT_CONVERSION), (140, Category.SLOW_OPERATOR)]
)
def test_slow_operators_come_after_conversions_of_their_severity(conversions: int, first: Category) -> None:
    found = order(finding(Category.SLOW_OPERATOR, 400), finding(Category.LAYOUT_CONVERSION, conversions))
    assert found[0][0] is first


@example([finding(Category.INPUT_BOUND, 150), finding(LAUNCH, 151), finding(Category.COPY_H2D, 151)])
@given(st.lists(FINDINGS, max_size=12))
def test_no_finding_is_lost_and_none_passes_a_larger_one_but_launch_overhead(findings: list[Finding]) -> None:
    told = ranked(findings)
    assert sorted(map(id, told)) == sorted(map(id, findings))
    for place, each in enumerate(told):
        for later in told[place + 1 :]:
            if weight(later) > weight(each):
                assert later.category is LAUNCH
                assert later.severity is each.severity
                assert later.ceiling_ns <= AS_LARGE * each.ceiling_ns


@pytest.mark.parametrize(("late", "leads"), [(0.5, True), (0.46, False)])
def test_a_late_rank_is_told_before_its_own_queue_that_nobody_explains(late: float, leads: bool) -> None:
    unexplained = replace(finding(Category.UNEXPLAINED_IDLE, 0), intervals=((0, 500),))
    straggler = finding(Category.STRAGGLER, round(1000 * late))
    analysis = Analysis(steps(6, 100, lambda trace, _: trace.operation(20, 40, "gemm", 0)).build())
    assert leading(analysis, [unexplained, straggler]) is (straggler if leads else unexplained)


@pytest.mark.parametrize(("products", "leads"), [(0.5, True), (0.52, False)])
def test_slow_memory_is_told_before_what_kernels_cost_because_of_it(products: float, leads: bool) -> None:
    slowed = replace(finding(Category.SLOW_MEMORY, 300), intervals=((0, 510),))
    plain = finding(Category.NO_TENSOR_CORES, round(1000 * products))
    analysis = Analysis(steps(6, 100, lambda trace, _: trace.operation(20, 40, "gemm", 0)).build())
    assert leading(analysis, [plain, slowed]) is (slowed if leads else plain)


@pytest.mark.parametrize(("launching", "first"), [(0.18, Category.STRAGGLER), (0.21, LAUNCH)])
def test_what_costs_a_late_rank_far_more_than_the_others_wait_for_it_comes_first(
    launching: float, first: Category
) -> None:
    late = replace(finding(Category.STRAGGLER, 100), rank=1)
    its_own = replace(finding(LAUNCH, round(1000 * launching)), rank=1)
    analysis = Analysis(steps(6, 100, lambda trace, _: trace.operation(20, 40, "gemm", 0)).build())
    found = in_order(analysis, Plan(replay_of(analysis)), [its_own, late])
    assert found.findings[0].category is first
    assert len(found.causes) == (1 if first is Category.STRAGGLER else 2)


@pytest.mark.parametrize(
    ("others", "lost"), [((100, 200), 0.15), ((0, 0), 0.0), ((900, 900), 0.4), ((), 0.4)]
)
def test_what_others_lose_to_what_a_late_rank_loses_time_to_is_their_mean_and_no_more_than_it_loses(
    others: tuple[int, ...], lost: float
) -> None:
    idle = dict(enumerate((400, *others)))
    analysis: Any = SimpleNamespace(
        window_ns=1_000,
        active_devices=tuple(idle),
        trace=SimpleNamespace(devices=[SimpleNamespace(rank=rank) for rank in idle]),
        budgets=lambda device: SimpleNamespace(idle_ns={Cause.LAUNCH: idle[device]}),
    )
    late = replace(finding(LAUNCH, 400), rank=0)
    assert _lost_by_others(analysis, Cause.LAUNCH, late) == pytest.approx(lost)


@pytest.mark.parametrize("alone", [False, True])
def test_operators_of_the_cpu_alone_keep_nothing_waiting(alone: bool) -> None:
    """Nor is what remains of them unknown: they stand where their size puts them."""
    copies = replace(finding(Category.MEMORY_BOUND_KERNELS, 500), of_the_cpu_alone=alone)
    python = replace(finding(Category.HOST_BOUND, 300), of_the_cpu_alone=alone)
    assert ranked([python, copies]) == ([copies, python] if alone else [python, copies])


@pytest.mark.parametrize(("alone", "weighs"), [(False, 0.25), (True, 0.5)])
def test_slow_operators_of_the_cpu_alone_weigh_what_their_ceiling_says(alone: bool, weighs: float) -> None:
    assert weight(replace(finding(Category.SLOW_OPERATOR, 500), of_the_cpu_alone=alone)) == weighs
