"""Numbers by which a trace event file is cut into events, mended and believed, each with a case on either side."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from msgspec import Raw

from parsers.chrome.build.counters import allocations_of
from parsers.chrome.build.implausible_ends import clip_overruns
from parsers.chrome.decode import reading, second_process
from parsers.chrome.decode.collect import Series
from parsers.chrome.decode.header import Header
from parsers.chrome.decode.memory_samples import MemoryColumns
from parsers.chrome.decode.recovery import _event, _lost, _pieces
from parsers.chrome.decode.stream import Chunk, EventStream, boundary_of, last_boundary
from parsers.files.base import Source
from parsers.model import EventKind, QualityRecorder
from tests.parsers.claimed import ClaimedBytes

MB = 1 << 20
EVENT = b'{"ph":"X","name":"f"}'


@pytest.mark.parametrize(
    ("later", "lasts", "is_clipped"),
    [(8, 1_000, True), (7, 1_000, False), (8, 999, False)],
    ids=["eight later ones", "seven", "less than a hundred times as long"],
)
def test_an_implausible_end_is_beyond_eight_later_operations_and_a_hundred_times_as_far(
    later: int, lasts: int, is_clipped: bool
) -> None:
    """Each operation begins 10 ns after the one before."""
    start = np.arange(later + 1) * 10
    duration = np.full(later + 1, 5)
    duration[0] = lasts
    count, none = len(start), np.zeros(len(start), np.int32)
    table = SimpleNamespace(
        start=start, duration=duration, track=none, name=none, kind=np.full(count, EventKind.KERNEL, np.uint8)
    )
    clip_overruns(cast(Any, table), lambda: np.zeros(count, bool), ["k"], QualityRecorder())
    assert int(duration[0]) == (10 if is_clipped else lasts)


@pytest.mark.parametrize(("count", "kept"), [(4_096, 4_096), (4_097, 4_096)])
def test_a_file_has_4096_counter_series(count: int, kept: int) -> None:
    series = Series()
    event = SimpleNamespace(ts=Raw(b"1"), id=None, name="c", pid=1)
    series.add(cast(Any, [event]), [{str(number): 1 for number in range(count)}])
    assert len(series.samples) == kept


@pytest.mark.parametrize(("cores", "known"), [(65_536, True), (65_537, False)])
def test_a_header_states_65536_cores_at_most(cores: int, known: bool) -> None:
    assert Header({"stallscopeMachine": {"cores": cores}}).capture().cores == (cores if known else None)


def test_a_header_names_its_recorder_in_200_characters() -> None:
    assert Header({"recordedBy": "r" * 201}).producer == "r" * 200


@pytest.mark.parametrize(("device_type", "is_of_a_gpu"), [(0, False), (1, True)])
def test_memory_samples_of_the_cpu_are_no_allocations_of_a_gpu(device_type: int, is_of_a_gpu: bool) -> None:
    one = np.ones(1, np.int64)
    samples = MemoryColumns(device_type * one, 0 * one, one, 64 * one, 64 * one, 64 * one, 4_096 * one, one)
    maker = SimpleNamespace(device=int)
    assert (allocations_of(samples, cast(Any, maker)) is not None) is is_of_a_gpu


@pytest.mark.parametrize(("size", "is_read"), [(64 * MB, True), (64 * MB + 1, False)])
def test_what_follows_the_list_is_read_for_64_megabytes(size: int, is_read: bool) -> None:
    chunks = [SimpleNamespace(data=ClaimedBytes(b"a", size)), SimpleNamespace(data=b"b")]
    trailer = reading._with_what_follows(b"", cast(Any, iter(chunks)))
    assert trailer.endswith(b"b") is is_read


def cut(text: bytes) -> list[bytes]:
    """The pieces of a chunk that is damaged somewhere."""
    return [each.data for each in _pieces(Chunk(0, 0, text, len(text), boundary_of(text), last=True))]


def holding(inner: int) -> bytes:
    """An event whose arguments hold objects that look like events."""
    return b'{"ph":"X","args":{"a":[' + b",".join([b'{"ph":1}'] * inner) + b"]}}"


@pytest.mark.parametrize(("inner", "is_whole"), [(8, True), (9, False)])
def test_an_event_is_joined_from_eight_pieces(inner: int, is_whole: bool) -> None:
    assert (holding(inner) in cut(holding(inner))) is is_whole


@pytest.mark.parametrize(("damaged", "is_whole"), [(3, True), (4, False)])
def test_after_four_pieces_that_join_to_nothing_none_is_joined(damaged: int, is_whole: bool) -> None:
    text = b",".join([b'{"ph":[}'] * damaged + [holding(2)])
    assert (holding(2) in cut(text)) is is_whole


@pytest.mark.parametrize(("size", "is_mended"), [(MB, True), (MB + 1, False)])
def test_an_event_of_a_megabyte_is_mended(size: int, is_mended: bool) -> None:
    begin, end = b'{"ph":"X","name":"two\nlines', b'"}'
    event, _, _ = _event(begin + b"x" * (size - len(begin) - len(end)) + end, True)
    assert (event is not None) is is_mended


@pytest.mark.parametrize(("size", "kind"), [(65_535, "unreadable"), (65_536, "damaged stretch")])
def test_a_recovery_loses_a_stretch_where_64_kilobytes_hold_no_event(size: int, kind: str) -> None:
    quality = QualityRecorder()
    _lost(b"x" * size, 0, False, quality)
    assert [note.kind for note in quality.quality().notes] == [kind]


@pytest.mark.parametrize(("size", "is_started"), [(80 * MB, True)])
def test_the_second_process_takes_every_other_chunk_from_the_seventeenth_on(
    size: int, is_started: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.json"
    with path.open("wb") as file:
        file.truncate(size)
    monkeypatch.setattr(second_process, "_has_free_processor", lambda: True)
    monkeypatch.setattr("parsers.helper_process.HelperProcess", lambda *_, **__: None)
    started = second_process.start(Source(path, b""), 1 << 40)
    assert (started is not None) is is_started
    assert started is not None
    assert [number for number in range(20) if started.share._takes(number)] == [17, 19]


@pytest.mark.parametrize(("size_mb", "is_found"), [(128, True), (130, False)])
def test_a_stream_has_a_header_of_128_megabytes(size_mb: int, is_found: bool) -> None:
    blocks: Iterator[bytes] = iter([*[ClaimedBytes(b" ", 2 * MB)] * (size_mb // 2), b"["])
    events = EventStream(cast(Any, SimpleNamespace(read=lambda _: next(blocks, b""))))
    assert len(list(events)) == is_found
    assert events.has_list is is_found


@pytest.mark.parametrize(("size_mb", "damage"), [(15, ""), (19, "no event ends within 16 MB")])
def test_a_stream_has_events_of_16_megabytes(size_mb: int, damage: str) -> None:
    events = EventStream(BytesIO(b'[{"ph":"X","name":"' + b"x" * (size_mb * MB) + b'"},' + EVENT + b"]"))
    list(events)
    assert events.damage == damage


@pytest.mark.parametrize(("size", "is_cut"), [(8 * MB + 1, True), (8 * MB, False)])
def test_a_stream_is_cut_anywhere_after_eight_damaged_megabytes(size: int, is_cut: bool) -> None:
    text = b'{"ph":bad},{"ph":bad'
    found = last_boundary(ClaimedBytes(text, size), boundary_of(text))
    assert found == ((10, 11) if is_cut else None)


@pytest.mark.parametrize(("damaged", "is_found"), [(32, True), (33, False)])
def test_a_stream_is_cut_behind_an_event_before_31_damaged_ones(damaged: int, is_found: bool) -> None:
    text = b",".join([EVENT] + [b'{"ph":bad}'] * damaged)
    assert last_boundary(text, boundary_of(text)) == ((len(EVENT), len(EVENT) + 1) if is_found else None)


@pytest.mark.parametrize(("inner", "is_found"), [(8, True), (9, False)])
def test_a_stream_is_cut_behind_an_event_of_eight_pieces(inner: int, is_found: bool) -> None:
    text = holding(inner) + b',{"ph":"X"'
    found = last_boundary(text, boundary_of(text))
    assert found == ((len(holding(inner)), len(holding(inner)) + 1) if is_found else None)
