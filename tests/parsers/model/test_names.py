"""What names tell is the same for whoever asks: steps, calls, ranges of communication, devices."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model import Device, EventKind, Lane, LaneKind, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.names.calls import USUAL_CALLS, WORK_CALLS, Call, call_by_pattern, call_of
from parsers.model.names.collectives import collective_of, is_collective_kernel, is_communication_range
from parsers.model.names.devices import device_name, short_device_name
from parsers.model.names.kernels import kernel_name
from parsers.model.names.per_name import named
from parsers.model.names.steps import is_profiler_step, numbered, says_step, step_number


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("step_5", 5),
        ("Iteration 5", 5),
        ("train_step 5", 5),
        ("ProfilerStep#5", 5),
        ("ProfilerStep # 5", 5),
        (" iter[5] ", 5),
        ("validation step 12", 12),
        ("optimizer.step 5", 5),
        ("step", None),
        ("steps 5", None),
        ("epoch 5", None),
        ("micro step 5", None),
        ("stepper 5", None),
        ("layer_step 5 of 6", None),
        ("step " + "9" * 19, None),
    ],
)
def test_one_step_of_a_run_says_its_number(name: str, number: int | None) -> None:
    assert step_number(name) == number


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("std::enable_if<(((8)>(0)))&&ns::has<T>::value, void>::type ns::norm<T, 8>(T*, int)", "norm"),
        ("void ns::DeviceKernel<Policy<(8>4)>, int>(int)", "DeviceKernel"),
        ("void ns::scale<8>::operator()(int) const", "scale::operator()"),
        ("void nested<T>::kernel<8>(int)", "nested::kernel"),
        ("void apply<[](int a) -> bool>(int)", "apply"),
        ("8>(int)", "8>(int)"),
        (">(int, float)", ">(int, float)"),
    ],
)
def test_what_is_left_of_a_template_is_no_name_of_a_kernel(name: str, shown: str) -> None:
    assert kernel_name(name) == shown


@pytest.mark.parametrize(
    "name", ["step", "steps", "micro step 3", "epoch (4)", "request 7", "train_batch", "inner_loop 2"]
)
def test_a_word_for_a_step_is_recognised_without_a_number(name: str) -> None:
    assert says_step(name)


@pytest.mark.parametrize(
    "name", ["optimizer step", "optimizer_step 3", "data loading", "stepwise", "forward 3", "next epoch"]
)
def test_phases_of_a_step_are_no_steps(name: str) -> None:
    assert not says_step(name)


def test_the_mark_of_the_profiler_is_told_from_a_step_that_the_program_named() -> None:
    assert is_profiler_step("ProfilerStep#12")
    assert is_profiler_step("ProfilerStep # 12")
    assert not is_profiler_step("step 12")
    assert not is_profiler_step("ProfilerStep")


def test_a_number_at_the_end_of_a_name_counts_it() -> None:
    assert numbered("decode_5") == ("decode", 5)
    assert numbered("layer (7)") == ("layer", 7)
    assert numbered("5") is None
    assert numbered("forward") is None


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("cudaLaunchKernel", Call.LAUNCH),
        ("cuLaunchKernelEx_ptsz", Call.LAUNCH),
        ("hipExtModuleLaunchKernel", Call.LAUNCH),
        ("urEnqueueKernelLaunch", Call.LAUNCH),
        ("zeCommandListAppendLaunchKernel", Call.LAUNCH),
        ("cudaGraphLaunch_v10000", Call.GRAPH_LAUNCH),
        ("cuGraphLaunch (CudaGraph:16)", Call.GRAPH_LAUNCH),
        ("cudaMemcpy", Call.BLOCKING_COPY),
        ("cudaMemcpyAsync", Call.COPY),
        ("urEnqueueUSMMemcpy", Call.COPY),
        ("hipMemsetAsync", Call.MEMSET),
        ("zeCommandListAppendMemoryFill", Call.MEMSET),
        ("cudaStreamSynchronize", Call.SYNCHRONIZE),
        ("urQueueFinish", Call.SYNCHRONIZE),
        ("zeEventHostSynchronize", Call.SYNCHRONIZE),
        ("cuMemAlloc_v2", Call.ALLOCATE),
        ("urUSMDeviceAlloc", Call.ALLOCATE),
        ("cudaStreamWaitEvent", Call.OTHER),  # it makes a stream wait, not the thread
        ("cudaEventQuery", Call.OTHER),
        ("cudaGraphLaunch rebuild", Call.OTHER),  # a region of the program
        ("my cudaLaunchKernel", Call.OTHER),
        ("relaunch", Call.OTHER),
    ],
)
def test_a_call_is_what_its_name_says(name: str, call: Call) -> None:
    assert call_of(name) is call


@pytest.mark.parametrize("name", USUAL_CALLS)
def test_a_usual_call_is_what_the_patterns_say(name: str) -> None:
    assert call_of(name) is call_by_pattern(name)


def test_what_puts_work_on_a_gpu_is_no_wait() -> None:
    assert Call.SYNCHRONIZE not in WORK_CALLS
    assert Call.ALLOCATE not in WORK_CALLS


@pytest.mark.parametrize(
    ("name", "of_communication"),
    [
        ("nccl:all_reduce", True),
        ("ncclAllReduce", True),
        ("c10d::allreduce_", True),
        ("record_param_comms", True),
        ("MPI_Allreduce", True),
        ("nvshmem_barrier_all", True),
        ("all_reduce gradients", False),
        ("mpi", False),
        ("import nccl", False),
    ],
)
def test_ranges_of_a_communication_library_are_told_from_those_of_the_program(
    name: str, of_communication: bool
) -> None:
    assert is_communication_range(name) is of_communication


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("psum.896", "allreduce"),
        ("psum_scatter.2", "reducescatter"),
        ("ppermute.3", "sendrecv"),
        ("all_gather_invariant.4", "allgather"),
        ("all_to_all.5", "alltoall"),
        ("psum", ""),
        ("my_psum.2", ""),
        ("psum_kernel.2", ""),
    ],
)
def test_numbered_instructions_of_xla_are_known_by_jaxs_primitives(name: str, collective: str) -> None:
    assert is_collective_kernel(name) is bool(collective)
    if collective:
        assert collective_of(name) == collective


def test_a_collective_is_named_alike_by_kernels_and_ranges() -> None:
    kernel, range_ = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", "nccl:all_reduce"
    assert is_collective_kernel(kernel)
    assert not is_collective_kernel("reduce_kernel")
    assert collective_of(kernel) == collective_of(range_) == "allreduce"


def of_devices(*devices: Device, idle: tuple[int, ...] = ()) -> Trace:
    """One kernel on each, but for those that are idle."""
    builder = TraceBuilder()
    for device in devices:
        index = builder.device(device)
        if index not in idle:
            lane = builder.lane(Lane(LaneKind.GPU_STREAM, "stream 7", device.rank, device=index, stream=7))
            times = np.array([0]), np.array([1000])
            builder.add(*times, builder.string("kernel"), lane, EventKind.KERNEL)
    return builder.build()


def test_a_gpu_is_called_by_its_number_and_by_its_rank_where_there_are_several() -> None:
    alone = of_devices(Device(3))
    assert (device_name(alone, 0), short_device_name(alone, 0)) == ("GPU 3", "GPU 3")
    ranks = of_devices(Device(0, rank=0), Device(0, rank=1), Device(1, rank=1))
    assert [device_name(ranks, index) for index in range(3)] == [
        "rank 0, GPU 0",
        "rank 1, GPU 0",
        "rank 1, GPU 1",
    ]
    assert [short_device_name(ranks, index) for index in range(3)] == [
        "rank 0",
        "rank 1, GPU 0",
        "rank 1, GPU 1",
    ]
    listed_only = of_devices(Device(0, rank=0), Device(0, rank=1), Device(1, rank=1), idle=(2,))
    assert short_device_name(listed_only, 1) == "rank 1"


@pytest.mark.parametrize("count", [1, 127, 128, 1_000])
@pytest.mark.parametrize("wanted", ["a", "b", "c"])
def test_each_name_is_asked_once_however_many_events_bear_it(count: int, wanted: str) -> None:
    builder = TraceBuilder()
    lane = builder.lane(Lane(LaneKind.CPU_THREAD, "main", process=1, thread=1))
    for name in ("of no event", "a", "b"):
        builder.string(name)
    start = np.arange(count + 1, dtype=np.int64)
    builder.add(start, start + 1, np.append(np.full(count, 1), 2), lane, EventKind.CPU_OP)
    trace = builder.build()
    asked: list[str] = []

    def is_wanted(name: str) -> bool:
        asked.append(name)
        return name == wanted

    assert named(trace, np.arange(count), is_wanted).tolist() == [wanted == "a"] * count
    assert asked in (["a"], ["a", "b"])
    assert named(trace, np.arange(count + 1), wanted.__eq__).tolist() == [wanted == "a"] * count + [
        wanted == "b"
    ]
