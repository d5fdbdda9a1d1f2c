"""One program, recorded by PyTorch's profiler and by Nsight Systems, gets one answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parsers.model import EventKind
from rules.analysis.analysis import Analysis
from rules.findings.base import Category, Severity
from rules.fixes.plan import plan_of
from tests.examples import one_of
from tests.opened import analysed, diagnosed

PROGRAMS = {
    "alloc_empty": Category.LAYOUT_CONVERSION,
    "d2h_all": Category.COPY_D2H,
    "loader_slow": Category.INPUT_BOUND,
    "pageable": Category.COPY_H2D,
    "python_gap": Category.HOST_BOUND,
    "sync_params": Category.SYNCHRONIZATION,
}
RECORDED_TWICE = {
    "allocator_thrash": Category.ALLOCATOR,
    "dataloader_starved": Category.INPUT_BOUND,
    "decode_graph": None,
    "fp32_gemm": Category.NO_TENSOR_CORES,
    "healthy_loader": None,
    "launch_bound": Category.LAUNCH_BOUND,
    "resnet50_single": Category.LAUNCH_BOUND,
    "sync_item": Category.LAUNCH_BOUND,
    "ddp_straggler_gpu": Category.STRAGGLER,
}
AS_MUCH = 1.3  # times the gain that the other recording promises
# Pairs that cannot agree, and what differs between their recordings.
DIFFER = {
    "resnet50_single": "the CPU was 1.6 times slower under Nsight Systems, in the launch calls themselves, too",
    "decode": "the CPU was 1.5 times slower under Nsight Systems",
    "recommender": "the CPU was 1.5 times slower under Nsight Systems, and only operators show what can move",
    "collocation": "in two of PyTorch's three steps the CPU paused for half a millisecond",
    "graph": "without operators the two phases of the CPU, which have a fix each, are one",
}
ASIDE = (Category.GPU_BOUND, Category.RECORDING_OVERHEAD)
FORMATS = ("pt.trace.json.gz", "sqlite.gz")


@pytest.fixture(params=one_of(2, sorted(PROGRAMS)))
def pair(request: pytest.FixtureRequest, fixtures: Path) -> tuple[str, list[Path]]:
    return request.param, [fixtures / "pairs" / f"{request.param}.{each}" for each in FORMATS]


def test_what_comes_first_does_not_depend_on_the_recorder(pair: tuple[str, list[Path]]) -> None:
    program, paths = pair
    for path in paths:
        diagnosis = diagnosed(path)
        assert diagnosis.findings[0].category is PROGRAMS[program]
        assert diagnosis.findings[0].severity in (Severity.HIGH, Severity.MEDIUM)
        assert not diagnosis.crashed


@pytest.mark.thorough
@pytest.mark.parametrize("program", RECORDED_TWICE)
def test_what_is_called_the_bottleneck_does_not_depend_on_the_recorder(
    program: str, shared_data: Path
) -> None:
    ranks = sorted((shared_data / "ddp").glob(f"{program.removeprefix('ddp_')}.rank*.gz"))
    recorded = [ranks or [shared_data / "torch" / f"{program}.pt.trace.json.gz"]]
    for paths in (*recorded, [shared_data / "nsys" / f"{program}.sqlite"]):
        found = diagnosed(*paths).findings
        loud = [each.category for each in found if each.severity in (Severity.HIGH, Severity.MEDIUM)]
        assert next((each for each in loud if each not in ASIDE), None) is RECORDED_TWICE[program]


def test_an_allocating_program_is_told_so_by_both(fixtures: Path) -> None:
    for each in FORMATS:
        found = diagnosed(fixtures / "pairs" / f"alloc_empty.{each}").findings
        (allocation,) = (finding for finding in found if finding.category is Category.ALLOCATOR)
        assert allocation.severity is Severity.MEDIUM
        assert "empty_cache" in " ".join(allocation.advice)


def test_both_recorders_saw_the_same_kernels_in_a_step(pair: tuple[str, list[Path]]) -> None:
    first, second = (_kernels_of_a_step(analysed(path)) for path in pair[1])
    assert first == pytest.approx(
        second, abs=1
    )  # a step of one recorder begins a call earlier than one of the other


def _kernels_of_a_step(analysis: Analysis) -> float:
    """Kernels that were launched inside a steady step, the median over the steps."""
    trace, steps = analysis.trace, analysis.steps
    kernels = trace.events.kind[trace.links.operation] == EventKind.KERNEL
    launched = trace.events.start[trace.links.launch[kernels]]
    return float(np.median([np.sum((launched >= step.start) & (launched < step.end)) for step in steps]))


def recorded_by_both(torch: Path, nsys: Path, ending: str) -> dict[str, list[Path]]:
    """The recordings of each program that PyTorch's profiler and Nsight Systems recorded under one name."""
    found = {}
    for export in sorted(nsys.glob(f"*{ending}")):
        name = export.name.removesuffix(ending)
        recorded = torch / f"{name}.pt.trace.json.gz"
        if recorded.exists():
            found[name] = [recorded, export]
    return found


FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
SMALL = {
    name: paths
    for folder in ("pairs", "programs")
    for name, paths in recorded_by_both(FIXTURES / folder, FIXTURES / folder, ".sqlite.gz").items()
}
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
FULL_SIZE: dict[str, list[Path]] = {
    **recorded_by_both(SHARED / "real", SHARED / "real", ".sqlite"),
    **recorded_by_both(SHARED / "torch", SHARED / "nsys", ".sqlite"),
}


def promises_alike(paths: list[Path]) -> bool:
    """Whether two recordings get the same first cause, and gains within ``AS_MUCH`` of each other."""
    first, second = (next(iter(plan_of(analysed(path)).promises), None) for path in paths)
    if first is None or second is None:
        return first is second
    same = set(first.proposal.categories) & set(second.proposal.categories)
    ratio = first.expected / second.expected
    return bool(same and 1 / AS_MUCH <= ratio <= AS_MUCH)


@pytest.mark.parametrize(
    "program",
    [pytest.param(each, marks=pytest.mark.thorough if n % 6 else ()) for n, each in enumerate(SMALL)],
)
def test_the_same_cause_comes_first_and_promises_as_much(program: str) -> None:
    assert promises_alike(SMALL[program]) is (program not in DIFFER)


@pytest.mark.thorough
@pytest.mark.parametrize("program", FULL_SIZE)
def test_the_same_cause_comes_first_and_promises_as_much_at_full_size(program: str) -> None:
    assert promises_alike(FULL_SIZE[program]) is (program not in DIFFER)


def test_most_programs_that_both_recorded_agree() -> None:
    assert len(SMALL) >= 25
    assert len(DIFFER) <= 5
