"""A program that already runs is recorded through Kineto's daemon protocol, and goes on to its own end."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.capture.pretend import SCRIPTS
from tests.capture.pretended_kineto import PretendedKineto, steps_in
from viewer.capture import process_tree
from viewer.capture.commands import RUNNER
from viewer.capture.plan import command_for
from viewer.capture.recording import Outcome, Recording
from viewer.capture.request import CaptureProblem, CaptureRequest, Target, TargetKind, Tool, Window
from viewer.capture.torch_runner.stallscope_recorder.attaching import (
    POLLED_WITHIN,
    Process,
    are_together,
    environment_of,
    ranks_among,
    step_times,
)
from viewer.capture.torch_runner.stallscope_recorder.session import rank_in
from viewer.cli import main

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Kineto asks on Linux only")


# Of a program that has children it waits until all must have asked, and the process of the tests may have some.
SOON = f"""
import runpy, sys
sys.path.insert(0, {str(RUNNER)!r})
from stallscope_recorder import attaching
attaching.POLLED_WITHIN = 0.2
runpy.run_path({str(RUNNER)!r}, run_name="__main__")
"""


def attach(folder: Path, out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SOON, "--attach", "--out", str(out), "--name", "it", *words]
    return subprocess.run(
        [*command, "--socket-dir", str(folder)], capture_output=True, text=True, timeout=60, check=False
    )


def test_what_holds_too_few_steps_is_asked_for_again(tmp_path: Path) -> None:
    kineto = PretendedKineto(tmp_path, [1, 5, 5])
    done = attach(tmp_path, tmp_path / "out", "--pid", str(os.getpid()), "--times", "2")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "it.2.pt.trace.json.gz",
        "it.pt.trace.json.gz",
    ]
    assert [steps_in(path) for path in (tmp_path / "out").iterdir()] == [5, 5]
    assert [order["ACTIVITIES_ITERATIONS"] for order in kineto.orders] == ["5", "5", "5"]
    assert {order["PROFILE_START_ITERATION"] for order in kineto.orders} == {"0"}


def test_nsight_records_no_program_that_runs_already() -> None:
    request = CaptureRequest(tool=Tool.NSYS, target=Target(TargetKind.RUNNING, "12"))
    with pytest.raises(CaptureProblem, match="Nsight Systems can't record a program that already runs"):
        command_for(request, "out", "it")


def test_a_program_without_an_optimizer_is_recorded_for_a_time(tmp_path: Path) -> None:
    PretendedKineto(tmp_path, [0, 0])
    assert attach(tmp_path, tmp_path / "out", "--pid", str(os.getpid())).returncode == 0
    assert len(list((tmp_path / "out").iterdir())) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pid", "999999999"], "there is no process 999999999"),
        (["--pid", str(os.getpid()), "--wait", "0.2"], "was not started with KINETO_USE_DAEMON=1"),
        (["--wait", "0.2"], "no program asked within 0.2 s"),
    ],
)
def test_a_program_that_does_not_ask_is_told(tmp_path: Path, words: list[str], said: str) -> None:
    done = attach(tmp_path, tmp_path / "out", *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert not (tmp_path / "dynolog").exists()


def test_a_program_that_has_ended_is_told_although_its_parent_has_not_asked_after_it(tmp_path: Path) -> None:
    program = subprocess.Popen(["true"])
    while Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    done = attach(tmp_path, tmp_path / "out", "--pid", str(program.pid))
    program.wait()
    assert f"there is no process {program.pid}" in done.stderr


def test_two_who_answer_kineto_at_once_are_refused(tmp_path: Path) -> None:
    other = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with other:
        other.bind(str(tmp_path / "dynolog"))
        done = attach(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert "another program answers Kineto here" in done.stderr


def recorded(
    program: subprocess.Popen[str], over: Path, out: Path, times: int, **environment: str
) -> Outcome:
    """Recordings of a program that makes steps already."""
    while not over.with_suffix(".begun").exists():
        assert program.poll() is None, "the program ended before its first step"
        time.sleep(0.05)
    target = Target(TargetKind.RUNNING, str(program.pid), interpreter=sys.executable, environment=environment)
    window = Window(active=5, repeat=times)
    return Recording(CaptureRequest(target=target, window=window, out=str(out))).run()


def ended(program: subprocess.Popen[str], over: Path) -> str:
    over.touch()
    said, _ = program.communicate(timeout=60)
    assert program.returncode == 0
    return said


@contextlib.contextmanager
def prepared(*words: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """A program that lets Kineto ask; it and all it started are gone when the block ends."""
    environment: dict[str, Any] = {**os.environ, "KINETO_USE_DAEMON": "1", **settings}
    program = subprocess.Popen(
        words,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        while program.poll() is None and "KINETO_USE_DAEMON" not in environment_of(program.pid):
            time.sleep(0.01)  # it is started before the system can say with which environment
        yield program
    finally:
        family = process_tree.members("no mark", program.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, 9)
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        program.communicate()


@pytest.mark.thorough
def test_a_launcher_that_asks_before_its_ranks_are_there_is_not_what_is_recorded(tmp_path: Path) -> None:
    ranks = "for rank in 0 1; do RANK=$rank LOCAL_WORLD_SIZE=2 sleep 300 & done"
    words = ["sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; {ranks}; wait"]
    with prepared(*words) as launcher:
        asked = PretendedKineto(tmp_path, [0, 0], launcher.pid)
        threading.Thread(target=start_ranks_once, args=(asked, launcher.pid, tmp_path), daemon=True).start()
        done = attach(tmp_path, tmp_path / "out", "--pid", str(launcher.pid))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "it.rank0.pt.trace.json.gz",
        "it.rank1.pt.trace.json.gz",
    ]


def start_ranks_once(asked: PretendedKineto, launcher: int, folder: Path) -> None:
    """Let the launcher start its ranks as soon as it was told to record, and let them ask then."""
    while not asked.orders:
        time.sleep(0.02)
    (folder / "go").touch()
    children = Path(f"/proc/{launcher}/task/{launcher}/children")
    while (
        len(ranks := [pid for pid in children.read_text().split() if rank_in(environment_of(int(pid))) >= 0])
        < 2
    ):
        time.sleep(0.02)
    for pid in ranks:
        PretendedKineto(folder, [2, 5], int(pid), launcher)


def test_the_ranks_are_recorded_without_their_launcher_and_loaders_only_if_they_make_steps(
    tmp_path: Path,
) -> None:
    processes = {}
    with contextlib.ExitStack() as running:
        for name, rank in (("launcher", ""), ("rank 0", "0"), ("rank 1", "1"), ("loader of rank 1", "1")):
            program = running.enter_context(prepared("sleep", "300", **({"RANK": rank} if rank else {})))
            processes[name] = Process(program.pid)
        for name, process in processes.items():
            process.ancestors = [process.pid, processes["launcher"].pid]
            if "loader" in name:
                process.ancestors.insert(1, processes["rank 1"].pid)
        found = ranks_among(processes.values())
    assert found == [processes[name] for name in ("rank 0", "rank 1", "loader of rank 1")]


def test_ranks_that_began_at_other_steps_are_told_by_the_clock(tmp_path: Path) -> None:
    def written(name: str, seconds: float) -> str:
        event = {"cat": "user_annotation", "name": "Optimizer.step#SGD.step", "ts": 1e6 * seconds}
        (tmp_path / name).write_text(json.dumps({"baseTimeNanoseconds": 10**9, "traceEvents": [event]}))
        return str(tmp_path / name)

    first = written("first", 100.0)
    assert step_times(first) == [101.0]
    assert are_together([first, written("second", 100.0 + 0.99 * POLLED_WITHIN)])
    assert not are_together([first, written("second", 100.0 + 1.01 * POLLED_WITHIN)])


@pytest.mark.thorough
def test_an_unmodified_script_is_recorded_three_times_and_runs_to_its_end(
    tmp_path: Path, torch_python: str
) -> None:
    with prepared(torch_python, str(SCRIPTS / "steady.py"), str(tmp_path / "over")) as program:
        outcome = recorded(program, tmp_path / "over", tmp_path / "out", 3)
        assert outcome.problem == ""
        assert [steps_in(path) for path in outcome.recordings] == [5, 5, 5]
        assert "ended by itself" in ended(program, tmp_path / "over")


@pytest.mark.thorough
def test_ranks_are_recorded_in_the_same_steps(tmp_path: Path, torch_python: str) -> None:
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words += [str(SCRIPTS / "steady.py"), str(tmp_path / "over")]
    with (
        tempfile.TemporaryDirectory() as short,  # the names of sockets are short
        prepared(torch_python, *words, KINETO_IPC_SOCKET_DIR=short, GLOO_SOCKET_IFNAME="lo") as program,
    ):
        folder = {"KINETO_IPC_SOCKET_DIR": short}
        outcome = recorded(program, tmp_path / "over", tmp_path / "out", 1, **folder)
        assert outcome.problem == ""
        names = [
            path.name.removesuffix(".pt.trace.json.gz").rpartition(".")[2] for path in outcome.recordings
        ]
        assert names == ["rank0", "rank1"]
        assert [steps_in(path) for path in outcome.recordings] == [5, 5]
        starts = []
        for path in outcome.recordings:
            with gzip.open(path, "rt") as file:
                trace = json.load(file)
            first = min(each["ts"] for each in trace["traceEvents"] if "Optimizer.step" in each["name"])
            starts.append(trace["baseTimeNanoseconds"] / 1e9 + first / 1e6)
        assert abs(starts[0] - starts[1]) < 0.5, "the ranks began at the same step"
        ended(program, tmp_path / "over")


def test_attaching_at_what_is_no_place_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attach", "--on", "run.json.gz"]) == 2
    assert "run.json.gz: No place is named." in capsys.readouterr().err
