"""Recording in a real Slurm of two nodes: jobs that wait, run on both, end early, are cancelled, and leave nothing."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from parsers import open_trace
from rules import diagnose
from tests.capture.pretend import SCRIPTS, annotations, script_request
from tests.remote.far_machine import FarMachine
from tests.remote.slurm_cluster import SlurmCluster, why_not
from tests.remote.test_recording_elsewhere import OnAThread
from tests.remote.test_recording_window import MAX_WAIT_MS, click, opened, until_it_says
from viewer.appearance import theme
from viewer.capture.recording import Recording
from viewer.capture.request import CaptureRequest, NsysOptions, Target, TargetKind, Tool, Window
from viewer.capture.storage import far_runs
from viewer.capture.trials.launch import Launcher, Order

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    if reason := why_not():
        pytest.skip(reason)
    cluster = SlurmCluster(tmp_path_factory.mktemp("slurm"))
    yield cluster
    cluster.close()


@pytest.fixture
def slurm(
    slurm_cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SlurmCluster]:
    """The cluster, on which no job and no file of ours is left when the test ends."""
    for name, value in slurm_cluster.settings.items():
        monkeypatch.setenv(name, value)
    shared = tmp_path / "shared"
    shared.mkdir()
    yield slurm_cluster
    assert list(shared.iterdir()) == []
    assert slurm_cluster.jobs == []
    assert far_runs() == []


def on(tmp_path: Path, *options: str) -> str:
    return " ".join(["slurm --nodes=2 --ntasks-per-node=1", f"--shared={tmp_path / 'shared'}", *options])


def shell_request(tmp_path: Path, script: str, *options: str) -> CaptureRequest:
    """A shell script on both nodes, inside something that pretends to be Nsight Systems."""
    nsys = tmp_path / "bin" / "nsys"
    nsys.parent.mkdir(exist_ok=True)
    nsys.write_text(
        '#!/bin/sh\nfor word in "$@"; do case $word in --output=*) output=${word#--output=} ;; esac; done\n'
        'if [ "$1" = export ]; then echo data > "$output"; exit; fi\n'
        'while [ "$1" != sh ]; do shift; done\nprintf report > "$output.nsys-rep"\n"$@"\n'
    )
    nsys.chmod(0o755)
    target = Target(
        TargetKind.COMMAND, "sh", ("-c", script), environment={"PATH": f"{nsys.parent}:{os.environ['PATH']}"}
    )
    return CaptureRequest(
        Tool.NSYS,
        target,
        nsys=NsysOptions(range="time"),
        out=str(tmp_path / "here"),
        on=on(tmp_path, *options),
    )


def test_a_job_runs_on_every_node_and_its_files_come_back(slurm: SlurmCluster, tmp_path: Path) -> None:
    heard: list[str] = []
    request = replace(
        shell_request(tmp_path, 'echo "node $SLURM_NODEID: $PREPARED"'),
        setup=f"PATH={tmp_path}/bin:$PATH; export PREPARED='it is'",
    )
    outcome = Recording(request, heard.append).run()
    assert outcome.problem == ""
    assert sorted("".join(heard).split("\n"))[-2:] == ["node 0: it is", "node 1: it is"]
    assert [path.name for path in outcome.recordings] == ["sh.sqlite"]


def test_a_job_that_waits_says_why_and_is_cancelled(slurm: SlurmCluster, tmp_path: Path) -> None:
    slurm.hold(True)
    try:
        run = OnAThread(shell_request(tmp_path, "echo begun"))
        run.wait_for(lambda: any(event.phase == "queued" for event in run.events))
        sentence = next(event.sentence for event in run.events if event.phase == "queued")
        assert "is pending (" in sentence
        assert ", since 20" in sentence
        assert len(slurm.jobs) == 1
        run.recording.kill()
        assert run.outcome().killed
    finally:
        slurm.hold(False)


def test_a_running_job_is_cancelled_on_every_node(slurm: SlurmCluster, tmp_path: Path) -> None:
    run = OnAThread(shell_request(tmp_path, "echo begun; sleep 88.8"))
    run.wait_for(lambda: run.text.count("begun") == 2)
    run.recording.kill()
    assert run.outcome().killed


def test_a_job_that_somebody_else_cancels_is_told(slurm: SlurmCluster, tmp_path: Path) -> None:
    run = OnAThread(shell_request(tmp_path, "echo begun; exec sleep 88.8"))
    run.wait_for(lambda: run.text.count("begun") == 2)
    slurm.run("scancel", slurm.jobs[0].split()[0])
    run.outcome()
    assert any("ended as CANCELLED" in str(event.values.get("text")) for event in run.events)


def test_a_cancelled_job_whose_program_ends_first_is_told_as_cancelled(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    """The program's exit code is written before Slurm knows what became of the job."""
    ended = f"touch $(echo {tmp_path}/shared/stallscope.????????)/rc.job=143"
    run = OnAThread(
        shell_request(tmp_path, f"trap '{ended}; sleep 1; exit 143' TERM; echo begun; sleep 88.8 & wait")
    )
    run.wait_for(lambda: run.text.count("begun") == 2)
    slurm.run("scancel", slurm.jobs[0].split()[0])
    run.outcome()
    assert any("ended as CANCELLED" in str(event.values.get("text")) for event in run.events)


def test_a_program_that_fails_in_a_job_is_not_told_as_cancelled(slurm: SlurmCluster, tmp_path: Path) -> None:
    run = OnAThread(shell_request(tmp_path, "echo begun; exit 7"))
    run.outcome()
    assert not any("ended as" in str(event.values.get("text")) for event in run.events)


def test_options_that_slurm_refuses_are_told_in_its_words(slurm: SlurmCluster, tmp_path: Path) -> None:
    outcome = Recording(shell_request(tmp_path, "echo begun", "--partition=nowhere")).run()
    assert outcome.recordings == ()
    assert "Invalid partition name specified" in outcome.problem


def two_ranks(tmp_path: Path, torch_python: str) -> CaptureRequest:
    """One rank on each node that average their gradients until somebody stops them."""
    request = script_request("averaging.py", tmp_path / "here", python="")
    launcher = (torch_python, "-m", "torch.distributed.run", "--nproc_per_node=1")
    target = replace(
        request.target,
        launcher=launcher,
        interpreter="",
        environment={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )
    return replace(request, target=target, window=Window(active=1_000_000), on=on(tmp_path))


def are_two_ranks_of_one_run(paths: Sequence[Path]) -> None:
    assert [path.name for path in paths] == [f"averaging.rank{rank}.pt.trace.json.gz" for rank in range(2)]
    steps = [annotations(path)["ProfilerStep"] for path in paths]
    assert steps[0] == steps[1] > 1
    trace = open_trace(paths)
    assert [rank.rank for rank in trace.ranks] == [0, 1]
    assert not diagnose(trace).crashed


def test_ranks_on_two_nodes_finish_early_at_one_step(
    slurm: SlurmCluster, tmp_path: Path, torch_python: str
) -> None:
    run = OnAThread(two_ranks(tmp_path, torch_python))
    run.wait_for(lambda: sum(event.phase == "recording" for event in run.events) > 5)
    time.sleep(0.5)
    run.recording.finish_now()
    outcome = run.outcome()
    assert outcome.problem == "", run.text
    are_two_ranks_of_one_run(outcome.recordings)


def test_a_job_of_two_nodes_is_finished_and_diagnosed_as_one_run_from_the_command_line(
    slurm: SlurmCluster, tmp_path: Path, torch_python: str
) -> None:
    words = [sys.executable, "-m", "viewer", "capture", "torch", "--on", on(tmp_path), "--active", "1000000"]
    words += ["--out", str(tmp_path / "here"), "--env", "OMP_NUM_THREADS=1", "--env", "GLOO_SOCKET_IFNAME=lo"]
    words += ["--", torch_python, "-m", "torch.distributed.run", "--nproc_per_node=1"]
    ours = subprocess.Popen(
        [*words, str(SCRIPTS / "averaging.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert ours.stderr is not None
    said = []
    for line in ours.stderr:
        said.append(line)
        # Lines come a few a second, so that no certain step is among them.
        if (step := re.search(r"recording step (\d+) ", line)) and int(step[1]) >= 9:
            break
    ours.send_signal(signal.SIGINT)
    shown, more = ours.communicate(timeout=200)
    assert ours.returncode == 0, "".join(said) + more
    paths = sorted((tmp_path / "here").glob("*.pt.trace.json.gz"))
    assert all(str(path) in shown for path in paths)
    assert shown.count("analysed:") == 1
    are_two_ranks_of_one_run(paths)


def test_a_job_of_two_nodes_is_watched_recorded_and_finished_from_the_window(
    slurm: SlurmCluster, tmp_path: Path, torch_python: str, qtbot: QtBot, qapp: QApplication
) -> None:
    theme.apply(qapp, "dark")
    slurm.hold(True)
    try:
        with opened(qtbot, two_ranks(tmp_path, torch_python)) as dialog:
            click(qtbot, dialog.record)
            until_it_says(qtbot, dialog, "is pending (")
            assert ", since 20" in dialog.run_view.phase.text()
            slurm.hold(False)
            until_it_says(qtbot, dialog, "Recording step ")
            with qtbot.waitSignal(dialog.captured, timeout=MAX_WAIT_MS) as caught:
                click(qtbot, dialog.run_view.finish)
    finally:
        slurm.hold(False)
    are_two_ranks_of_one_run(caught.args[0])


def test_a_job_that_waits_is_cancelled_from_the_window(
    slurm: SlurmCluster, tmp_path: Path, qtbot: QtBot, qapp: QApplication
) -> None:
    theme.apply(qapp, "dark")
    slurm.hold(True)
    try:
        with opened(qtbot, shell_request(tmp_path, "echo begun")) as dialog:
            click(qtbot, dialog.record)
            until_it_says(qtbot, dialog, "is pending (")
            click(qtbot, dialog.run_view.kill)
            until_it_says(qtbot, dialog, "The recording was killed")
            assert slurm.jobs == []
    finally:
        slurm.hold(False)


def test_a_job_is_submitted_on_a_login_node_that_ssh_reaches(
    slurm: SlurmCluster, far: FarMachine, tmp_path: Path
) -> None:
    (far.home / "slurm.conf").symlink_to(slurm.settings["SLURM_CONF"])
    try:
        request = shell_request(tmp_path, 'echo "node $SLURM_NODEID"')
        heard: list[str] = []
        there = request.on.replace("slurm ", "slurm:login ")
        outcome = Recording(replace(request, on=there), heard.append).run()
    finally:
        (far.home / "slurm.conf").unlink()
    assert outcome.problem == ""
    assert {"node 0", "node 1"} <= set("".join(heard).split("\n"))
    assert [path.name for path in outcome.recordings] == ["sh.sqlite"]


def test_changes_are_tried_in_a_job(slurm: SlurmCluster, tmp_path: Path, torch_python: str) -> None:
    settings = {"LOG": str(tmp_path / "log"), "OMP_NUM_THREADS": "1"}
    request = script_request("trial_state.py", tmp_path / "here", python=torch_python, **settings)
    request = replace(request, on=f"slurm --nodes=1 --ntasks=1 --shared={tmp_path / 'shared'}")
    assert request.target.program == str(SCRIPTS / "trial_state.py")
    launcher = Launcher(request, tmp_path / "here", lambda line: None, lambda text: None)
    order = Order((("foreach-optimizer", 1.0),), seconds=600.0, rounds=1, steps=2, skip=2)
    account = launcher.launch(order).account
    assert account.ended == "complete"
    assert {block.candidate for block in account.blocks} >= {"control", "foreach-optimizer"}


def test_a_job_that_lost_what_slurm_runs_beside_it_is_killed_and_leaves_nothing(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    run = OnAThread(shell_request(tmp_path, "echo begun; sleep 99.9"))
    run.wait_for(lambda: run.text.count("begun") == 2)
    slurm.forget_steps()
    run.recording.kill()
    assert run.outcome().killed
    assert processes_of("sleep 99.9") == []


def processes_of(line: str) -> list[Path]:
    """Processes of this machine by their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip() == line:
                found.append(entry)
    return found
