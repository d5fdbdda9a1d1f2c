"""What is said of kernels that nvprof counted: their faults, and what the metrics do not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from rules.analysis.analysis import Analysis
from rules.diagnosis import diagnose, diagnosis_of
from rules.findings.base import Finding
from rules.verdict.verdict import verdict

# The cases lie on either side of these.
MIN_EFFICIENCY = 0.5
MIN_OCCUPANCY = 0.25
MIN_BUSY = 0.75

HEADER = """==7== Profiling result:
==7== Metric result:
Invocations            Metric Name           Metric Description         Min         Max         Avg
Device "Tesla V100 (0)"
"""
GOOD = {"gld_efficiency": "100.00%", "sm_efficiency": "97.00%", "achieved_occupancy": "0.700000"}


def told(folder: Path, **kernels: dict[str, str]) -> tuple[str, Finding]:
    """The verdict and the finding of kernels with the averages of their metrics."""
    text = HEADER
    for name, metrics in kernels.items():
        text += f"    Kernel: {name}(float*, int)\n"
        for metric, value in metrics.items():
            text += f"          1   {metric}    What it is    {value}    {value}    {value}\n"
    (folder / "metrics.txt").write_text(text)
    analysis = Analysis(open_trace([folder / "metrics.txt"]))
    diagnosis = diagnosis_of(analysis)
    return verdict(analysis, diagnosis), next(
        each for each in diagnosis.findings if each.rule == "printed-metrics"
    )


@pytest.mark.parametrize(
    ("metric", "fine", "faulty", "said"),
    [
        ("gld_efficiency", "50.00%", "49.99%", "Scattered loads"),
        ("gst_efficiency", "50.00%", "49.99%", "Scattered stores"),
        ("warp_execution_efficiency", "50.00%", "49.99%", "Idle lanes of warps"),
        ("shared_efficiency", "50.00%", "49.99%", "Bank conflicts in shared memory"),
        ("sm_efficiency", "50.00%", "49.99%", "SMs without work"),
        ("achieved_occupancy", "0.250000", "0.249999", "Few warps on each SM"),
    ],
)
def test_a_metric_below_its_limit_is_a_fault(
    metric: str, fine: str, faulty: str, said: str, tmp_path: Path
) -> None:
    title, finding = told(tmp_path, good=GOOD, bad=GOOD | {metric: faulty})
    assert title == f"{said} in 1 of 2 kernels"
    assert str(finding.account).startswith(f"{metric}: bad ")
    assert "no times" in str(finding.account)
    assert told(tmp_path, good=GOOD, bad=GOOD | {metric: fine})[0] == "Metrics of 2 kernels show no fault"


def test_a_kernel_that_does_nothing_of_the_kind_has_no_fault(tmp_path: Path) -> None:
    """Zero is printed of stores that a kernel does not make."""
    title, _ = told(tmp_path, only=GOOD | {"gst_efficiency": "0.00%", "shared_efficiency": "0.00%"})
    assert title == "Metrics of 1 kernel show no fault"


@pytest.mark.parametrize(("level", "busy"), [("High (7)", False), ("High (8)", True)])
def test_without_a_fault_the_memory_limits(level: str, busy: bool, tmp_path: Path) -> None:
    title, finding = told(tmp_path, only=GOOD | {"dram_utilization": level})
    assert title == ("Limited by the GPU's memory: only" if busy else "Metrics of 1 kernel show no fault")
    assert ("dram_utilization is high in only." in str(finding.account)) is busy


def test_the_fault_of_most_kernels_is_told_first_and_the_worst_are_named(tmp_path: Path) -> None:
    scattered = {f"k{n}": {"gld_efficiency": f"{10 + n}.00%", "sm_efficiency": "90.00%"} for n in range(4)}
    title, finding = told(tmp_path, idle={"sm_efficiency": "5.00%"}, **scattered)
    assert title == "Scattered loads in 4 of 5 kernels"
    assert str(finding.account).startswith(
        "gld_efficiency: k0 10 %, k1 11 %, k2 12 % and 1 more. sm_efficiency: idle"
    )


def test_what_was_counted_is_not_to_be_counted_again(tmp_path: Path) -> None:
    counted = GOOD | {"gst_efficiency": "100.00%", "warp_execution_efficiency": "100.00%"}
    _, finding = told(tmp_path, only=counted)
    assert str(finding.remedy.advice[0]).endswith("--metrics dram_utilization")
    _, finding = told(tmp_path, only=counted | {"dram_utilization": "Low (1)"})
    assert not any("--metrics" in str(each) for each in finding.remedy.advice)


def test_metrics_that_say_nothing_are_told_as_such(tmp_path: Path) -> None:
    title, finding = told(tmp_path, only={"dram_read_throughput": "1.1655GB/s"})
    assert title == "The metrics of 1 kernel do not say what limits it"
    assert "--metrics gld_efficiency" in str(finding.remedy.advice[0])


def test_other_recordings_have_no_such_metrics(fixtures: Path) -> None:
    assert "printed-metrics" in diagnose(open_trace([fixtures / "smi" / "dmon.txt"])).skipped
