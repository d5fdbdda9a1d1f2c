"""The tables of ranks and of collectives: who waits, who comes last, and what links reach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parsers.model import Device, EventKind, Lane, LaneKind, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.results import ResultColumn, ResultTable
from parsers.ranks.merge import merge
from rules.analysis.analysis import Analysis
from tests.rules.builder import TinyTrace, steps
from viewer.statistics.rank_map import Measure, Order
from viewer.statistics.ranks import rank_tables

from .conftest import MS, US


def run_of_ranks(arrivals: list[float]) -> Trace:
    """Three steps with one all-reduce each; a rank computes until its arrival, and all leave together."""

    def one(rank: int, arrives: float) -> Trace:
        def body(trace: TinyTrace, _: int) -> None:
            trace.operation(5, arrives, "gemm", 0)
            trace.collective(arrives, 1000, 2)

        into = TinyTrace(rank=rank)
        into.call(0, 1, "cudaEventQuery")
        return steps(3, 1100, body, into=into).build()

    return merge([one(rank, arrives) for rank, arrives in enumerate(arrivals)])


def test_ranks_without_collectives_have_a_row_each_and_no_waiting() -> None:
    builder = TraceBuilder()
    for number in range(2):
        device = builder.device(Device(number))
        lane = builder.lane(Lane(LaneKind.GPU_STREAM, f"s{number}", device=device, stream=7))
        start = np.arange(4) * MS
        builder.add(start, start + (number + 1) * 100 * US, builder.string("k"), lane, EventKind.KERNEL)
    trace = builder.build()
    tables = rank_tables(Analysis(trace))
    assert tables.ranks["name"].tolist() == ["GPU 0", "GPU 1"]
    assert tables.ranks["busy_share"].tolist() == pytest.approx([4 / 32, 8 / 32], rel=0.1)
    assert Measure.WAIT not in tables.map.measures
    assert tables.ranks[["last_share", "late_ns"]].isna().all(axis=None)


def test_ranks_stand_in_the_order_of_their_numbers() -> None:
    builder = TraceBuilder()
    for number in (10, 2, 1):
        device = builder.device(Device(0, rank=number))
        lane = builder.lane(Lane(LaneKind.GPU_STREAM, f"s{number}", number, device=device, stream=7))
        builder.add(np.arange(4) * MS, np.arange(4) * MS + US, builder.string("k"), lane, EventKind.KERNEL)
    trace = builder.build()
    assert rank_tables(Analysis(trace)).ranks["name"].tolist() == ["rank 1", "rank 2", "rank 10"]


def test_the_rank_that_comes_last_is_told_with_how_late_it_comes() -> None:
    trace = run_of_ranks([700, 700, 500, *[700] * 7, 900])
    tables = rank_tables(Analysis(trace))
    names = [f"rank {number}" for number in range(11)]
    assert tables.ranks["name"].tolist() == names
    order = tables.map.order(Order.RANK, Measure.WAIT)
    assert [tables.map.facts.run.name(row) for row in order.tolist()] == list(names)
    assert tables.ranks["last_share"].tolist() == [0.0] * 10 + [1.0]
    late = dict(zip(names, tables.ranks["late_ns"], strict=True))
    assert (late["rank 2"], late["rank 0"], late["rank 10"]) == (0, 200 * US, 400 * US)
    waiting = tables.map.values(Measure.WAIT)[order]
    assert waiting[2].tolist() == [400 * US] * 3
    assert waiting[10].tolist() == [0] * 3


def test_collectives_stand_beside_what_a_benchmark_reached_at_their_size() -> None:
    trace = run_of_ranks([700, 700])
    columns = ResultColumn("size", "B"), ResultColumn("busbw out of place", "GB/s")
    measured = ResultTable("nccl-tests all reduce, 220 GB/s on average", columns, ((32e6, 220.0),))
    for tables, reached in (((), 0.0), ((measured,), 220e9)):
        with_them = replace(trace, tables=tables)
        assert rank_tables(Analysis(with_them)).collectives["measured_bus_bytes_per_s"].tolist() == [reached]
