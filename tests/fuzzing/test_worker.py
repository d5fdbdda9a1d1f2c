"""The fuzzing finds what it looks for: crashes, slow inputs, and files left beside a recording."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from parsers import open_trace
from rules import diagnose
from tests.fuzzing import trial
from tests.fuzzing.__main__ import tried
from tests.fuzzing.injuries import injured
from tests.fuzzing.small_seeds import OTHER_PRODUCERS, small_seeds
from tests.fuzzing.worker import FAULT, Worker, at_random


def crash(_: list[Path]) -> None:
    raise KeyError("lane")


def leave_a_file(paths: list[Path]) -> None:
    paths[0].with_suffix(".tmp").touch()
    raise trial.TraceError(paths[0], "refused")


def spin(_: list[Path]) -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("fault", "words"),
    [(crash, "KeyError"), (leave_a_file, "left beside the recording"), (spin, "TooSlow")],
)
def test_an_input_that_shows_a_fault_is_kept_with_its_traceback(
    fault: Callable[[list[Path]], None], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "open_trace", fault)
    monkeypatch.setattr(trial, "MOST_S", 0.05)
    (tmp_path / "scratch").mkdir()
    worker = Worker("chrome", tmp_path, tmp_path / "scratch", 0)
    worker.take(b"one")
    worker.take(b"two")
    worker.write()
    (said,) = (tmp_path / "faults").glob("*.txt")
    assert words in said.read_text()
    assert said.with_suffix("").read_bytes() == b"one"  # the second was the same fault
    assert tried(tmp_path)["chrome"] == {FAULT: 2}


def test_what_is_tried_is_counted_over_runs(tmp_path: Path) -> None:
    (tmp_path / "tried.jsonl").write_text(json.dumps({"format": "chrome", "opened": 7}) + "\n")
    (tmp_path / "scratch").mkdir()
    worker = Worker("chrome", tmp_path, tmp_path / "scratch", 1)
    inputs = [OTHER_PRODUCERS]
    at_random(worker, inputs, injured, 0.3)
    outcomes = tried(tmp_path)["chrome"]
    assert outcomes.total() > 7
    assert not outcomes[FAULT]
    assert len(inputs) > 1, "what opened in a new way is injured further"


@pytest.mark.parametrize("format", sorted(small_seeds()))
def test_what_the_fuzzing_begins_with_is_sound(format: str, tmp_path: Path) -> None:
    for data in small_seeds()[format]:
        (path := tmp_path / "sound").write_bytes(data)
        trace = open_trace([path])
        assert trace.inputs[0].format == format
        assert not diagnose(trace).crashed
