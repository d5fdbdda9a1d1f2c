"""Eight small recordings of different profilers, each read and analysed once for all tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Progress
from rules.analysis.analysis import Analysis

EIGHT = {
    "torch with stacks and memory": ("torch/memory_stack.pt.trace.json.gz",),
    "torch with many copies": ("torch/d2h_outputs.pt.trace.json.gz",),
    "torch on four ranks": tuple(f"ddp/no_overlap.rank{rank}.pt.trace.json.gz" for rank in range(4)),
    "Nsight Systems of a loader": ("nsys/healthy_loader.sqlite.gz",),
    "Nsight Systems of graphs": ("nsys/decode_graph.sqlite.gz",),
    "Nsight Systems on four ranks": ("nsys/ddp_straggler_gpu.sqlite.gz",),
    "rocprofv3": ("rocm/rocprofv3.json",),
    "XProf": ("xprof/loader.xplane.pb.gz",),
}


@pytest.fixture(scope="session")
def recordings() -> Mapping[str, Analysis]:
    """The eight, by what they are."""
    folder = Path(__file__).resolve().parent.parent / "fixtures"
    return {
        name: Analysis(open_trace([folder / file for file in files], Progress()))
        for name, files in EIGHT.items()
    }


@pytest.fixture(scope="session")
def memory_stack(recordings: Mapping[str, Analysis]) -> Analysis:
    """A training run of which operators, modules, shapes, copies and memory were recorded."""
    return recordings["torch with stacks and memory"]
