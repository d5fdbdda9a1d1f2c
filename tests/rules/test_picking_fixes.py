"""Rows that are sorted for their first values, and the loop of launches inside of a sort."""

from __future__ import annotations

import pytest

from rules.fixes.plan import Plan
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body, promised

SORT = "void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel"


def searched(
    part: str = "aten::slice",
    outer: str = "aten::argsort",
    sort: float = 40,
    reads: float = 2,
    between: bool = False,
    rows: int = 32,
) -> Plan:
    """Products of 3 ms whose rows are sorted one after another inside of one operator, before one more kernel."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(20, 3020, "sm90_gemm_64x64_tn", 5)
        trace.op(20, 24 + rows * 30, outer)
        trace.op(21, 23 + rows * 30, "aten::sort")
        at = 3020.0
        for place in range(rows * 3):
            trace.operation(at, at + sort / 3, f"{SORT}{place % 3}", 22 + place * 10)
            at += sort / 3
        end = 26 + rows * 30
        if between:
            trace.op(end, end + 2, "aten::mul")
        trace.op(end + 3, end + 5, part)
        trace.operation(at, at + reads, "void eq", end + 10)
        trace.call(end + 20, at + reads + 5, "cudaDeviceSynchronize")

    return plan_of_body(body, length=3_050 + rows * sort + reads)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, True),
        ({"part": "aten::narrow"}, True),
        ({"part": "aten::select"}, True),
        ({"outer": "aten::sort"}, True),
        ({"outer": "aten::unique_dim"}, False),
        ({"part": "aten::eq"}, False),
        ({"between": True}, False),
        ({"reads": 60.0}, True),
        ({"reads": 70.0}, False),
        ({"sort": 6.0}, True),
        ({"sort": 4.5}, False),
    ],
)
def test_rows_are_not_sorted_for_a_part_of_them(changed: dict[str, float], found: bool) -> None:
    assert ("pick-without-sorting" in promised(searched(**changed))) is found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("numbers", "behind", "reads", "found"),
    [
        ("fill_reverse_indices_kernel", "void eq", 60.0, True),
        ("fill_index_and_segment_kernel", "void eq", 60.0, True),
        ("fill_reverse_indices_kernel", "void eq", 70.0, False),
        ("elementwise_kernel_with_index", "void eq", 60.0, False),
        ("fill_reverse_indices_kernel", f"{SORT}0", 60.0, False),
    ],
)
def test_without_operators_kernels_say_what_sorts_rows(
    numbers: str, behind: str, reads: float, found: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(20, 3020, "sm90_gemm_64x64_tn", 5)
        trace.operation(3020, 3030, f"void at::native::{numbers}", 22)
        at = 3030.0
        for place in range(96):
            trace.operation(at, at + 40 / 3, f"{SORT}{place % 3}", 32 + place * 10)
            at += 40 / 3
        trace.operation(at, at + reads, behind, 1_000)
        trace.operation(at + reads, at + reads + 100, "void reads_everything", 1_010)
        trace.call(1_020, at + reads + 105, "cudaDeviceSynchronize")

    assert ("pick-without-sorting" in promised(plan_of_body(body, length=4_500 + reads))) is found


def test_a_tenth_of_sorting_stays() -> None:
    told = next(each for each in searched().promises if each.proposal.fix == "pick-without-sorting")
    assert told.expected == pytest.approx(4_330 / (3_050 + 128), rel=0.03)


@pytest.mark.parametrize(("operator", "joined"), [("aten::argsort", False), ("Searching", True)])
def test_what_one_operator_repeats_is_no_loop_of_the_program(operator: str, joined: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(5, 2_900, operator)
        for row in range(48):
            for place in range(5):
                at = 10 + (row * 5 + place) * 12
                trace.operation(at + 6, at + 8, f"void pass_{'abcde'[place]}", at)
        trace.kernels(2_950, 5, 20, 40)

    assert ("join-loop" in promised(plan_of_body(body, length=3_300))) is joined
