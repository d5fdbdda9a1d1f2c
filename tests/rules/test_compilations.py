"""What the log of a compiler is told as: functions compiled again, with why and what helps, and graphs that break."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Trace
from rules import Finding, diagnose
from rules.analysis.analysis import Analysis
from rules.remedies.compiling import advice_on
from rules.verdict.verdict import verdict
from tests.parsers.test_compiler_log import broken, compiled, line, opened, reasons

# The cases lie on either side of these.
RECOMPILE_LIMIT = 8


def found(trace: Trace, rule: str) -> list[Finding]:
    diagnosis = diagnose(trace)
    assert not diagnosis.crashed
    return [each for each in diagnosis.findings if each.rule == rule]


def test_a_recorded_log_names_functions_reasons_seconds_and_lines(fixtures: Path) -> None:
    trace = open_trace([fixtures / "compiler" / "torch_trace.log"])
    first, second, third = found(trace, "compiled-again")
    assert first.title == "step was recompiled 3 times"
    assert (
        "because tensor 'x' size mismatch at index 0. expected 4, actual 5. That took 4.58 s."
        in first.explanation
    )
    assert first.ceiling_ns == pytest.approx(4.58e9, rel=0.01)
    assert first.severity == "medium"
    assert len(first.evidence) == 3
    assert "mark_dynamic" in first.advice[0]
    assert second.title == "step after line 20 was recompiled 3 times"
    assert "because self.scale == 1.0 no longer held" in third.explanation
    assert verdict(Analysis(trace), diagnose(trace)) == first.title
    breaks = found(trace, "graph-breaks")
    assert [each.title for each in breaks] == [
        "Graph break at compiled.py:20: Data-dependent branching",
        "Graph break at compiled.py:13: Failed to trace builtin operator",
    ]
    assert "in 4 compilations" in breaks[0].explanation
    assert len(breaks[0].evidence) == 4
    assert breaks[1].advice[0].startswith("Avoid calling builtin `print`")


def test_what_was_printed_is_summed_up_without_seconds(fixtures: Path) -> None:
    trace = open_trace([fixtures / "compiler" / "torch_logs.log"])
    assert (
        verdict(Analysis(trace), diagnose(trace))
        == "torch.compile: 7 recompilations, graphs break at 2 places"
    )
    assert {each.ceiling_ns for each in found(trace, "compiled-again")} == {0}


@pytest.mark.parametrize(
    ("times", "severity", "gives_up"),
    [
        (RECOMPILE_LIMIT - 1, "info", False),
        (RECOMPILE_LIMIT, "high", True),
        (RECOMPILE_LIMIT + 1, "high", False),
    ],
    ids=["below", "at it", "a program that raised it"],
)
def test_a_function_that_reaches_the_limit_is_told_to_run_uncompiled(
    times: int, severity: str, gives_up: bool, tmp_path: Path
) -> None:
    printed = [
        line(f"[0/{number}] [__recompiles] Recompiling function step in train.py:17")
        + line(f"[0/{number}] [__recompiles]     triggered by the following guard failure(s):")
        + line(f"[0/{number}] [__recompiles]     - 0/{number - 1}: L['n'] == {number}")
        for number in range(1, times + 1)
    ]
    (finding,) = found(opened(tmp_path, "".join(printed)), "compiled-again")
    assert finding.severity == severity
    assert ("runs uncompiled" in finding.explanation) is gives_up


@pytest.mark.parametrize("processes", [1, 3])
def test_each_process_counts_its_own_compilations(processes: int, tmp_path: Path) -> None:
    below_limit = RECOMPILE_LIMIT - 1
    again = "".join(
        reasons(number, f"0/{number - 1}: L['n'] == {number}") + compiled(number, number, 0.5)
        for number in range(1, below_limit + 1)
    )
    for rank in range(processes):
        (tmp_path / f"dedicated_log_torch_trace_rank_{rank}.log").write_text(compiled(0, 0, 0.5) + again)
    (finding,) = found(open_trace([tmp_path]), "compiled-again")
    assert finding.title == f"step was recompiled {below_limit} times"
    assert "That took 3.50 s." in finding.explanation
    assert finding.ceiling_ns == pytest.approx(3.5e9)
    assert "runs uncompiled" not in finding.explanation
    assert ("3 processes compiled it again" in finding.explanation) == (processes == 3)


def test_a_log_of_what_was_compiled_once_has_nothing_to_find(tmp_path: Path) -> None:
    trace = opened(tmp_path, compiled(0) + compiled(0, 2, compile_id="1/0", co_name="loss"))
    assert found(trace, "compiled-again") == []
    assert found(trace, "graph-breaks") == []
    assert verdict(Analysis(trace), diagnose(trace)) == "torch.compile: 2 compilations in 2.00 s"


@pytest.mark.parametrize(
    ("reason", "said"), [("backend='x' raised:", ", 1 of them failed: backend='x' raised"), ("", "")]
)
def test_a_compilation_that_failed_is_said(reason: str, said: str, tmp_path: Path) -> None:
    failed = compiled(0, 2, compile_id="1/0", co_name="loss", fail_reason=reason or None)
    trace = opened(tmp_path, compiled(0) + failed)
    assert verdict(Analysis(trace), diagnose(trace)) == f"torch.compile: 2 compilations in 2.00 s{said}"


def test_a_recording_without_a_log_says_why_nothing_was_checked(fixtures: Path) -> None:
    skipped = diagnose(open_trace([fixtures / "smi" / "dmon.txt"])).skipped
    assert skipped["compiled-again"] == skipped["graph-breaks"] == "no compiler log"


def test_only_the_first_places_and_functions_are_told_with_how_many_there_are(tmp_path: Path) -> None:
    text = "".join(
        compiled(0, number, 0.5, compile_id=f"{number}/0", co_name=f"f{number}")
        + broken(f"Graph break in user code at a.py:{number}\nGraph Break Reason: odd")
        for number in range(5)
    )
    text += "".join(
        reasons(1, "0/0: L['n'] == 2").replace('"frame_id": 0', f'"frame_id": {number}')
        + compiled(1, 10 + number, 0.5, compile_id=f"{number}/1", co_name=f"f{number}")
        for number in range(5)
    )
    trace = opened(tmp_path, text)
    assert len(found(trace, "compiled-again")) == len(found(trace, "graph-breaks")) == 3
    assert "5 functions were recompiled in all." in found(trace, "compiled-again")[0].explanation
    assert "Graphs break at 5 places in all." in found(trace, "graph-breaks")[0].explanation


@pytest.mark.parametrize(
    ("reason", "helps"),
    [
        ("tensor 'x' size mismatch at index 0. expected 4, actual 5", "mark_dynamic"),
        ("GLOBAL_STATE changed: grad_mode", "gradient mode"),
        ("tensor 'x' dtype mismatch. expected Float, actual Half", "one type"),
        ("___check_obj_id(L['self'], 139) ", "a new object"),
        ("L['n'] == 2", "tensor"),
        ("something new", "Keep what the reason names"),
    ],
)
def test_the_advice_is_about_the_reason(reason: str, helps: str) -> None:
    assert helps in advice_on(reason)
