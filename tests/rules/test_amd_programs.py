"""Findings about AMD GPUs speak of HIP and ROCm's tools; those about NVIDIA's stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from parsers.model import Trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.gpu_vendor import is_amd
from rules.findings.base import Category, Finding, Severity
from rules.remedies.remedy import Remedy
from rules.wording.words import Headline, Reader, Vendor, ours
from tests.opened import analysed, diagnosed
from tests.rules.builder import TinyTrace
from tests.rules.kernel_profiles import SOUND, kernel, trace_of
from viewer.reports.text_report import as_text
from viewer.timeline.geometry.tracks import groups

ROCM = Path(__file__).resolve().parent.parent / "fixtures" / "rocm"

AMD, NVIDIA = "AMD Instinct MI300X", "NVIDIA H200"
OF_NVIDIA = (
    "cudaS",
    "cudaM",
    "cudaG",
    "CUDA graph",
    "nsys",
    "Nsight",
    "nvtx",
    "NVTX",
    "nvidia-smi",
    "cuBLAS",
)


def synchronises(trace: TinyTrace, at: float) -> None:
    trace.operation(at + 6, at + 900, "stencil", at, call="hipLaunchKernel")
    trace.call(at + 10, at + 1100, "hipDeviceSynchronize")
    trace.operation(at + 1110, at + 1995, "stencil", at + 1102, call="hipLaunchKernel")


def waits(trace: TinyTrace, at: float) -> None:
    trace.operation(at + 6, at + 300, "stencil", at, call="hipLaunchKernel")
    trace.operation(at + 300, at + 600, "update", at + 10, call="hipLaunchKernel")


def launches(trace: TinyTrace, at: float) -> None:
    trace.kernels(at, 66, 2, 30, call="hipLaunchKernel")


def program(body: Callable[[TinyTrace, float], None], gpu: str, python: bool = False) -> Trace:
    trace = TinyTrace(gpu=gpu)
    for number in range(6):
        body(trace, 2000.0 * number)
    if python:
        trace.op(0, 1, "aten::mm")
    return trace.build()


def words(finding: Finding) -> str:
    return "\n".join([finding.title, finding.explanation, *finding.advice, finding.code, finding.cannot_tell])


@pytest.mark.parametrize("body", [synchronises, waits, launches])
@pytest.mark.parametrize("python", [False, True])
def test_findings_about_an_amd_gpu_name_nothing_of_nvidia(
    body: Callable[[TinyTrace, float], None], python: bool
) -> None:
    findings = diagnose(program(body, AMD, python)).findings
    assert findings
    for finding in findings:
        assert not [each for each in OF_NVIDIA if each in words(finding)]


@pytest.mark.parametrize(
    ("body", "category", "amd", "nvidia"),
    [
        (synchronises, Category.SYNCHRONIZATION, "hipStreamWaitEvent", "cudaStreamWaitEvent"),
        (waits, Category.HOST_BOUND, "roctxRangePushA", "nvtxRangePushA"),
        (waits, Category.HOST_BOUND, "rocprof-sys-sample", "nsys profile"),
        (launches, Category.LAUNCH_BOUND, "hipGraphLaunch", "cudaGraphLaunch"),
    ],
)
def test_each_gpu_gets_the_names_of_its_own_calls(
    body: Callable[[TinyTrace, float], None], category: Category, amd: str, nvidia: str
) -> None:
    for gpu, says, says_not in ((AMD, amd, nvidia), (NVIDIA, nvidia, amd)):
        finding = next(each for each in diagnose(program(body, gpu)).findings if each.category is category)
        assert says in words(finding)
        assert says_not not in words(finding)


def test_the_names_that_pytorch_keeps_on_rocm_are_kept() -> None:
    told = Finding(
        "rule",
        Category.HOST_BOUND,
        Severity.HIGH,
        Headline(ours("No $tensor cores")),
        "at::native::CUDAKernel and cudaNothing are names",
        Remedy(
            (ours("Call torch.cuda.synchronize() less, $cudaDeviceSynchronize() too."),),
            'torch.cuda.cudart().cudaProfilerStart()\nmodel.to("cuda")',
        ),
        1,
        2,
        reader=Reader(vendor=Vendor.AMD),
    )
    assert told.title == "No matrix cores"
    assert told.explanation == "at::native::CUDAKernel and cudaNothing are names"
    assert told.advice == ("Call torch.cuda.synchronize() less, hipDeviceSynchronize() too.",)
    assert told.code == 'torch.cuda.cudart().cudaProfilerStart()\nmodel.to("cuda")'


def test_a_region_is_shown_as_it_is_called_whoever_made_the_gpu() -> None:
    name = "NVTX export to cudaPool"

    def exports(trace: TinyTrace, at: float) -> None:
        trace.operation(at + 6, at + 300, "stencil", at, call="hipLaunchKernel")
        trace.operation(at + 300, at + 600, "update", at + 10, call="hipLaunchKernel")
        trace.region(at + 601, at + 1990, name)

    (finding, *_) = diagnose(program(exports, AMD)).findings
    assert finding.category is Category.HOST_BOUND
    assert finding.culprit.text == name
    assert f"While {name} runs" in finding.explanation
    assert any(name in advice for advice in finding.advice)
    assert "rocTX" in words(finding)
    assert "hipPool" not in words(finding)


def test_the_vendor_follows_from_the_gpu_and_else_from_the_calls() -> None:
    assert is_amd(program(waits, AMD))
    assert is_amd(program(waits, "gfx90a"))
    assert is_amd(program(waits, ""))
    assert not is_amd(program(waits, NVIDIA))
    joint = TinyTrace(gpu="")
    joint.region(0, 10, "hip_joint")
    assert not is_amd(joint.build())


def test_the_lane_of_calls_is_called_after_the_interface() -> None:
    for gpu, title in ((AMD, "HIP API"), (NVIDIA, "CUDA API")):
        (group,) = groups(program(waits, gpu))
        assert title in [track.title for track in group.tracks]


def test_a_check_that_needs_nvidias_counters_says_so() -> None:
    assert any("NVIDIA" in reason for reason in diagnose(program(waits, AMD)).skipped.values())
    assert not any("NVIDIA" in reason for reason in diagnose(program(waits, NVIDIA)).skipped.values())


def test_kernels_with_amds_counters_are_told_of_no_section_of_nsight_compute() -> None:
    path = ROCM / "rocprofiler_compute_pmc_perf.csv"
    report = as_text(analysed(path).trace, diagnosed(path), analysed(path))
    assert "only Nsight Compute's are judged" in report
    assert "--section" not in report
    assert "--section" in report_of_counters_without_throughput()


def report_of_counters_without_throughput() -> str:
    trace = trace_of(kernel(without=tuple(SOUND)))
    return as_text(trace, diagnose(trace), Analysis(trace))


@pytest.mark.parametrize(
    ("files", "told"), [(("hip_api_trace.csv",), True), (("hip_api_trace.csv", "kernel_trace.csv"), False)]
)
def test_a_table_of_calls_alone_asks_for_the_table_of_kernels(files: tuple[str, ...], told: bool) -> None:
    paths = [ROCM / each for each in files]
    report = as_text(analysed(*paths).trace, diagnosed(*paths), analysed(*paths))
    assert ("this recording holds API calls alone" in report) is told
