"""What is said of a recording without a GPU: operators, the program's own functions, and what lies between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parsers.model import EventKind, Lane, LaneKind
from parsers.model.builder import TraceBuilder
from parsers.model.quality import (
    GPU_OPERATORS,
    GPU_WITHOUT_TIMES,
    IN_ROWS,
    KERNEL_COUNTERS,
    Effect,
    QualityRecorder,
)
from rules import Finding, diagnose
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import verdict, what_lacks_a_gpu
from tests.rules.builder import TinyTrace


def told(trace: TinyTrace) -> Finding:
    return next(each for each in diagnose(trace.build()).findings if each.rule == "cpu-recording")


@pytest.mark.parametrize(("second_pause", "one_stretch"), [(100, True), (800, False)])
def test_one_long_stretch_without_anything_is_told_with_what_comes_after_it(
    second_pause: int, one_stretch: bool
) -> None:
    trace = TinyTrace()
    trace.op(0, 100, "aten::linear")
    trace.op(800, 900, "AddmmBackward0")
    trace.op(900 + second_pause, 1_000 + second_pause, "aten::mm")
    assert ("700 us of it before AddmmBackward0." in told(trace).explanation) is one_stretch


@pytest.mark.parametrize(("until", "told_so"), [(751, True), (749, False)])
def test_silence_of_a_thread_while_others_work_is_told_as_that(until: int, told_so: bool) -> None:
    trace = TinyTrace()
    trace.op(0, 500, "Conv2DBackpropFilter")
    trace.op(999, 1_000, "Identity")
    trace.op(501, until, "Conv2D", thread=2)
    explanation = told(trace).explanation
    assert "In 50 % of the time it runs nothing that was recorded" in explanation
    assert ("mostly while other threads run operators." in explanation) is told_so


@pytest.mark.parametrize(
    ("counted", "headline"),
    [
        (0, "No GPU activity was recorded, only the CPU's: 67 % of its operators' time in Select"),
        (2, "A GPU worked, and only the CPU was recorded: 67 % of its operators' time in Select"),
    ],
)
def test_operators_in_rows_that_are_no_threads_are_told_by_all_their_time(
    counted: int, headline: str
) -> None:
    trace = TinyTrace()
    trace.op(0, 400, "Select")
    trace.op(0, 400, "Select", thread=2)
    trace.op(500, 900, "Mul")
    built = trace.build()
    recorder = QualityRecorder()
    recorder.note(IN_ROWS, Effect.NOTED, "rows", count=3)
    recorder.note(GPU_OPERATORS, Effect.NOTED, "of a GPU", count=counted)
    (finding,) = diagnose(replace(built, quality=recorder.quality())).findings
    assert finding.title == headline
    assert (
        "1.20 ms in all, some of them at once, within 800 us: 67 % in “Select” (800 us)"
        in finding.explanation
    )
    assert "thread" not in finding.explanation


@pytest.mark.parametrize(
    ("idle_us", "said"), [(110, "52 % between operators"), (90, "53 % of the recorded time")]
)
def test_most_time_between_operators_is_what_a_recording_of_short_ones_shows(idle_us: int, said: str) -> None:
    trace = TinyTrace()
    for number in range(60):
        trace.op(number * (idle_us + 100), number * (idle_us + 100) + 100, f"aten::op{number}")
    told_of = told(trace)
    assert told_of.headline.amount == said
    assert told_of.advice[0].startswith("Replace loops") is ("between" in said)


@pytest.mark.parametrize(("idle_us", "at_once"), [(6_200, True), (5_500, False)])
def test_one_long_wait_between_operators_is_no_loop(idle_us: int, at_once: bool) -> None:
    trace = TinyTrace()
    for number in range(60):
        begin = number * 200 + (idle_us if number else 0)
        trace.op(begin, begin + 100, f"aten::op{number}")
    said = told(trace)
    assert ("between operators, most of it in one stretch" in said.title) is at_once
    assert said.advice[0].startswith("Replace loops") is not at_once


@pytest.mark.parametrize(
    ("operator", "said"),
    [("aten::normal_", "Generate random numbers"), ("aten::addmm", "Check that all cores")],
)
def test_advice_is_about_the_operator_that_takes_most_of_the_time(operator: str, said: str) -> None:
    trace = TinyTrace()
    for number in range(30):
        trace.op(1_000 * number, 1_000 * number + 600, operator)
        trace.op(1_000 * number + 600, 1_000 * (number + 1), "aten::copy_")
    assert told(trace).advice[0].startswith(said)


@pytest.mark.parametrize(
    ("call", "others_us", "title"),
    [
        ("rpc_async#forward(worker0 -> worker1)", 300, "The program waits for other processes: 60 % in"),
        ("gloo:recv", 300, "The program waits for other processes: 60 % in gloo:recv"),
        ("rpc_async#forward(worker0 -> worker1)", 700, "The CPU's operators are the limit: 100 %"),
        ("recv", 300, "The CPU's operators are the limit: 100 %"),
    ],
)
def test_a_call_of_another_process_is_no_work_of_the_cpu(call: str, others_us: int, title: str) -> None:
    trace = TinyTrace()
    for number in range(30):
        trace.op(1_000 * number, 1_000 * number + 900 - others_us, call)
        trace.op(1_000 * number + 900 - others_us, 1_000 * number + 900, "aten::mm")
        trace.op(1_000 * number + 900, 1_000 * (number + 1), "aten::relu")
    found = told(trace)
    assert found.title.startswith(title)
    assert found.advice[0].startswith("Record these processes as well") is title.startswith("The program")


@pytest.mark.parametrize(("busy_us", "first"), [(9, True), (11, False)])
def test_recording_the_gpu_comes_first_where_next_to_nothing_of_the_cpu_was_recorded(
    busy_us: int, first: bool
) -> None:
    trace = TinyTrace()
    trace.op(0, busy_us - 1, "aten::empty")
    trace.op(999, 1_000, "aten::empty")
    assert told(trace).advice[0].startswith("Record the GPU as well") is first


@pytest.mark.parametrize(("count", "each_us", "judged"), [(19, 50, False), (20, 49, True), (19, 53, True)])
def test_a_single_short_call_is_too_little_to_judge(count: int, each_us: int, judged: bool) -> None:
    trace = TinyTrace()
    for number in range(count):
        trace.op(number * each_us, (number + 1) * each_us, "aten::uniform_")
    built = trace.build()
    said = verdict(Analysis(built), diagnose(built))
    assert said.startswith("The CPU's operators are the limit" if judged else "Too little was recorded")
    assert judged or f"{count} operators in" in said


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        (
            "aten::cudnn_convolution",
            "A GPU worked, and only the CPU was recorded: 80 % in aten::cudnn_convolution",
        ),
        ("aten::mkldnn_convolution", "The CPU's operators are the limit: 100 % of the recorded time"),
    ],
)
def test_operators_that_a_gpu_runs_show_that_it_worked(operator: str, said: str) -> None:
    trace = TinyTrace()
    for number in range(40):
        trace.op(100 * number, 100 * number + 80, operator)
        trace.op(100 * number + 80, 100 * (number + 1), "aten::empty")
    built = trace.build()
    assert verdict(Analysis(built), diagnose(built)).startswith(said)


@pytest.mark.parametrize(
    ("call", "worked"),
    [("cudaGetDeviceCount", False), ("cudaDeviceSynchronize", False), ("cudaMalloc", True)],
)
def test_a_program_on_the_cpu_may_ask_for_gpus_and_its_profiler_waits_for_them(
    call: str, worked: bool
) -> None:
    trace = TinyTrace()
    for number in range(40):
        trace.op(100 * number, 100 * number + 30, "aten::mkldnn_convolution")
    trace.call(0, 10, call)
    assert told(trace).title.startswith("A GPU worked") is worked


@pytest.mark.parametrize(
    ("region", "said"),
    [
        ("ExecutionContext::execute", "A GPU worked, and only the CPU was recorded"),
        ("Session::execute", "No GPU activity was recorded, only the CPU's"),
    ],
)
def test_a_library_that_computes_on_gpus_alone_shows_that_one_worked(region: str, said: str) -> None:
    trace = TinyTrace()
    for number in range(40):
        trace.region(100 * number, 100 * number + 50, region)
        trace.region(100 * number + 50, 100 * (number + 1), "post_processing")
    finding = told(trace)
    assert finding.title.startswith(said)
    assert any("check whether model and tensors are there" in each for each in finding.advice) is (
        "No GPU" in said
    )


@pytest.mark.parametrize(("operator", "of_pytorch"), [("aten::mm", True), ("MatMul", False)])
def test_only_pytorch_is_advised_by_its_own_switches(operator: str, of_pytorch: bool) -> None:
    trace = TinyTrace()
    for number in range(40):
        trace.op(100 * number, 100 * number + 95, operator)
    assert any("torch." in advice for advice in told(trace).advice) is of_pytorch


def test_functions_of_the_program_are_told_beside_operators_and_those_of_libraries_are_not() -> None:
    trace = TinyTrace()
    trace.frame(0, 950, "/home/me/solve.py(12): residual")
    trace.frame(10, 900, "/env/lib/python3.11/site-packages/numpy/linalg.py(3): solve")
    trace.op(20, 880, "aten::linalg_solve")
    trace.frame(950, 1_000, "/home/me/solve.py(30): report")
    said = told(trace).explanation
    assert "In the program's own code: /home/me/solve.py(12): residual (95 %)" in said
    assert "numpy" not in said.partition("own code")[2]


@pytest.mark.parametrize(
    ("launches", "said"), [(0, "No GPU activity was recorded"), (30, "The GPU's records are missing")]
)
def test_lost_records_are_told_before_a_peak_of_memory(launches: int, said: str) -> None:
    trace = TinyTrace()
    trace.region(0, 10_000, "forward")
    for number in range(launches):
        trace.call(number * 100, number * 100 + 5, "cudaLaunchKernel")
    built = trace.build()
    assert said in verdict(Analysis(built), diagnose(built))


@pytest.mark.parametrize("launches", [0, 30])
def test_what_the_cpu_runs_is_told_also_where_the_gpu_s_records_are_missing(launches: int) -> None:
    trace = TinyTrace()
    for number in range(10):
        trace.op(1_000 * number, 1_000 * number + 700, "aten::normal_")
        trace.op(1_000 * number + 700, 1_000 * (number + 1), "aten::copy_")
    for number in range(launches):
        trace.call(710 + 300 * number, 750 + 300 * number, "cudaLaunchKernel")
    trace.call(9_720, 9_990, "cudaMemcpyAsync") if launches else None
    said = told(trace)
    lost = "The GPU's records are missing, only the CPU's are here: 70 % in aten::normal_"
    assert (said.title == lost) is bool(launches)
    assert "70 % in aten::normal_" in said.explanation
    assert ("Calls to the driver are part of this: cudaLaunchKernel (12 %)" in said.explanation) is bool(
        launches
    )
    assert any("of its work, the times here" in advice for advice in said.advice) is bool(launches)


def test_kernels_of_which_only_counters_were_recorded_are_not_called_missing() -> None:
    trace = TinyTrace()
    trace.op(0, 900, "aten::linear")
    trace.call(100, 110, "cudaLaunchKernel")
    recorder = QualityRecorder()
    recorder.note(KERNEL_COUNTERS, Effect.NOTED, "counters and no times", count=7)
    diagnosis = diagnose(replace(trace.build(), quality=recorder.quality()))
    assert not [each for each in diagnosis.findings if each.rule == "cpu-recording"]


def test_activities_without_times_are_not_called_a_recording_without_a_gpu() -> None:
    trace = TinyTrace()
    trace.op(0, 900, "aten::linear")
    recorder = QualityRecorder()
    recorder.note(GPU_WITHOUT_TIMES, Effect.QUARANTINED, "a GPU activity without a time", count=3_425)
    built = replace(trace.build(), quality=recorder.quality())
    diagnosis = diagnose(built)
    assert verdict(Analysis(built), diagnosis) == "3,425 GPU activities were recorded without their times"
    assert what_lacks_a_gpu(built, diagnosis)[-1].endswith("its times were not recorded")
    assert diagnosis.skipped["gpu-bound"] == "the GPU's activities were recorded without times"
    (finding,) = (each for each in diagnosis.findings if each.rule == "cpu-recording")
    assert finding.unknown == ("When the GPU worked, and for how long.",)
    assert "gave the profiler no times" in str(finding.remedy)


@pytest.mark.parametrize(
    ("name", "loads"),
    [("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", True), ("solve", False)],
)
def test_a_single_batch_that_takes_most_of_the_time_is_told_as_the_loaders(name: str, loads: bool) -> None:
    trace = TinyTrace()
    trace.region(0, 8_000, name)
    trace.op(100, 300, "aten::stack")
    trace.op(8_100, 10_000, "aten::linear")
    finding = told(trace)
    assert ("in the data loader" in finding.title) is loads
    assert any("num_workers" in each for each in finding.advice) is loads


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ({"spin": 60, "parse": 40}, ": 60 % of the CPU's samples are in spin"),
        ({"spin": 59, "parse": 40}, ""),
        ({"0xffffffff8f400b90": 60, "parse": 40}, ""),
        ({"(sample without a call chain)": 60, "parse": 40}, ""),
    ],
)
def test_samples_that_are_moments_say_where_the_cpu_was(functions: dict[str, int], said: str) -> None:
    builder = TraceBuilder()
    lane = builder.lane(Lane(LaneKind.SAMPLES, "python", thread=7))
    names = [builder.string(name) for name, count in functions.items() for _ in range(count)]
    moments = np.arange(len(names), dtype=np.int64) * 1_000_000
    builder.add(moments, moments, np.array(names, np.int32), lane, EventKind.SAMPLE)
    trace = builder.build()
    assert verdict(Analysis(trace), diagnose(trace)) == f"No GPU activity was recorded{said}"


@pytest.mark.parametrize(
    ("name", "until", "told_so"),
    [
        ("aten::_slow_conv2d_forward", 510, True),
        ("aten::_slow_conv2d_forward", 490, False),
        ("aten::thnn_conv2d", 510, True),
        ("aten::mkldnn_convolution", 510, False),
    ],
)
def test_a_convolution_that_pytorch_falls_back_to_is_told_as_that(
    name: str, until: int, told_so: bool
) -> None:
    trace = TinyTrace()
    trace.op(0, until, name)
    trace.op(until, 1_000, "aten::native_batch_norm")
    finding = told(trace)
    assert finding.title.startswith("The CPU's operators are the limit")
    assert any("PyTorch's fallback" in each for each in finding.advice) is told_so
    assert any("amx_bf16" in each for each in finding.advice) is not told_so
