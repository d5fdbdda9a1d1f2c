"""Events that stand one a line with nothing between them, as DFTracer writes them, are all read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parsers.chrome.decode import second_process, stream
from tests.parsers.chrome.traces import balanced, complete, kernel, names, opened, packed

EVENTS = [
    *(
        complete(f"read {number}", 100 * number, 90, args={"path": f"/data/{number}"})
        for number in range(300)
    ),
    kernel("gemm", 5, 2, 3),
]
LINES = "\n".join(json.dumps(each) for each in EVENTS)
ENDINGS = ["", "\n", "\n]", "\n]\n"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("compressed", [False, True])
def test_every_event_of_a_file_without_commas_is_read(tmp_path: Path, ending: str, compressed: bool) -> None:
    text = f"[\n  {LINES}{ending}"
    trace = opened(
        tmp_path, packed(text) if compressed else text, "trace.pfw.gz" if compressed else "trace.pfw"
    )
    assert len(trace.events) == len(EVENTS)
    assert trace.quality.quarantined == 0
    assert balanced(trace)


@pytest.mark.parametrize("size", range(200, 330, 7))
def test_wherever_a_block_ends_no_event_is_lost_and_its_arguments_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(stream, "BYTES_AT_ONCE", size)
    trace = opened(tmp_path, f"[\n{LINES}\n]")
    assert len(trace.events) == len(EVENTS)
    found = [trace.arguments(event).get("path") for event in range(0, len(trace.events), 37)]
    assert found == [f"/data/{trace.name(event)[5:]}" for event in range(0, len(trace.events), 37)]


def test_a_second_process_reads_its_share_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_process, "WORTH_A_PROCESS", 1)
    monkeypatch.setattr(second_process, "HEAD_START", 0)
    monkeypatch.setattr(second_process, "_has_free_processor", lambda: True)
    padded = [complete(f"read {number}", 100 * number, 90, args={"x": "y" * 12_000}) for number in range(600)]
    trace = opened(tmp_path, "[\n" + "\n".join(json.dumps(each) for each in padded) + "\n]")
    assert sorted(names(trace)) == sorted(each["name"] for each in padded)


def test_a_list_with_commas_and_a_line_for_each_event_is_left_alone(tmp_path: Path) -> None:
    trace = opened(tmp_path, "[\n" + LINES.replace("}\n{", "},\n{") + "\n]")
    assert len(trace.events) == len(EVENTS)
    assert trace.quality.quarantined == 0
