"""Chunks of usual events, decoded into a type for each category, give what the general decoder gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.chrome.decode import stream, usual_records
from parsers.chrome.decode.collect import Columns
from parsers.chrome.decode.records import EVENTS, Arguments
from parsers.chrome.decode.usual_records import UsualEvents
from parsers.model import QualityRecorder, Trace

# The cases lie on either side of these.
MAX_FAILURES = 8

RECORDINGS = (
    "torch/memory_stack.pt.trace.json.gz",
    "torch/decode_graph.pt.trace.json.gz",
    "ddp/no_overlap.rank1.pt.trace.json.gz",
    "variants/naive_attn_infer.pt.trace.json.gz",
    "variants/input_dl_workers.pt.trace.json.gz",
)
CATEGORIES = (*usual_records.CATEGORIES.values(), "Kernel", "cuda_profiler_range", "cpu_opera", None)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "correlation": st.integers(0, 9),
        "device": st.integers(0, 1),
        "stream": st.one_of(st.integers(0, 9), st.just("7")),
        "grid": st.lists(st.integers(1, 9), min_size=2, max_size=3),
        "block": st.lists(st.integers(1, 9), min_size=3, max_size=3),
        "bytes": st.integers(0, 1 << 40),
        "Sequence number": st.integers(0, 99),
        "Input Dims": st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=2),
        "Collective name": st.sampled_from(["allreduce", "_allgather_base"]),
        "In msg nelems": st.integers(0, 1 << 30),
        "dtype": st.sampled_from(["Float", "BFloat16"]),
        "cuda_sync_kind": st.sampled_from(["Stream Sync", "Context Sync"]),
        "Total Allocated": st.integers(0, 1 << 40),
    },
)


def _without_nothing(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if value is not None}


EVENT = st.fixed_dictionaries(
    {
        "ph": st.sampled_from("XXXXisftCM"),
        "cat": st.sampled_from(CATEGORIES),
        "name": st.sampled_from(["a", "b", "[memory]", 'quo"te', ""]),
        "pid": st.one_of(st.integers(0, 2), st.just("Spans")),
        "tid": st.one_of(st.integers(0, 2), st.just("7")),
        "ts": st.one_of(st.integers(0, 10**6), st.floats(0, 1e13), st.just("12.5"), st.just("soon")),
        "dur": st.one_of(st.none(), st.integers(0, 10**6), st.floats(0, 1e9), st.just("3.25")),
        "args": st.one_of(st.none(), ARGUMENTS),
        "id": st.one_of(st.none(), st.integers(0, 3)),
    }
).map(_without_nothing)


def _content(columns: Columns) -> list[object]:
    parts = [
        [each.tolist() for each in (part.start, part.duration, part.good, part.name, part.track, part.row)]
        for part in columns.parts
    ]
    attributes = {
        which: [(events.tolist(), values.tolist()) for events, values in stated]
        for which, stated in columns.stated.attributes.items()
    }
    return [
        parts, attributes, list(columns.names), list(columns.tracks), columns.flows, dict(columns.ignored),
        columns.instants, columns.memory, columns.count,
    ]  # fmt: skip


@given(st.lists(EVENT, min_size=1, max_size=30))
def test_any_usual_chunk_gives_the_same_columns(events: list[dict[str, Any]]) -> None:
    text = json.dumps(events).encode()
    usual = UsualEvents().decode(text)
    if usual is None:
        return
    quick, general = Columns(QualityRecorder()), Columns(QualityRecorder())
    quick.add_usual(usual, 100)
    general.add(EVENTS.decode(text), 100)
    assert _content(quick) == _content(general)


@pytest.mark.parametrize(
    "usual",
    [usual_records.CallArguments, usual_records.OperationArguments, usual_records.MemoryArguments],
    ids=lambda usual: usual.__name__,
)
def test_a_usual_argument_is_written_and_typed_like_the_general_one(usual: type[msgspec.Struct]) -> None:
    general = {field.name: field for field in msgspec.structs.fields(Arguments)}
    for field in msgspec.structs.fields(usual):
        assert (field.encode_name, field.type, field.default) == (
            general[field.name].encode_name, general[field.name].type, general[field.name].default,
        )  # fmt: skip


COMPLETE_CATEGORIES = [
    category
    for event_type, category in usual_records.CATEGORIES.items()
    if usual_records.phase_of(event_type) == "X"
]


@given(st.lists(st.tuples(EVENT, st.sampled_from(COMPLETE_CATEGORIES)), min_size=1, max_size=30))
def test_chunks_of_complete_events_are_usual(events: list[tuple[dict[str, Any], str]]) -> None:
    text = json.dumps([{**event, "ph": "X", "cat": category} for event, category in events])
    assert UsualEvents().decode(text.encode()) is not None


def _opened(path: Path, failures: int) -> tuple[Trace, int]:
    decoded = 0
    original = UsualEvents.decode

    def decode(self: UsualEvents, text: bytes) -> object:
        nonlocal decoded
        self.failures = max(self.failures, failures)
        events = original(self, text)
        decoded += events is not None
        return events

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UsualEvents, "decode", decode)
        patch.setattr(stream, "BYTES_AT_ONCE", 1 << 17)  # small recordings too have several chunks
        return open_trace([path]), decoded


@pytest.mark.parametrize("recording", RECORDINGS)
def test_a_real_recording_is_read_equally_by_both(fixtures: Path, recording: str) -> None:
    quick, chunks = _opened(fixtures / recording, 0)
    general, chunks_of_general = _opened(fixtures / recording, MAX_FAILURES)
    assert chunks > 1
    assert chunks_of_general == 0
    for name in ("start", "end", "name", "lane", "depth", "kind", "source_row"):
        np.testing.assert_array_equal(getattr(quick.events, name), getattr(general.events, name))
    np.testing.assert_array_equal(quick.links.operation, general.links.operation)
    np.testing.assert_array_equal(quick.links.launch, general.links.launch)
    assert quick.attributes.keys() == general.attributes.keys()
    for which, column in quick.attributes.items():
        np.testing.assert_array_equal(column.value, general.attributes[which].value)
    for name in ("strings", "lanes", "devices", "quality", "capture", "epoch_ns"):
        assert getattr(quick, name) == getattr(general, name)
    assert [each.name for each in quick.counters] == [each.name for each in general.counters]


def test_a_file_of_another_kind_is_not_tried_for_ever() -> None:
    for failures, is_tried in ((MAX_FAILURES - 1, True), (MAX_FAILURES, False)):
        usual = UsualEvents()
        for _ in range(failures):
            assert usual.decode(b'[{"ph":"X","cat":"FEE","name":"f","ts":1,"dur":1}]') is None
        assert (
            usual.decode(b'[{"ph":"X","cat":"cpu_op","name":"f","ts":1,"dur":1}]') is not None
        ) is is_tried


def test_a_few_odd_chunks_do_not_end_the_trying() -> None:
    usual = UsualEvents()
    for _ in range(3 * MAX_FAILURES):
        assert usual.decode(b'[{"ph":"C","name":"f","ts":1}]') is None
        assert usual.decode(b'[{"ph":"X","cat":"cpu_op","name":"f","ts":1,"dur":1}]') is not None
