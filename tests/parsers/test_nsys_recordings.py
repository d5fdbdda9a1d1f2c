"""Nsight Systems recordings of known programs open with every number that other tools state about them."""

from __future__ import annotations

import json
from collections import Counter as Count
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Attribute, CopyKind, EventKind, LaneKind, MemoryKind, Trace


@pytest.fixture(scope="session")
def opened(fixtures: Path):  # type: ignore[no-untyped-def]
    """A recording of ours by name, read once."""
    known: dict[str, Trace] = {}

    def open_once(name: str) -> Trace:
        if name not in known:
            known[name] = open_trace([fixtures / "nsys" / f"{name}.sqlite.gz"])
        return known[name]

    return open_once


def summary(trace: Trace) -> dict[str, object]:
    kinds = Count(trace.events.kind.tolist())
    kernels = trace.events.of_kind(EventKind.KERNEL)
    return {
        "events": {EventKind(kind).name: count for kind, count in sorted(kinds.items())},
        "links": len(trace.links.operation),
        "kernel_ns": int(trace.events.duration[kernels].sum()),
        "duration_ns": trace.duration,
        "lanes": [lane.name for lane in trace.lanes],
        "counters": len(trace.counters),
        "producer": trace.inputs[0].producer,
        "epoch_ns": trace.epoch_ns,
        "quarantined": trace.quality.quarantined,
    }


@pytest.mark.parametrize("name", ["fp32_gemm", "dataloader_starved", "decode_graph", "allocator_thrash"])
def test_a_recording_keeps_its_golden_summary(name: str, opened, fixtures: Path) -> None:  # type: ignore[no-untyped-def]
    golden = json.loads((fixtures / "nsys" / "summaries.json").read_text())
    assert summary(opened(name)) == golden[name]


def test_steps_and_regions_are_told_apart(opened) -> None:  # type: ignore[no-untyped-def]
    trace = opened("fp32_gemm")
    steps = trace.events.of_kind(EventKind.STEP)
    assert [trace.name(step) for step in steps] == [f"step_{number}" for number in range(4, 9)]
    regions = {trace.name(region) for region in trace.events.of_kind(EventKind.REGION)}
    assert regions == {"data_loading", "data_transfer", "forward", "backward", "optimizer"}


def test_every_operation_starts_after_the_call_that_launched_it(opened) -> None:  # type: ignore[no-untyped-def]
    trace = opened("ddp_straggler_gpu")
    launch = trace.links.launch_of(trace.gpu_operations)
    assert (launch >= 0).all()
    assert (trace.events.start[launch] <= trace.events.start[trace.gpu_operations]).all()
    lanes = np.array([-1 if lane.rank is None else lane.rank for lane in trace.lanes])
    same = lanes[trace.events.lane[launch]] == lanes[trace.events.lane[trace.gpu_operations]]
    assert same.all(), "a correlation number of one process was matched with a call of another"


def test_four_processes_become_four_ranks_with_one_gpu_each(opened) -> None:  # type: ignore[no-untyped-def]
    trace = opened("ddp_straggler_gpu")
    assert [(rank.rank, rank.world_size) for rank in trace.ranks] == [(number, 4) for number in range(4)]
    assert [(device.rank, device.id, device.sm_count) for device in trace.devices] == [
        (number, number, 132) for number in range(4)
    ]
    nccl = {lane.rank for lane in trace.lanes if lane.kind is LaneKind.NCCL}
    assert nccl == {0, 1, 2, 3}
    assert len(trace.collective_kernels) == 496
    named = {trace.text_attribute(Attribute.COLLECTIVE, event) for event in trace.collective_kernels}
    assert named == {"allgather", "allreduce", "broadcast"}


def test_ranges_of_nccl_carry_their_domain_and_collective(opened) -> None:  # type: ignore[no-untyped-def]
    trace = opened("ddp_straggler_gpu")
    regions = trace.events.of_kind(EventKind.REGION)
    mine = [event for event in regions if trace.name(event) == "ncclAllReduce"]
    assert len(mine) > 100
    assert trace.text_attribute(Attribute.NVTX_DOMAIN, mine[0]) == "NCCL"
    assert trace.text_attribute(Attribute.COLLECTIVE, mine[0]) == "allreduce"


def test_the_kernels_of_a_graph_traced_node_by_node_are_marked(opened) -> None:  # type: ignore[no-untyped-def]
    trace = opened("decode_graph")
    kernels = trace.events.of_kind(EventKind.KERNEL)
    assert len(kernels) == 7080
    assert (trace.attribute(Attribute.GRAPH_NODE, kernels) != 0).all()
    assert not trace.capture.graph_mode_opaque


def test_metrics_of_a_gpu_have_the_number_that_the_process_knows_it_by(opened) -> None:  # type: ignore[no-untyped-def]
    trace = opened("healthy_loader")
    counters = {counter.name: counter for counter in trace.counters}
    active = counters["GPU 0 SMs active"]
    assert (active.unit, active.device, len(active.time)) == ("%", 0, 3726)
    assert active.value.min() >= 0
    assert active.value.max() == 100
    clock = counters["GPU 0 GPC clock frequency"]
    assert clock.unit == "MHz"
    assert 300 < np.median(clock.value) < 2000
    busy = trace.events.start[trace.gpu_operations[0]]
    assert active.at(int(trace.duration * 0.5)) > active.at(int(min(busy, active.time[1])))


def test_device_memory_is_a_running_sum_in_bytes(opened) -> None:  # type: ignore[no-untyped-def]
    trace = opened("allocator_thrash")
    memory = next(counter for counter in trace.counters if counter.name == "GPU 0 allocated memory")
    assert memory.unit == "B"
    assert memory.value.min() >= 0
    assert memory.value.max() > 1e8
    assert (np.diff(memory.time) >= 0).all()


def test_copies_are_named_and_typed_as_by_the_pytorch_profiler(opened) -> None:  # type: ignore[no-untyped-def]
    trace = opened("dataloader_starved")
    copies = trace.events.of_kind(EventKind.MEMCPY)
    names = Count(trace.name(copy) for copy in copies)
    assert names == {"Memcpy HtoD (Pageable -> Device)": 5, "Memcpy DtoD (Device -> Device)": 5}
    loaded = copies[trace.attribute(Attribute.COPY_KIND, copies) == CopyKind.H2D.value]
    assert len(loaded) == 5
    assert set(trace.attribute(Attribute.SOURCE_MEMORY, loaded)) == {MemoryKind.PAGEABLE.value}
    assert (trace.attribute(Attribute.BYTES, copies) > 0).all()


def test_arguments_of_one_row_are_fetched_with_names_for_numbers(opened) -> None:  # type: ignore[no-untyped-def]
    trace = opened("fp32_gemm")
    kernel = trace.events.of_kind(EventKind.KERNEL)[10]
    arguments = trace.arguments(int(kernel))
    assert arguments["demangledName"] == trace.name(int(kernel))
    assert arguments["end"] - arguments["start"] == trace.events.duration[kernel]
    call = trace.links.launch_of(np.array([kernel]))[0]
    assert trace.arguments(int(call))["correlationId"] == arguments["correlationId"]
    assert trace.arguments(int(call))["eventClass"] in ("CUDA runtime", "CUDA driver")


def test_nothing_of_the_environment_or_of_other_processes_is_read(opened) -> None:  # type: ignore[no-untyped-def]
    for name in ("fp32_gemm", "ddp_straggler_gpu"):
        trace = opened(name)
        text = "\n".join(trace.strings) + str(trace.lanes) + str(trace.quality)
        assert "PATH=" not in text
        assert "HOME" not in text
        processes = {lane.process for lane in trace.lanes}
        assert len({lane.process_name for lane in trace.lanes}) <= len(processes)


def test_no_file_is_made_beside_the_recording(tmp_path: Path, fixtures: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    copy = folder / "run.sqlite.gz"
    copy.write_bytes((fixtures / "nsys" / "fp32_gemm.sqlite.gz").read_bytes())
    trace = open_trace([copy])
    trace.arguments(0)
    assert [file.name for file in folder.iterdir()] == ["run.sqlite.gz"]
