"""Exports that others published, of many versions, agree with what independent tools say about them."""

from __future__ import annotations

from collections import Counter as Count
from pathlib import Path

import numpy as np
import pytest

from parsers.model import Attribute, EventKind, LaneKind, Trace
from tests.examples import one_of
from tests.opened import opened


def published(shared_data: Path, name: str) -> Trace:
    return opened(next((shared_data / "public" / "nsys").glob(f"*{name}*.sqlite")))


def kinds(trace: Trace) -> Count[str]:
    return Count(EventKind(kind).name for kind in trace.events.kind.tolist())


def kernel_ms(trace: Trace) -> float:
    kernels = trace.events.of_kind(EventKind.KERNEL)
    return float(trace.events.duration[kernels].sum()) / 1e6


@pytest.mark.parametrize(
    ("name", "milliseconds", "collectives"),
    [("mfu_2gpu_before", 535.200650, 66), ("mfu_2gpu_after", 488.835406, 62)],
)
def test_kernel_time_and_collectives_of_a_two_gpu_run(
    shared_data: Path, name: str, milliseconds: float, collectives: int
) -> None:
    trace = published(shared_data, name)
    assert kernel_ms(trace) == pytest.approx(milliseconds, abs=1e-6)
    assert len(trace.collective_kernels) == collectives
    assert [device.rank for device in trace.devices] == [0, 1]


def test_operators_of_emit_nvtx_lose_their_numbers_and_keep_their_sequence(shared_data: Path) -> None:
    trace = published(shared_data, "mfu_2gpu_before")
    operators = trace.events.of_kind(EventKind.CPU_OP)
    assert len(operators) == 18656 - 132, "ranges such as nccl:all_to_all stay regions"
    names = {trace.name(event) for event in operators}
    assert "aten::copy_" in names
    assert not any("op_id" in name or "seq = " in name for name in names)
    assert 45395 in trace.attribute(Attribute.SEQUENCE, operators, -1)
    assert {trace.lanes[lane].kind for lane in np.unique(trace.events.lane[operators])} == {
        LaneKind.CPU_THREAD
    }


def test_kernels_launched_before_the_recording_have_no_launch(shared_data: Path) -> None:
    trace = published(shared_data, "h100_2gpu_1s")
    kernels = trace.events.of_kind(EventKind.KERNEL)
    launches = trace.links.launch_of(kernels)
    assert (len(kernels), int((launches < 0).sum())) == (3442, 1810)
    assert all(device.sm_count is None for device in trace.devices), "the export does not describe its GPUs"


def test_an_export_of_2021_without_a_version_opens(shared_data: Path) -> None:
    trace = published(shared_data, "Mordred")
    count = kinds(trace)
    assert (count["KERNEL"], count["MEMCPY"], count["MEMSET"]) == (12, 48, 12)
    assert count["SAMPLE"] == 69
    assert count["OS_RUNTIME"] == 4630
    assert (trace.inputs[0].producer, trace.epoch_ns) == ("Nsight Systems", None)
    assert trace.devices[0].name == "Quadro RTX 6000"


def test_exports_of_2022_and_2024_open(shared_data: Path) -> None:
    saxpy, cloverleaf = published(shared_data, "saxpy"), published(shared_data, "cloverleaf")
    assert kinds(saxpy)["KERNEL"] == 5
    assert kinds(cloverleaf)["KERNEL"] == 1312
    assert saxpy.inputs[0].producer == "Nsight Systems 2022.2.1"
    assert saxpy.inputs[0].rank == 0, "the thread is called MPI Rank 0"
    calls = {saxpy.name(event) for event in saxpy.events.of_kind(EventKind.REGION)}
    assert "MPI_Init" in calls
    assert "saxpy" in calls
    assert any(note.kind.startswith("profiler: Installed CUDA driver") for note in cloverleaf.quality.notes)


def test_a_sample_has_the_innermost_function_and_its_call_chain(shared_data: Path) -> None:
    trace = published(shared_data, "saxpy")
    sample = next(
        int(each)
        for each in trace.events.of_kind(EventKind.SAMPLE)
        if trace.arguments(int(each)).get("call chain")
    )
    chain = trace.arguments(sample)["call chain"]
    assert chain[0].startswith(trace.name(sample))


def test_an_export_without_any_gpu_work_says_so(shared_data: Path) -> None:
    trace = published(shared_data, "JACC")
    assert len(trace.gpu_operations) == 0
    assert any(note.kind == "no GPU work" for note in trace.quality.notes)


def test_an_export_without_nvtx_opens(shared_data: Path) -> None:
    count = kinds(published(shared_data, "mock"))
    assert count["KERNEL"] == 2
    assert count["REGION"] == 0


def test_kernels_without_process_numbers_belong_to_the_only_process(shared_data: Path) -> None:
    trace = published(shared_data, "healthy_judged")
    assert len(trace.links.operation) == 20
    assert {lane.process for lane in trace.lanes} == {0}


@pytest.mark.parametrize("name", one_of(2, ["fp32_gemm", "sync_item", "resnet50_single", "launch_bound"]))
def test_two_recorders_of_one_program_agree_on_its_kernels(shared_data: Path, name: str) -> None:
    ours = opened(shared_data / "nsys" / f"{name}.sqlite")
    theirs = opened(shared_data / "torch" / f"{name}.pt.trace.json.gz")
    a, b = (
        Count(trace.name(event).split("<")[0] for event in trace.events.of_kind(EventKind.KERNEL))
        for trace in (ours, theirs)
    )
    in_both = [kernel for kernel in a if kernel in b]
    iterations = float(np.median([b[kernel] / a[kernel] for kernel in in_both]))
    assert b.total() / iterations == pytest.approx(a.total(), rel=0.02)
    assert kernel_ms(theirs) / iterations == pytest.approx(kernel_ms(ours), rel=0.15)
