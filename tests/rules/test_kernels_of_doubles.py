"""A program whose GPU computes all the time, most of it in one kernel of 64-bit numbers that few units can add."""

from __future__ import annotations

import pytest

from rules.findings.base import Category, Finding
from tests.rules.builder import TinyTrace, found

DOUBLES = "divergence(int, double *, double *, double)"
# The cases lie on either side of this.
MAJORITY = 0.5  # of the time in kernels


def busy(name: str, capability: tuple[int, int] | None, part: float = 1.0, gpu: str = "Test GPU") -> Finding:
    """Kernels one behind the other, all launched early; ``name`` takes ``part`` of the time."""
    trace = TinyTrace(capability=capability, gpu=gpu)
    at = 100.0
    for number in range(40):
        for each, took in ((name, 1_000 * part), ("other(float *)", 1_000 * (1 - part))):
            if took > 0:
                trace.operation(at, at + took, each, 10.0 + number * 2.0, launch_us=0.5)
                at += took
    return found(trace.build(), Category.GPU_BOUND)


@pytest.mark.parametrize(
    ("name", "capability", "part", "gpu", "told"),
    [
        (DOUBLES, (8, 6), 1.0, "Test GPU", True),
        (DOUBLES, (8, 9), MAJORITY + 0.01, "Test GPU", True),
        (DOUBLES, (8, 6), MAJORITY - 0.01, "Test GPU", False),
        (DOUBLES, (8, 0), 1.0, "Test GPU", False),
        (DOUBLES, (3, 5), 1.0, "Test GPU", False),
        (DOUBLES, None, 1.0, "Test GPU", False),
        (DOUBLES, (9, 4), 1.0, "AMD Instinct MI300X", False),
        ("divergence(int, float *)", (8, 6), 1.0, "Test GPU", False),
        ("double_the_points(int, float *)", (8, 6), 1.0, "Test GPU", False),
    ],
)
def test_doubles_are_named_where_a_gpu_has_few_units_for_them(
    name: str, capability: tuple[int, int] | None, part: float, gpu: str, told: bool
) -> None:
    finding = busy(name, capability, part, gpu)
    assert ("takes numbers of type double" in finding.explanation) is told
    assert any("Compute with float" in each for each in finding.advice) is told
