"""Work on data from the GPU that has no name: what of it needs the data is told by how much that is."""

from __future__ import annotations

import pytest

from rules.fixes.plan import Plan, Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

WORK_MS = 10
# The cases lie on either side of these.
READ_PER_NS = 10.0
MIN_APART = 0.2


def evaluated(part: float, name: str = "") -> Plan:
    """A forward pass of 1 ms, a copy of 1 ms, and 10 ms of work, of which a pass over the data is a part."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.op(5, 8, "aten::linear")
        trace.kernels(10, 10, 90, 100)
        amount = round(part * WORK_MS * 1e6 * READ_PER_NS)
        trace.copy(1_020, 2_020, "DtoH", 1_015, pageable=True, bytes=amount, launch_us=1_010)
        if name:
            trace.region(2_030, 12_000, name)
        trace.kernels(2_025 + 1_000 * WORK_MS, 5, 90, 100)

    return plan_of_body(body, length=12_600)


def told(plan: Plan, fix: str) -> Promise:
    return next(each for each in plan.promises if each.proposal.fix == fix)


@pytest.mark.parametrize(
    ("part", "several"), [(MIN_APART + 0.02, True), (MIN_APART - 0.02, False), (0.78, True), (0.82, False)]
)
def test_work_on_data_from_the_gpu_may_be_two_things(part: float, several: bool) -> None:
    plan = evaluated(part)
    moved = told(plan, "move-host-phase")
    assert ("needs what was copied" in moved.proposal.depends_on) is several
    assert (moved.low < 0.5 * moved.expected) is several
    assert (told(plan, "copy-less").low < 0.8 * told(evaluated(0.1), "copy-less").low) is several


def test_the_least_is_the_smaller_part_alone_and_the_most_all_together() -> None:
    plan = evaluated(0.25)
    before = plan.replay.usual_ns
    moved, copied = told(plan, "move-host-phase"), told(plan, "copy-less")
    with_data, rest = 1.0e6 + 0.25e6 * WORK_MS, 0.75e6 * WORK_MS
    for each in (moved, copied):
        alone = plan.replay.gain([each.proposal.low or each.proposal.expected])
        assert alone == pytest.approx(before / (before - with_data), rel=0.05)
        assert each.expected == pytest.approx(before / (before - with_data - rest), rel=0.1)


def test_work_with_a_name_is_one_thing() -> None:
    moved = told(evaluated(0.5, "decode"), "move-host-phase")
    assert moved.low > 0.5 * moved.expected


@pytest.mark.parametrize(("part", "together"), [(0.78, False), (0.82, True)])
def test_work_before_a_copy_to_the_gpu_that_only_puts_its_data_together_goes_with_it(
    part: float, together: bool
) -> None:
    """As where a batch is stacked from rows: from a pass over the data that takes four fifths of the work on."""
    assert 0.78 < 1 - MIN_APART < 0.82

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 5, 90, 100)
        sent = 515 + 1_000 * WORK_MS
        amount = round(part * WORK_MS * 1e6 * READ_PER_NS)
        trace.copy(sent + 10, sent + 5_010, "HtoD", sent, pageable=True, bytes=amount, launch_us=5_020)
        trace.kernels(sent + 5_030, 5, 90, 100)

    plan = plan_of_body(body, length=16_100)
    copied = told(plan, "copy-less")
    assert ("put together by 1" in copied.proposal.title) is together
    assert ("can stay on the GPU" in copied.proposal.depends_on) is together
    gone = 5.0e6 + together * 1e6 * WORK_MS
    before = plan.replay.usual_ns
    assert copied.expected == pytest.approx(before / (before - gone), rel=0.15)
    least = plan.replay.gain([copied.proposal.low or copied.proposal.expected])
    assert least == pytest.approx(before / (before - 5.0e6), rel=0.1), "at least, it is still put together"


@pytest.mark.parametrize(("late", "together"), [(0, True), (1, True), (4, False)])
def test_a_single_late_copy_says_nothing_of_how_its_data_are_put_together(late: int, together: bool) -> None:
    def body(trace: TinyTrace, number: int) -> None:
        trace.kernels(10, 5, 90, 100)
        sent = 515 + 1_000 * (3 * WORK_MS if 1 <= number <= late else WORK_MS)
        trace.copy(sent + 10, sent + 5_010, "HtoD", sent, pageable=True, bytes=150_000_000, launch_us=5_020)
        trace.kernels(sent + 5_030, 5, 90, 100)

    copied = told(plan_of_body(body, length=36_100), "copy-less")
    assert ("put together by" in copied.proposal.title) is together
