"""Where the time of a program on the CPU alone goes: interruptions, the recorder, own lines, products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from parsers.model import Trace
from rules import Finding, diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import CpuTime, cpu_time
from rules.losses.cpu_work import products_of
from rules.verdict.verdict import verdict
from tests.rules.builder import TinyTrace, steps

STEP = 100_000.0


def time_of(trace: Trace) -> CpuTime:
    found = cpu_time(Analysis(trace))
    assert found is not None
    return found


def findings(trace: Trace) -> dict[str, Finding]:
    return {each.rule: each for each in diagnose(trace).findings}


def program(body: Callable[[TinyTrace, int], None]) -> Trace:
    return steps(5, STEP, body).build()


def test_a_long_gap_where_most_are_short_is_an_interruption() -> None:
    def body(trace: TinyTrace, index: int) -> None:
        pause = 20_000 if index == 3 else 20
        trace.op(0, 60_000, "aten::mm")
        trace.op(60_000 + pause, 100_000, "aten::addmm")

    time = time_of(program(body))
    assert time.outside_ns == 0
    assert time.step_ns == 5 * STEP * 1_000 - 12 * 3_000 + 2 * 3_000


@pytest.mark.parametrize(
    ("count", "held_up", "outside"),
    [(4, 0, 40_000_000), (4, 1, 40_000_000), (4, 2, 0), (5, 2, 0), (5, 0, 0)],
    ids=[
        "a quiet machine",
        "one operator was",
        "as many operators were",
        "most are short",
        "most are short, quiet",
    ],
)
def test_gaps_that_are_long_in_half_of_the_steps_are_interruptions_where_operators_are_interrupted_as_often(
    count: int, held_up: int, outside: int
) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        at = 0.0
        for name, length in (("mm", 30_000), ("addmm", 30_000), ("add_", 500), ("sub_", 500)):
            interrupted = (name, index) in (("add_", 0), ("sub_", 1))[:held_up]
            trace.op(at, at + length + 8_000 * interrupted, f"aten::{name}")
            at += length + 8_000 * interrupted + (20_000 if name == "mm" and index < 2 else 20)
        trace.op(at, STEP, "aten::mul")

    assert time_of(steps(count, STEP, body).build()).outside_ns == outside


def test_the_same_gap_in_each_step_is_none() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 60_000, "aten::mm")
        trace.op(80_000, 100_000, "aten::addmm")

    assert time_of(program(body)).outside_ns == 5 * 20_000_000


@pytest.mark.parametrize(("count", "long"), [(3, 20_000_000), (2, 0)], ids=["enough steps", "too few"])
def test_gaps_between_the_same_operators_elsewhere_in_a_step_say_nothing_of_a_long_one(
    count: int, long: int
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place, pause in enumerate((10, 20_000, 10)):
            trace.op(30_000 * place, 30_000 * place + 5_000, "aten::to")
            trace.op(30_000 * place + 5_000 + pause, 30_000 * (place + 1), "aten::detach")

    time = time_of(steps(count, STEP, body).build())
    assert time.outside_seen_ns == count * (long + 10_000_000)  # and at the end of a step


@pytest.mark.parametrize(("gap", "found"), [(450, True), (300, False)])
def test_what_is_hardly_seen_between_interruptions_is_no_finding(gap: float, found: bool) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        at = 0.0
        for place in range(20):
            trace.op(at, at + 100, "aten::add")
            at += 105 + (10_000 if place == index else 0)
        trace.op(at + gap, at + gap + 100, "aten::mm")

    assert ("cpu-outside-operators" in findings(steps(6, 12_210 + gap, body).build())) is found


@pytest.mark.parametrize(("pause", "slowed"), [(12_000, 1.2), (80, 1.0)])
def test_what_interrupts_short_operators_is_part_of_what_calling_them_takes(
    pause: float, slowed: float
) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        for place in range(200):
            trace.op(50 * place, 50 * place + 45, "aten::add")
        trace.op(9_998, 9_999 + (pause if index == 3 else 1), "aten::item")

    time = time_of(steps(6, 22_000.0, body).build())
    assert time.slowed == pytest.approx(slowed, rel=0.02)
    calls_ns = 6 * (200 * (10_000 + 5_000) - 201 * 3_000)  # without the recorder
    assert time.overhead_ns() == pytest.approx(calls_ns * slowed, rel=0.02)


def test_what_the_recorder_does_between_operators_is_not_the_programs() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 60_000, "aten::mm")
        trace.frame(60_000, 75_000, "stallscope_recorder/session.py(152): _report")
        trace.op(80_000, 100_000, "aten::addmm")

    assert time_of(program(body)).outside_ns == pytest.approx(5 * 5_000_000, rel=0.01)


def test_the_own_function_that_loads_is_the_line_to_open_and_the_recorders_never() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.region(0, 50_000, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
        trace.frame(0, 100_000, "train.py(40): main")
        trace.frame(10, 49_990, "stallscope_recorder/hooks.py(89): __next__")
        trace.frame(20, 49_900, "train.py(6): __getitem__")
        trace.op(50_000, 100_000, "aten::mm")

    found = findings(program(body))["cpu-loading"]
    assert found.at is not None
    assert found.at.text == "train.py:6"
    assert "train.py(6): __getitem__ (100 %)" in found.explanation


@pytest.mark.parametrize(("slept", "mostly"), [(30_000, True), (20_000, False)])
@pytest.mark.parametrize("sleep", ["<built-in function sleep>", "asyncio/tasks.py(627): sleep"])
def test_code_outside_operators_is_called_sleep_if_it_sleeps_for_half_of_the_time(
    sleep: str, slept: float, mostly: bool
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.frame(0, 50_000, "serve.py(7): batches")
        trace.frame(10, 10 + slept, sleep)
        trace.op(50_000, 100_000, "aten::mm")

    found = findings(program(body))["cpu-outside-operators"]
    assert found.title.startswith("Code outside PyTorch's operators, mostly sleeping") is mostly
    assert found.advice[0].startswith("Wait for what is needed") is mostly


@pytest.mark.parametrize(
    ("region", "computes"), [("## Call CompiledFxGraph None ##", True), ("## Call Something ##", False)]
)
def test_a_compiled_graph_computes_where_it_calls_no_operator(region: str, computes: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.region(0, 100_000, region)
        trace.op(50_000, 99_000, "aten::mm")

    assert ("cpu-outside-operators" not in findings(program(body))) is computes


def test_libraries_that_run_between_operators_are_told_without_addresses() -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.frame(0, 100_000, "train.py(40): main")
        trace.frame(0, 50_000, f"<built-in method argsort of numpy.ndarray object at 0x7f{index}0>")
        trace.op(50_000, 100_000, "aten::mm")

    said = findings(program(body))["cpu-outside-operators"].explanation
    assert "Libraries it runs: <built-in method argsort of numpy.ndarray> (100 %)." in said


@pytest.mark.parametrize(
    ("took", "said", "advice"), [(90_000, "GFLOP/s", "Check that all cores work"), (900, "", "")]
)
def test_operators_that_hold_most_of_a_step_are_the_limit(took: float, said: str, advice: str) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.shapes(trace.op(0, took, "aten::mm"), [[4096, 4096], [4096, 4096]], ["float", "float"])

    built = program(body)
    found = findings(built)["cpu-recording"]
    assert ("The CPU's operators are the limit" in found.title) is bool(said)
    assert said in found.explanation
    assert found.advice[0].startswith(advice)


@pytest.mark.parametrize(("rows", "held_up"), [(8, True), (4096, False)])
def test_products_that_take_long_and_compute_nothing_need_fewer_threads(rows: int, held_up: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        shape = [[rows, rows], [rows, rows]]
        trace.shapes(trace.op(0, 90_000, "aten::mm"), shape, ["double", "double"])

    built = program(body)
    products = products_of(time_of(built))
    assert products.in_double
    assert products.operations == 5 * 2 * rows**3
    advice = findings(built)["cpu-recording"].advice
    assert any("set_num_threads(1)" in each for each in advice) is held_up
    assert any("float32" in each for each in advice)


@pytest.mark.parametrize(
    ("took", "first"),
    [(94_000, "The CPU's operators are the limit: 94 %"), (85_000, "Code outside PyTorch's operators: 15 %")],
)
def test_little_beside_much_computing_is_told_second(took: float, first: str) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, took, "aten::mm")

    built = program(body)
    assert verdict(Analysis(built), diagnose(built)).startswith(first)
    assert "cpu-outside-operators" in findings(built)


@pytest.mark.parametrize(
    ("name", "is_all"), [("aten::cudnn_is_acceptable", True), ("aten::cudnn_batch_norm", False)]
)
def test_asking_for_a_library_of_gpus_is_no_work_of_one(name: str, is_all: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 90_000, "aten::gru")
        trace.op(10, 12, name)

    assert time_of(program(body)).is_all is is_all


def with_cores(cores: int | None, threads: int | None, body: Callable[[TinyTrace, int], None]) -> Trace:
    trace = steps(5, STEP, body).build()
    return replace(trace, capture=replace(trace.capture, cores=cores, threads=threads))


@pytest.mark.parametrize(
    ("cores", "threads", "most"), [(2, 16, 0.9 * 14 / 16), (2, 2, 0), (4, 2, 0), (None, 16, 0), (2, None, 0)]
)
def test_more_threads_than_cores_are_named_where_the_recorder_noted_both(
    cores: int | None, threads: int | None, most: float
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 90_000, "aten::mm")

    found = findings(with_cores(cores, threads, body)).get("cpu-crowded-threads")
    assert (found.share if found is not None else 0) == pytest.approx(most, rel=0.01)
    if found is not None:
        assert found.title == "16 threads share 2 cores: 90 % of every step"
        assert "torch.set_num_threads(2)" in found.advice[0]


@pytest.mark.parametrize(("took", "found"), [(6_000, True), (5_000, False)])
def test_threads_that_hardly_compute_are_no_matter(took: float, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, took, "aten::mm")
        trace.region(took, 100_000, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")

    assert ("cpu-crowded-threads" in findings(with_cores(2, 16, body))) is found


@pytest.mark.parametrize(
    ("cores", "share", "said"), [(1, 0.0, "one core"), (2, 0.5, "2 cores"), (16, 0.8, ""), (None, 0.8, "")]
)
def test_loading_in_workers_gives_no_more_than_the_cores_allow(
    cores: int | None, share: float, said: str
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.region(0, 80_000, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
        trace.op(80_000, 100_000, "aten::mm")

    found = findings(with_cores(cores, 1, body))["cpu-loading"]
    assert found.share == pytest.approx(share, rel=0.01)
    assert f"The program may use {said}," in found.explanation or not said
    assert ("The program may use" in found.explanation) is bool(said)


@pytest.mark.parametrize(("calls_us", "named"), [(12_000, True), (8_000, False)])
def test_a_library_that_most_of_the_time_outside_operators_is_in_is_named(
    calls_us: float, named: bool
) -> None:
    """20 ms of a step lie in the program's own function, which calls the library for so long."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 80_000, "aten::mm")
        trace.frame(79_000, 99_990, "train.py(7): step")
        trace.frame(81_000, 81_000 + calls_us, "torch/serialization.py(948): save")
        trace.frame(81_010, 80_990 + calls_us, "torch/serialization.py(1200): _save")

    title = findings(program(body))["cpu-outside-operators"].title
    assert title.startswith(
        f"Code outside PyTorch's operators{', mostly torch.serialization.save' * named}: 20 %"
    )


@pytest.mark.parametrize(("side", "found"), [(1, False), (2, True)])
def test_single_numbers_are_no_computing_in_double_precision(side: int, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.shapes(trace.op(0, 40_000, "aten::mul"), [[side]], ["double"])
        trace.op(40_000, 99_990, "aten::mm")

    assert ("cpu-double-precision" in findings(program(body))) is found
