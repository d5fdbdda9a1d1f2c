"""The fuzzing finds what it looks for: crashes, slow inputs, and files left beside a recording."""

from __future__ import annotations

import copy
import itertools
import json
import random
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

import pytest

from parsers import open_trace
from rules import diagnose
from tests.examples import one_of
from tests.fuzzing import apart, crafting
from tests.fuzzing.__main__ import tried
from tests.fuzzing.crafting import crafted
from tests.fuzzing.injuries import injured
from tests.fuzzing.small_seeds import OTHER_PRODUCERS, small_seeds
from tests.fuzzing.worker import FAULT, Worker, at_random


def crash(_: str, __: Path, ___: random.Random, ____: object) -> None:
    raise KeyError("lane")


def leave_a_file(_: str, file: Path, __: random.Random, ___: object) -> None:
    file.with_suffix(".tmp").touch()


def leave_unpacked(_: str, __: Path, ___: random.Random, ____: object) -> None:
    Path(tempfile.mkdtemp())


def spin(_: str, __: Path, ___: random.Random, ____: object) -> None:
    deque(itertools.repeat(0), maxlen=0)  # in one line, so that it is always the same fault


def wait(_: str, __: Path, ___: random.Random, ____: object) -> None:
    time.sleep(60)


def hoard(_: str, __: Path, ___: random.Random, ____: object) -> None:
    held = [bytes(64 << 20) for _ in range(64)]
    raise AssertionError(f"{len(held)} times 64 MB were there to be had")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (crash, "KeyError"),
        (leave_a_file, "left beside the recording"),
        (leave_unpacked, "among the temporary files"),
        pytest.param(spin, "in spin", marks=pytest.mark.thorough),
        pytest.param(wait, "no end after 5 s", marks=pytest.mark.thorough),
        pytest.param(
            hoard, "MemoryError", marks=pytest.mark.skipif(sys.platform != "linux", reason="no limit")
        ),
    ],
)
def test_an_input_that_shows_a_fault_is_kept_with_its_traceback(
    fault: apart.Use, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault in (spin, wait):
        monkeypatch.setattr(apart, "MAX_WAIT_S", 5.0)  # a busy machine takes more than 1 s to begin
    (tmp_path / "scratch").mkdir()
    worker = Worker(
        "chrome", tmp_path, 0, apart.Apart("chrome", tmp_path / "scratch", random.Random(0), fault)
    )
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
    worker = Worker("chrome", tmp_path, 1, apart.Apart("chrome", tmp_path / "scratch", random.Random(1)))
    inputs = [OTHER_PRODUCERS]
    for _ in range(20):  # the first waits until everything is loaded
        at_random(worker, inputs, injured, 1.0)
        if len(inputs) > 1:
            break
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


@pytest.mark.parametrize("format", one_of(3, sorted(small_seeds())))
def test_what_is_crafted_holds_one_thing_many_times(format: str) -> None:
    sizes = [len(crafted(small_seeds()[format][0], random.Random(number))) for number in range(12)]
    assert max(sizes) > 4 * len(small_seeds()[format][0])
    assert max(sizes) < 64 << 20


def test_what_lies_in_something_repeated_is_not_repeated_for_each_of_its_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(crafting, "MAX_BYTES", 4096)
    tree = {"rows": [{"cells": [{"number": 1}, {"number": 2}], "name": "row"}]}
    made = [crafting._repeated(copy.deepcopy(tree), 100, random.Random(seed)) for seed in range(300)]
    assert max(len(json.dumps(each)) for each in made) <= 8 * 4096
