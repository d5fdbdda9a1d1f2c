"""Python's own pauses are fixes of their own: collections of garbage, and threads that take turns at one lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers.model import EventKind, LaneKind
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.plan import Plan, make_plan
from tests.opened import planned
from tests.rules.builder import MAIN, TinyTrace, steps
from tests.rules.test_fixes import plan_of_body, promised

WATCHER = 555


@pytest.mark.parametrize(("lasts", "found"), [(900, True), (20, False)])
@pytest.mark.parametrize("recorder", ["range", "frame"])
def test_collections_of_garbage_are_a_fix_of_their_own(recorder: str, lasts: float, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        record = trace.region if recorder == "range" else trace.frame
        record(620, 620 + lasts, "Python GC")
        trace.kernels(630 + lasts, 15, 20, 40)

    made = promised(plan_of_body(body, length=1250 + lasts))
    assert ("collect-garbage-seldom" in made) is found
    assert "move-host-phase" not in made


def test_what_python_does_beside_its_collections_stays_a_phase_of_its_own() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        trace.region(900, 1800, "Python GC")
        trace.kernels(2100, 15, 20, 40)

    made = promised(plan_of_body(body, length=2700))
    assert made["collect-garbage-seldom"] > made["move-host-phase"] > 1.05


@pytest.mark.parametrize(
    ("freed", "elsewhere", "first", "together"),
    [
        (2, 0, False, True),
        (2, 0, True, True),
        (1, 0, False, False),
        (4, 4, False, True),
        (4, 5, False, False),
    ],
    ids=["behind it", "before it", "one call alone", "half of them", "most are elsewhere"],
)
def test_memory_given_back_with_each_collection_is_one_cause(
    freed: int, elsewhere: int, first: bool, together: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        for place in range(elsewhere):
            trace.call(620 + place * 60, 660 + place * 60, "cudaFree")
            trace.kernels(665 + place * 60, 1, 20, 40)
        trace.region(*((2_000, 2_900) if first else (1_000, 1_900)), "Python GC")
        for place in range(freed):
            trace.call(1_905 + place * 25, 1_925 + place * 25, "cudaFree")
        trace.kernels(2_950, 1, 20, 40)
        for place in range(4):
            trace.call(3_000 + place * 110, 3_100 + place * 110, "cudaMalloc")
        trace.kernels(3_500, 15, 20, 40)

    plan = plan_of_body(body, length=4_200)
    told = {each.proposal.fix: each for each in plan.promises}
    assert ("keep-memory" in told) is not together
    cause = told["collect-garbage-seldom"]
    calls = freed + elsewhere + 4
    said = (
        f"giving memory back all the time: 900 us of CPU work, and {calls} calls that allocate or free memory"
    )
    assert (said in cause.proposal.title) is together
    assert (Category.ALLOCATOR in cause.proposal.categories) is together


@pytest.mark.parametrize(("works", "found"), [(True, True), (False, False)])
def test_other_threads_that_go_from_frame_to_frame_have_the_lock(works: bool, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.frame(0, 8950, "train.py(5): step")
        trace.kernels(10, 15, 20, 40)
        trace.frame(600, 8600, "watch.py(9): watch", WATCHER)
        for begin in range(700, 8500, 1000) if works else ():
            trace.frame(begin, begin + 900, "watch.py(3): spread", WATCHER)
        trace.kernels(8650, 7, 20, 40)

    plan = plan_of_body(body, length=9000)
    assert ("run-python-in-processes" in promised(plan)) is found
    assert ("move-host-phase" in promised(plan)) is not found
    if found:
        title = next(each for each in plan.promises if "processes" in each.proposal.title).proposal.title
        assert "watch.py(3): spread" in title


@pytest.mark.parametrize(("waits", "found"), [([5.05, 5.1, 5.06, 2.0], True), ([4.2, 3.1, 4.4, 2.0], False)])
def test_waits_of_five_milliseconds_are_for_the_lock(waits: list[float], found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 5, "aten::add")
        lane, at = trace._lane(LaneKind.OS_RUNTIME, MAIN), 700.0
        for each in waits:
            trace.add(at, at + each * 1000, "pthread_cond_timedwait", lane, EventKind.OS_RUNTIME)
            at += each * 1000 + 5
        trace.kernels(10, 15, 20, 40)
        trace.kernels(at, 15, 20, 40)

    assert ("run-python-in-processes" in promised(plan_of_body(body, length=30_000))) is found


def first(plan: Plan) -> tuple[str, float, float]:
    promise = plan.promises[0]
    return promise.proposal.fix, promise.low, promise.high


@pytest.mark.parametrize(
    ("program", "fix", "gave"),
    [("scenes", "collect-garbage-seldom", (3.2, 4.3)), ("watcher", "run-python-in-processes", (2.2, 2.7))],
)
def test_real_programs_are_promised_what_mending_them_gave(
    fixtures: Path, program: str, fix: str, gave: tuple[float, float]
) -> None:
    found, low, high = first(planned(fixtures / "programs" / f"{program}.pt.trace.json.gz"))
    assert found == fix
    assert low < gave[1]
    assert high > gave[0]


@pytest.mark.parametrize(
    ("name", "steady"), [("<built-in function collect>", True), ("train.py(9): load", False)]
)
def test_a_leading_step_that_only_collects_garbage_for_long_is_no_warm_up(name: str, steady: bool) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.kernels(10, 15, 20, 40)
        if index == 0:
            trace.frame(700, 9_000, name)
        trace.kernels(9_300 if index == 0 else 700, 15, 20, 40)

    trace = TinyTrace()
    for index, begin in enumerate((0, 10_000, 11_500, 13_000)):
        trace.shift = begin
        trace.step(0, 10_000 if index == 0 else 1_500, f"ProfilerStep#{index}")
        body(trace, index)
    trace.shift = 0
    analysis = Analysis(trace.build())
    assert [step.steady for step in analysis.steps] == [steady, True, True, True]
    if steady:
        made = promised(make_plan(analysis))
        assert made["collect-garbage-seldom"] == pytest.approx(14_500 / 6_200, rel=0.2)


def test_of_findings_about_the_same_time_the_narrower_one_comes_first() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        trace.frame(640, 700, "train.py(5): step")
        trace.frame(720, 9_000, "Python GC")
        trace.kernels(9_300, 15, 20, 40)

    found = diagnose(steps(4, 10_000, body).build()).findings
    assert [each.rule for each in found[:2]] == ["garbage-collection", "waiting-for-python"]


@pytest.mark.parametrize(
    ("freed", "first", "inside", "batch", "lasts", "told"),
    [
        (2, False, False, False, 2_250, True),
        (2, True, False, False, 2_250, True),
        (1, False, False, False, 2_250, False),
        (2, False, True, False, 2_250, False),
        (2, True, False, True, 2_250, False),
        (2, False, False, False, 1_900, False),
    ],
    ids=[
        "behind it",
        "before it",
        "one call alone",
        "inside of an operator",
        "work that makes a batch",
        "too short for a collection",
    ],
)
@pytest.mark.parametrize("operator", ["aten::linear", "thrust::fill"])
def test_unnamed_work_beside_freeing_is_most_likely_a_collection_of_pytorch(
    freed: int, first: bool, inside: bool, batch: bool, lasts: int, told: bool, operator: str
) -> None:
    """Without stacks nobody says what runs that long right before the program gives memory back, or behind it."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.op(5, 30, operator)
        trace.kernels(10, 15, 20, 40)
        begin = 620 if first else 620 + lasts
        for place in range(freed):
            trace.call(begin + place * 25, begin + place * 25 + 20, "cudaFree")
        if inside:
            trace.op(begin - 5, begin + 60, operator)
        if batch:
            trace.copy(lasts + 730, lasts + 780, "HtoD", lasts + 700, bytes=1_000_000)
        trace.kernels(lasts + 800, 15, 20, 40)

    plan = plan_of_body(body, length=lasts + 1_500)
    promise = next(each for each in plan.promises if each.proposal.fix == "move-host-phase")
    told &= operator.startswith("aten")
    said = f" of CPU work in a step, and {freed} calls that allocate or free memory"
    assert ("most likely gc.collect()" in promise.proposal.title) is told
    assert not told or (said in promise.proposal.title and Category.ALLOCATOR in promise.proposal.categories)


@pytest.mark.parametrize(("inside", "empties"), [(4, True), (6, False)])
def test_memory_that_is_freed_outside_of_operators_was_given_back(inside: int, empties: bool) -> None:
    """Ten operators allocate; of ten calls that free it, so many are made inside of them."""

    def body(trace: TinyTrace, _: int) -> None:
        for place in range(10):
            at = 10 + place * 100
            trace.operation(at + 6, at + 12, "void some_kernel", at)
            trace.op(at + 6, at + 75, "aten::empty")
            trace.call(at + 10, at + 50, "cudaMalloc")
            freed = at + 55 if place < inside else at + 80
            trace.call(freed, freed + 15, "cudaFree")

    (kept,) = [each for each in plan_of_body(body, length=1020).promises if each.id.startswith("keep-memory")]
    assert ("torch.cuda.empty_cache()" in kept.proposal.title) is empties
