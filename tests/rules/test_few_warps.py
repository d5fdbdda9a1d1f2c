"""A kernel whose launch gives the SMs work but few warps is told before what else is lost."""

from __future__ import annotations

import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import verdict
from tests.rules.builder import TinyTrace


@pytest.mark.parametrize(("gpu", "few"), [("Test GPU", True), ("AMD Instinct MI300X", False)])
def test_it_comes_first_with_what_it_could_save_at_most(gpu: str, few: bool) -> None:
    trace = TinyTrace(gpu=gpu)
    trace.copy(10, 4_010, "HtoD", 0, pageable=True)
    trace.operation(4_020, 54_020, "trace_lines(float*, int)", 4_015, grid=132, block=128)
    built = trace.build()
    told = diagnose(built)
    first = told.findings[0]
    assert (first.rule == "few-warps") is few
    if few:
        assert round(first.share, 2) == 0.87  # of 93 % of the time
        assert verdict(Analysis(built), told).startswith(
            "trace_lines: too few warps: 93 % of the recorded time"
        )
