"""What the benchmarks measure is a real recording, and the floor reads all of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks import floor, kineto_like


def test_the_written_recording_is_valid_and_has_the_stated_number_of_events(tmp_path: Path) -> None:
    path = tmp_path / "made.pt.trace.json"
    written = kineto_like.write(path, 5_000)
    entries = json.loads(path.read_bytes())["traceEvents"]
    assert written == len(entries) >= 5_000
    launches = {entry["args"]["correlation"] for entry in entries if entry.get("cat") == "cuda_runtime"}
    kernels = {entry["args"]["correlation"] for entry in entries if entry.get("cat") == "kernel"}
    assert launches == kernels


def test_the_floor_reads_every_event_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "made.pt.trace.json"
    written = kineto_like.write(path, 5_000)
    monkeypatch.setattr(floor, "CHUNK_BYTES", 10_007)
    assert floor.scan(path) == written
