"""What an order of accesses, a size of blocks or uneven work wastes: never more than what memory leaves to save."""

from __future__ import annotations

import pytest

from parsers.model.kernels import MetricValue
from rules.findings.base import Category
from tests.rules.kernel_profiles import COMPUTE, DRAM, MEMORY, SOUND, kernel, trace_of
from tests.rules.test_kernel_checks import cycles
from tests.rules.test_kernel_findings import WAITING, categories, found, scattered


@pytest.mark.parametrize(
    ("busy", "moved", "saving"),
    [
        (
            85.0,
            500,
            0.0,
        ),  # caches put the scattered pieces together again: DRAM moves what is needed, all the time
        (79.0, 500, 0.21),  # no order of the accesses makes DRAM faster
        (85.0, 1000, 0.5),
    ],
)
def test_scattered_accesses_cost_no_more_than_what_dram_does_not_need(
    busy: float, moved: int, saving: float
) -> None:
    traffic = {DRAM: busy, "dram__bytes_read.sum": 16.0 * moved, "dram__bytes_write.sum": 16.0 * moved}
    told = [
        each
        for each in found(trace_of(kernel({**scattered(500), **traffic})))
        if each.category is Category.UNCOALESCED_ACCESS
    ]
    assert [round(each.share, 2) for each in told] == ([saving] if saving else [])


@pytest.mark.parametrize(
    ("l1", "shared", "ideal", "saving"),
    [
        (98.0, 0.5, 250, 0.73),
        (98.0, 90.0, 250, 0.06),
        (98.0, 92.0, 250, 0.0),  # L1 is busy with shared memory
        (98.0, 0.5, 955, 0.0),
        (30.0, 0.5, 250, 0.0),  # DRAM is busier, and the sectors come from L1
    ],
)
def test_sectors_that_only_l1_passes_on_count_where_l1_is_the_busiest(
    l1: float, shared: float, ideal: int, saving: float
) -> None:
    passes = "l1tex__data_pipe_lsu_wavefronts"
    counters: dict[str, MetricValue] = {
        COMPUTE: 17.0,
        MEMORY: max(l1, 40.0),
        DRAM: 40.0 if l1 < 40 else 1.0,
        "l1tex__throughput.avg.pct_of_peak_sustained_active": l1,
        "l1tex__throughput.avg.pct_of_peak_sustained_elapsed": l1,
        "lts__throughput.avg.pct_of_peak_sustained_elapsed": 3.0,
        "dram__cycles_active.avg.pct_of_peak_sustained_elapsed": 40.0 if l1 < 40 else 1.0,
        f"{passes}.avg.pct_of_peak_sustained_elapsed": l1,
        f"{passes}_mem_shared.sum.pct_of_peak_sustained_elapsed": shared,
        "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct": 99.0,
        "memory_l2_theoretical_sectors_global": 1_000,
        "memory_l2_theoretical_sectors_global_ideal": ideal,
    }
    told = [
        each for each in found(trace_of(kernel(counters))) if each.category is Category.UNCOALESCED_ACCESS
    ]
    assert [round(each.share, 2) for each in told] == ([saving] if saving else [])


@pytest.mark.parametrize(
    ("l1", "requests", "shared", "saving"),
    [
        (90.0, 6.0, 0.5, 0.73),  # DRAM needs 27 % of the time for the data alone
        (90.0, 79.0, 0.5, 0.73),
        (90.0, 80.0, 0.5, 0.36),  # L1 is busy with taking requests in
        (90.0, 6.0, 60.0, 0.36),  # L1 is busy with shared memory
        (79.0, 6.0, 0.5, 0.36),  # L1 does not limit it
    ],
)
def test_what_l1_passes_on_counts_where_l1_is_the_limit_whatever_memory_behind_it_does(
    l1: float, requests: float, shared: float, saving: float
) -> None:
    counters: dict[str, MetricValue] = {
        COMPUTE: 6.0,
        MEMORY: 50.0,
        DRAM: 45.0,
        "dram__bytes.sum": 20_000.0,
        "l1tex__throughput.avg.pct_of_peak_sustained_active": l1,
        "l1tex__throughput.avg.pct_of_peak_sustained_elapsed": l1,
        "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed": requests,
        "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed": 28.0,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed": shared,
        "lts__throughput.avg.pct_of_peak_sustained_elapsed": 50.0,
        "memory_l2_theoretical_sectors_global": 2_900,
        "memory_l2_theoretical_sectors_global_ideal": 375,
    }
    told = [
        each for each in found(trace_of(kernel(counters))) if each.category is Category.UNCOALESCED_ACCESS
    ]
    assert [round(each.share, 2) for each in told] == [saving]


@pytest.mark.parametrize(
    ("threads", "title"),
    [
        (1, "blocks of 1 thread leave 31 of 32 lanes idle"),
        (31, ""),  # 3 % of the lanes
        (32, ""),
        (48, "the last warp of each block is partly empty"),
    ],
)
def test_the_launch_alone_tells_lanes_without_a_thread(threads: int, title: str) -> None:
    counters = tuple(each for each in SOUND if each not in (COMPUTE, MEMORY, DRAM, "gpu__time_duration.sum"))
    launched = kernel({"launch__block_size": threads, DRAM: 50.0}, without=counters, block=(threads, 1, 1))
    told = [each.title for each in found(trace_of(launched)) if each.category is Category.DIVERGENCE]
    assert [each.partition(": ")[2] for each in told] == ([title] if title else [])


@pytest.mark.parametrize(
    ("threads", "busy", "saving"), [(1, 50.0, 0.94), (4, 50.0, 0.75), (8, 50.0, 0.5), (16, 70.0, 0.3)]
)
def test_what_memory_moves_for_blocks_smaller_than_a_sector_is_mostly_not_needed(
    threads: int, busy: float, saving: float
) -> None:
    launched = kernel({"launch__block_size": threads, DRAM: busy}, block=(threads, 1, 1))
    told = [each.share for each in found(trace_of(launched)) if each.category is Category.DIVERGENCE]
    assert [round(each, 2) for each in told] == [saving]


@pytest.mark.parametrize(("duration_ns", "uneven"), [(9_900, False), (10_000, True)])
def test_uneven_work_of_a_kernel_below_ten_microseconds_is_not_worth_a_word(
    duration_ns: int, uneven: bool
) -> None:
    launch = kernel(cycles(800, 1000, 500), {**WAITING, "gpu__time_duration.sum": duration_ns})
    assert (Category.IMBALANCE in categories(launch)) is uneven
