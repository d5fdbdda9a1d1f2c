"""How work on the CPU is named by Python's stacks: the program's own function, and the call of a library in it."""

from __future__ import annotations

import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from rules.analysis.stretches.program_frames import is_sleep
from rules.fixes.base import Proposal
from rules.fixes.plan import Plan, make_plan
from rules.losses.lost_time import IdleTime
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import plan_of_body

SAVE = "torch/serialization.py(945): save"


def _moved(plan: Plan) -> dict[str, Proposal]:
    return {
        each.proposal.culprit: each.proposal
        for each in plan.promises
        if each.proposal.fix == "move-host-phase"
    }


@pytest.mark.parametrize(
    ("call", "lasts", "shown"),
    [
        (SAVE, 900, f"{SAVE} in app/train.py(7): step"),
        (
            "numpy/lib/_npyio_impl.py(546): save",
            900,
            "numpy/lib/_npyio_impl.py(546): save in app/train.py(7): step",
        ),
        (SAVE, 600, "app/train.py(7): step"),
        ("torch/nn/modules/module.py(1783): forward", 900, "app/train.py(7): step"),
        ("torch/optim/optimizer.py(512): wrapper", 900, "app/train.py(7): step"),
        ("torch/serialization.py(1184): _save", 900, "app/train.py(7): step"),
        ("<built-in method dump of PyTorchPickler object at 0x7f>", 900, "app/train.py(7): step"),
        ("app/metrics.py(3): write", 900, "app/metrics.py(3): write"),
    ],
)
def test_the_name_is_the_programs_function_with_the_call_that_takes_its_time(
    call: str, lasts: float, shown: str
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.frame(0, 1600, "app/train.py(7): step")
        trace.kernels(10, 15, 20, 40)
        trace.frame(610, 610 + lasts, call)
        trace.kernels(1530, 15, 20, 40)

    assert shown in _moved(plan_of_body(body, length=2200))


@pytest.mark.parametrize(
    ("lasts", "told"), [(900, f"{SAVE} in app/train.py(7): step"), (400, "app/train.py(7): step")]
)
def test_a_finding_names_the_call_too_where_it_takes_most_of_the_wait(lasts: float, told: str) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.frame(0, 1600, "app/train.py(7): step")
        trace.kernels(10, 15, 20, 40)
        trace.frame(610, 610 + lasts, SAVE)
        trace.kernels(1530, 15, 20, 40)

    (found,) = [
        each for each in diagnose(steps(6, 2200, body).build()).findings if each.rule == "waiting-for-python"
    ]
    assert found.culprit.text == told
    assert f" of this time is {told}." in found.explanation


@pytest.mark.parametrize("sleep", ["<built-in function sleep>", "asyncio/tasks.py(627): sleep"])
@pytest.mark.parametrize(("lasts", "sleeps"), [(900, True), (400, False)])
def test_a_batcher_that_sleeps_is_told_so(sleep: str, lasts: float, sleeps: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.frame(0, 1600, "app/serve.py(7): batches")
        trace.kernels(10, 15, 20, 40)
        trace.frame(610, 610 + lasts, sleep)
        trace.kernels(1530, 15, 20, 40)

    (found,) = _moved(plan_of_body(body, length=2200)).values()
    assert found.title.startswith(
        "Stop sleeping in app/serve.py(7): batches: "
        if sleeps
        else "Move the work of app/serve.py(7): batches"
    )
    assert ("queue.get()" in str(found.remedy)) is sleeps
    assert "CPU work" not in found.title or not sleeps


@pytest.mark.parametrize("name", ["app/pets.py(3): sleep", "numpy/core.py(9): sleepless"])
def test_not_everything_that_is_called_so_sleeps(name: str) -> None:
    assert not is_sleep(name)


@pytest.mark.parametrize(("before", "named"), [(850, True), (1100, False)])
def test_a_library_that_does_much_else_is_no_name_of_a_part_of_it(before: float, named: bool) -> None:
    """As a trainer's loop is not: what it calls, or the program's own function, says more."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.frame(0, before + 1090, "app/train.py(7): main")
        trace.frame(1, before + 1080, "transformers/trainer.py(2100): train")
        trace.kernels(10, int(before - 10) // 20, 20, 20)
        trace.kernels(before + 1000, 3, 20, 20)

    (name,) = _moved(plan_of_body(body, length=before + 1100))
    assert ("trainer.py(2100): train" in name) is named


def test_work_on_both_sides_of_the_edge_of_a_step_has_two_names() -> None:
    trace = TinyTrace()
    trace.frame(0, 18_000, "app/bench.py(90): <module>")
    for index in range(6):
        trace.step(0, 3000, f"ProfilerStep#{index}")
        trace.frame(1, 1190, "app/train.py(3): batch")
        trace.kernels(1200, 15, 20, 40)
        trace.frame(1810, 2990, "app/train.py(9): quality")
        trace.shift += 3000
    analysis = Analysis(trace.build())
    assert {"app/train.py(3): batch", "app/train.py(9): quality"} <= set(_moved(make_plan(analysis)))
    blamed = {each.culprit.name for each in IdleTime(analysis, Cause.HOST).blames[:2]}
    assert blamed == {"app/train.py(3): batch", "app/train.py(9): quality"}


@pytest.mark.parametrize(("saved", "told"), [(5, "735 us each time, in 5 of 8 steps"), (6, "in a step")])
def test_work_of_some_steps_is_told_with_what_it_takes_in_these(saved: int, told: str) -> None:
    trace = TinyTrace()
    for index in range(8):
        saves = index < saved
        length = 1500.0 if saves else 700.0
        trace.step(0, length, f"ProfilerStep#{index}")
        trace.frame(0, length - 10, "app/train.py(7): step")
        trace.kernels(10, 15, 20, 40)
        if saves:
            trace.frame(415, 1310, SAVE)
        trace.kernels(length - 190, 5, 20, 40)
        trace.shift += length
    (moved,) = _moved(make_plan(Analysis(trace.build()))).values()
    assert told in moved.title
