"""Recording on another machine through a real ssh and a real sshd, whatever its login shell and its connection do."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.capture.pretend import SCRIPTS, script_request
from tests.remote.far_machine import FarMachine
from viewer.capture import running
from viewer.capture.output_stream import Event
from viewer.capture.recording import Outcome, Recording
from viewer.capture.request import (
    CaptureProblem,
    CaptureRequest,
    NsysOptions,
    Target,
    TargetKind,
    Tool,
    Window,
)
from viewer.capture.storage import far_runs
from viewer.capture.trials.launch import Launcher, Order

SHELLS = (
    *("jumped", "fish"),
    *(pytest.param(host, marks=pytest.mark.thorough) for host in ("far", "banner", "csh", "bare")),
)
UNTIL_IT_MAY_END = "while [ ! -e may_end ]; do sleep 0.02; done"


def shell_request(host: str, out: Path, script: str = "echo working", *arguments: str) -> CaptureRequest:
    """A shell script over there, inside the pretended Nsight Systems."""
    target = Target(TargetKind.COMMAND, "sh", ("-c", script, "sh", *arguments), environment={"A": "b c!"})
    nsys = NsysOptions(range="time")
    return CaptureRequest(Tool.NSYS, target, nsys=nsys, out=str(out), on=f"ssh:{host}")


class OnAThread:
    """A recording that goes on while the test disturbs it."""

    def __init__(self, request: CaptureRequest) -> None:
        self.text = ""
        self.events: list[Event] = []
        self.recording = Recording(request, on_text=self._hear, on_event=self.events.append)
        self._outcomes: list[Outcome] = []
        self._thread = threading.Thread(target=lambda: self._outcomes.append(self.recording.run()))
        self._thread.start()

    def _hear(self, text: str) -> None:
        self.text += text

    def wait_for(self, known: Callable[[], bool], seconds: float = 150.0) -> None:
        until = time.monotonic() + seconds
        while not known():
            assert time.monotonic() < until, (self.text, self.events)
            assert self._thread.is_alive(), (self.text, self.events)
            time.sleep(0.01)

    def outcome(self) -> Outcome:
        self._thread.join(150)
        return self._outcomes[0]


@pytest.mark.parametrize("host", SHELLS)
def test_whatever_shell_they_log_into_a_program_is_recorded_and_its_files_come_back(
    far: FarMachine, tmp_path: Path, host: str
) -> None:
    (far.home / "bare" / "nsys").unlink(missing_ok=True)
    (far.home / "bare" / "nsys").symlink_to(far.home / "bin" / "nsys")
    script = 'echo "$A" "$@" >> said; cat said; rm said'
    words = ("it's", "two words", "$HOME", "wow!", "back\\slash", "größe")
    heard: list[str] = []
    outcome = Recording(shell_request(host, tmp_path / "here", script, *words), heard.append).run()
    assert outcome.problem == ""
    assert " ".join(("b c!", *words)) in "".join(heard)
    (recording,) = outcome.recordings
    assert recording == tmp_path / "here" / "sh.sqlite"
    assert recording.stat().st_size == 300_000
    assert far_runs() == []


def test_a_connection_that_breaks_is_told_and_nothing_is_lost(far: FarMachine, tmp_path: Path) -> None:
    may_end = far.home / "may_end"
    lines = "for n in {}; do echo line $n; done"
    script = f"{lines.format('1 2 3 4')}; {UNTIL_IT_MAY_END}; {lines.format('5 6 7 8')}"
    run = OnAThread(shell_request("wired", tmp_path / "here", script))
    run.wait_for(lambda: "line 2" in run.text)
    far.wire.cut()
    run.wait_for(lambda: any(event.phase == "lost" for event in run.events))
    may_end.touch()
    outcome = run.outcome()
    may_end.unlink()
    assert outcome.problem == ""
    assert [line for line in run.text.splitlines() if "line" in line] == [f"line {n}" for n in range(1, 9)]
    phases = [event.phase for event in run.events]
    assert phases.index("lost") < phases.index("found")
    assert len(outcome.recordings) == 1


def test_a_connection_that_breaks_while_the_file_is_fetched_is_resumed(
    far: FarMachine, tmp_path: Path
) -> None:
    noise = far.home / "noise"
    noise.write_bytes(os.urandom(3_000_000))
    request = shell_request("wired", tmp_path / "here")
    export = far.home / "bin" / "nsys"
    plain = export.read_text()
    export.write_text(plain.replace("head -c 300000 /dev/zero", f"cat {noise}"))
    try:
        run = OnAThread(request)
        run.wait_for(lambda: any(event.phase == "converting" for event in run.events))
        far.wire.cut_after = far.wire.carried + 1_000_000
        outcome = run.outcome()
    finally:
        export.write_text(plain)
    assert outcome.problem == ""
    assert outcome.recordings[0].read_bytes() == noise.read_bytes()
    assert far.wire.cut_after == 0, "it broke"
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["sh.sqlite"]


def test_a_run_that_is_out_of_reach_goes_on_and_is_brought_home_the_next_time(
    far: FarMachine, tmp_path: Path
) -> None:
    may_end, ended = far.home / "may_end", far.home / "ended"
    script = f"echo begun; {UNTIL_IT_MAY_END}; echo over > ended"
    run = OnAThread(shell_request("wired", tmp_path / "here", script))
    run.wait_for(lambda: "begun" in run.text)
    far.wire.cut(down=True)
    run.wait_for(lambda: any(event.phase == "lost" for event in run.events))
    run.recording.finish_now()
    outcome = run.outcome()
    assert "continues there" in outcome.problem
    assert "stallscope attach --on ssh:wired" in outcome.fix
    far.wire.is_down = False
    may_end.touch()
    while not ended.exists():
        time.sleep(0.02)
    may_end.unlink()
    ended.unlink()
    again = Recording(far_runs()[0].request, again=far_runs()[0]).run()
    assert [path.name for path in again.recordings] == ["sh.sqlite"]
    assert far_runs() == []


def test_what_a_killed_process_left_there_is_fetched_and_removed_by_the_next_recording(
    far: FarMachine, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "viewer", "capture", "nsys", "--on", "ssh:far", "--range", "time"]
    words += ["--no-diagnosis", "--out", str(tmp_path / "first"), "--"]
    words += ["sh", "-c", f"echo begun; {UNTIL_IT_MAY_END}"]
    ours = subprocess.Popen(words, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2], text=True)
    assert ours.stderr is not None
    while "begun" not in ours.stderr.readline():
        pass
    ours.kill()
    ours.wait()
    ours.stderr.close()
    (far.home / "may_end").touch()
    while far.processes("may_end"):
        time.sleep(0.02)
    (far.home / "may_end").unlink()
    time.sleep(0.3)
    assert len(far.left()) == 1
    events: list[Event] = []
    outcome = Recording(shell_request("far", tmp_path / "second"), on_event=events.append).run()
    assert len(outcome.recordings) == 1
    assert any("first/sh.nsys-rep" in event.sentence for event in events)
    assert (tmp_path / "first" / "sh.nsys-rep").read_text() == "a report"


def test_killing_ends_what_was_started_there_and_keeps_nothing(far: FarMachine, tmp_path: Path) -> None:
    run = OnAThread(shell_request("far", tmp_path / "here", "echo begun; setsid sleep 77.7 & sleep 77.7"))
    run.wait_for(lambda: "begun" in run.text)
    time.sleep(0.1)
    run.recording.kill()
    assert run.outcome().killed
    assert far.processes("77.7") == []


def test_finishing_early_interrupts_the_program_there(far: FarMachine, tmp_path: Path) -> None:
    script = "trap 'echo told; exit 0' INT; echo begun; while :; do sleep 0.1; done"
    run = OnAThread(shell_request("far", tmp_path / "here", script))
    run.wait_for(lambda: "begun" in run.text)
    run.recording.finish_now()
    assert len(run.outcome().recordings) == 1
    assert "told" in run.text


def test_a_full_disk_there_is_told_before_anything_runs(far: FarMachine, tmp_path: Path) -> None:
    full = far.home / "full"
    if (
        os.getuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(full)],
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
    ):
        pytest.skip("no small disk can be mounted here: that takes root")
    try:
        with pytest.raises(CaptureProblem, match=r"ssh:full: .*No space left on device"):
            Recording(
                replace(script_request("inference.py", tmp_path / "here", python="python3"), on="ssh:full")
            ).run()
        assert list(full.iterdir()) == []
    finally:
        subprocess.run(["umount", str(full)], check=True)


def test_a_machine_without_python_is_told_what_it_lacks(far: FarMachine, tmp_path: Path) -> None:
    request = script_request("inference.py", tmp_path / "here", python="")
    with pytest.raises(CaptureProblem, match="ssh:bare has no python3") as caught:
        Recording(replace(request, on="ssh:bare")).run()
    assert "--python" in caught.value.fix


@pytest.mark.parametrize(
    ("host", "problem", "hint"),
    [
        ("changed", "host key has changed", "ssh-keygen -R"),
        ("stranger", "Permission denied", "Set up a key"),
        ("nobody", "Connection refused", "must work"),
    ],
)
def test_a_machine_that_cannot_be_reached_says_so_in_words_of_ssh(
    far: FarMachine, tmp_path: Path, host: str, problem: str, hint: str
) -> None:
    with pytest.raises(CaptureProblem, match=problem) as caught:
        Recording(shell_request(host, tmp_path / "here")).run()
    assert hint in caught.value.fix


def test_the_line_that_prepares_the_environment_runs_first(far: FarMachine, tmp_path: Path) -> None:
    request = shell_request("far", tmp_path / "here", "echo prepared: $PREPARED")
    heard: list[str] = []
    setup = f"PATH={far.home}/bin:$PATH; PREPARED='by us'; export PREPARED"
    Recording(replace(request, setup=setup), heard.append).run()
    assert "prepared: by us" in "".join(heard)


def test_a_script_is_recorded_there_with_torch(far: FarMachine, tmp_path: Path, torch_python: str) -> None:
    project = far.home / "my project"
    project.mkdir(exist_ok=True)
    request = script_request("inference.py", tmp_path / "here", python=torch_python)
    shutil.copy(request.target.program, project / "infer it.py")
    shutil.copy(SCRIPTS / "without_compiler.py", project)
    target = replace(request.target, program="infer it.py", folder="my project", arguments=("it's", "$HOME"))
    outcome = Recording(replace(request, target=target, on="ssh:csh", window=Window(warmup=1))).run()
    assert outcome.problem == ""
    assert [path.parent for path in outcome.recordings] == [tmp_path / "here"]
    assert outcome.recordings[0].stat().st_size > 500


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_after_fifty_recordings_that_ended_in_every_way_nothing_of_ours_is_there(
    far: FarMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "RECONNECT_SECONDS", 2.0)
    before = far.listing()
    for number in range(50):
        run = OnAThread(shell_request("wired", tmp_path / "here", "echo begun; sleep 0.3"))
        run.wait_for(lambda run=run: "begun" in run.text)
        match number % 5:
            case 0:
                run.recording.kill()
            case 1:
                run.recording.finish_now()
            case 2:
                far.wire.cut()
            case 3:
                far.wire.cut(down=True)
                run.recording.kill()
            case _:
                with contextlib.suppress(ProcessLookupError):  # it may be over
                    os.kill(run.recording.pid, signal.SIGKILL)
        run.outcome()
        far.wire.is_down = False
    last = Recording(shell_request("wired", tmp_path / "here")).run()
    assert len(last.recordings) == 1
    assert far_runs() == []
    assert far.listing() == before


@pytest.mark.thorough
def test_changes_are_tried_there_and_what_they_gave_comes_back(
    far: FarMachine, tmp_path: Path, torch_python: str
) -> None:
    shutil.copy(SCRIPTS / "trial_state.py", far.home)
    settings = {"LOG": str(far.home / "log"), "OMP_NUM_THREADS": "1"}
    request = script_request("trial_state.py", tmp_path / "here", python=torch_python, **settings)
    request = replace(request, target=replace(request.target, program="trial_state.py"), on="ssh:far")
    heard: list[str] = []
    launcher = Launcher(
        request, tmp_path / "here", lambda line: heard.append(str(line["kind"])), lambda text: None
    )
    order = Order((("foreach-optimizer", 1.0),), seconds=600.0, rounds=1, steps=2, skip=2)
    account = launcher.launch(order).account
    assert account.ended == "complete"
    assert {block.candidate for block in account.blocks} >= {"control", "foreach-optimizer"}
    assert heard.count("block") == len(account.blocks)
