"""The verdict is the first sentence a user reads: it accuses what a rule found, and never calls idle time fine."""

from __future__ import annotations

from dataclasses import replace

import pytest

import resources
from parsers import open_trace
from parsers.model import Device
from parsers.model.quality import Effect
from rules import Diagnosis, diagnose
from rules.analysis.analysis import Analysis
from rules.diagnosis import diagnosis_of
from rules.findings.base import Category, Evidence, Finding, severity_of
from rules.ranking import ranked
from rules.remedies.remedy import Remedy
from rules.verdict.verdict import beside_the_verdict, first_problem, verdict
from rules.wording.words import Headline
from tests.rules.builder import TinyTrace, steps
from tests.rules.kernel_profiles import COMPUTE, MEMORY, kernel, trace_of
from viewer.appearance.naming import place_name
from viewer.reports.diagnosis_report import as_html
from viewer.reports.json_report import as_json
from viewer.reports.text_report import as_text

from .conftest import training_run


@pytest.mark.parametrize(
    ("sample", "sentence"),
    [("cpu_python", "The GPU idles 88 % of the time: waiting for Python"), ("healthy", "Nothing stands out")],
)
def test_without_a_finding_idle_time_is_still_said(sample: str, sentence: str) -> None:
    trace = open_trace([resources.path(f"samples/{sample}.pt.trace.json.gz")])
    assert verdict(Analysis(trace), Diagnosis()).startswith(sentence)


@pytest.mark.parametrize(("computes", "sentence"), [(False, "Only communication was recorded"), (True, "")])
def test_a_recording_of_communication_alone_is_called_that(computes: bool, sentence: str) -> None:
    tiny = TinyTrace(rank=0)
    for start in range(0, 900, 150):
        tiny.collective(start, start + 150)
    if computes:
        tiny.operation(900, 1000, "gemm")
    said = verdict(Analysis(trace := tiny.build()), diagnose(trace))
    assert said.startswith(sentence or "Communication is not overlapped")


def test_a_gpu_that_only_a_memory_counter_mentions_is_no_idle_gpu() -> None:
    tiny = TinyTrace()
    tiny.builder.device(Device(1, "Unused GPU"))
    for start in range(0, 1000, 100):
        tiny.operation(start, start + 60, "gemm", start)
    trace = tiny.build()
    analysis = Analysis(trace)
    diagnosis = diagnose(trace)
    assert [device["device"] for device in as_json(trace, diagnosis, analysis)["devices"]] == [0]
    for report in (as_text(trace, diagnosis, analysis), as_html(trace, diagnosis, analysis)):
        assert "Unused GPU" not in report


def test_what_the_recording_says_of_itself_stands_in_the_text() -> None:
    tiny = TinyTrace()
    tiny.builder.quality.note("profiler", Effect.NOTED, "The profiler warned: no CUDA events.")
    trace = tiny.build()
    text = as_text(trace, diagnose(trace), Analysis(trace))
    assert "Note: The profiler warned: no CUDA events." in text


def test_a_timeline_without_gpu_work_says_how_to_record_it_and_draws_no_budget() -> None:
    tiny = TinyTrace(rank=0)
    tiny.op(0, 100, "aten::mm")
    for device in range(8):
        tiny.builder.device(Device(device, "Test GPU", 0))
    trace = tiny.build()
    report = as_text(trace, diagnose(trace), Analysis(trace))
    assert "ProfilerActivity.CUDA" in report
    assert "Where the time of" not in report
    copying = TinyTrace()
    copying.op(0, 200, "main")
    copying.call(0, 100, "cudaMemcpy")
    copied = copying.build()
    assert "1 copy asked for, none recorded: the profiler lost" in as_text(
        copied, diagnose(copied), Analysis(copied)
    )
    log = TinyTrace()
    log.counter("power", "W", [(0, 100.0), (1000, 120.0)])
    assert "ProfilerActivity.CUDA" not in as_text(log.build(), Diagnosis(), Analysis(log.build()))


def test_a_gap_is_called_by_its_culprit_and_a_kernel_by_its_own_name() -> None:
    gap = Evidence(0, 0, 1, "Python outside any region")
    kernel = Evidence(0, 0, 1, "void at::native::(anonymous namespace)::layer_norm_kernel<float>(int)", 3)
    assert place_name(gap) == "Python outside any region"
    assert place_name(kernel) == "layer_norm_kernel"


def told(**ceilings: int) -> Diagnosis:
    return Diagnosis(
        tuple(
            ranked(
                Finding(
                    name,
                    Category(name.replace("_", "-")),
                    severity_of(ns, 100),
                    Headline(""),
                    "",
                    Remedy(),
                    ns,
                    100,
                )
                for name, ns in ceilings.items()
            )
        )
    )


@pytest.mark.parametrize(
    ("computes", "idles", "sentence", "besides"),
    [
        (
            850,
            90,
            "The GPU computes 85 % of the time",
            "The largest other cost: the GPU waits for Python: 8.9 %",
        ),
        (850, 110, "The GPU waits for Python: 11 % of every step", ""),
        (780, 90, "Copies to the GPU are not overlapped: 13 % of every step", ""),
    ],
)
def test_where_the_gpu_computes_nearly_all_the_time_that_is_said_before_a_small_loss(
    computes: int, idles: int, sentence: str, besides: str
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.region(0, 10 * idles, "tokenize")
        trace.operation(10 * idles, 10 * idles + 10 * computes, "gemm", 10 * idles - 5)
        trace.copy(10 * idles + 10 * computes, 10_000, "HtoD", 10 * idles + 10)

    analysis = Analysis(steps(4, 10_000, body).build())
    diagnosis = diagnosis_of(analysis)
    assert verdict(analysis, diagnosis) == sentence
    assert beside_the_verdict(analysis, diagnosis).startswith(besides)
    assert bool(besides) is bool(beside_the_verdict(analysis, diagnosis))


@pytest.mark.parametrize(("launched", "older"), [(1_000, True), (3_500, False)])
def test_the_gpu_was_busy_with_older_work_where_the_first_operation_was_launched_early(
    launched: float, older: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(5_000, 5_010, "gemm", launched)

    assert (Analysis(steps(1, 5_020, body).build()).analysed.set_aside is not None) is older


def test_what_is_no_run_is_said_once() -> None:
    """Also where time was set aside before it, which is told beside verdicts about runs."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(5_000, 5_010, "gemm", 10)

    analysis = Analysis(steps(1, 5_020, body).build())
    diagnosis = diagnosis_of(analysis)
    assert analysis.analysed.set_aside is not None
    assert verdict(analysis, diagnosis) == "Too little was recorded to judge: 1 GPU operation"
    assert beside_the_verdict(analysis, diagnosis) == ""


def test_checks_that_nothing_was_recorded_for_are_counted_where_they_are_many() -> None:
    trace = open_trace([resources.path("samples/healthy.pt.trace.json.gz")])
    report = as_text(trace, diagnose(trace), Analysis(trace))
    assert "no Nsight Compute counters: 15 checks of single kernels" in " ".join(report.split())
    assert "kernel-atomics" not in report


def test_of_several_kernels_the_verdict_tells_what_limits_the_one_that_takes_most_of_the_time() -> None:
    busy = {COMPUTE: 90.0, MEMORY: 30.0}
    times = ({"gpu__time_duration.sum": 900_000.0}, {"gpu__time_duration.sum": 1_000.0})
    profiled = (kernel(busy, took, name=name) for took, name in zip(times, ("long", "short"), strict=True))
    analysis = Analysis(trace_of(*profiled))
    assert verdict(analysis, diagnosis_of(analysis)).startswith("long: limited by compute")


@pytest.mark.parametrize(
    ("back", "sentence"),
    [
        (600, "Copies to and from the GPU are not overlapped: 90 % of every step"),
        (100, "Copies to the GPU are not overlapped: 60 %"),
    ],
)
def test_copies_that_cost_much_both_ways_are_told_in_one_sentence(back: int, sentence: str) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.copy(0, 1200, "HtoD", 0)
        trace.operation(1200, 2000 - back, "__omp_offloading_solve", 10)
        trace.copy(2000 - back, 2000, "DtoH", 20)

    trace = TinyTrace()
    for index in range(6):
        trace.shift = 2000 * index
        body(trace, index)
    analysis = Analysis(trace.build())
    diagnosis = diagnosis_of(analysis)
    assert verdict(analysis, diagnosis).startswith(sentence)
    assert any("target data" in advice for each in diagnosis.findings for advice in each.advice)


def test_copies_both_ways_never_share_more_than_the_time_they_take() -> None:
    trace = TinyTrace()
    for index in range(6):
        trace.shift = 2000 * index
        trace.copy(0, 800, "HtoD", 0)
        trace.operation(800, 1000, "solve", 10)
        trace.copy(1000, 1900, "DtoH", 20)
    analysis = Analysis(trace.build())
    diagnosis = diagnosis_of(analysis)
    # each of two fixes may save more than the copies of its own direction
    raised = replace(diagnosis, findings=tuple(replace(each, usual_share=0.7) for each in diagnosis.findings))
    assert verdict(analysis, raised).startswith("Copies to and from the GPU are not overlapped: 86 %")


def test_a_card_of_the_recording_that_is_larger_than_the_headline_is_told_beside_it() -> None:
    analysis = Analysis(training_run())
    found = diagnosis_of(analysis)
    first = first_problem(found)
    assert first is not None
    for more, told in ((1, "Also: the GPU waits for Python"), (-1, "")):
        overhead = replace(
            first,
            category=Category.RECORDING_OVERHEAD,
            of_recording=True,
            usual_share=first.share + more / 1_000,
        )
        both = replace(found, findings=(overhead, *found.findings))
        assert first_problem(both) is first
        assert beside_the_verdict(analysis, both).startswith(told)
        assert bool(beside_the_verdict(analysis, both)) is bool(told)
