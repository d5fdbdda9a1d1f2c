"""The first events of a large recording are the recording's own, and are marked as what they are."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Attribute, Counter, Device, Effect, EventKind, Lane, LaneKind, Trace
from parsers.model.builder import TraceBuilder
from parsers.preview import open_preview, with_common_end
from parsers.storage import cache
from tests.benchmarks import kineto_like
from tests.benchmarks.generate_nsys import write_export


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "run.pt.trace.json"
    kineto_like.write(path, 40_000)
    return path


@pytest.fixture
def small() -> Trace:
    """Two launches and their kernels until 200 ns, then two more kernels whose launches were not read."""
    builder = TraceBuilder()
    device = builder.device(Device(0, "GPU"))
    calls = builder.lane(Lane(LaneKind.CUDA_API, "calls", process=1, thread=1))
    stream = builder.lane(Lane(LaneKind.GPU_STREAM, "stream 7", device=device, stream=7))
    start = np.array([0, 100, 200, 300])
    launches = builder.add(start[:2], start[:2] + 100, builder.string("launch"), calls, EventKind.API)
    kernels = builder.add(start + 10, start + 60, builder.string("gemm"), stream, EventKind.KERNEL)
    builder.link(kernels[:2], launches)
    builder.attribute(Attribute.GRID, kernels, np.arange(4) + 7)
    builder.counters.append(Counter("memory", "B", np.array([0, 150, 250]), np.zeros(3)))
    return builder.build()


def test_the_first_events_of_a_json_file_are_shown_as_a_preview(recording: Path) -> None:
    whole, first = open_trace([recording]), open_preview([recording], most_events=5_000)
    assert first is not None
    assert first.quality.of_preview
    assert not whole.quality.of_preview
    assert 5_000 <= len(first.events) < len(whole.events) // 2
    assert [note.effect for note in first.quality.notes if note.kind == "preview"] == [Effect.NOTED]
    assert f"{len(first.events):,}" in next(n.reason for n in first.quality.notes if n.kind == "preview")
    rows = np.isin(whole.events.source_row, first.events.source_row)
    assert np.count_nonzero(rows) == len(first.events)
    assert first.arguments(0) == whole.arguments(int(np.flatnonzero(rows)[0]))


def test_of_long_events_a_preview_reads_a_thousand_bytes_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parsers.chrome.decode.stream.BYTES_AT_ONCE", 100_000)
    lasting = {"ph": "X", "pid": 1, "tid": 1, "dur": 1, "name": "step", "args": {"notes": "x" * 1_900}}
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"traceEvents": [{**lasting, "ts": 2 * number} for number in range(3_000)]}))
    first = open_preview([path], most_events=1_000)
    assert first is not None
    assert len(first.events) == pytest.approx(500, rel=0.15)


def test_a_packed_file_has_a_preview_too(recording: Path, tmp_path: Path) -> None:
    packed = tmp_path / "run.json.gz"
    packed.write_bytes(gzip.compress(recording.read_bytes(), 1))
    first = open_preview([packed], most_events=5_000)
    assert first is not None
    assert len(first.events) >= 5_000


def test_the_first_rows_of_each_table_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parsers.sqlite.database.ROWS_AT_ONCE", 100)
    path = write_export(tmp_path / "run.sqlite", 20_000)
    whole, first = open_trace([path]), open_preview([path], most_events=3_000)
    assert first is not None
    assert 1_000 < len(first.events) < len(whole.events) // 2
    assert np.bincount(first.events.kind).max() == 1_000, "a third: kernels, calls and ranges are many"
    assert len(first.lanes) == len(whole.lanes)
    assert 0 < len(first.links.operation) < len(whole.links.operation)
    starts = [
        first.events.start[first.events.kind == kind].max() for kind in (EventKind.API, EventKind.KERNEL)
    ]
    assert min(starts) > 0.8 * first.events.start.max()  # all kinds of events go as far
    np.testing.assert_array_equal(first.links.launch_of(first.links.operation[:10]), first.links.launch[:10])


def test_attributes_and_samples_end_with_the_events_of_a_preview(small: Trace) -> None:
    first = with_common_end(small)
    assert first.events.start.tolist() == [0, 100, 10, 110]
    assert first.links.operation.tolist() == [2, 3]
    assert first.links.launch.tolist() == [0, 1]
    assert first.attribute(Attribute.GRID, np.array([2, 3])).tolist() == [7, 8]
    assert [counter.time.tolist() for counter in first.counters] == [[0, 150]]


@pytest.mark.parametrize(("kernels", "ends"), [(4, True), (5, False)])
def test_a_kind_with_a_fourth_of_the_events_of_another_was_not_read_to_its_end(
    kernels: int, ends: bool
) -> None:
    """One call was read, and so many kernels, of which the last ones begin later."""
    builder = TraceBuilder()
    calls = builder.lane(Lane(LaneKind.CUDA_API, "calls", process=1, thread=1))
    stream = builder.lane(Lane(LaneKind.GPU_STREAM, "stream 7", device=builder.device(Device(0, "GPU"))))
    start = 100 * np.arange(kernels)
    builder.add(start[:1], start[:1] + 150, builder.string("launch"), calls, EventKind.API)
    builder.add(start, start + 50, builder.string("gemm"), stream, EventKind.KERNEL)
    assert (len(with_common_end(builder.build()).events) == 3) is ends


def test_what_is_in_the_cache_needs_no_preview(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MIN_EVENTS", 1)
    cache.store(open_trace([recording]))
    assert open_preview([recording], most_events=5_000) is None


def test_the_first_recording_of_a_folder_is_the_one_that_is_shown(recording: Path) -> None:
    (recording.parent / "a note.txt").write_text("not a recording")
    first = open_preview([recording.parent], most_events=5_000)
    assert first is not None
    assert first.inputs[0].path.endswith("run.pt.trace.json")


@pytest.mark.parametrize("content", [b"", b"{}", b"PK\x03\x04 not really", b'{"traceEvents": []}'])
def test_what_cannot_be_shown_is_left_to_the_complete_reading(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd"
    path.write_bytes(content)
    assert open_preview([path]) is None
    assert open_preview([tmp_path / "missing"]) is None
