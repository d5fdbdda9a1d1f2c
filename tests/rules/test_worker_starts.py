"""Workers of a data loader that are ended and started anew: when a recording shows it, and what keeping them gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.stretches.worker_starts import WorkerStarts, worker_starts
from rules.fixes.plan import make_plan
from tests.opened import opened
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body, promised

# The cases lie on either side of these.
AT_ONCE_NS = 1_000_000
FEW_OPERATORS = 40
MIN_BEFORE_SHUFFLE_NS = 20_000_000
MIN_START_NS = 1_000_000

PROGRAMS = Path(__file__).resolve().parent.parent / "fixtures" / "programs"
FETCH = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def starts(
    *,
    silent: float = 5_000.0,
    apart: float = 5.0,
    draws: str = "aten::random_",
    shuffled: bool = False,
    between: int = 0,
    ends: float = 3_000.0,
    inside: bool = True,
    before: int = 0,
) -> WorkerStarts:
    """Three fetches, one that finds nothing, a seed, the start and the first fetch of the next pass."""
    trace, at = TinyTrace(), 0.0
    for _ in range(3):
        trace.region(at, at + 100, FETCH)
        if inside:
            trace.op(at + 10, at + 20, "aten::set_")
        trace.op(at + 200, at + 900, "aten::mm")
        at += 1_000
    trace.region(at, at + ends, FETCH)
    at += ends + 10
    for _ in range(before):
        trace.op(at, at + 1, "aten::mm")
        at += 2
    trace.op(at, at + 10, draws)
    trace.op(at + 10 + apart, at + 20 + apart, "aten::item")
    at += 20 + apart + silent
    if shuffled:
        trace.op(at, at + 10, "aten::randperm")
        at += 20
    for _ in range(between):
        trace.op(at, at + 1, "aten::select")
        at += 2
    trace.region(at, at + 2_000, FETCH)
    trace.op(at + 2_100, at + 2_200, "aten::mm")
    return worker_starts(Analysis(trace.build()), 0)


def test_a_start_says_when_processes_ended_and_started_and_the_first_batch_came() -> None:
    found = starts()
    assert len(found) == 1
    assert found.ends == (pytest.approx([3_000_000]), pytest.approx([6_000_000]))
    assert found.ended[0] - found.began[0] == 5_000_000
    assert found.fetched[0] - found.ended[0] == 2_000_000 - 100_000  # without what a fetch usually takes
    assert [int(np.sum(end - start)) for start, end in (found.processes, found.first_batches)] == [
        3_000_000 + 5_000_000,
        1_900_000,
    ]


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"silent": MIN_START_NS / 1000 - 1}, {"silent": MIN_START_NS / 1000}),
        ({"apart": AT_ONCE_NS / 1000}, {"apart": AT_ONCE_NS / 1000 - 1}),
        ({"draws": "aten::randn"}, {"draws": "aten::random_"}),
        ({"between": FEW_OPERATORS + 1}, {"between": FEW_OPERATORS}),
        (
            {"shuffled": True, "silent": MIN_BEFORE_SHUFFLE_NS / 1000 - 1},
            {"shuffled": True, "silent": MIN_BEFORE_SHUFFLE_NS / 1000},
        ),
    ],
)
def test_what_is_no_start(less: dict[str, float], more: dict[str, float]) -> None:
    assert len(starts(**less)) == 0  # type: ignore[arg-type]
    assert len(starts(**more)) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("silent", "made", "ended"),
    [(1_000, 0, 1_000), (999, 0, 0), (1_000, 5, 1_000), (7_000, 0, 5_000)],
    ids=["a millisecond", "less", "before the tensor for the seed", "longer than the start"],
)
def test_workers_also_end_where_a_pass_is_left_before_its_end(silent: int, made: int, ended: int) -> None:
    """No fetch waits for them then: nothing is recorded while the loader's iterator is thrown away."""
    trace = TinyTrace()
    for at in (0.0, 1_000.0, 2_000.0):
        trace.region(at, at + 100, FETCH)
        for number in range(8):
            trace.op(at + 200 + 50 * number, at + 240 + 50 * number, "aten::mm")
    at = 2_590.0 + silent
    if made:
        trace.op(at, at + made, "aten::empty")
        at += made + 5
    trace.op(at, at + 10, "aten::random_")
    trace.op(at + 12, at + 22, "aten::item")
    trace.region(at + 5_022, at + 7_000, FETCH)
    begin, end = worker_starts(Analysis(trace.build()), 0).ends
    assert int((end - begin).sum()) == 1_000 * ended


def test_a_fetch_that_puts_no_batch_together_and_takes_long_ended_the_workers() -> None:
    def ends_of_another_pass(takes: float, *, others_make_tensors: bool) -> int:
        trace = TinyTrace()
        for at in (0.0, 1_000.0, 2_000.0):
            trace.region(at, at + 100, FETCH)
            if others_make_tensors:
                trace.op(at + 10, at + 20, "aten::set_")
        trace.region(3_000, 3_000 + takes, FETCH)
        for at in range(6_000, 9_000, 100):  # a step of the training
            trace.op(at, at + 50, "aten::mm")
        trace.op(9_000, 9_010, "aten::random_")
        trace.op(9_020, 9_030, "aten::item")
        trace.region(12_000, 12_500, FETCH)
        if others_make_tensors:
            trace.op(12_100, 12_200, "aten::set_")
        return len(worker_starts(Analysis(trace.build()), 0).ends[0])

    assert ends_of_another_pass(2_000, others_make_tensors=True) == 1
    assert ends_of_another_pass(900, others_make_tensors=True) == 0
    assert ends_of_another_pass(2_000, others_make_tensors=False) == 0


def one_pass(trace: TinyTrace, lasts: float) -> None:
    """A step that starts the workers and uses one batch."""
    trace.op(10, 20, "aten::random_")
    trace.op(25, 35, "aten::item")
    trace.region(35 + lasts, 135 + lasts, FETCH)
    trace.kernels(200 + lasts, 100, 20, 40)


def test_keeping_the_workers_takes_their_start_and_neither_other_work_nor_slow_steps() -> None:
    made = promised(plan_of_body(lambda trace, _: one_pass(trace, 20_000.0), length=25_000))
    assert made["keep-workers"] == pytest.approx(25 / 5, rel=0.2)
    assert not made.keys() & {"move-host-phase", "load-data-in-workers", "spread-slow-steps"}


def test_a_program_whose_workers_start_anew_says_so_first_and_promises_what_it_gave() -> None:
    trace = opened(PROGRAMS / "clips.pt.trace.json.gz")
    plan = make_plan(Analysis(trace))
    first = plan.promises[0]
    assert first.proposal.fix == "keep-workers"
    assert first.low < 1.72 < first.high
    assert diagnose(trace).findings[0].rule == "workers-started-anew"
    assert "spread-slow-steps" not in promised(plan)


@pytest.mark.parametrize(("starts_us", "saves_us", "spread"), [(6_000, 4_000, False), (2_000, 8_000, True)])
def test_a_slow_step_is_mostly_its_workers_or_something_else(
    starts_us: float, saves_us: float, spread: bool
) -> None:
    trace = TinyTrace()
    at = 0.0
    for step in range(10):
        trace.shift = at
        slow = step in (2, 6)
        length = 4_300 + (starts_us + saves_us + 200 if slow else 0)
        trace.step(0, length, f"ProfilerStep#{step + 1}")
        if slow:
            one_pass(trace, starts_us)
            trace.kernels(length - 90, 2, 20, 40)
        else:
            trace.kernels(200, 100, 20, 40)
        at += length
    trace.shift = 0.0
    made = promised(make_plan(Analysis(trace.build())))
    assert "keep-workers" in made
    assert ("spread-slow-steps" in made) is spread


@pytest.mark.parametrize(("before", "known"), [(4, True), (5, False)])
def test_a_fetch_right_before_the_seed_ends_the_workers_however_short(before: int, known: bool) -> None:
    (start, _) = starts(ends=500.0, before=before).ends
    assert bool(len(start)) is known
