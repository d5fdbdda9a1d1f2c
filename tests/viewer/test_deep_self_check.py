"""``self-check --deep``: what is made up can be read, a hang is told as one, and nothing is left however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from parsers import open_trace
from parsers.files.private_folder import PREFIX
from parsers.model import TraceError
from rules.analysis.recording.time_units import other_units
from viewer.doctor import examination
from viewer.doctor.examination import ROOM, examine, sizes_up_to
from viewer.doctor.made_up import MADE_UP
from viewer.doctor.trial import WAYS

WAIT_S = 120  # no machine is so slow; a test that waits longer hangs


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def left_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if each.name.startswith(PREFIX)]


def started(temporary: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "stallscope", "self-check", "--deep", *options]
    environment = os.environ | {"TMPDIR": str(temporary)}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


@pytest.mark.parametrize("kind", MADE_UP)
@pytest.mark.parametrize("size", [1_000, 300_000, 3_000_000])
def test_what_is_made_up_has_its_size_and_is_a_sound_recording(tmp_path: Path, kind: str, size: int) -> None:
    ending, write = MADE_UP[kind]
    path = tmp_path / f"made-up{ending}"
    write(path, size)

    least = {"Chrome JSON": 1_500, "Nsight Systems": 80_000}[kind]
    assert size * 0.85 <= path.stat().st_size <= max(size * 1.15, least)
    trace = open_trace([path])
    assert trace.quality.quarantined == 0
    assert len(trace.links.operation) == len(trace.gpu_operations) > 0
    assert other_units(trace) == ()


def test_sizes_grow_up_to_the_largest() -> None:
    assert sizes_up_to(1_000) == [1_000]
    assert sizes_up_to(300_000) == [1_000, 300_000]
    assert sizes_up_to(1_000_000) == [1_000, 1_000_000]


@pytest.mark.thorough
def test_every_way_of_opening_is_tried_and_nothing_is_left(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "SIZES", ())
    trials = list(examine(300_000, None, lambda _: None))

    assert [each.way for each in trials] == [*WAYS] * len(MADE_UP)
    assert [each.broken for each in trials] == [""] * len(trials)
    assert all(each.seconds > 0 and each.bytes > 0 for each in trials)
    assert left_in(temporary) == []


def test_what_takes_longer_than_its_limit_is_told_as_a_hang(temporary: Path) -> None:
    trials = list(examine(1_000, 0.001, lambda _: None))

    assert {each.broken for each in trials} == {"hangs: ended after 1.00 ms"}
    assert left_in(temporary) == []


def test_a_full_disk_is_told_before_anything_is_written(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 1_000_000
    monkeypatch.setattr(examination.shutil, "disk_usage", lambda _: SimpleNamespace(free=ROOM * size - 1))
    with pytest.raises(TraceError, match=r"Only 5\.00 MB are free there"):
        next(examine(size, None, lambda _: None))
    assert left_in(temporary) == []


def test_a_command_says_what_hangs_and_ends_with_code_2(temporary: Path) -> None:
    process = started(temporary, "--largest", "1KB", "--limit", "0.001", "--json")
    output, _ = process.communicate(timeout=WAIT_S)

    assert process.returncode == 2
    told = json.loads(output)
    assert {each["broken"] for each in told["trials"]} == {"hangs: ended after 1.00 ms"}
    assert told["faults"]
    assert left_in(temporary) == []


@pytest.fixture
def at_work(temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """A command that has begun to try."""
    process = started(temporary, "--largest", "2MB")
    until = time.monotonic() + WAIT_S
    while not list(temporary.glob(f"{PREFIX}*/making")) and time.monotonic() < until:
        time.sleep(0.01)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="processes are looked for in /proc")
def test_an_interrupted_command_leaves_neither_processes_nor_files(
    temporary: Path, at_work: subprocess.Popen[str]
) -> None:
    at_work.send_signal(signal.SIGINT)
    at_work.communicate(timeout=WAIT_S)

    assert at_work.returncode == 130
    assert left_in(temporary) == []
    needle = str(temporary).encode()
    until = time.monotonic() + WAIT_S
    while (processes := _with(needle)) and time.monotonic() < until:
        time.sleep(0.05)
    assert processes == []


def _with(needle: bytes) -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/environ"):
        try:
            if needle in each.read_bytes() and each.parent.name != str(os.getpid()):
                found.append(each.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("words", [["--largest", "5"], ["--largest", "9TB"], ["--limit", "-1"]])
def test_a_size_or_a_limit_that_is_none_is_refused_in_one_line(temporary: Path, words: list[str]) -> None:
    process = started(temporary, *words)
    _, error = process.communicate(timeout=WAIT_S)

    assert process.returncode == 2
    assert "such as" in error
    assert len(error.splitlines()) == 1
