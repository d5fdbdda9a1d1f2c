"""Operators that are slow by themselves are named, promised a wide band, and never called unfused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parsers.model import Trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.catalog.cpu_slow_operators import orders_differ
from rules.findings.base import Category
from rules.fixes.plan import make_plan
from rules.kernels.slow_operators import slow_operators
from tests.opened import opened
from tests.rules.builder import TinyTrace, steps
from viewer.statistics.operator_roofs import roof_table


def test_enlarged_images_are_named_with_shape_and_share_and_are_not_called_unfused(shared_data: Path) -> None:
    trace = opened(shared_data / "real" / "segmentation.pt.trace.json.gz")
    findings = {each.category: each for each in diagnose(trace).findings}
    slow = findings[Category.SLOW_OPERATOR]
    assert slow.culprit.text == "aten::upsample_bilinear2d_backward (16x256x48x48)"
    assert "0.1 % of the memory's peak" in slow.explanation
    assert "channels_last" in slow.advice[0]
    unfused = findings[Category.MEMORY_BOUND_KERNELS]
    assert not any("upsample" in each.name for each in unfused.evidence)
    assert "upsample" not in unfused.explanation


def test_a_faster_kernel_is_promised_possibly_nothing_and_at_most_half_of_the_roof(shared_data: Path) -> None:
    analysis = Analysis(opened(shared_data / "real" / "segmentation.pt.trace.json.gz"))
    promise = next(each for each in make_plan(analysis).promises if each.proposal.fix == "use-faster-kernels")
    assert promise.proposal.key == "aten::upsample_bilinear2d_backward"
    enlarged = sum(
        row.ns for row in slow_operators(analysis, 0).rows if row.name == "aten::upsample_bilinear2d_backward"
    )
    assert promise.low == 1.0 < promise.expected < promise.high
    assert promise.high <= analysis.window_ns / (analysis.window_ns - enlarged) * 1.06


def test_a_table_says_what_each_operator_and_shape_reaches_and_why_some_seem_to_reach_more(
    fixtures: Path,
) -> None:
    trace = opened(fixtures / "programs" / "gallery.pt.trace.json.gz")
    table = roof_table(trace, 0, int(trace.events.end.max()))
    assert (table["total_ns"].diff().dropna() <= 0).all()
    assert table["gpu_time_share"].sum() <= 1.001
    known = table["roof_share"].dropna()
    assert known.between(0, 1).all()
    cached = table[table["roof"] == "memory, and a cache"]
    assert len(cached)
    assert (cached["roof_share"] == 1).all()
    assert np.isnan(table["roof_share"][table["roof"] == ""]).all()
    norm = table[table["name"] == "aten::native_batch_norm_backward"].iloc[0]
    assert (norm["input_shapes"], norm["input_type"], norm["roof"]) == (
        "64x32x64x64 · 64x32x64x64",
        "bfloat16",
        "memory",
    )
    assert 0.02 < norm["roof_share"] < 0.05


ROWS, PLANES = [1_048_576, 4_096, 64, 1], [1_048_576, 1, 16_384, 256]


@pytest.mark.parametrize(("rows", "found"), [(32, True), (31, False)])
def test_the_orders_of_small_tensors_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, rows: int, found: bool
) -> None:
    trace = TinyTrace()
    trace.shapes(trace.op(0, 1, "aten::add"), [[rows, 32]] * 2, ["float", "float"])
    monkeypatch.setattr(Trace, "arguments", lambda *_: {"Input Strides": [[32, 1], [1, rows]]})
    assert orders_differ(trace.build(), 0) is found


@pytest.mark.parametrize(("strides", "found"), [([ROWS, PLANES], True), ([ROWS, ROWS], False)])
def test_on_the_cpu_alone_the_orders_of_tensors_are_told_by_their_strides(
    monkeypatch: pytest.MonkeyPatch, strides: list[list[int]], found: bool
) -> None:
    monkeypatch.setattr(Trace, "arguments", lambda *_: {"Input Strides": strides})

    def body(trace: TinyTrace, _: int) -> None:
        shapes = [[4, 256, 64, 64]] * 2
        trace.shapes(trace.op(0, 37_000, "aten::add"), [*shapes, []], ["float", "float", "Scalar"])
        trace.op(37_000, 44_000, "aten::mm")

    told = [each.title for each in diagnose(steps(5, 44_100, body).build()).findings]
    assert any("aten::add reads tensors in different memory orders" in each for each in told) is found
