"""Traces of Triton Inference Server: requests with their stages, alone and beside a timeline, whole and damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import LaneKind, Trace, TraceError, UnknownFormat
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.verdict.verdict import verdict

# The cases lie on either side of these.
MUCH_IN_QUEUE = 0.3

US = 1_000


@pytest.fixture
def recorded(fixtures: Path) -> Path:
    return fixtures / "server" / "trace.json"


def request(number: int, start_us: int, queue_us: int, compute_us: int) -> list[dict[str, Any]]:
    moments = {
        "REQUEST_START": start_us,
        "QUEUE_START": start_us,
        "COMPUTE_START": start_us + queue_us,
        "COMPUTE_INPUT_END": start_us + queue_us,
        "COMPUTE_OUTPUT_START": start_us + queue_us + compute_us,
        "COMPUTE_END": start_us + queue_us + compute_us,
        "REQUEST_END": start_us + queue_us + compute_us,
    }
    stamps = [{"name": name, "ns": us * US} for name, us in moments.items()]
    return [{"id": number, "model_name": "bert", "model_version": 1}, {"id": number, "timestamps": stamps}]


def opened(folder: Path, *requests: list[dict[str, Any]], tail: str = "") -> Trace:
    path = folder / "requests"
    path.write_text(json.dumps([each for entries in requests for each in entries]) + tail)
    return open_trace([path])


def test_requests_hold_their_stages_and_those_at_once_lie_on_lanes_of_their_own(recorded: Path) -> None:
    trace = open_trace([recorded])
    assert {lane.kind for lane in trace.lanes} == {LaneKind.SERVED}
    whole = np.flatnonzero(trace.events.depth == 0)
    assert len(whole) == 24
    assert trace.quality.events_read == trace.quality.events_kept == len(trace.events)
    assert {trace.name(event) for event in whole} == {"request to bert", "request to resnet"}
    for lane in range(len(trace.lanes)):
        mine = whole[trace.events.lane[whole] == lane]
        assert (trace.events.start[mine][1:] >= trace.events.end[mine][:-1]).all()
    assert trace.epoch_ns is None


def test_a_clock_that_counts_since_1970_is_the_wall_clock(tmp_path: Path) -> None:
    trace = opened(tmp_path, request(1, 1_700_000_000_000_000, 10, 20))
    assert trace.epoch_ns == 1_700_000_000_000_000 * US


@pytest.mark.parametrize(("queue_us", "told"), [(31, True), (29, False)])
def test_the_queue_is_told_first_from_a_share_of_the_time_on(
    tmp_path: Path, queue_us: int, told: bool
) -> None:
    assert MUCH_IN_QUEUE == 0.3
    trace = opened(tmp_path, request(1, 0, queue_us, 100 - queue_us))
    diagnosis = diagnose(trace)
    said = verdict(Analysis(trace), diagnosis)
    assert said == (
        "Requests wait in the queue: 31 % of their time"
        if told
        else "Requests were answered: 71 % of their time in compute"
    )
    (finding,) = (each for each in diagnosis.findings if each.rule == "served-requests")
    assert any("dynamic_batching" in each for each in finding.advice) is told


def test_beside_a_timeline_requests_are_lanes_of_it(recorded: Path, fixtures: Path) -> None:
    timeline = fixtures / "torch" / "decode_graph.pt.trace.json.gz"
    alone, joined = open_trace([timeline]), open_trace([timeline, recorded])
    assert joined.epoch_ns == alone.epoch_ns
    assert len(joined.gpu_operations) == len(alone.gpu_operations)
    assert any(lane.kind is LaneKind.SERVED for lane in joined.lanes)
    assert any(each.rule == "served-requests" for each in diagnose(joined).findings)


def test_requests_without_an_end_are_counted_and_left_out(tmp_path: Path) -> None:
    running = request(2, 500, 10, 20)
    running[1]["timestamps"] = running[1]["timestamps"][:2]
    trace = opened(tmp_path, request(1, 0, 10, 20), running)
    assert int((trace.events.depth == 0).sum()) == trace.quality.quarantined == 1
    assert trace.quality.events_read == trace.quality.events_kept + 1


@pytest.mark.parametrize(
    "entries",
    [
        [{"id": 1, "model_name": "m"}, {"id": 1, "timestamps": [{"name": "QUEUE_START", "ns": 5}]}],
        [{"id": 1, "timestamps": [{"name": "QUEUE_START", "ns": "soon"}]}],
        [{"id": 1, "timestamps": [{"name": "QUEUE_START", "ns": 9}, {"name": "COMPUTE_START", "ns": 2}]}],
        [
            {
                "id": 1,
                "timestamps": [{"name": "QUEUE_START", "ns": -4}, {"name": "COMPUTE_START", "ns": 1 << 63}],
            }
        ],
        [{"id": 1, "timestamps": {"name": "QUEUE_START"}}],
    ],
)
def test_what_holds_no_request_is_refused_with_a_hint(tmp_path: Path, entries: list[dict[str, Any]]) -> None:
    with pytest.raises(TraceError) as refused:
        opened(tmp_path, entries)
    assert refused.value.hint


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_trace_that_stops_in_the_middle_is_refused_with_a_hint(
    recorded: Path, tmp_path: Path, share: float
) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(recorded.read_bytes()[: int(share * recorded.stat().st_size)])
    with pytest.raises(TraceError) as refused:
        open_trace([path])
    assert "server" in refused.value.hint


@pytest.mark.parametrize(
    "text", ['[{"id": 1, "model_name": "m"}]', '[{"id": 1, "name": "QUEUE_START"}]', "[]"]
)
def test_other_lists_are_no_such_trace(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises((UnknownFormat, TraceError)):
        open_trace([path])


def test_names_from_the_file_stay_names(tmp_path: Path) -> None:
    hostile = request(1, 0, 10, 20)
    hostile[0]["model_name"] = "<b>bert</b>" + "x" * 10_000
    trace = opened(tmp_path, hostile)
    assert trace.lanes[0].name.startswith("<b>bert</b>x")
    assert len(trace.lanes[0].name) < 300
