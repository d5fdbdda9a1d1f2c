"""Unmodified scripts are recorded with the CPU build of torch, whatever they do, and nothing of them stays behind."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.capture.pretend import SCRIPTS, alive, annotations, script_request
from viewer.capture.output_stream import Event
from viewer.capture.recording import Outcome, Recording
from viewer.capture.request import CaptureRequest, Target, TargetKind, Window


def record(request: CaptureRequest) -> tuple[Outcome, list[Event], str]:
    events: list[Event] = []
    text: list[str] = []
    outcome = Recording(request, on_text=text.append, on_event=events.append).run()
    return outcome, events, "".join(text)


@pytest.mark.thorough
def test_a_script_may_run_on_to_its_own_end(tmp_path: Path, torch_python: str) -> None:
    request = script_request("inference.py", tmp_path / "out", python=torch_python)
    outcome, events, text = record(replace(request, window=Window(keep_running=True)))
    assert "finished all of it" in text
    assert annotations(outcome.recordings[0]) == {"ProfilerStep": 5, "forward: Sequential": 5}
    assert any(event.values.get("text") == "by forward" for event in events)
    assert outcome.exit_code == 0


def test_a_failing_script_shows_its_own_traceback_first_and_keeps_what_was_recorded(
    tmp_path: Path, torch_python: str
) -> None:
    outcome, _, text = record(script_request("failing.py", tmp_path / "out", python=torch_python))
    assert outcome.exit_code == 1
    assert outcome.traceback.strip().endswith("ValueError: shape mismatch in layer 3")
    assert "stallscope_recorder" not in outcome.traceback + text.split("Traceback")[1]
    assert annotations(outcome.recordings[0])["ProfilerStep"] == 4


@pytest.mark.thorough
def test_steps_that_are_never_reached_are_said_not_written(tmp_path: Path, torch_python: str) -> None:
    request = script_request("inference.py", tmp_path / "out", python=torch_python)
    outcome, _, _ = record(replace(request, window=Window(skip_first=50)))
    assert outcome.recordings == ()
    assert "ended after 30 steps" in outcome.problem
    assert "--skip-first" in outcome.fix
    assert outcome.retry is not None
    assert (outcome.retry.window.skip_first, outcome.retry.window.active) == (1, 5)


def test_ranks_that_are_told_to_finish_end_at_the_same_step(tmp_path: Path, torch_python: str) -> None:
    script = script_request("averaging.py", tmp_path).target.program
    launcher = (torch_python, str(SCRIPTS / "two_ranks.py"))
    target = Target(TargetKind.SCRIPT, script, launcher=launcher)
    window = Window(active=1_000_000, time_limit_s=1.0)
    outcome, _, _ = record(CaptureRequest(target=target, out=str(tmp_path / "out"), window=window))
    assert (outcome.exit_code, outcome.traceback) == (0, ""), "no rank waits for one that has ended"
    steps = [annotations(path)["ProfilerStep"] for path in outcome.recordings]
    assert len(steps) == 2
    assert steps[0] == steps[1] > 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        path.name for path in outcome.recordings
    ]


@pytest.mark.thorough
def test_processes_that_torch_spawns_record_themselves(tmp_path: Path, torch_python: str) -> None:
    outcome, _, _ = record(script_request("spawning.py", tmp_path / "out", python=torch_python))
    names = [path.name for path in outcome.recordings]
    assert names == ["spawning.rank0.pt.trace.json.gz", "spawning.rank1.pt.trace.json.gz"]


class Endless:
    """The endless script, being recorded on a thread."""

    def __init__(self, tmp_path: Path, python: str, window: Window) -> None:
        self.pids_file = tmp_path / "pids"
        request = script_request("endless.py", tmp_path / "out", python=python, PIDS_FILE=str(self.pids_file))
        self.recording_began = threading.Event()
        self.recording = Recording(replace(request, window=window), on_event=self._event)
        self.outcomes: list[Outcome] = []
        self.thread = threading.Thread(target=lambda: self.outcomes.append(self.recording.run()))
        self.thread.start()
        assert self.recording_began.wait(60)

    def _event(self, event: Event) -> None:
        if event.phase in ("recording", "warming-up"):
            self.recording_began.set()

    def pids(self) -> list[int]:
        return [int(word) for word in self.pids_file.read_text().split()]

    def outcome(self) -> Outcome:
        self.thread.join(60)
        return self.outcomes[0]


def test_killing_ends_every_process_and_the_next_recording_starts_at_once(
    tmp_path: Path, torch_python: str
) -> None:
    endless = Endless(tmp_path, torch_python, Window(active=100_000))
    pids = [endless.recording.pid, *endless.pids()]
    assert all(alive(pid) for pid in pids)
    assert endless.recording.kill() == []
    assert not any(alive(pid) for pid in pids)
    outcome = endless.outcome()
    assert outcome.killed
    assert outcome.recordings == ()
    again, _, _ = record(script_request("inference.py", tmp_path / "out", python=torch_python))
    assert len(again.recordings) == 1
    assert not list((tmp_path / "out").glob(".*.finish")) or os.name == "nt"
