"""Where the GPU's records are missing, that is said, and nothing is concluded from what is left."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import EventKind, Lane, LaneKind, Trace
from rules import diagnosis_of
from rules.analysis.analysis import Analysis
from rules.analysis.recording.completeness import (
    Completeness,
    completeness_of,
    gpus_missing,
    is_sample,
    numbers_missing,
)
from rules.verdict.verdict import verdict
from tests.growing_recordings import complete, kernel, launch, trace
from tests.rules.builder import TinyTrace
from viewer.reports.json_report import as_json
from viewer.reports.text_report import as_text

# The cases lie on either side of these.
MIN_LAUNCHES = 100


def recorded(folder: Path, kept: float, count: int = 400, linked: bool = True) -> Trace:
    """Steps of one operator, its launch and its kernel each; of the kernels a part is missing."""
    events = []
    for number in range(count):
        at = number * 50.0
        events += [complete("aten::mm", at, 40.0), launch(at + 5.0, number + 1)]
        if int((number + 1) * kept) > int(number * kept):
            events.append(kernel("gemm", at + 10.0, number + 1 if linked else 10**6 + number))
    events.append(kernel("gemm", count * 50.0, count if linked else 1))
    path = folder / "run.json"
    path.write_bytes(trace(events, schemaVersion=1))
    return open_trace([path])


def test_half_of_the_gpu_records_is_too_little_to_conclude_from(tmp_path: Path) -> None:
    lossy = recorded(tmp_path, 0.5)
    analysis = Analysis(lossy)
    diagnosis = diagnosis_of(analysis)
    assert [finding.rule for finding in diagnosis.findings] == ["what-was-recorded"]
    assert all(finding.ceiling_ns == 0 for finding in diagnosis.findings)
    stated = as_json(lossy, diagnosis, analysis)["completeness"]
    assert stated["lost_records"]
    assert stated["share"] == pytest.approx(0.5, abs=0.01)
    assert "GPU records are missing" in as_text(lossy, diagnosis, analysis)
    assert (
        "199 launches made while the GPU was recorded have no operation, and 201 "
        in diagnosis.findings[0].explanation
    )


@pytest.mark.parametrize(("kept", "lost"), [(0.66, True), (0.74, False), (1.0, False)])
def test_a_recording_that_lacks_some_operations_is_judged_from_seven_of_ten_on(
    tmp_path: Path, kept: float, lost: bool
) -> None:
    assert completeness_of(recorded(tmp_path, kept)).has_lost_records is lost


@pytest.mark.parametrize(
    ("launches", "share", "lost"), [(99, 0.5, False), (100, 0.5, True), (2, 0.0, False), (3, 0.0, True)]
)
def test_few_launches_without_operations_may_lie_at_the_ends_unless_not_one_has_any(
    launches: int, share: float, lost: bool
) -> None:
    found = Completeness(launches, np.arange(round(launches * (1 - share))))
    assert found.has_lost_records is lost


def test_what_only_hands_over_the_shape_of_a_launch_is_no_launch(tmp_path: Path) -> None:
    events = []
    for number in range(2 * MIN_LAUNCHES):
        at = number * 50.0
        handed = launch(at, 10**6 + number) | {"name": "__hipPushCallConfiguration"}
        events += [handed, launch(at + 5.0, number + 1), kernel("gemm", at + 10.0, number + 1)]
    path = tmp_path / "run.json"
    path.write_bytes(trace(events, schemaVersion=1))
    assert not completeness_of(open_trace([path])).has_lost_records


def test_a_few_launches_without_operation_are_no_loss(tmp_path: Path) -> None:
    assert not completeness_of(recorded(tmp_path, 0.5, MIN_LAUNCHES // 2)).has_lost_records


def test_kernels_and_launches_that_are_not_linked_are_no_loss(tmp_path: Path) -> None:
    assert not completeness_of(recorded(tmp_path, 0.9, linked=False)).has_lost_records


def test_launches_without_any_kernel_are_said_to_have_lost_them(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(trace([launch(number * 10.0, number + 1) for number in range(1_890)], schemaVersion=1))
    of = open_trace([path])
    analysis = Analysis(of)
    assert "1,890 launches, no kernel" in as_text(of, diagnosis_of(analysis), analysis).replace("\n", " ")


def test_copies_do_not_hide_that_every_kernel_is_missing(tmp_path: Path) -> None:
    copies = [
        kernel("Memcpy HtoD", at, 10**6 + number) | {"cat": "gpu_memcpy"}
        for number, at in enumerate((1.0, 2e4))
    ]
    path = tmp_path / "run.json"
    path.write_bytes(
        trace([*copies, *(launch(number * 50.0, number + 1) for number in range(400))], schemaVersion=1)
    )
    diagnosis = diagnosis_of(Analysis(open_trace([path])))
    assert [finding.rule for finding in diagnosis.findings] == ["what-was-recorded"]


@pytest.mark.parametrize(("launches", "lost"), [(2, False), (3, True)])
def test_a_few_launches_between_copies_have_lost_their_kernels_where_there_is_no_kernel_at_all(
    launches: int, lost: bool
) -> None:
    tiny = TinyTrace()
    tiny.copy(10, 40, "HtoD", 0)
    for number in range(launches):
        tiny.call(50 + 10 * number, 55 + 10 * number, "cudaLaunchKernel")
    tiny.copy(500, 540, "DtoH", 495)
    assert completeness_of(tiny.build()).has_lost_records is lost


def test_launches_that_a_graph_holds_have_lost_nothing() -> None:
    tiny = TinyTrace()
    tiny.copy(10, 40, "HtoD", 0)
    for number in range(10):
        tiny.call(50 + 10 * number, 55 + 10 * number, "cudaLaunchKernel")
    tiny.operation(300, 480, "CUDA graph 1", 290, kind=EventKind.GRAPH, call="cudaGraphLaunch")
    tiny.copy(500, 540, "DtoH", 495)
    assert not completeness_of(tiny.build()).has_lost_records


def test_a_file_that_ends_before_the_gpu_is_said_to_be_cut(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    whole = trace([launch(number * 10.0, number + 1) for number in range(200)], schemaVersion=1)
    path.write_bytes(whole[: len(whole) * 2 // 3])
    of = open_trace([path])
    analysis = Analysis(of)
    assert "stops in the middle" in as_text(of, diagnosis_of(analysis), analysis).replace("\n", " ")


def test_a_file_with_memory_that_ends_before_the_gpu_s_work_is_said_to_be_cut(
    fixtures: Path, tmp_path: Path
) -> None:
    whole = gzip.decompress((fixtures / "torch/memory_stack.pt.trace.json.gz").read_bytes())
    path = tmp_path / "run.json"
    path.write_bytes(whole[: len(whole) // 2])
    analysis = Analysis(open_trace([path]))
    assert analysis.trace.memory
    assert verdict(analysis, diagnosis_of(analysis)).startswith("The recording stops in the middle")


@pytest.mark.parametrize(("zeroed", "told"), [(60_000, False), (70_000, True)])
def test_a_stretch_of_a_file_that_is_damaged_is_what_is_told_first(
    tmp_path: Path, zeroed: int, told: bool
) -> None:
    path = tmp_path / "run.json"
    recorded(tmp_path, 1.0, 1_000)
    whole = path.read_bytes()
    path.write_bytes(whole[:50_000] + b"\0" * zeroed + whole[50_000 + zeroed :])
    analysis = Analysis(open_trace([path]))
    report = as_text(analysis.trace, diagnosis_of(analysis), analysis).replace("\n", " ")
    assert (
        report.startswith("The recording cannot be read in the middle: part of what ran is missing") is told
    )


@pytest.mark.parametrize("kept", [1.0, 0.7])
def test_a_recording_that_is_cut_before_the_first_call_is_not_one_of_a_cpu(
    tmp_path: Path, kept: float
) -> None:
    path = tmp_path / "run.json"
    whole = trace([complete("aten::mm", number * 50.0, 40.0) for number in range(200)], schemaVersion=1)
    path.write_bytes(whole[: int(kept * len(whole))])
    analysis = Analysis(open_trace([path]))
    first = as_text(analysis.trace, diagnosis_of(analysis), analysis).splitlines()[0]
    assert first.startswith("The recording stops in the middle: what can be read holds no") is (kept < 1)
    assert first.startswith("The CPU's operators are the limit") is (kept == 1)


@pytest.mark.parametrize(("apart", "sampled"), [(1, False), (14, False), (40, False), (70, True)])
def test_calls_whose_numbers_lie_far_apart_are_a_sample(tmp_path: Path, apart: int, sampled: bool) -> None:
    events = []
    for number in range(2 * MIN_LAUNCHES):
        at, correlation = number * 50.0, 1 + number * apart
        events += [complete("aten::mm", at, 40.0), launch(at + 5.0, correlation)]
        events.append(kernel("gemm", at + 10.0, correlation))
    path = tmp_path / "run.json"
    path.write_bytes(trace(events, schemaVersion=1))
    analysis = Analysis(open_trace([path]))
    report = as_text(analysis.trace, diagnosis_of(analysis), analysis)
    assert ("The recording is a sample" in report.splitlines()[0]) is sampled
    assert sampled is not ("Where the time of GPU 0 goes" in report)


def test_several_short_recordings_in_one_file_are_no_sample(tmp_path: Path) -> None:
    events = []
    for number in range(2 * MIN_LAUNCHES):
        at, correlation = number * 50.0, 1 + number + 100_000 * (number // 50)
        events += [complete("aten::mm", at, 40.0), launch(at + 5.0, correlation)]
        events.append(kernel("gemm", at + 10.0, correlation))
    path = tmp_path / "run.json"
    path.write_bytes(trace(events, schemaVersion=1))
    diagnosis = diagnosis_of(Analysis(open_trace([path])))
    assert "sample" not in " ".join(finding.title for finding in diagnosis.findings)


@pytest.mark.parametrize(("fills", "missing"), [(0, 200), (49, 151), (50, 0), (100, 0)])
@pytest.mark.parametrize("copies", [False, True], ids=["fills", "copies on the GPU"])
def test_numbers_that_the_drivers_own_kernels_took_are_not_missing(
    fills: int, missing: int, copies: bool
) -> None:
    tiny = TinyTrace()
    for number in range(100):
        at = 20.0 * number
        tiny.operation(at, at + 5, "insert", launch_number=3 * number)
        if number < fills and copies:
            tiny.copy(at + 6, at + 8, "DtoD")
        elif number < fills:
            tiny.operation(at + 6, at + 8, "Memset (Device)", kind=EventKind.MEMSET)
    tiny.operation(2_000, 2_005, "insert", launch_number=300)
    assert numbers_missing(tiny.build()) == missing


@pytest.mark.parametrize(
    ("call", "on_one"),
    [
        ("PjRtStreamExecutorLoadedExecutable::Execute", "PjRtStreamExecutorLoadedExecutable::ExecuteHelper"),
        ("PjRtCApiLoadedExecutable::Execute", "CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice"),
    ],
)
@pytest.mark.parametrize(("gpus", "missing"), [(1, 3), (3, 1), (4, 0)])
def test_gpus_that_xla_starts_a_program_on_and_that_have_no_kernel_are_missing(
    call: str, on_one: str, gpus: int, missing: int
) -> None:
    tiny = TinyTrace()
    runtime = tiny.builder.lane(Lane(LaneKind.OTHER, "runtime", None, 100, 7))
    for step in range(6):
        tiny.shift = 1000.0 * step
        tiny.add(0, 90, call, runtime, EventKind.OTHER)
        for gpu in range(4):
            tiny.add(10.0 * gpu, 10.0 * gpu + 9, on_one, runtime, EventKind.OTHER)
        for gpu in range(gpus):
            tiny.kernels(20.0, 8, 20, 40, device=gpu, stream=7 + gpu)
    of = tiny.build()
    assert gpus_missing(of) == ((missing, 4) if missing else (0, 0))
    analysis = Analysis(of)
    report = as_text(of, diagnosis_of(analysis), analysis)
    assert (f"GPU records are missing: {missing} of 4 GPUs" in report.splitlines()[0]) is (missing > 0)
    assert ("Where the time of GPU 0 goes" in report) is (missing == 0)


@pytest.mark.parametrize(
    ("apart_us", "wait_us", "sampled"),
    [(25.0, 5.0, True), (19.0, 5.0, False), (50.0, 19.0, True), (50.0, 21.0, False), (50.0, 0.0, False)],
)
def test_operations_that_waited_less_than_the_time_between_them_are_a_sample(
    tmp_path: Path, apart_us: float, wait_us: float, sampled: bool
) -> None:
    """A column of zeros, which some versions write, tells nothing."""
    rows = [
        f"Mul_{number % 3},Mul,AI_CORE,{1_000 + number * (10 + apart_us)},10.0,{wait_us}"
        for number in range(40)
    ]
    path = tmp_path / "kernel_details.csv"
    path.write_text(
        "\n".join(["Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)", *rows])
    )
    analysis = Analysis(open_trace([path]))
    told = verdict(analysis, diagnosis_of(analysis))
    assert (told == "The recording is a sample: most of its operations were removed") is sampled


@pytest.mark.parametrize(("missing", "sampled"), [(21, True), (20, False)])
def test_most_operations_lack_those_before_them_in_a_sample(
    tmp_path: Path, missing: int, sampled: bool
) -> None:
    """Accelerators that work beside one another differ here and there."""
    waits = [5.0] * missing + [90.0] * (40 - missing)
    rows = [f"Mul,Mul,AI_CORE,{number * 100},10.0,{wait}" for number, wait in enumerate([0.0, *waits])][:41]
    path = tmp_path / "kernel_details.csv"
    path.write_text(
        "\n".join(["Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)", *rows])
    )
    assert is_sample(open_trace([path])) is sampled
