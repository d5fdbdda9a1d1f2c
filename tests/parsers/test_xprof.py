"""Profiles of JAX and TensorFlow tell kernels, calls, steps, ranges and causes, in JSON and as planes alike."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Attribute, CopyKind, EventKind, LaneKind, Trace, TraceError
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import Cause
from tests.parsers.protobuf_messages import message

FIXTURES = Path(__file__).parents[1] / "fixtures" / "xprof"


def stat(kind: int, value: int | str, reference: bool = False) -> bytes:
    form = 5 if isinstance(value, str) else 7 if reference else 4
    return message((1, kind), (form, value))


def event(kind: int, offset_ns: int, duration_ns: int, *stats: bytes) -> bytes:
    return message((1, kind), (2, offset_ns * 1000), (3, duration_ns * 1000), *((4, each) for each in stats))


def line(name: str, *events: bytes, number: int = 1, time: int = 100) -> bytes:
    return message((1, number), (2, name), (3, time), *((4, each) for each in events))


def named(
    field: int, names: dict[int, str], stats: dict[int, tuple[bytes, ...]] | None = None
) -> list[tuple[int, bytes]]:
    return [
        (
            field,
            message(
                (1, key),
                (2, message((1, key), (2, text), *((5, each) for each in (stats or {}).get(key, ())))),
            ),
        )
        for key, text in names.items()
    ]


STATS = {
    1: "correlation_id",
    2: "kernel_details",
    3: "step_num",
    4: "hlo_category",
    5: "convolution",
    6: "device_vendor",
}
STATS |= {7: "core_count", 8: "memcpy_details", 9: "gpu_device_name", 10: "is_eager"}


def plane(
    name: str,
    lines: list[bytes],
    events: dict[int, str],
    shared: dict[int, tuple[bytes, ...]] | None = None,
    stats: tuple[bytes, ...] = (),
) -> tuple[int, bytes]:
    return 1, message(
        (2, name),
        *((3, each) for each in lines),
        *named(4, events, shared),
        *named(5, STATS),
        *((6, each) for each in stats),
    )


def gpu_profile() -> bytes:
    details = "regs:32 static_shared:0 grid:8,2,1 block:128,1,1"
    copied = "kind_src:device kind_dst:pinned size:4"
    device = plane(
        "/device:GPU:0",
        [
            line("Stream #7(Compute)", event(1, 50, 30, stat(1, 11), stat(2, details))),
            line("Stream #9(MemcpyD2H)", event(2, 90, 5, stat(1, 12), stat(8, copied))),
        ],
        {1: "fusion_3", 2: "MemcpyD2H"},
        stats=(stat(6, "Nvidia"), stat(9, "NVIDIA H200"), stat(7, 132)),
    )
    host = plane(
        "/host:CPU",
        [
            line(
                "python3",
                event(1, 0, 200, stat(3, 4)),
                event(2, 1, 80),
                event(3, 2, 70),
                event(4, 3, 9),
                event(5, 100, 90),
                event(6, 120, 10),
                event(7, 125, 3),
                number=1 << 60,
            ),
            line("Host Threads/77", event(4, 30, 6, stat(1, 11)), number=77),
        ],
        {
            1: "train",
            2: "PjitFunction(step)",
            3: "GpuExecutable::ExecuteThunks",
            4: "fusion_3",
            5: "np.asarray(jax.Array)",
            6: "$train.py:12 main",
            7: "load_batch",
        },
    )
    return message(host, device, (4, "a host"))


def names_of(trace: Trace, kind: EventKind) -> list[str]:
    return [trace.name(each) for each in trace.events.of_kind(kind)]


def idle_by_cause(trace: Trace) -> np.ndarray:
    idle = Analysis(trace).idle
    return np.bincount(idle.cause, idle.end - idle.start, len(Cause))


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    path = tmp_path / "profile"
    path.write_bytes(gpu_profile())
    return open_trace([path])


def test_planes_tell_frames_calls_ranges_steps_and_the_runtimes_own_work_apart(trace: Trace) -> None:
    assert names_of(trace, EventKind.KERNEL) == ["fusion_3"]
    assert names_of(trace, EventKind.MEMCPY) == ["MemcpyD2H"]
    assert names_of(trace, EventKind.STEP) == ["train 4"]
    assert names_of(trace, EventKind.PYTHON) == ["train.py(12): main"]
    assert names_of(trace, EventKind.CPU_OP) == ["PjitFunction(step)"]
    assert names_of(trace, EventKind.REGION) == ["load_batch"]
    assert sorted(names_of(trace, EventKind.OTHER)) == ["GpuExecutable::ExecuteThunks", "fusion_3"]
    assert names_of(trace, EventKind.API) == ["fusion_3", "np.asarray(jax.Array)"]


def test_calls_kept_apart_belong_to_the_thread_that_made_them(trace: Trace) -> None:
    launch = trace.links.launch_of(trace.events.of_kind(EventKind.KERNEL))
    assert trace.name(int(launch[0])) == "fusion_3"
    threads = {trace.lanes[lane].thread for lane in trace.events.lane[trace.events.of_kind(EventKind.API)]}
    assert threads == {1 << 60}


def test_planes_describe_device_kernels_and_copies(trace: Trace) -> None:
    (device,) = trace.devices
    assert (device.name, device.sm_count) == ("NVIDIA H200", 132)
    kernel, copy = trace.gpu_operations.tolist()
    assert trace.text_attribute(Attribute.GRID_SHAPE, kernel) == "8,2,1"
    assert trace.attribute(Attribute.BLOCK, np.array([kernel])).tolist() == [128]
    assert trace.attribute(Attribute.REGISTERS, np.array([kernel])).tolist() == [32]
    assert trace.attribute(Attribute.BYTES, np.array([copy])).tolist() == [4]
    assert trace.attribute(Attribute.COPY_KIND, np.array([copy])).tolist() == [CopyKind.D2H.value]
    assert trace.arguments(kernel)["kernel_details"].startswith("regs:32")


def test_a_tpu_has_operations_categories_modules_and_steps(tmp_path: Path) -> None:
    tpu = plane(
        "/device:TPU:0",
        [
            line("Steps", event(3, 0, 100)),
            line("XLA Modules", event(4, 0, 90)),
            line("XLA Ops", event(1, 10, 20), event(2, 40, 30)),
        ],
        {1: "fusion.1", 2: "all-reduce.3", 3: "7", 4: "jit_step(1)"},
        {1: (stat(4, 5, reference=True),), 2: (stat(4, "all-reduce"),)},
    )
    path = tmp_path / "tpu.pb"
    path.write_bytes(message(tpu))
    trace = open_trace([path])
    assert names_of(trace, EventKind.KERNEL) == ["fusion.1", "all-reduce.3"]
    assert names_of(trace, EventKind.STEP) == ["step 7"]
    assert sorted(names_of(trace, EventKind.GPU_REGION)) == ["all-reduce", "convolution", "jit_step(1)"]
    assert trace.devices[0].name == "TPU"
    collective = int(trace.events.of_kind(EventKind.KERNEL)[1])
    assert trace.text_attribute(Attribute.COLLECTIVE, collective) == "allreduce"


@pytest.mark.parametrize(
    ("result", "source", "direction"),
    [("S(5)", "", CopyKind.D2H), ("", "S(5)", CopyKind.H2D), ("S(1)", "", CopyKind.D2D)],
)
def test_the_wait_for_a_copy_says_by_its_memory_spaces_which_way_it_goes(
    result: str, source: str, direction: CopyKind, tmp_path: Path
) -> None:
    to, of = f"f32[8]{{0:T(8){result}}}", f"f32[8]{{0:T(8){source}}}"
    written = f"%copy-done.2 = {to} copy-done(({to}, {of}, u32[]{{:S(2)}}) %copy-start.2)"
    number, tpu = plane(
        "/device:TPU:0",
        [line("XLA Ops", event(1, 10, 20)), line("Async XLA Ops", event(2, 5, 25))],
        {2: "async-copy"},
    )
    described = message((1, 1), (2, message((1, 1), (2, written), (4, "copy-done.2"))))
    path = tmp_path / "tpu.pb"
    path.write_bytes(message((number, tpu + message((4, described)))))
    trace = open_trace([path])
    assert sorted(names_of(trace, EventKind.MEMCPY)) == ["async-copy", "copy-done.2"]
    done = np.array([event for event in trace.gpu_operations if trace.name(event) == "copy-done.2"])
    assert trace.attribute(Attribute.COPY_KIND, done).tolist() == [direction.value]


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 0.8, 0.97])
def test_a_cut_profile_shows_what_comes_before_or_says_that_there_is_nothing(
    tmp_path: Path, share: float
) -> None:
    with gzip.open(FIXTURES / "loader.xplane.pb.gz") as file:
        whole = file.read()
    path = tmp_path / "cut.pb"
    path.write_bytes(whole[: int(len(whole) * share)])
    try:
        found = open_trace([path])
    except TraceError as error:
        problem = error.problem
    else:
        problem = " ".join(note.reason for note in found.quality.notes)
    assert "cut off" in problem or "cut or garbled" in problem or "no event" in problem


def test_impossible_times_are_counted(tmp_path: Path) -> None:
    odd = message((1, 1), (2, (1 << 63) - 1), (3, -5))
    path = tmp_path / "odd.pb"
    path.write_bytes(
        message(plane("/device:GPU:0", [line("Stream #1", event(1, 5, 5), odd, b"\xff\xff")], {1: "k"}))
    )
    found = open_trace([path])
    assert names_of(found, EventKind.KERNEL) == ["k"]
    assert (found.quality.events_read, found.quality.quarantined) == (3, 2)
    assert any(note.kind == "damaged" for note in found.quality.notes)


@pytest.mark.parametrize(
    ("name", "steps", "most", "culprit"),
    [
        ("loader.trace.json.gz", 0, Cause.INPUT, "load_batch"),
        ("loader.xplane.pb.gz", 0, Cause.INPUT, "load_batch"),
        ("eager.trace.json.gz", 6, Cause.LAUNCH, "PjitFunction(add)"),
    ],
)
def test_idle_time_of_jax_has_a_cause(name: str, steps: int, most: Cause, culprit: str) -> None:
    trace = open_trace([FIXTURES / name])
    assert len(trace.events.of_kind(EventKind.STEP)) == steps
    time = idle_by_cause(trace)
    assert time[Cause.UNKNOWN] < 0.1 * time.sum()
    assert Cause(int(np.argmax(time))) is most
    assert diagnose(trace).findings[0].culprit.name == culprit


def test_json_and_planes_of_one_run_agree_on_kernels() -> None:
    told = []
    for name in ("loader.trace.json.gz", "loader.xplane.pb.gz"):
        trace = open_trace([FIXTURES / name])
        kernels = trace.events.of_kind(EventKind.KERNEL)
        told.append((len(kernels), int(trace.events.duration[kernels].sum()), len(trace.links.operation)))
    assert told[0] == told[1]
    assert told[0] == (72, 198_208, 78)


def test_the_three_forms_of_one_real_run_agree(shared_data: Path) -> None:
    told = []
    for form in ("trace.json.gz", "perfetto.json.gz", "xplane.pb"):
        trace = open_trace([shared_data / "real" / f"jax_compiled.{form}"])
        kernels = trace.events.of_kind(EventKind.KERNEL)
        time = idle_by_cause(trace)
        told.append(
            (len(kernels), int(trace.events.duration[kernels].sum()), names_of(trace, EventKind.STEP))
        )
        assert time[Cause.UNKNOWN] < 0.1 * time.sum()
        assert Cause(int(np.argmax(time))) is Cause.SYNCHRONIZATION
    assert told[0] == told[1] == told[2]
    assert told[0][2] == [f"train {number}" for number in range(4)]


def test_xprof_lanes_are_named_after_their_threads(trace: Trace) -> None:
    assert {
        (lane.kind, lane.name) for lane in trace.lanes if lane.kind in (LaneKind.PYTHON, LaneKind.CUDA_API)
    } == {(LaneKind.PYTHON, "python3 Python"), (LaneKind.CUDA_API, "python3 calls")}


@pytest.mark.parametrize("has_gpu", [False, True])
def test_operators_of_tensorflow_are_work_of_a_cpu_that_has_no_gpu(has_gpu: bool, tmp_path: Path) -> None:
    dispatching = line("python3", event(1, 0, 200), event(2, 1, 190))
    computing = line("tf_Compute", event(3, 5, 100, stat(10, 0)), event(4, 110, 40), number=2)
    names = {1: "train_step", 2: "EagerKernelExecute 0", 3: "MatMul", 4: "ExecutorState::Process"}
    planes = [plane("/host:CPU", [dispatching, computing], names)]
    if has_gpu:
        stream = line("Stream #7(Compute)", event(1, 50, 30, stat(1, 11)))
        planes.insert(0, plane("/device:GPU:0", [stream], {1: "gemm"}))
    (tmp_path / "host.xplane.pb").write_bytes(message(*planes))
    trace = open_trace([tmp_path / "host.xplane.pb"])
    kinds = {
        trace.strings[name]: EventKind(kind)
        for name, kind in zip(trace.events.name.tolist(), trace.events.kind.tolist(), strict=True)
    }
    assert kinds["MatMul"] is (EventKind.REGION if has_gpu else EventKind.CPU_OP)
    assert kinds["EagerKernelExecute 0"] is EventKind.OTHER
    assert kinds["train_step"] is EventKind.REGION
