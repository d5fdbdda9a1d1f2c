"""Prompts are measured by prompts and answers by answers; running what was compiled is no start-up."""

from __future__ import annotations

import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import is_compiling
from rules.analysis.names.serving_steps import StepKind, kind_of_step
from rules.findings.base import Category
from tests.rules.builder import TinyTrace


def served(*lengths: tuple[str, float]) -> TinyTrace:
    trace = TinyTrace()
    begin = 0.0
    for name, length in lengths:
        trace.region(begin, begin + length, name)
        for number in range(10):
            start = begin + number * length / 10
            trace.operation(start + 5, start + length / 10 - 5, "sm90_gemm", start)
        begin += length
    return trace


PREFILL, DECODE = "step[EXTEND bs=2 toks=4096]", "step[DECODE bs=16]"


@pytest.mark.parametrize(
    ("lengths", "steady"),
    [
        ([(PREFILL, 9_000)] * 4 + [(DECODE, 1_000)] * 6, 10),
        ([(PREFILL, 30_000)] + [(PREFILL, 9_000)] * 4 + [(DECODE, 1_000)] * 6, 10),
        ([(PREFILL, 9_000)] + [(DECODE, 1_000)] * 6, 6),
        ([(PREFILL, 9_000)] * 2 + [(DECODE, 1_000)] * 6, 8),
        ([("iteration 1", 9_000)] * 4 + [("iteration 2", 1_000)] * 6, 6),
    ],
    ids=["prompts before answers", "one slow prompt", "a single prompt", "two prompts", "steps of one kind"],
)
def test_prompts_are_no_warm_up_of_answers(lengths: list[tuple[str, float]], steady: int) -> None:
    if lengths[0][0].startswith("iteration"):
        lengths = [(f"iteration {number}", length) for number, (_, length) in enumerate(lengths)]
    trace = served(*lengths).build()
    assert len(Analysis(trace).steady_steps) == steady


@pytest.mark.parametrize(("name", "varies"), [(PREFILL, False), (DECODE, True)])
def test_prompts_that_take_longer_than_answers_are_no_uneven_steps(name: str, varies: bool) -> None:
    lengths = [(DECODE, 1_000.0)] * 4 + [(name, 3_000.0)] * 3 + [(DECODE, 1_000.0)] * 6
    found = {each.category for each in diagnose(served(*lengths).build()).findings}
    assert (Category.VARIABILITY in found) is varies


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("step[EXTEND bs=2 toks=4096]", StepKind.PREFILL),
        ("execute_context_0(0)_generation_16(16)", StepKind.DECODE),
        ("decode_17", StepKind.DECODE),
        ("ProfilerStep#3", 0),
    ],
)
def test_the_kind_of_a_step_is_told_by_its_name(name: str, kind: int) -> None:
    assert kind_of_step(name) == kind


@pytest.mark.parametrize(
    ("name", "compiles"),
    [
        ("torch/_dynamo/convert_frame.py(1337): __call__", True),
        ("torch/_inductor/graph.py(2250): compile_to_module", True),
        ("triton/compiler/compiler.py(226): compile", True),
        ("torch/_dynamo/eval_frame.py(956): compile_wrapper", False),
        ("torch/_dynamo/guards.py(2201): fn", False),
        ("torch/_inductor/compile_worker/subproc_pool.py(271): _read_thread", False),
        ("triton/compiler/compiler.py(479): launch_metadata", False),
        ("triton/backends/nvidia/driver.py(700): __call__", False),
        ("Torch-Compiled Region: 1/2", False),
        ("TorchDynamo Cache Lookup", False),
    ],
)
def test_running_what_was_compiled_is_no_compiling(name: str, compiles: bool) -> None:
    assert is_compiling(name) is compiles


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        ("torch/_dynamo/convert_frame.py(1337): __call__", True),
        ("torch/_dynamo/eval_frame.py(1240): _fn", False),
    ],
)
def test_a_slow_first_step_contains_compilation_only_where_something_compiles(frame: str, told: bool) -> None:
    trace = TinyTrace()
    for index in range(6):
        trace.shift = 0.0 if not index else 8_000.0 + 1_000 * index
        length = 9_000 if not index else 1_000
        trace.step(0, length, f"ProfilerStep#{index}")
        trace.frame(100, length - 100, frame)
        trace.operation(length - 700, length - 200, "sm90_gemm", length - 800)
    texts = [
        each.explanation for each in diagnose(trace.build()).findings if each.category is Category.WARM_UP
    ]
    assert any("compilation by torch.compile" in each for each in texts) is told
