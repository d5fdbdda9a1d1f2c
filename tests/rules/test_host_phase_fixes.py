"""What is promised where the CPU does something of its own: phases that move, loaders, and what is chance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.findings.base import Category, Severity
from rules.fixes.plan import Plan, make_plan
from rules.wording.words import Reader
from tests.opened import planned
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import plan_of_body, promised

# The cases lie on either side of these.
UNCERTAIN = 1.33


@pytest.mark.parametrize(("stretch", "found"), [(600, True), (200, False)])
def test_a_long_stretch_of_host_work_is_moved(stretch: float, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        trace.kernels(600 + stretch, 15, 20, 40)

    assert ("move-host-phase" in promised(plan_of_body(body, length=1210 + stretch))) is found


@pytest.mark.parametrize("begins", [10, 2010], ids=["behind the last call", "before the first record"])
def test_host_work_at_the_edges_of_a_recording_is_moved_as_well(begins: float) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(begins, 25, 20, 40)

    assert promised(plan_of_body(body, count=3, length=3020))["move-host-phase"] > 2.5


@pytest.mark.parametrize(("megabytes", "least", "most"), [(20, 2.5, 4.0), (0.001, 1.3, 2.4)])
def test_what_host_work_made_for_the_gpu_is_not_copied_when_it_is_made_there(
    megabytes: float, least: float, most: float
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(5, 1205, "aten::one_hot")
        trace.copy(1230, 2230, "HtoD", 1210, pageable=True, bytes=int(megabytes * 1e6), launch_us=1030)
        trace.kernels(2250, 25, 20, 40)

    assert least < promised(plan_of_body(body, length=3270))["move-host-phase"] < most


@pytest.mark.parametrize(
    ("operator", "sides", "grows"),
    [
        ("aten::upsample_bicubic2d", 1448, 2.0),
        ("aten::upsample_bicubic2d", 1024, 1.0),
        ("aten::upsample_bicubic2d", 512, 1.0),
        ("aten::index", 1448, 1.0),
        ("aten::rand", 0, 1.0),
    ],
    ids=["made smaller", "as large", "made larger", "looked up in a table", "made of nothing"],
)
def test_what_operators_read_is_copied_in_place_of_a_smaller_result(
    operator: str, sides: int, grows: float
) -> None:
    """The result is a picture of 1024 by 1024, and the copy takes 1 ms."""

    def body(trace: TinyTrace, _: int) -> None:
        event = trace.op(5, 1205, operator)
        trace.shapes(event, [[1, 1, sides, sides], []] if sides else [[]], ["float", ""])
        trace.copy(1230, 2230, "HtoD", 1210, pageable=True, bytes=4 * 1024 * 1024, launch_us=1030)
        trace.kernels(2250, 25, 20, 40)

    usual = promised(plan_of_body(lambda trace, _: _without_shapes(trace), length=3270))["move-host-phase"]
    given = promised(plan_of_body(body, length=3270)).get("move-host-phase", 1.0)
    left = 3.27 / usual + (2.06 if grows > 1 else 0.0)  # ms: twice the copy that is gone otherwise
    assert given == pytest.approx(3.27 / left, rel=0.1)


def _without_shapes(trace: TinyTrace) -> None:
    trace.op(5, 1205, "aten::upsample_bicubic2d")
    trace.copy(1230, 2230, "HtoD", 1210, pageable=True, bytes=4 * 1024 * 1024, launch_us=1030)
    trace.kernels(2250, 25, 20, 40)


@pytest.mark.parametrize(
    ("part", "grows"),
    [(0.3, True), (0.15, True), (0.07, False), (0.05, False)],
    ids=["much", "a seventh", "less", "little"],
)
def test_the_operator_that_reads_the_data_takes_a_good_part_of_the_time(part: float, grows: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        event = trace.op(5, 5 + 1_200 * part, "aten::upsample_bicubic2d")
        trace.shapes(event, [[1, 1, 1448, 1448], []], ["float", ""])
        trace.op(5 + 1_200 * part, 1205, "aten::div")
        trace.copy(1230, 2230, "HtoD", 1210, pageable=True, bytes=4 * 1024 * 1024, launch_us=1030)
        trace.kernels(2250, 25, 20, 40)

    given = promised(plan_of_body(body, length=3270)).get("move-host-phase", 1.0)
    assert (given < 2.0) is grows


def test_a_large_copy_that_takes_longer_than_the_work_before_it_stays() -> None:
    """As when what the host keeps is sent in each step, near work that has nothing to do with it."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(1010, 5, 20, 40)
        trace.copy(1270, 2450, "HtoD", 1250, pageable=True, bytes=30_000_000, launch_us=1200)
        trace.kernels(2500, 25, 20, 40)

    assert 1.2 < promised(plan_of_body(body, length=3520))["move-host-phase"] < 1.6


@pytest.mark.parametrize("operator", [True, False])
def test_operators_that_were_slow_once_by_chance_promise_nothing(operator: bool) -> None:
    trace = TinyTrace()
    for index in range(5):
        slow = 2500 if index == 3 else 0
        trace.step(0, 1600 + slow, f"ProfilerStep#{index}")
        if operator:
            trace.op(5, 505 + slow, "aten::stft")
        trace.kernels(520 + slow, 25, 20, 40)
        trace.shift += 1600 + slow
    made = make_plan(Analysis(trace.build()))
    assert ("spread-slow-steps" in promised(made)) is not operator
    assert (made.replay.usual_ns < 1_600_000) is operator


def test_a_loop_of_copies_behind_host_work_is_no_part_of_it() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(40):
            at = 2005 + place * 30
            trace.copy(at + 5, at + 15, "HtoD", at, pageable=True, bytes=1000, launch_us=16)
        trace.kernels(3220, 25, 20, 40)

    (moved,) = (
        each for each in plan_of_body(body, length=4250).promises if each.proposal.fix == "move-host-phase"
    )
    assert moved.expected < 2.2
    assert "synchronization" not in {each.value for each in moved.proposal.categories}


def test_a_step_in_which_everything_was_slow_counts_as_the_others() -> None:
    trace = TinyTrace()
    for index in range(5):
        slow = 3 if index == 3 else 1
        trace.step(0, 1000 * slow, f"ProfilerStep#{index}")
        trace.kernels(10, 24, 5, 40 * slow)
        trace.shift += 1000 * slow
    assert make_plan(Analysis(trace.build())).replay.recorded_ns == pytest.approx(1_000_000, rel=0.1)


@pytest.mark.parametrize(("pause", "slower"), [(8.0, False), (1.5, True)])
def test_a_step_that_is_slow_in_one_place_above_all_does_something_else_there(
    pause: float, slower: bool
) -> None:
    trace = TinyTrace()
    for index in range(5):
        slow = 1.3 if index == 3 else 1.0
        work = 400 * (pause * slow if index == 3 else 1.0)
        length = work + 1000 * slow
        trace.step(0, length, f"ProfilerStep#{index}")
        trace.kernels(10 + work, 24, 5, 40 * slow)
        trace.shift += length
    recorded = make_plan(Analysis(trace.build())).replay.recorded_ns
    assert (recorded == pytest.approx(1_400_000, rel=0.05)) is slower


def test_a_stretch_inside_a_data_loader_is_loaded_by_workers() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(5, 1205, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
        trace.kernels(1220, 15, 20, 40)

    made = promised(plan_of_body(body))
    assert made["load-data-in-workers"] > 1.5
    assert "move-host-phase" not in made


@pytest.mark.parametrize("workers", [False, True])
def test_a_data_loader_with_workers_is_given_more(workers: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        kind = "MultiProcessing" if workers else "SingleProcess"
        trace.op(5, 1205, f"enumerate(DataLoader)#_{kind}DataLoaderIter.__next__")
        trace.kernels(1210, 60, 10, 12)

    (made,) = (each for each in plan_of_body(body).promises if each.proposal.fix == "load-data-in-workers")
    advice = " ".join(made.proposal.remedy.advice_for(Reader()))
    assert ("more workers" in made.proposal.title) is workers
    assert ("num_workers=8" in advice) is not workers


@pytest.mark.parametrize(
    ("loads", "workers", "expected", "low", "high"),
    [
        (1_500, False, 2_500 / 1_300, 2_500 / 1_300 / UNCERTAIN, 2_500 / 1_300 * UNCERTAIN),
        (4_000, False, 5_000 / 1_300, 5_000 / 2_000, 5_000 / 1_300 * UNCERTAIN),  # two are too few
        (9_000, False, 10_000 / 2_250, 10_000 / 4_500, 10_000 / 1_150),  # and so are four
        (9_000, True, 2.0, 2.0 / UNCERTAIN, 10_000 / 1_150),  # twice as many make two in the time of one
    ],
)
def test_workers_deliver_no_faster_than_they_make_batches(
    loads: float, workers: bool, expected: float, low: float, high: float
) -> None:
    kind = "MultiProcessing" if workers else "SingleProcess"

    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, loads, f"enumerate(DataLoader)#_{kind}DataLoaderIter.__next__")
        trace.kernels(loads + 5, 24, 20, 40)

    (made,) = (
        each
        for each in plan_of_body(body, length=loads + 1_000).promises
        if each.proposal.fix == "load-data-in-workers"
    )
    assert made.expected == pytest.approx(expected, rel=0.15)
    assert made.low == pytest.approx(low, rel=0.15)
    assert made.high == pytest.approx(high, rel=0.15)


@pytest.mark.parametrize(("cores", "expected"), [(1, 1.0), (2, 2.0), (16, 10 / 2.25), (None, 10 / 2.25)])
def test_workers_do_no_more_than_the_cores_that_the_program_may_use(
    cores: int | None, expected: float
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 9_000, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
        trace.kernels(9_005, 24, 20, 40)

    trace = steps(6, 10_000, body).build()
    trace = replace(trace, capture=replace(trace.capture, cores=cores))
    made = promised(make_plan(Analysis(trace), reaches={}))
    assert made.get("load-data-in-workers", 1.0) == pytest.approx(expected, rel=0.1)


def test_what_a_step_ends_with_and_what_the_next_one_begins_with_are_two() -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.copy(3010, 4000, "HtoD", 3000, pageable=True, bytes=4_000_000, launch_us=1010)
        trace.kernels(4030, 25, 20, 40)

    made = plan_of_body(body, length=7030)  # 3 ms at the beginning, 2 ms at the end
    parts = [each for each in made.promises if each.proposal.fix == "move-host-phase"]
    assert {each.proposal.key for each in parts} == {"begin", "end"}
    assert [each.proposal.title.split(" off ")[0].rpartition(" at ")[2] for each in parts] == [
        "the beginning of a step",
        "the end of a step",
    ]
    assert "3.00 ms of CPU work in a step, making 4.00 MB" in parts[0].proposal.title
    assert parts[1].proposal.title.endswith(
        "2.04 ms of CPU work in a step"
    )  # the copy is made by what follows
    step = made.replay.usual_ns
    assert parts[1].expected == pytest.approx(step / (step - 2_040_000), rel=0.02)
    together = made.replay.gain([each.proposal.expected for each in parts])
    assert together > 1.4 * max(each.expected for each in parts)


@pytest.mark.parametrize(("megabytes", "several"), [(4, True), (0.001, False)])
def test_what_makes_a_batch_and_has_no_name_may_be_several_things(megabytes: float, several: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(3010, 3410, "HtoD", 3000, pageable=True, bytes=int(megabytes * 1e6), launch_us=412)
        trace.kernels(3430, 25, 20, 40)

    (moved,) = (
        each for each in plan_of_body(body, length=4450).promises if each.proposal.fix == "move-host-phase"
    )
    assert (moved.low < 1.5) is several
    assert moved.vague is several
    assert ("only part" in moved.proposal.depends_on) is several


def test_what_operators_calculate_of_a_batch_of_its_own_is_apart_from_work_without_a_name() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(3010, 3100, "HtoD", 3000, pageable=True, bytes=1_000_000, launch_us=102)
        trace.op(3110, 5100, "aten::index")
        trace.copy(5110, 5200, "HtoD", 5105, pageable=True, bytes=1_000_000, launch_us=102)
        trace.kernels(5230, 25, 20, 40)

    parts = [
        each for each in plan_of_body(body, length=6250).promises if each.proposal.fix == "move-host-phase"
    ]
    assert {each.proposal.key for each in parts} >= {"aten::index", ""}


def test_work_beside_which_the_gpu_is_busy_is_told_behind_what_lets_it_show(fixtures: Path) -> None:
    made = planned(fixtures / "programs" / "heat.pt.trace.json.gz")
    last = made.promises[-1]
    assert last.proposal.fix == "move-host-phase"
    assert last.expected < 1.03 < 1.5 < last.after_others


@pytest.mark.parametrize(
    ("operators", "size", "left"),
    [(True, 2_000_000, False), (False, 2_000_000, True), (False, 1_010_000, True), (False, 990_000, False)],
    ids=["with operators", "without any", "a megabyte", "less"],
)
def test_work_on_much_data_of_which_nothing_was_recorded_may_need_the_gpu(
    operators: bool, size: int, left: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        if operators:
            trace.op(5, 8, "aten::linear")
        trace.kernels(10, 10, 5, 10)
        trace.copy(120, 200, "DtoH", 115, pageable=True, bytes=size, launch_us=90)
        trace.kernels(10_210, 10, 5, 10)

    plan = plan_of_body(body, length=10_320)
    for fix in ("move-host-phase", "copy-less"):
        told = next(each.proposal for each in plan.promises if each.proposal.fix == fix)
        replay = plan.replay
        most, expected = replay.gain([told.expected]), replay.gain([told.low or told.expected])
        assert (most > 1.5 * expected) is left


def saved(copies: int = 16, size: int = 70_000, computes: int = 1) -> Plan:
    """Steps of copies to the host with a millisecond behind each, of which an operator takes some us."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 10, 30, 40)
        for at in range(450, 450 + 1_020 * copies, 1_020):
            trace.copy(at + 6, at + 18, "DtoH", at + 2, pageable=True, bytes=size, launch_us=17)
            trace.op(at + 20, at + 20 + computes, "aten::add_")

    return plan_of_body(body, length=500 + 1_020 * copies)


@pytest.mark.parametrize(("computes", "kept"), [(510, True), (490, False)])
def test_what_mostly_computes_with_copies_is_no_saving(computes: int, kept: bool) -> None:
    assert ("keep-on-gpu" in promised(saved(computes=computes))) is kept


@pytest.mark.parametrize(
    ("copies", "size", "kept"),
    [(16, 70_000, True), (15, 80_000, False), (16, 60_000, False)],
    ids=["sixteen tensors of a megabyte", "fifteen", "less than a megabyte"],
)
def test_what_is_saved_of_a_state_still_has_to_be_copied(copies: int, size: int, kept: bool) -> None:
    made = saved(copies, size)
    (promise,) = (each for each in made.promises if each.proposal.fix == "move-host-phase")
    least = made.replay.gain([promise.proposal.low or promise.proposal.expected])
    assert (least < 0.9 * promise.expected) is kept
    assert (least == pytest.approx(promise.expected)) is not kept


@pytest.mark.parametrize(
    ("name", "named"),
    [("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", False), ("tokenise", True)],
)
def test_work_beside_loading_is_not_called_loading(name: str, named: bool) -> None:
    """Loading has a fix of its own, so what else passes before the same call has not its name."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.region(100, 800, name)
        trace.kernels(1300, 25, 20, 40)

    made = plan_of_body(body, length=2320).promises
    (moved,) = (each.proposal for each in made if each.proposal.fix == "move-host-phase")
    assert (name in moved.title) is named
    assert named or "unnamed Python work" in moved.title


@pytest.mark.parametrize(("first", "alone"), [(2_400, True), (600, False)])
def test_work_that_lies_mostly_in_other_ranges_says_so(first: int, alone: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        at = 100
        for name, length in (("tokenise", first), ("score", 500), ("rank", 500)):
            trace.region(at, at + length, name)
            trace.kernels(at + length, 2, 20, 40)
            at += length + 100
        trace.kernels(at, 25, 20, 40)

    made = plan_of_body(body, length=first + 2700).promises
    (moved,) = (each.proposal for each in made if each.proposal.fix == "move-host-phase")
    assert moved.title.startswith("Move the work of “tokenise” off the critical path") is alone
    assert moved.title.startswith("Move the work of “tokenise” and other ranges off") is not alone


@pytest.mark.parametrize(
    ("direction", "size", "named", "told"),
    [
        ("DtoH", 16_385, False, ", around copies of 16.4 KB from the GPU"),
        ("DtoH", 16_384, False, ""),
        ("HtoD", 16_385, False, ", making 16.4 KB for the GPU"),
        ("HtoD", 16_384, False, ""),
        ("DtoH", 5_240_000, True, ""),
    ],
)
def test_unnamed_work_is_told_by_what_it_works_on(direction: str, size: int, named: bool, told: str) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 10, 5, 10)
        at, launch = (120, 115) if direction == "DtoH" else (10_100, 10_090)
        trace.copy(at, at + 20, direction, launch, pageable=True, bytes=size, launch_us=30)
        if named:
            trace.region(160, 10_150, "score")
        trace.kernels(10_210, 10, 5, 10)

    made = plan_of_body(body, length=10_320).promises
    (moved,) = (each.proposal for each in made if each.proposal.fix == "move-host-phase")
    assert moved.title.partition("of CPU work in a step")[2] == told


@pytest.mark.parametrize("grows", [True, False])
def test_steps_that_take_ever_longer_are_no_steps_with_extra_work(grows: bool) -> None:
    """A program that tries one size after another, and one that saves after some of its steps."""
    works = [100, 110, 100, 120, 130, 100, 120, 130, 600, 1200, 2400, 4800]
    trace = TinyTrace()
    for index, work in enumerate(
        works if grows else [*works[:2], 4800, *works[2:7], 2400, *works[7:8], 1200, 600]
    ):
        trace.step(0, 1600 + work, f"ProfilerStep#{index}")
        trace.kernels(20 + work, 25, 20, 40)
        trace.shift += 1600 + work
    analysis = Analysis(trace.build())
    assert ("spread-slow-steps" in promised(make_plan(analysis))) is not grows
    (found,) = (each for each in diagnose(analysis.trace).findings if each.category is Category.VARIABILITY)
    assert (found.title == "Steps take ever longer: from 1.70 ms to 6.40 ms") is grows
    assert (found.severity is Severity.INFO) is grows


@pytest.mark.parametrize(
    ("each_us", "every_us", "found"), [(3.0, 10, True), (2.0, 10, False), (2.0, 13, True), (2.0, 11, False)]
)
def test_a_loop_over_short_operators_is_work_without_what_recording_them_took(
    each_us: float, every_us: int, found: bool
) -> None:
    """400 operators that launch nothing, every 10 us: of each interval, 5.5 us are the recorder's."""

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(400):
            trace.op(10 + number * every_us, 10 + number * every_us + each_us, "aten::select")
        trace.kernels(20 + 400 * every_us, 15, 20, 40)

    assert ("move-host-phase" in promised(plan_of_body(body, length=650 + 400 * every_us))) is found
