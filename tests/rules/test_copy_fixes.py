"""Copies between host and GPU that could be smaller, or into page-locked memory."""

from __future__ import annotations

import pytest

from rules.fixes.base import switches_for
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body, promised


@pytest.mark.parametrize(
    ("length", "size", "found"),
    [
        (800, 20_000_000, True),
        (5, 1_000, False),
        (48, 80_000, True),
        (48, 40_000, False),
        (80, 1_000, True),
        (40, 1_000, False),
    ],
)
def test_large_copies_are_avoided(length: int, size: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        end = 640 + length
        trace.copy(640, end, "DtoH", 620, pageable=True, bytes=size, launch_us=end - 610)
        trace.kernels(end + 20, 8, 20, 40)

    plan = plan_of_body(body, length=1100 + length)
    assert ("copy-less" in promised(plan)) is found
    if found:  # nothing that is done to copies to the GPU could prove it
        proposal = next(each.proposal for each in plan.promises if each.proposal.fix == "copy-less")
        assert switches_for(proposal) == ("pinned-read-backs", "no-read-backs")


@pytest.mark.parametrize(("back", "gain"), [(True, 3.5), (False, 1.6)], ids=["at once", "later"])
def test_a_copy_back_behind_a_copy_to_the_host_goes_with_it(back: bool, gain: float) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        trace.copy(640, 1440, "DtoH", 620, pageable=True, bytes=20_000_000, launch_us=830)
        if not back:
            trace.operation(1462, 1464, "void some_kernel", 1460)
        trace.copy(1480, 2080, "HtoD", 1470, pageable=True, bytes=20_000_000, launch_us=615)
        trace.kernels(2090, 2, 20, 40)

    made = plan_of_body(body, length=2200).promises
    (copied,) = (each for each in made if each.proposal.key == "D2H")
    assert copied.expected == pytest.approx(gain, rel=0.15)


@pytest.mark.parametrize(
    ("gpu", "pageable", "low"),
    [("NVIDIA H200", True, 2.0), ("NVIDIA H200", False, 3.0), ("Test GPU", True, 3.0)],
    ids=["into pageable memory", "into page-locked memory", "over an unknown link"],
)
def test_data_that_the_host_needs_is_at_least_copied_faster(gpu: str, pageable: bool, low: float) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        trace.copy(640, 3640, "DtoH", 620, pageable=pageable, bytes=40_000_000, launch_us=3030)
        trace.kernels(3670, 8, 20, 40)

    plan = plan_of_body(body, length=4200, into=TinyTrace(gpu=gpu))
    promise = next(each for each in plan.promises if each.proposal.fix == "copy-less")
    assert promise.low == pytest.approx(low, rel=0.15)
    assert promise.expected == pytest.approx(4.0, rel=0.15), "at best nothing is copied"


@pytest.mark.parametrize(
    ("operator", "frame", "told"),
    [
        ("aten::copy_", "", "a small copy makes"),
        ("aten::item", "", "aten::item makes"),
        ("aten::item", "train.py(7): step", "aten::item in step (train.py:7) makes"),
    ],
)
def test_a_value_that_is_read_back_is_one_wait(operator: str, frame: str, told: str) -> None:
    """Its copy and what waits for that are two calls; other waits are none of values."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        if frame:
            trace.frame(5, 1_060, frame)
        for _value in range(4):
            trace.operation(at + 5, at + 205, "sm90_gemm_64x64_tn", at)
            trace.op(at + 10, at + 240, operator)
            trace.copy(at + 206, at + 208, "DtoH", at + 12, pageable=True, bytes=64, launch_us=200)
            trace.call(at + 214, at + 216, "cudaStreamSynchronize")
            at += 260

    plan = plan_of_body(body, length=1_100)
    (made,) = [each.proposal for each in plan.promises if each.proposal.fix == "remove-read-backs"]
    assert (
        made.title == f"Stop reading single values back from the GPU: {told} the CPU wait 4 times in a step"
    )


def test_a_copy_and_what_waits_for_it_are_one_wait() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(4):
            at = 10 + place * 470
            trace.operation(at + 6, at + 300, "void some_kernel", at)
            trace.copy(at + 300, at + 320, "DtoH", at + 30, bytes=1 << 20)
            trace.call(at + 36, at + 326, "cudaStreamSynchronize")

    (title,) = (
        each.proposal.title
        for each in plan_of_body(body).promises
        if each.proposal.fix == "remove-read-backs"
    )
    assert title.endswith(" 4 times in a step")
