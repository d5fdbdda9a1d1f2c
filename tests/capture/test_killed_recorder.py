"""A recorder that is killed takes the profiler, the program and what that started along."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.capture.pretend import PretendTools, alive
from tests.capture.test_nsight import NSYS_VERSION
from viewer.capture import process_tree

PATIENCE_S = 60.0
STARTS_THE_PROGRAM = (
    "import subprocess\n"
    "child = subprocess.Popen(argv[-3:], start_new_session=True)\n"  # as far away as it can get
    "sys.exit(child.wait())\n"
)


def until(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def recorder(pretend_tools: PretendTools, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A recording with Nsight Systems on the command line; its program writes its number into ``pid``."""
    pretend_tools.add("nsys", NSYS_VERSION + STARTS_THE_PROGRAM)
    words = ["capture", "nsys", "--out", str(tmp_path / "out"), "--range", "time", "--"]
    program = ["sh", "-c", f"echo $$ > {shlex.quote(str(tmp_path / 'pid'))}; exec sleep 600"]
    with (
        (tmp_path / "said").open("wb") as said,
        subprocess.Popen(
            [sys.executable, "-m", "viewer.cli", *words, *program], stdout=said, stderr=said
        ) as process,
    ):
        yield process
        process.kill()


def processes(recorder: subprocess.Popen[bytes], folder: Path) -> list[int]:
    """Those that the recording consists of, once its program runs."""
    pid = folder / "pid"
    until(lambda: (pid.exists() and pid.read_text().endswith("\n")) or recorder.poll() is not None)
    assert recorder.poll() is None, (folder / "said").read_text()
    # has nothing in it for a moment, in which the shell becomes the program
    environment = Path(f"/proc/{int(pid.read_text())}/environ")
    until(lambda: bool(environment.read_text()))
    settings = environment.read_text().split("\0")
    mark = next(each.partition("=")[2] for each in settings if each.startswith(process_tree.MARK))
    return sorted(process_tree.members(mark))


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="processes are found by their marks in /proc")
def test_nsys_and_the_program_end_with_a_killed_recorder(
    recorder: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    others = processes(recorder, tmp_path)
    assert len(others) == 2
    os.kill(recorder.pid, signal.SIGKILL)
    recorder.wait()
    until(lambda: not any(alive(pid) for pid in others))
