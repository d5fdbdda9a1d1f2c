"""Two recordings set against each other: what is said, what is refused, and when to be careful."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Trace, TraceError
from parsers.model.names.kernels import comparable_name
from parsers.model.results import REQUEST_LOG, ResultTable
from rules.comparison.bridge import BUDGET, FUNCTIONS, REGIONS
from rules.comparison.compare import compare
from rules.comparison.findings import Change, compare_findings
from rules.comparison.kernel_rows import Match
from rules.findings.base import Category, Finding, Severity
from rules.remedies.remedy import Remedy
from rules.terms import Culprit, CulpritKind
from rules.wording.words import Headline
from tests.rules.builder import TinyTrace, steps
from tests.rules.kernel_profiles import kernel, trace_of
from viewer.reports.comparison_blocks import as_text, comparison_report
from viewer.reports.comparison_report import as_json
from viewer.reports.rendering.pages import page_of

GEMM = "void cutlass_80_tensorop_bf16_gemm"


def run(
    kernels: int = 10,
    each: float = 80,
    every: float = 100,
    *,
    name: str = GEMM,
    gpu: str = "Test GPU",
    step: str = "ProfilerStep#{}",
) -> Trace:
    """Four steps, each with so many kernels of ``each`` us, one every ``every`` us."""
    into = TinyTrace(gpu=gpu)

    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(0, kernels, each, every, name)

    return steps(4, kernels * every, body, name=step, into=into).build()


def without_steps(kernels: int, each: float) -> Trace:
    """Different kernels one after the other: nothing repeats."""
    trace = TinyTrace()
    for index in range(kernels):
        trace.operation(index * 100, index * 100 + each, f"kernel_{index}", index * 100 - 6)
    return trace.build()


def host_only() -> Trace:
    trace = TinyTrace()
    trace.op(0, 100, "aten::mm")
    return trace.build()


def device_log() -> Trace:
    trace = TinyTrace()
    trace.counter("power", "W", [(0, 100.0), (1000, 300.0)])
    return trace.build()


def request_log() -> Trace:
    return replace(trace_of(), tables=(ResultTable("Request log", REQUEST_LOG, ()),))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (run(), trace_of(kernel()), "counters without a timeline"),
        (run(), host_only(), "a timeline without GPU work"),
        (run(), device_log(), "the log of a device"),
        (device_log(), device_log(), "both hold the log of a device"),
        (request_log(), request_log(), "both hold tables without a timeline, such as a log of requests"),
        (run(), request_log(), "tables without a timeline"),
        (
            trace_of(kernel(), kernel(name="void third(int)", ident="1")),
            trace_of(kernel(name="void another(int)")),
            "no kernel in common",
        ),
    ],
)
def test_recordings_with_nothing_in_common_are_refused_with_a_way_out(
    before: Trace, after: Trace, said: str
) -> None:
    with pytest.raises(TraceError) as refused:
        compare(before, after)
    assert said in refused.value.problem
    assert refused.value.hint


def test_the_same_recording_twice_is_said_to_be_so() -> None:
    result = compare(run(), run())
    assert result.verdict == "The same recording twice: nothing differs"
    assert not result.kernels
    assert not result.families
    assert "No kernel took noticeably more or less time." in as_text(result)


def test_the_verdict_says_how_long_a_step_took_and_takes() -> None:
    faster = compare(run(each=80, every=200), run(each=80, every=100))
    assert faster.verdict.startswith("2.00x faster: a step takes 1.00 ms instead of 2.00 ms")
    slower = compare(run(each=80, every=100), run(each=80, every=200))
    assert slower.verdict.startswith("2.00x slower: a step takes 2.00 ms instead of 1.00 ms")


def test_a_change_within_the_noise_is_none() -> None:
    result = compare(run(every=100), run(every=101))
    assert result.verdict.startswith("No difference beyond the noise: a step takes 1.01 ms")


def test_recordings_without_steps_that_did_other_amounts_of_work_are_not_called_faster() -> None:
    result = compare(without_steps(40, 80), without_steps(10, 80))
    assert not result.by_step
    assert result.verdict.startswith("Not comparable: the two contain different amounts of work")
    assert any("no steps were found in either" in caution for caution in result.cautions)
    assert [each.name for each in result.measures][:2] == ["kernels", "kernel time"]
    alike = compare(without_steps(40, 80), without_steps(40, 40))
    assert "different amounts" not in alike.verdict


def test_programs_without_a_common_kernel_and_with_other_counts_are_taken_for_two_programs() -> None:
    result = compare(run(kernels=50), run(kernels=5, name="void other_gemm"))
    assert result.verdict.startswith("These look like two different programs. If not, ")
    renamed = compare(run(kernels=50), run(kernels=50, name="void other_gemm"))
    assert "different programs" not in renamed.verdict
    assert any("kernels of the same name" in caution for caution in renamed.cautions)


def test_another_size_of_the_work_is_warned_of() -> None:
    result = compare(run(each=20), run(each=80))
    assert any("take 4.00 times longer each" in caution for caution in result.cautions)
    assert not any("each" in caution for caution in compare(run(each=60), run(each=80)).cautions)


def test_different_gpus_are_warned_of() -> None:
    result = compare(run(gpu="A"), run(gpu="B", each=79))
    assert "different GPUs: A and B" in result.cautions


def test_steps_found_in_different_ways_are_warned_of() -> None:
    result = compare(run(), run(step="iteration {}", each=79))
    assert any("steps" in caution for caution in result.cautions)
    assert not any("steps" in caution for caution in compare(run(), run(each=79)).cautions)


def test_families_add_up_the_kernels_that_one_side_calls_otherwise() -> None:
    result = compare(run(name="void cutlass_80_simt_sgemm_128x64"), run(name=GEMM, each=20))
    (family,) = result.families
    assert (family.name, family.calls_before, family.calls_after) == ("matrix product", 10, 10)
    assert family.ns_before == pytest.approx(800_000)
    assert family.ns_after == pytest.approx(200_000)
    (kernel,) = result.kernels
    assert kernel.match is Match.COUNTERPART
    assert as_json(result)["families"][0]["name"] == "matrix product"
    assert "matrix product" in as_text(result)
    assert "matrix product" in page_of(comparison_report(result)).text


def test_one_kernel_in_the_spellings_of_two_tools_is_one_kernel() -> None:
    kineto = (
        "void at::native::(anonymous namespace)::f<4u, true, at::native::g(at::TensorIteratorBase&, float)"
        "::{lambda(float)#1}, float const*>(float const*, int)"
    )
    nsys = (
        "void at::native::<unnamed>::f<(unsigned int)4, (bool)1, void at::native::g(at::TensorIteratorBase&, T2)"
        "::[lambda(float) (instance 1)], const float*>(T1, T2)"
    )
    assert comparable_name(kineto) == comparable_name(nsys)
    result = compare(run(name=kineto), run(name=nsys, each=60))
    (change,) = result.kernels
    assert change.calls_before == change.calls_after == 10


@pytest.mark.parametrize(
    ("one", "other"),
    [("void f<4>(int)", "void f<8>(int)"), ("f<true>()", "f<false>()"), ("a::f()", "b::f()")],
)
def test_different_kernels_stay_different(one: str, other: str) -> None:
    assert comparable_name(one) != comparable_name(other)


def test_a_name_of_parentheses_alone_stays_as_it_is() -> None:
    assert comparable_name("(anonymous)") == "(anonymous)"


def finding(
    severity: Severity = Severity.HIGH, ceiling: int = 500, rule: str = "host", culprit: str = ""
) -> Finding:
    headline, culprit_ = Headline(f"{rule} {ceiling}"), Culprit(CulpritKind.REGION, culprit)
    return Finding(
        rule, Category.HOST_BOUND, severity, headline, "", Remedy(), ceiling, 1000, culprit=culprit_
    )


def one_change(before: list[Finding], after: list[Finding], noise: float = 10) -> Change:
    (change,) = compare_findings(before, after, (1000, 1000), noise)
    return change.change


def test_what_became_of_a_finding_follows_from_what_it_costs_a_step() -> None:
    assert one_change([finding()], []) is Change.GONE
    assert one_change([], [finding()]) is Change.NEW
    assert one_change([finding(ceiling=500)], [finding(ceiling=300)]) is Change.LESS
    assert one_change([finding(ceiling=300)], [finding(ceiling=500)]) is Change.MORE
    assert one_change([finding(ceiling=500)], [finding(ceiling=495)]) is Change.SAME


def test_a_larger_share_of_a_shorter_step_costs_no_more() -> None:
    (change,) = compare_findings([finding(ceiling=300)], [finding(ceiling=600)], (1000, 500), 10)
    assert change.change is Change.SAME
    assert (change.before_ns, change.after_ns) == (300, 300)


def test_a_finding_that_hardly_matters_any_more_is_resolved_under_its_old_name() -> None:
    was, is_now = finding(ceiling=700), finding(Severity.LOW, 20)
    (change,) = compare_findings([was], [is_now], (1000, 1000), 10)
    assert change.change is Change.NEARLY_GONE
    assert change.is_resolved
    assert change.finding is was


def test_findings_are_paired_by_culprit_before_anything_else() -> None:
    before = [finding(culprit="a", ceiling=500), finding(culprit="b", ceiling=400)]
    after = [finding(culprit="b", ceiling=400), finding(culprit="c", ceiling=100)]
    changes = compare_findings(before, after, (1000, 1000), 10)
    assert [(each.finding.culprit.name, each.change) for each in changes] == [
        ("c", Change.LESS),
        ("b", Change.SAME),
    ]


def test_findings_about_different_kernels_are_not_one() -> None:
    before = [replace(finding(culprit="void f<1>(int)"), kernel="1")]
    after = [replace(finding(culprit="void g<1>(int)"), kernel="1")]
    changes = {each.change for each in compare_findings(before, after, (1000, 1000), 10)}
    assert changes == {Change.GONE, Change.NEW}


def test_what_matters_on_neither_side_is_left_out() -> None:
    assert not compare_findings([finding(Severity.LOW)], [finding(Severity.LOW)], (1000, 1000), 10)


def on_the_cpu(data: float, collective: float) -> Trace:
    """Four steps of 10 ms: so much of each in ``data``, then operators, then so long in a collective."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.region(0, data, "prepare")
        trace.op(0, data, "aten::stack")
        trace.region(data, 10_000, "backward")
        trace.op(data, 10_000 - collective, "aten::mm")
        trace.region(10_000 - collective, 10_000, "gloo:all_reduce", 500)

    return steps(4, 10_000, body).build()


def test_two_recordings_without_a_gpu_are_compared_by_region_and_by_what_the_thread_does() -> None:
    result = compare(on_the_cpu(6_000, 1_000), on_the_cpu(1_000, 3_000))
    assert "Not comparable" not in result.verdict
    bridges = {bridge.title: {part.label: part.change for part in bridge.parts} for bridge in result.bridges}
    assert set(bridges) == {BUDGET, REGIONS}
    assert bridges[REGIONS]["prepare"] == pytest.approx(-5_000_000)
    assert bridges[REGIONS]["backward"] == pytest.approx(5_000_000)
    assert bridges[BUDGET]["waiting in collectives"] == pytest.approx(2_000_000)
    assert bridges[BUDGET]["operators"] == pytest.approx(-2_000_000)
    assert "kernel" not in as_text(result).lower()
    assert [measure.name for measure in result.measures] == ["step time, median"]


def functions_of(small: float) -> Trace:
    """One thread in ``main``, most of the time in functions that it calls."""
    trace = TinyTrace()
    trace.frame(0, 10_000, "train.py(3): main")
    trace.frame(1_000, 1_000 + small, "train.py(9): load")
    trace.frame(7_000, 7_500, "train.py(12): load")
    return trace.build()


def test_two_recordings_of_functions_alone_are_compared_by_function() -> None:
    (bridge,) = compare(functions_of(5_000), functions_of(1_000)).bridges
    assert bridge.title == FUNCTIONS
    changes = {part.label: part.change for part in bridge.parts}
    assert changes == {
        "load (train.py)": pytest.approx(-4_000_000),
        "main (train.py)": pytest.approx(4_000_000),
    }
    assert bridge.unexplained == pytest.approx(0, abs=1)


def test_two_recordings_of_samples_are_compared_by_the_programs_functions(fixtures: Path) -> None:
    one, other = (
        open_trace([fixtures / "stacks" / f"feed.{each}.json"]) for each in ("speedscope", "chrome")
    )
    (bridge,) = compare(one, other).bridges
    assert bridge.title == FUNCTIONS
    assert "compress (feed.py)" in {part.label for part in bridge.parts}
    assert bridge.unexplained == pytest.approx(0, abs=1)
