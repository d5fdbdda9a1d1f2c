"""What losses, causes and figures are told from which size on: cases on either side of each limit."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parsers.model import Attribute
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.causes import in_order, is_small_beside_computing, leading
from rules.findings.base import Category
from rules.fixes.plan import Plan, Promise
from rules.fixes.step_time import _distributed
from rules.gates.figures import figures_of
from rules.gates.limits import percentage
from rules.losses.built_constants import built
from rules.losses.cpu_work import named_shares
from rules.losses.lost_time import IdleTime
from rules.losses.warm_up import WarmUp, warm_up
from rules.memory.summary import growth
from rules.ranking import ranked
from rules.replay.replay import replay_of
from rules.trials.likeness import Likeness, compare_losses
from rules.wording.memory import composition
from tests.rules.builder import TinyTrace, ns, steps
from tests.rules.test_built_constants import TABLE
from tests.rules.test_causes import STEP_US, before_launches, busy_in_python, finding, promise
from tests.rules.test_loops_on_the_cpu import loops_of, rounds
from tests.rules.test_written_forms import CHAIN, Called, Program

analysis = busy_in_python


def test_calling_another_operator_inside_takes_two_microseconds_at_most() -> None:
    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.op(at, at + 10, "aten::select")
        trace.op(at + 10, at + 20, "aten::select")
        trace.op(at + 20, at + 420, "aten::mul")
        for inner in range(80):
            trace.op(at + 21 + 4 * inner, at + 22 + 4 * inner, "aten::empty")

    found = rounds(420, one)
    quick = 400 / 81 + 80 * 2  # the operator that calls others is the quickest by the call
    assert found.computes == pytest.approx((400 - quick) / 420 * found.share, abs=0.03)


def test_a_quarter_of_the_calls_is_as_quick_as_one_that_computes_little() -> None:
    def one(trace: TinyTrace, at: float, _: int) -> None:
        trace.op(at, at + 30, "aten::mul")
        for inner in range(5):
            trace.op(at + 1 + inner * 3, at + 2 + inner * 3, "aten::empty")
        at += 30
        for took in (1, 1, 4, 4, 9, 9, 9, 9, 9):
            trace.op(at, at + took, "aten::select")
            at += took

    found = rounds(85, one)
    assert found.computes == pytest.approx((30 - 4 - 5 * 2) / 85 * found.share, abs=0.01)


@pytest.mark.parametrize(("operators", "found"), [(120, True), (136, False)])
def test_a_round_of_a_loop_calls_so_many_operators(operators: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(16 * operators):
            name = "select" if place % operators == 0 else f"op_{place % operators}"
            trace.op(10 * place, 10 * place + 9, f"aten::{name}")

    assert bool(loops_of(160.0 * operators, body).loops) is found


@pytest.mark.parametrize(("gap", "included"), [(49.0, True), (51.0, False)])
def test_building_a_constant_lasts_until_what_follows_soon(gap: float, included: bool) -> None:
    trace = TinyTrace()
    for at, (name, dims) in enumerate(TABLE):
        event = trace.op(20 * at, 20 * at + 10, f"aten::{name}")
        text = trace.builder.string(json.dumps([*dims, []]))
        trace.builder.attribute(Attribute.INPUT_DIMS, np.array([event]), text)
    end = 20.0 * len(TABLE) - 10
    trace.op(end + gap, end + gap + 10, "aten::item")
    (_, ends) = built(trace.build(), np.arange(len(TABLE) + 1)).spans
    assert ends.tolist() == [ns(end + gap if included else end)]


def test_two_steps_on_the_cpu_are_judged() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 60_000, "aten::mm")
        trace.op(90_000, 100_000, "aten::addmm")

    told = {
        count: {each.category for each in diagnose(steps(count, 100_000, body).build()).findings}
        for count in (1, 2)
    }
    assert Category.HOST_BOUND in told[2] - told[1]


@pytest.mark.parametrize(("part", "told"), [(7, True), (4, False)])
def test_small_parts_are_not_named(part: int, told: bool) -> None:
    trace = TinyTrace()
    events = [trace.op(0, 1, name) for name in ("aten::mm", "aten::add_")]
    said = named_shares(trace.build(), [(events[0], 100 - part), (events[1], part)], 100)
    assert ("aten::add_" in said) is told


def waiting(us: tuple[float, float]) -> IdleTime:
    """Two ranks whose CPUs work for so long before their launches in each step."""
    trace = TinyTrace()
    for rank in range(2):

        def body(made: TinyTrace, _: int, rank: int = rank) -> None:
            made.op(5, us[rank], "aten::stft")
            made.kernels(us[rank] + 5, 5, 19, 20, device=rank)
            made.operation(us[rank] + 120, 1_990, "gemm", us[rank] + 112, device=rank)

        trace.rank = rank
        steps(6, 2_000, body, into=trace)
    return IdleTime(Analysis(trace.build()), Cause.HOST)


@pytest.mark.parametrize(("us", "rank"), [((400.0, 600.0), None), ((100.0, 900.0), 1)])
def test_a_rank_that_idles_half_as_long_again_as_usual_is_named(
    us: tuple[float, float], rank: int | None
) -> None:
    found = waiting(us)
    assert found.worst_ns > 0
    assert found.rank == rank


@pytest.mark.parametrize(("gaps", "left_out"), [(20_000, 0), (20_050, 50)])
def test_of_very_many_gaps_the_longest_are_shown(gaps: int, left_out: int) -> None:
    """The first hundred are shorter."""
    trace = TinyTrace()
    trace.kernels(0, 100, 9.0, 40.0)
    trace.kernels(4_000, gaps - 99, 5.0, 40.0)
    start, end = IdleTime(Analysis(trace.build()), Cause.LAUNCH).intervals
    assert len(start) == gaps - left_out
    assert np.count_nonzero(end - start < 33_000) == 100 - left_out


@pytest.mark.parametrize(
    ("normalises", "others", "told"), [(15, 5, "mostly “gelu” and layer_norm"), (8, 6, "")]
)
def test_an_operator_with_a_tenth_of_the_time_is_named_beside_another(
    normalises: float, others: int, told: str
) -> None:
    """The largest one has 44 us of 100, and each of the others 8: too little for two of them to be most of it."""
    called = [
        Called("aten::gelu", ([8, 8],), 44),
        Called("aten::layer_norm", ([8, 8],), normalises, CHAIN[0].kernel),
        *(Called(f"aten::op_{each}", us=8.2) for each in "abcdef"[:others]),
    ]
    title = Program(called).promises()["compile-model"].proposal.title
    assert "".join(title.partition("mostly")[1:]) == told


def first_step(
    *, length: float = 3_000, compiles: float = 0.0, loads: float = 0.0, pieces: int = 0
) -> WarmUp:
    """A first step that is three times as long as the others, with such work in it, in us, or so many short pieces."""
    trace = TinyTrace()
    for number in range(6):
        lasts = length if not number else 1_000
        trace.step(0, lasts, f"ProfilerStep#{number + 1}")
        if not number:
            if compiles:
                trace.region(100, 100 + compiles, "torch/_dynamo/convert_frame.py: compile")
            for place in range(pieces):
                trace.region(100 + 4 * place, 101 + 4 * place, "torch/_inductor/codecache.py: get")
            if loads:
                trace.call(1_000, 1_000 + loads, "cuModuleLoadData")
        trace.kernels(lasts - 900, 15, 20, 40)
        trace.shift += lasts
    found = warm_up(Analysis(trace.build()))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("made_of", "compiler", "starts"),
    [
        ({"compiles": 45.0}, True, False),
        ({"compiles": 25.0}, False, False),
        ({"compiles": 120.0}, True, False),
        ({"compiles": 180.0}, True, True),
        ({"pieces": 21}, True, True),
        ({"pieces": 20}, False, False),
        ({"loads": 700.0}, False, True),
        ({"loads": 500.0}, False, False),
    ],
    ids=["a little", "less", "not much", "much", "many pieces", "fewer", "loading", "less loading"],
)
def test_what_a_slow_first_step_does_besides(made_of: dict[str, Any], compiler: bool, starts: bool) -> None:
    found = first_step(**made_of)
    assert bool(found.compilers) is compiler
    assert found.starts_up is starts


@pytest.mark.parametrize(("more", "grows"), [((100, 100, 70), False), ((100, 100, 100, 70), True)])
def test_few_differences_that_do_not_agree_are_no_growth(more: tuple[int, ...], grows: bool) -> None:
    ends = np.arange(len(more) + 2, dtype=np.int64)
    held = np.cumsum([1_000, 500, *more])
    assert bool(growth(ends.tolist(), ends, held, float(held[-1])).per_step) is grows


def test_slow_operators_count_for_half_of_what_they_take() -> None:
    slow, host = finding(Category.SLOW_OPERATOR, 0.3), finding(Category.VARIABILITY, 0.2)
    assert ranked([slow, host]) == [host, slow]
    assert ranked([host, finding(Category.SLOW_OPERATOR, 0.5)])[0].category is Category.SLOW_OPERATOR


def test_losses_diverge_by_the_last_quarter_of_the_steps() -> None:
    usual = [1.0] * 16
    assert (
        compare_losses(usual, usual, [*usual[:12], 3.0, 3.0, 1.2, 1.0]).likeness is Likeness.DIVERGES
    )  # half of it
    assert compare_losses(usual, usual, [*usual[:8], *[3.0] * 4, *usual[:4]]).likeness is Likeness.DIFFERS


def test_kinds_of_memory_are_told_from_a_hundredth_of_the_peak_on() -> None:
    account = SimpleNamespace(by_kind=lambda _: {"activations": 977_000, "inputs": 15_000, "state": 8_000})
    summary: Any = SimpleNamespace(account=account, peak_at=0, peak_allocated=1_000_000)
    said = composition(summary)
    assert "inputs" in said
    assert "state" not in said


@pytest.mark.parametrize(("names", "all_of_them"), [(30, True), (60, False)])
def test_the_longest_kernels_and_regions_are_kept(names: int, all_of_them: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(names):
            at, name = 10.0 * place, f"{chr(97 + place % 26)}{chr(97 + place // 26)}"
            trace.region(at, at + 9, f"range_{name}")
            trace.operation(at + 6, at + 9, f"void {name}_kernel", at)

    found = figures_of(Analysis(steps(3, 10.0 * names + 20, body).build()))
    assert (len(found.kernels) == names) is all_of_them
    assert (len(found.regions) == names) is all_of_them


def test_a_limit_of_ten_thousand_times_is_no_percentage() -> None:
    assert percentage(900_000) == 900_000
    with pytest.raises(ValueError, match="not a percentage"):
        percentage(1_500_000)


def test_a_fifth_of_a_part_is_left_where_the_recorder_explains_it() -> None:
    assert _distributed(100.0, {"launch": 100.0}, {"launch": 1.0}) == {"launch": 80.0}


def first_told(analysis: Analysis, findings: list[Any], made: Promise) -> Any:
    found = in_order(analysis, Plan(replay_of(analysis), (made,)), findings)
    return next(each for each in found.findings if each.fix)


@pytest.mark.parametrize(("named", "leads"), [(0.2, Category.COPY_D2H), (0.12, Category.HOST_BOUND)])
def test_a_fix_is_told_by_what_it_takes_most_of_where_that_is_far_more(
    analysis: Analysis, named: float, leads: Category
) -> None:
    phase = promise(1, 1.4, Category.COPY_D2H, change=before_launches(replay_of(analysis), 0, 400))
    findings = [finding(Category.COPY_D2H, named), finding(Category.HOST_BOUND, 0.3, (10, 395))]
    assert first_told(analysis, findings, phase).category is leads


@pytest.mark.parametrize(("narrow", "narrow_leads"), [(0.3, True), (0.27, False)])
def test_of_two_findings_that_give_nearly_as_much_the_narrower_one_is_told(
    analysis: Analysis, narrow: float, narrow_leads: bool
) -> None:
    phase = promise(1, 1.4, Category.HOST_BOUND, change=before_launches(replay_of(analysis), 0, 400))
    broad = finding(Category.HOST_BOUND, 0.49, (10, 610))
    told = first_told(analysis, [broad, finding(Category.HOST_BOUND, narrow, (10, 395))], phase)
    assert (len(told.intervals) and told.intervals[0][1] < ns(3_000 + 400)) is narrow_leads


@pytest.mark.parametrize(("unexplained", "first"), [(0.31, False), (0.33, True)])
def test_idle_time_without_a_cause_comes_first_where_it_is_clearly_larger(
    analysis: Analysis, unexplained: float, first: bool
) -> None:
    idle = finding(Category.UNEXPLAINED_IDLE, unexplained, (0, 1_000 * unexplained))
    problem = finding(Category.VARIABILITY, 0.3)
    assert (leading(analysis, [problem, idle]) is idle) is first


@pytest.mark.parametrize(("busy", "small"), [(0.9, True), (0.6, False)])
def test_a_small_problem_hardly_matters_where_the_gpu_mostly_computes(busy: float, small: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(20, 20 + STEP_US * busy, "sm90_gemm_64x64_tn", 5)

    made = Analysis(steps(6, STEP_US, body).build())
    assert is_small_beside_computing(made, finding(Category.VARIABILITY, 0.08)) is small


@pytest.mark.parametrize(("us", "told"), [(28.0, True), (14.0, False)])
def test_a_loss_of_less_than_a_hundredth_of_the_time_is_not_told(us: float, told: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(20, 1_000, "sm90_gemm_64x64_tn", 5)
        trace.copy(1_000, 1_000 + us, "HtoD", 30, bytes=200_000)
        trace.operation(1_000 + us, 1_990, "sm90_gemm_64x64_tn", 60)

    found = diagnose(steps(6, 1_990, body).build()).findings
    assert any(each.category is Category.COPY_H2D for each in found) is told
