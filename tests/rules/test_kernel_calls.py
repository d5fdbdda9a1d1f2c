"""Two kernels of one timeline side by side: their calls, their launches, and the roof above each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from parsers.model import EventKind, Trace
from rules.comparison.kernel_calls import CallsComparison, compare_calls
from rules.kernels.operator_roofs import estimated_roofline
from rules.kernels.roofline import nearest_roof
from tests.opened import opened
from tests.rules.test_kernel_join import timeline


def calls_of(trace: Trace, name: str) -> npt.NDArray[np.int64]:
    kernels = trace.events.of_kind(EventKind.KERNEL)
    return kernels[[trace.name(event) == name for event in kernels.tolist()]]


def texts(compared: CallsComparison) -> dict[str, tuple[str, str]]:
    return {row.label: (row.before_text, row.after_text) for row in compared.rows}


def test_calls_times_and_shares_are_those_of_the_timeline() -> None:
    trace = timeline(
        (), [("quick", "8,1,1", 10), ("slow", "8,1,1", 40), ("slow", "8,1,1", 50), ("other", "1,1,1", 100)]
    )
    compared = compare_calls(trace, calls_of(trace, "quick"), calls_of(trace, "slow"), 200)
    rows = texts(compared)
    assert rows["Calls"] == ("1", "2")
    assert rows["Total"] == ("10 ns", "90 ns")
    assert rows["Mean"] == rows["p50"] == ("10 ns", "45 ns")
    assert rows["Share of GPU time"] == ("5.00 %", "45.0 %")
    assert "Of the roof above" not in rows
    assert compared.limits == ("", "")
    assert compared.why == "A call of the first is 4.50 times faster (10 ns and 45 ns)."
    same = compare_calls(trace, calls_of(trace, "slow"), calls_of(trace, "slow"), 200)
    assert same.why.startswith("Calls of both take about as long")


def test_what_a_profiler_measured_of_both_stands_below(fixtures: Path) -> None:
    profiles = opened(fixtures / "ncu" / "library.raw.csv.gz").kernels
    product = profiles[0]
    other = next(
        each
        for each in profiles
        if (near := nearest_roof(each)) is not None and near.roof == "DRAM" and each.name != product.name
    )
    trace = timeline(profiles, [(each.name, ",".join(map(str, each.grid)), 50) for each in (product, other)])
    compared = compare_calls(trace, calls_of(trace, product.name), calls_of(trace, other.name), 100)
    rows = texts(compared)
    assert rows["Mean"] == ("50 ns", "50 ns")
    assert rows["Time under the profiler"][0] == "175 us"
    assert "DRAM throughput" in rows
    assert compared.limits[0].endswith("of the BF16 tensor roof")
    assert compared.limits[1].endswith("of the DRAM roof")
    assert "They have different limits: BF16 tensor above the first, DRAM above the second." in compared.why


def test_without_a_profiler_the_roof_is_estimated_from_shapes(fixtures: Path) -> None:
    trace = opened(fixtures / "torch" / "memory_stack.pt.trace.json.gz")
    kernels = trace.events.of_kind(EventKind.KERNEL)
    names = {trace.name(event) for event in kernels.tolist()}
    known = [name for name in names if estimated_roofline(trace, name).points]
    unknown = min(names - set(known))
    name = max(known, key=lambda each: trace.events.duration[calls_of(trace, each)].sum())
    compared = compare_calls(trace, calls_of(trace, name), calls_of(trace, unknown), 1e9)
    assert compared.limits[0].endswith(" roof, estimated from shapes")
    assert compared.limits[1] == ""
    row = next(row for row in compared.rows if row.label == "Of the roof above")
    assert row.after is None
    assert row.before == pytest.approx(float(compared.limits[0].partition(" ")[0]), abs=0.5)
    launch = texts(compared)
    assert int(launch["Threads in a block"][0]) % 32 == 0
    assert 0 < int(launch["Registers per thread"][0]) <= 255
