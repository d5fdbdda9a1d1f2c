"""Recording in a real Slurm of two nodes: jobs that wait, run on both, end early, are cancelled, and leave nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from parsers import open_trace
from rules import diagnose
from tests.capture.pretend import annotations, script_request
from tests.places.slurm_cluster import SlurmCluster, why_not
from tests.places.test_recording_elsewhere import OnAThread
from viewer.capture.left_there import far_runs
from viewer.capture.recording import Recording
from viewer.capture.request import CaptureRequest, NsysOptions, Target, TargetKind, Tool, Window

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


def test_options_that_slurm_refuses_are_told_in_its_words(slurm: SlurmCluster, tmp_path: Path) -> None:
    outcome = Recording(shell_request(tmp_path, "echo begun", "--partition=nowhere")).run()
    assert outcome.recordings == ()
    assert "Invalid partition name specified" in outcome.problem


def test_ranks_on_two_nodes_finish_early_at_one_step(
    slurm: SlurmCluster, tmp_path: Path, torch_python: str
) -> None:
    request = script_request("averaging.py", tmp_path / "here", python="")
    launcher = (torch_python, "-m", "torch.distributed.run", "--nproc_per_node=1")
    request = replace(
        request,
        target=replace(
            request.target,
            launcher=launcher,
            interpreter="",
            environment={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        ),
        window=Window(active=1_000_000),
        on=on(tmp_path),
    )
    run = OnAThread(request)
    run.wait_for(lambda: sum(event.phase == "recording" for event in run.events) > 5)
    time.sleep(0.5)
    run.recording.finish_now()
    outcome = run.outcome()
    assert outcome.problem == "", run.text
    assert [path.name for path in outcome.recordings] == [
        f"averaging.rank{rank}.pt.trace.json.gz" for rank in range(2)
    ]
    steps = [annotations(path)["ProfilerStep"] for path in outcome.recordings]
    assert steps[0] == steps[1] > 1
    trace = open_trace(outcome.recordings)
    assert [rank.rank for rank in trace.ranks] == [0, 1]
    assert not diagnose(trace).crashed
