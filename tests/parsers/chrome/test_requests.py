"""Asynchronous ranges: requests that overlap are no thread, and ranges that follow on one another stay apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parsers import open_trace
from parsers.model import LaneKind, Trace
from rules import diagnose


def opened(folder: Path, events: list[dict[str, Any]]) -> Trace:
    path = folder / "server.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return open_trace([path])


def pair(phases: str, name: str, start: int, end: int, number: int = 0) -> list[dict[str, Any]]:
    of = {"cat": "server", "id": number, "pid": 1, "tid": 1, "name": name}
    return [{**of, "ph": phase, "ts": at} for phase, at in zip(phases, (start, end), strict=True)]


def request(number: int, start: int, name: str = "llm_request") -> list[dict[str, Any]]:
    """Ten of a queue, ten of prefill and eighty of decode, each begun when the one before it ends."""
    begin, end = pair("be", name, start, start + 100, number)
    stages = (("queue", 0, 10), ("prefill", 10, 20), ("decode", 20, 100))
    inside = [
        each
        for stage, *span in stages
        for each in pair("be", stage, start + span[0], start + span[1], number)
    ]
    return [begin, *inside, end]


def test_requests_that_overlap_are_answered_by_a_server(tmp_path: Path) -> None:
    trace = opened(tmp_path, [*request(1, 0), *request(2, 50), *request(3, 100)])
    assert [lane.kind for lane in trace.lanes] == [LaneKind.SERVED] * 2
    spans = {(trace.name(n), int(trace.events.duration[n]) // 1000) for n in range(len(trace.events))}
    assert spans == {("llm_request", 100), ("queue", 10), ("prefill", 10), ("decode", 80)}
    (finding,) = diagnose(trace).findings
    assert str(finding.title) == "Requests were answered: 80 % of their time in decode"
    assert "3 requests: median latency 100 us" in str(finding.account)


@pytest.mark.parametrize(
    "events",
    [
        [*request(1, 0), *request(2, 100)],  # one after the other
        [*request(1, 0, "frame"), *request(2, 50, "frame")],
        [*pair("be", "request", 0, 100, 1), *pair("be", "request", 50, 150, 2)],  # without stages
        [*pair("be", "request", 0, 100, 1), *pair("be", "late", 90, 150, 1), *request(2, 50)],
    ],
)
def test_other_asynchronous_ranges_are_no_requests(events: list[dict[str, Any]], tmp_path: Path) -> None:
    assert LaneKind.SERVED not in {lane.kind for lane in opened(tmp_path, events).lanes}


@pytest.mark.parametrize("phases", ["be", "BE"])
def test_a_range_that_begins_when_another_ends_is_a_range_of_its_own(phases: str, tmp_path: Path) -> None:
    trace = opened(
        tmp_path, [each for at in range(3) for each in pair(phases, "step", at * 100, at * 100 + 100)]
    )
    assert (trace.events.duration // 1000).tolist() == [100, 100, 100]


def test_ends_that_state_another_name_or_none_still_end_what_began_last(tmp_path: Path) -> None:
    begin, end = pair("be", "load", 0, 70)
    trace = opened(tmp_path, [begin, {**end, "name": "loaded"}])
    assert (trace.events.duration // 1000).tolist() == [70]


def test_asynchronous_ranges_of_one_id_that_cross_end_by_their_names(tmp_path: Path) -> None:
    trace = opened(tmp_path, [*pair("be", "copy", 0, 60), *pair("be", "wait", 40, 100)])
    assert {trace.name(n): int(trace.events.duration[n]) // 1000 for n in range(len(trace.events))} == {
        "copy": 60,
        "wait": 60,
    }
