"""Real recordings: the numbers that independent tools state about them, and golden summaries of ours."""

from __future__ import annotations

import gzip
import json
from collections import Counter as Tally
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from parsers.model import Attribute, EventKind, Trace
from tests.opened import opened
from tests.parsers.chrome.traces import balanced

GOLDEN = Path(__file__).with_name("golden.json")


def busy_and_total(trace: Trace) -> tuple[float, float]:
    """Union of GPU work and its span, ms."""
    work = trace.gpu_operations
    work = work[np.argsort(trace.events.start[work], kind="stable")]
    start, end = trace.events.start[work], trace.events.end[work]
    before = np.concatenate((start[:1], np.maximum.accumulate(end)[:-1]))
    return float(np.maximum(end - np.maximum(start, before), 0).sum()) / 1e6, float(
        end.max() - start.min()
    ) / 1e6


@pytest.mark.parametrize(
    ("name", "total", "busy"),
    [
        (
            "tracelens__traces__h100__facebook_timesformer-base-finetuned-k400__1016002",
            159.9924267578125,
            158.43317309570313,
        ),
        (
            "tracelens__traces__h100__gaunernst_bert-small-uncased__1016001",
            3.907824951171875,
            0.309437744140625,
        ),
        ("tracelens__inference__sglang_decode__sglang_Qwen3-8B_decode", 473.749943359375, 9.7729287109375),
        ("tracelens__inference__vllm_decode_full__graph_execution", 10.743181640625, 10.717697265625),
        ("tracelens__mi210__gpu_only_trace__gpu_only_trace", 5.9795029296875, 5.3433701171875),
        ("tracelens__traces__torch_compile_triton__trace", 12.5490322265625, 12.54902099609375),
    ],
)
def test_busy_and_total_time_are_those_of_another_tool(
    shared_data: Path, name: str, total: float, busy: float
) -> None:
    trace = opened(shared_data / "public" / "chrome" / f"{name}.json.gz")
    assert busy_and_total(trace) == (pytest.approx(busy, abs=0.011), pytest.approx(total, abs=0.01))


def test_all_gpu_events_of_overlapping_streams_are_kept(shared_data: Path) -> None:
    trace = opened(shared_data / "public" / "chrome" / "tracelens__traces__b200__eager_trace.json.gz")
    assert len(trace.gpu_operations) == 929
    assert busy_and_total(trace)[0] == pytest.approx(11.596479, abs=0.001)
    assert trace.quality.quarantined == trace.quality.repaired == 0


def test_collectives_of_a_two_rank_run(shared_data: Path) -> None:
    trace = opened(shared_data / "public" / "chrome" / "hta__nccl_parser_config__nccl_data.json.gz")
    kernels = trace.collective_kernels
    assert len(kernels) == 21
    longest = kernels[np.argmax(trace.events.duration[kernels])]
    assert trace.text_attribute(Attribute.COLLECTIVE, int(longest)) == "allreduce"
    assert trace.text_attribute(Attribute.GROUP, int(longest)) == "0"
    assert trace.attribute(Attribute.MESSAGE_BYTES, longest[None]).tolist() == [2_049_000 * 4]
    assert trace.attribute(Attribute.GROUP_SIZE, longest[None]).tolist() == [2]


def test_counts_of_a_trace_with_nanoseconds(shared_data: Path) -> None:
    name = "hta__ns_resolution_trace__rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"
    trace = opened(shared_data / "public" / "chrome" / name)
    assert len(trace.events.of_kind(EventKind.KERNEL)) == 4350
    assert len(trace.gpu_operations) == 6095
    assert trace.ranks[0].rank == 0


def test_queues_of_a_rocprof_trace_are_gpu_lanes(shared_data: Path) -> None:
    trace = opened(shared_data / "public" / "rocm" / "matmul_result.json")
    assert len(trace.gpu_operations) == 85
    assert len(trace.counters) > 0


@pytest.mark.thorough
def test_every_public_trace_opens_without_a_loss(shared_data: Path) -> None:
    files = sorted((shared_data / "public" / "chrome").glob("*.json.gz"))
    assert len(files) > 15
    for file in files:
        trace = opened(file)
        assert len(trace.events) > 0, file.name
        assert balanced(trace), file.name
        assert trace.quality.quarantined == 0, file.name


def summary(trace: Trace) -> dict[str, object]:
    sizes = {which.value: len(column.event) for which, column in trace.attributes.items()}
    kinds = {kind.name: len(trace.events.of_kind(kind)) for kind in EventKind}
    return {
        "events": {name: count for name, count in kinds.items() if count},
        "lanes": [f"{lane.kind.name} {lane.name}" for lane in trace.lanes],
        "links": len(trace.links.operation),
        "attributes": {name: sizes[name] for name in sorted(sizes)},
        "counters": [f"{counter.name} [{counter.unit}] {len(counter.time)}" for counter in trace.counters],
        "duration": trace.duration,
        "epoch": trace.epoch_ns,
        "ranks": [rank.rank for rank in trace.ranks],
        "devices": [device.name for device in trace.devices],
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(json.loads(GOLDEN.read_text())))
def test_our_recordings_read_as_they_always_did(fixtures: Path, name: str) -> None:
    assert summary(opened(fixtures / name)) == json.loads(GOLDEN.read_text())[name]


@pytest.mark.parametrize("name", sorted(json.loads(GOLDEN.read_text())))
def test_every_complete_event_is_there_with_its_exact_times(fixtures: Path, name: str) -> None:
    with gzip.open(fixtures / name) as file:
        told = json.load(file, parse_float=Decimal)["traceEvents"]
    trace = opened(fixtures / name)
    zero = min(_ns(each["ts"]) for each in told if each["ph"] == "X" and each["cat"] != "Trace")
    expected = Tally(
        (each["name"], _ns(each["ts"]) - zero, _ns(each["dur"]))
        for each in told
        if each["ph"] == "X" and each["cat"] != "Trace"
    )
    events = trace.events
    moved = int(events.start.min()) if trace.counters else 0  # counters may begin before the first event
    found = Tally(
        (trace.strings[text], start - moved, length)
        for text, start, length in zip(
            events.name.tolist(), events.start.tolist(), events.duration.tolist(), strict=True
        )
    )
    assert found == expected


def _ns(us: Decimal | int) -> int:
    return int((us * 1000).to_integral_value()) if isinstance(us, Decimal) else us * 1000
