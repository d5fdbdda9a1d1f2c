"""Slow steps that run the same kernels as others are told from those that do something else."""

from __future__ import annotations

import pytest

from rules.findings.base import Category, Finding
from tests.rules.builder import TinyTrace, found

SAME, LONGER = "The same kernels run slower in some steps", "Step times vary widely"


def uneven(slow: tuple[str, ...], blocks: tuple[int, int]) -> Finding:
    """Ten steps of two kernels, of which two take three times as long."""
    trace = TinyTrace()
    begin = 0.0
    for number in range(10):
        is_slow = number in (4, 7)
        names = slow if is_slow else ("sm90_gemm", "softmax_warp_forward")
        length = 3_000.0 if is_slow else 1_000.0
        trace.region(begin, begin + length, f"ProfilerStep#{number}")
        for place, name in enumerate(names):
            start, each = begin + place * length / len(names), length / len(names)
            trace.operation(
                start + 5, start + each - 5, name, start, **{"grid": blocks[is_slow]} if any(blocks) else {}
            )
        begin += length
    return found(trace.build(), Category.VARIABILITY)


@pytest.mark.parametrize(
    ("slow", "blocks", "said", "advice"),
    [
        (("softmax_warp_forward", "sm90_gemm"), (132, 132), SAME, ["another program"]),
        (("softmax_warp_forward", "sm90_gemm"), (0, 0), SAME, ["another program", "are they larger"]),
        (("softmax_warp_forward", "sm90_gemm"), (132, 396), LONGER, ["what runs only there"]),
        (("softmax_warp_forward", "sm90_gemm", "sm90_gemm"), (132, 132), LONGER, ["what runs only there"]),
        (("softmax_warp_forward", "layer_norm"), (132, 132), LONGER, ["what runs only there"]),
    ],
    ids=["same kernels", "sizes unknown", "larger grids", "more kernels", "other kernels"],
)
def test_the_advice_fits_what_slow_steps_run(
    slow: tuple[str, ...], blocks: tuple[int, int], said: str, advice: list[str]
) -> None:
    finding = uneven(slow, blocks)
    assert finding.title.startswith(said)
    text = " ".join(finding.advice)
    assert [
        each for each in ("another program", "are they larger", "what runs only there") if each in text
    ] == advice
    assert ("Do it less often" in text) is (said == LONGER)
