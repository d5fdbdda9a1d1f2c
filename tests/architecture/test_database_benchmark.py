"""The exports that the benchmark makes are real ones, and its floor reads every row of them."""

from __future__ import annotations

from pathlib import Path

from parsers import open_trace
from parsers.model import EventKind
from tests.benchmarks.database_loading import scan
from tests.benchmarks.generate_nsys import write_export


def test_a_generated_export_opens_with_steps_operators_and_launches(tmp_path: Path) -> None:
    path = write_export(tmp_path / "made.sqlite", 20_000)
    trace = open_trace([path])
    assert len(trace.events) == scan(path)
    kernels = trace.events.of_kind(EventKind.KERNEL)
    assert (trace.links.launch_of(kernels) >= 0).all()
    assert len(trace.events.of_kind(EventKind.STEP)) >= 2
    assert len(trace.events.of_kind(EventKind.CPU_OP)) > 100
    assert trace.quality.quarantined == 0
