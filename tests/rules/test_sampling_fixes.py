"""Samplers that sort whole rows."""

from __future__ import annotations

import pytest

from rules.fixes.plan import Plan
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body, promised

SORT = "void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel"
SCAN = "void at::native::tensor_kernel_scan_innermost_dim<float>"


def sampler(
    sort: float = 300,
    scan: str = SCAN,
    training: bool = False,
    product: str = "sm90_gemm_64x64_tn",
    sorter: str = SORT,
    before: str = "void softmax",
) -> Plan:
    """Tokens of 1 ms of products each, whose rows are sorted and added up."""

    def body(trace: TinyTrace, _: int) -> None:
        if training:
            trace.region(1, 2, "Optimizer.step#SGD.step")
        at = 20.0
        for token in range(4):
            names = ((product, 1_000.0), (before, 50.0), (sorter, sort), (scan, 20.0), ("void divide", 20.0))
            for place, (name, took) in enumerate(names):
                trace.operation(at, at + took, name, 5 + token * 30 + place * 6)
                at += took
        trace.call(140, at + 10, "cudaDeviceSynchronize")

    return plan_of_body(body, length=4 * (1_090 + sort) + 60)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, True),
        ({"sort": 85.0}, True),
        ({"sort": 70.0}, False),
        ({"scan": "void divide"}, False),
        ({"training": True}, False),
        ({"sorter": "void at_cuda_detail::cub::DeviceSelectSweepKernel"}, False),
        ({"sorter": "void at::native::mbtopk::computeBlockDigitCounts<float>"}, False),
        ({"before": "void at::native::mbtopk::gatherTopK<float, unsigned int, 2>"}, False),
    ],
    ids=[
        "a fifth",
        "a tenth",
        "less",
        "nothing is added up",
        "training",
        "elements that are not zero are found",
        "the best are found",
        "these are sorted",
    ],
)
def test_samplers_that_sort_whole_rows_select_first(changed: dict[str, float], found: bool) -> None:
    assert ("select-before-sorting" in promised(sampler(**changed))) is found  # type: ignore[arg-type]


def test_what_follows_the_sort_becomes_a_tenth() -> None:
    told = next(each for each in sampler(sort=1_000).promises if each.proposal.fix == "select-before-sorting")
    assert told.expected == pytest.approx(2_090 / (1_050 + 104), rel=0.03)
    assert told.low <= 2_090 / (1_050 + 312)
