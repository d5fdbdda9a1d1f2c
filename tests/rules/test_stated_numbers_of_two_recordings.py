"""Numbers by which work, changes and steps of two recordings are told apart, each with a case on either side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers.model import Trace
from rules.analysis.names.families import Family
from rules.comparison.bridge import _bridge
from rules.comparison.calls import main_shapes
from rules.comparison.comparable import _about_steps
from rules.comparison.compare import Measure, _because, _noticeable, _on_peak, compare, headline_on
from rules.comparison.kernel_rows import KernelChange
from rules.comparison.same_work import Answer, _covered, _other_counts, _shapes
from rules.comparison.step_times import StepTimes
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_compare import without_steps
from tests.rules.test_compare_matching import SOUND, program

UNKNOWN = cast(Any, SimpleNamespace(outcome=None, ratio=None))


@pytest.mark.parametrize(("change", "told"), [(1.01, True), (0.99, False)])
def test_a_part_of_a_bridge_changes_by_a_thousandth_of_the_longer_step(change: float, told: bool) -> None:
    sides = [{("own", "own"): before / 1000} for before in (100.0, 100.0 + change)]
    found = _bridge("Parts", (1000.0, 1000.0), cast(Any, sides))
    assert [part.label == "own" for part in found.parts] == [told]


def test_an_operator_s_size_is_that_of_its_first_two_tensors() -> None:
    assert main_shapes("[[8, 4], [], [4, 2], [16]]") == "[[8, 4], [4, 2]]"


@pytest.mark.parametrize(("count", "few"), [(2, True), (3, False)])
def test_fewer_than_three_steady_steps_are_told(count: int, few: bool) -> None:
    side = cast(Any, SimpleNamespace(found_by="ProfilerStep", whole=False, repetitions=count))
    assert bool(_about_steps(side, side)) is few


@pytest.mark.parametrize(
    ("after", "alike"), [(1_019.0, True), (1_021.0, False), (981.0, True), (979.0, False)]
)
def test_what_differs_by_less_than_two_percent_is_as_before(after: float, alike: bool) -> None:
    measure = Measure("all", 1_000.0, after, "ns")
    assert (
        headline_on(measure, "all of it takes", UNKNOWN).startswith("As fast as before, within 2 %") is alike
    )
    assert _on_peak(measure).startswith("As much memory as before, within 2 %") is alike
    loud = cast(Any, SimpleNamespace(findings=()))
    new = cast(Any, [SimpleNamespace(change=None, is_new=True, after=SimpleNamespace(title="a wait"))])
    assert _because(measure, new, loud, UNKNOWN) == (["New: a wait"] if after > 1_020 else [])


@pytest.mark.parametrize(("change", "told"), [(1.01, True), (0.99, False)])
def test_a_kernel_changes_noticeably_by_a_thousandth_of_the_kernel_time(change: float, told: bool) -> None:
    rows = [KernelChange("rest", 1, 1, 900.0, 900.0), KernelChange("own", 1, 1, 100.0 - change, 100.0)]
    assert [each.name for each in _noticeable(rows)] == ["own"] * told


def copying(us: float) -> Trace:
    """Steps of 10 ms, so much of each in a copy with nothing beside it."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(0, 9_000, "gemm", 0)
        trace.copy(9_500, 9_500 + us, "HtoD", 9_490)

    return steps(4, 10_000, body).build()


@pytest.mark.parametrize(("us", "told"), [(5.5, True), (4.5, False)])
def test_a_share_is_set_against_another_from_half_a_thousandth_of_the_step_on(us: float, told: bool) -> None:
    trace = copying(us)
    assert ("exposed copies" in [each.name for each in compare(trace, trace).measures]) is told


@pytest.mark.parametrize(("kernels", "alike"), [(105, True), (106, False)])
def test_recordings_without_steps_do_the_same_work_with_five_percent_more_kernels(
    kernels: int, alike: bool
) -> None:
    headline = compare(without_steps(100, 80), without_steps(kernels, 80)).headline
    assert headline.startswith("Not comparable: the two contain different amounts of work") is not alike


def test_of_kernels_that_changed_thirty_are_shown() -> None:
    assert len(compare(without_steps(31, 40), without_steps(31, 80)).kernels) == 30


def test_a_tenth_of_the_time_in_other_kernels_is_nearly_the_same_work() -> None:
    renamed = [*SOUND[:2], ("aten::mul", "void at::native::another_mul_kernel<4>", 30.0)]
    work = compare(program(SOUND), program(renamed)).work
    assert work is not None
    assert work.answer is Answer.NEARLY


@pytest.mark.parametrize(("after", "other"), [(126, True), (124, False), (74, True), (76, False)])
def test_the_same_kernels_a_quarter_more_or_less_often_are_other_work(after: int, other: bool) -> None:
    rows = [KernelChange("gemm", 100, after, 1000.0, 1000.0)]
    assert bool(_other_counts(rows, [1000.0, 1000.0])) is other


@pytest.mark.parametrize(("exposed", "told"), [(39.0, True), (41.0, False)])
def test_a_tenth_more_of_the_communication_is_covered(exposed: float, told: bool) -> None:
    rows = [KernelChange("reduce", 1, 1, 100.0, 100.0, family=Family.COLLECTIVE.label)]
    assert bool(_covered(rows, [100.0, 100.0], (50.0, exposed))) is told


@pytest.mark.parametrize(
    ("share", "numbers", "told", "resized"),
    [(26, 100, True, False), (24, 100, False, False), (50, 111, True, True), (50, 109, True, False)],
)
def test_shapes_differ_in_a_quarter_of_the_time_and_by_a_tenth_of_the_numbers(
    share: int, numbers: int, told: bool, resized: bool
) -> None:
    sides = [
        SimpleNamespace(
            dims=np.array([0, other]), operator=np.zeros(2, int), ns=np.array([100 - share, share])
        )
        for other in (1, 2)
    ]
    matched = SimpleNamespace(same=np.array([[0, 0], [1, 1]]), counterpart=np.empty((0, 2), int))
    texts = ["[[5]]", "[[10, 10]]", f"[[{numbers}]]"]
    said, larger = _shapes(cast(Any, tuple(sides)), cast(Any, matched), texts)
    assert (bool(said), larger) == (told, resized)


@pytest.mark.parametrize(("count", "drifts"), [(5, True), (4, False), (1, False), (0, False)])
def test_five_steps_in_order_drift(count: int, drifts: bool) -> None:
    assert bool(StepTimes(np.arange(10, 10 + count, dtype=np.float64)).drift) is drifts
