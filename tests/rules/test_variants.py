"""Other models, sizes and names than the labelled recordings': short real recordings, each with one planted problem."""

from __future__ import annotations

from pathlib import Path

import pytest

from rules.findings.base import Category, Severity
from tests.examples import one_of
from tests.opened import diagnosed

ASIDE = (Category.GPU_BOUND, Category.RECORDING_OVERHEAD)
LOUD = (Severity.HIGH, Severity.MEDIUM)

# file stem -> the category that comes first (None: nothing above low), and a text that this finding contains
PLANTED = {
    "input_dl_workers": ("input-bound", "_MultiProcessingDataLoaderIter"),
    "host_nostep": ("host-bound", "Python outside any region"),
    "infer_conv_b1": ("launch-bound", "predict"),
    "pageable_small_model": ("copy-h2d", "to_gpu"),
    "d2h_collect": ("copy-d2h", "collect_outputs"),
    "alloc_conv": ("allocator", "cudaFree"),
    "fp32_mlp": ("no-tensor-cores", "TF32"),
    "naive_attn_infer": ("memory-bound-kernels", "scaled_dot_product_attention"),
    "warmup_compile": ("warm-up", "iteration_0"),
    "warmup_cudnn": ("warm-up", "iteration 1"),
    "sync_nonzero_gpu": ("memory-bound-kernels", "elementwise"),
    "sync_device_gpu": (None, ""),
}


def recording(fixtures: Path, stem: str) -> list[Path]:
    return sorted((fixtures / "variants").glob(f"{stem}.*"))


@pytest.mark.parametrize(("stem", "expected"), one_of(3, reversed(PLANTED.items())))  # from the sound one on
def test_the_planted_problem_comes_first(fixtures: Path, stem: str, expected: tuple[str | None, str]) -> None:
    diagnosis = diagnosed(*recording(fixtures, stem))
    assert diagnosis.crashed == {}
    loud = [each for each in diagnosis.findings if each.severity in LOUD and each.category not in ASIDE]
    category, text = expected
    if category is None:
        assert loud == []
        return
    assert loud[0].category == category
    said = f"{loud[0].title} {loud[0].explanation} {loud[0].culprit.text} {loud[0].advice} {loud[0].code}"
    assert text in said


def test_synchronisations_that_cost_little_are_a_minor_finding(fixtures: Path) -> None:
    for stem, culprit in (
        ("sync_nonzero_gpu", "aten::nonzero"),
        ("sync_device_gpu", "cudaDeviceSynchronize"),
    ):
        findings = diagnosed(*recording(fixtures, stem)).findings
        found = next(each for each in findings if each.category is Category.SYNCHRONIZATION)
        assert found.severity is Severity.LOW
        assert culprit in found.culprit.text


def test_allocation_in_steps_is_told_before_the_launch_overhead(fixtures: Path) -> None:
    findings = diagnosed(*recording(fixtures, "alloc_conv")).findings
    found = next(each for each in findings if each.category is Category.ALLOCATOR)
    assert found.severity is Severity.HIGH
    assert "cudaFree" in found.explanation


@pytest.mark.parametrize(
    ("stem", "rank", "reason"),
    [("straggler_python0", 0, "own Python code"), ("straggler_input", 1, "load_batch")],
)
def test_a_rank_that_is_late_on_the_cpu_is_named_before_its_cause(
    fixtures: Path, stem: str, rank: int, reason: str
) -> None:
    findings = diagnosed(*recording(fixtures, stem)).findings
    of_rank = [each for each in findings if each.rank == rank]
    assert of_rank[0].category is Category.STRAGGLER
    assert reason in of_rank[0].explanation
