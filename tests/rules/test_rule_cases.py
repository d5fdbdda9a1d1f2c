"""Every timeline rule speaks on one side of its threshold and is silent on the other: tests/fixtures/rules/*.toml.

All times are microseconds from the start of a step; a case describes one step, which is repeated.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parsers.model import Attribute, Trace
from parsers.ranks.merge import merge
from rules import Finding, diagnose
from rules.findings.base import Need, rules
from tests.rules.builder import TinyTrace, steps

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "rules"
Case = dict[str, Any]

OF_A_STEP = frozenset(
    (
        "kernels",
        "gpu",
        "graphs",
        "nodes",
        "regions",
        "ops",
        "calls",
        "sleeps",
        "called",
        "overhead",
        "copies",
        "collectives",
        "numbered_ops",
        "shaped_ops",
    )
)
OF_A_RUN = frozenset(
    (
        "annotated",
        "capability",
        "capture",
        "counters",
        "first_step",
        "model",
        "step_lengths_us",
        "step_us",
        "steps",
    )
)
EXPECTED = frozenset(("severity", "category", "rank", "share", "says", "hides", "culprit"))


def refuse_unknown(case: Case) -> None:
    """Raises ValueError for a key that nothing reads: a case must not pass by a typo."""
    tables = [(case, OF_A_STEP | OF_A_RUN | {"name", "expect", "rank", "first", "fifth"})]
    tables += [(each, OF_A_STEP | OF_A_RUN) for each in case.get("rank", [])]
    tables += [(case.get(special, {}), OF_A_STEP) for special in ("first", "fifth")]
    if isinstance(case["expect"], str) and case["expect"] != "nothing":
        raise ValueError(f"{case['name']}: nothing is expected by {case['expect']!r}")
    if case["expect"] != "nothing":
        tables.append((case["expect"], EXPECTED))
    for table, known in tables:
        if unknown := set(table) - known:
            raise ValueError(f"{case['name']}: nothing reads {', '.join(sorted(unknown))}")


def cases() -> list[Any]:
    found = []
    for file in sorted(FIXTURES.glob("*.toml")):
        content = tomllib.loads(file.read_text("utf-8"))
        if set(content) != {"rule", "case"}:
            raise ValueError(f"{file.name} has other keys than rule and case")
        for case in content["case"]:
            refuse_unknown(case)
            found.append(pytest.param(content["rule"], case, id=f"{file.stem}: {case['name']}"))
    return found


def one_step(trace: TinyTrace, index: int, case: Case) -> None:
    """Add what one step of a case does."""
    for each in case.get("kernels", []):
        trace.kernels(**each)
    for start, end, name, *launch in case.get("gpu", []):
        attributes = launch.pop() if launch and isinstance(launch[-1], dict) else {}
        trace.operation(start, end, name, *launch, **attributes)
    for start, end, name, launch in case.get("graphs", []):
        trace.operation(start, end, name, launch, call="cudaGraphLaunch")
    for each in case.get("nodes", []):
        trace.graph(**each)
    for start, end, name, *thread in case.get("regions", []):
        trace.region(start, end, name, *thread)
    for start, end, name in case.get("ops", []):
        trace.op(start, end, name)
    for start, end, name in case.get("calls", []):
        trace.call(start, end, name)
    for start, end, name in case.get("sleeps", []):
        trace.sleep(start, end, name)
    for start, end in case.get("overhead", []):
        trace.overhead(start, end)
    for each in case.get("copies", []):
        trace.copy(**each)
    for each in case.get("collectives", []):
        trace.collective(**each)
    for each in case.get("called", []):
        trace.called(**each)
    for start, end, name, number in case.get("numbered_ops", []):
        made = np.array([trace.op(start, end, name)])
        trace.builder.attribute(Attribute.SEQUENCE, made, 100 * index + number)
    for start, end, name, *stated in case.get("shaped_ops", []):
        trace.shapes(trace.op(start, end, name), *stated)


def one_rank(case: Case, rank: int | None = None) -> Trace:
    """The trace of one rank of a case."""
    trace = TinyTrace(rank=rank)
    if "capability" in case:
        trace.capability = tuple(case["capability"])
    trace.gpu = case.get("model", trace.gpu)
    trace.capture(**case.get("capture", {}))
    length = case.get("step_us", 1000)
    lengths = case.get("step_lengths_us", [length] * case.get("steps", 4))
    at = 0.0
    for index, each in enumerate(lengths):
        trace.shift = at
        if case.get("annotated", True):
            trace.step(0, each, f"ProfilerStep#{case.get('first_step', 1) + index}")
        special = case.get("first", {}) if index == 0 else case.get("fifth", {}) if index == 4 else {}
        one_step(trace, index, {**case, **special})
        at += each
    trace.shift = 0.0
    for name, unit, samples in case.get("counters", []):
        trace.counter(name, unit, [tuple(sample) for sample in samples])
    return trace.build()


def build(case: Case) -> Trace:
    if "rank" not in case:
        return one_rank(case)
    shared = {key: value for key, value in case.items() if key != "rank"}
    return merge([one_rank({**shared, **each}, number) for number, each in enumerate(case["rank"])])


def everything_said(finding: Finding) -> str:
    parts = (finding.title, finding.explanation, finding.culprit.text, *finding.advice, finding.cannot_tell)
    return " ".join(parts).lower()


def require_complete(finding: Finding) -> None:
    """A finding says all that it has to, and claims no more than it rests on."""
    assert 0 <= finding.ceiling_ns <= finding.window_ns
    assert finding.title
    assert not finding.title.endswith(".")
    assert len(finding.title) <= 80
    assert finding.explanation.endswith((".", "?"))
    assert finding.advice
    assert finding.code
    assert all(start < end for start, end in finding.intervals)
    assert all(
        earlier[1] <= later[0]
        for earlier, later in zip(finding.intervals, finding.intervals[1:], strict=False)
    )


@pytest.mark.parametrize(("rule", "case"), cases())
def test_the_rule_decides_as_the_case_says(rule: str, case: Case) -> None:
    diagnosis = diagnose(build(case))
    assert not diagnosis.crashed
    for each in diagnosis.findings:
        require_complete(each)
    found = [each for each in diagnosis.findings if each.rule == rule]
    expected = case["expect"]
    if expected == "nothing":
        assert found == []
        return
    assert len(found) == 1
    finding = found[0]
    for key in ("severity", "category", "rank"):
        if key in expected:
            assert getattr(finding, key) == expected[key]
    if "share" in expected:
        assert finding.ceiling_ns / finding.window_ns == pytest.approx(expected["share"], abs=0.006)
    for text in expected.get("says", []):
        assert text.lower() in everything_said(finding)
    for text in expected.get("hides", []):
        assert text.lower() not in everything_said(finding)
    assert finding.culprit.text.startswith(expected.get("culprit", ""))


@pytest.mark.parametrize(
    "wrong",
    [
        {"expect": "nothing", "gpus": []},
        {"expect": "none"},
        {"expect": {"severty": "high"}},
        {"expect": "nothing", "rank": [{"region": []}]},
        {"expect": "nothing", "first": {"steps": 5}},
    ],
)
def test_a_case_with_a_key_that_nothing_reads_is_refused(wrong: Case) -> None:
    with pytest.raises(ValueError, match="wrong: "):
        refuse_unknown({"name": "wrong", **wrong})


def test_every_timeline_rule_has_a_case_that_speaks_and_one_that_is_silent() -> None:
    by_rule: dict[str, list[Case]] = {}
    for file in FIXTURES.glob("*.toml"):
        content = tomllib.loads(file.read_text("utf-8"))
        by_rule.setdefault(content["rule"], []).extend(content["case"])
    in_tests_of_their_own = {
        Need.KERNEL_COUNTERS,
        Need.ALLOCATIONS,
        Need.COMPILER_LOG,
        Need.SAMPLED_STACKS,
        Need.SERVED_REQUESTS,
        Need.INSIDE_KERNELS,
        Need.KERNEL_TIMES,
        Need.GPU_METRICS,
        Need.EXECUTION_TRACE,
        Need.PRINTED_TIMES,
        Need.PRINTED_METRICS,
        Need.LOAD_TEST,
    }
    timeline = {rule.id for rule in rules() if not rule.needs & in_tests_of_their_own}
    speaks = {rule for rule, each in by_rule.items() if any(case["expect"] != "nothing" for case in each)}
    silent = {rule for rule, each in by_rule.items() if any(case["expect"] == "nothing" for case in each)}
    assert timeline - speaks == set()
    assert timeline - silent == set()
    assert set(by_rule) <= timeline


def test_steps_helper_numbers_its_steps() -> None:
    trace = steps(2, 100, lambda trace, _: trace.operation(10, 50, "gemm", 0)).build()
    assert [name for name in trace.strings if name.startswith("ProfilerStep")] == [
        "ProfilerStep#1",
        "ProfilerStep#2",
    ]
