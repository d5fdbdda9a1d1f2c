"""Recordings that wait for a slow step: which steps count, and what a script that has one leaves."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.capture.pretend import SCRIPTS
from viewer.capture.output_stream import Event
from viewer.capture.torch_runner.stallscope_recorder.options import parse
from viewer.capture.torch_runner.stallscope_recorder.slow_steps import (
    DEVIATIONS,
    HOUR,
    KNOWN_STEPS,
    MIN_KNOWN,
    NORMAL_MAD,
    USUAL_AGAIN,
    SlowSteps,
)
from viewer.cli import main
from viewer.terminal.slow_step_report import SAME_WITHIN, Incidents
from viewer.user_data.history import History, Series


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def after(*known: float, factor: float = 2.0, most: int = 6, clock: Clock | None = None) -> SlowSteps:
    steps = SlowSteps(factor, most, clock or Clock())
    assert not any(steps.begins_incident(each) for each in known)
    return steps


def test_a_step_is_slow_beyond_the_factor_once_enough_are_known() -> None:
    assert not after(*[0.1] * (MIN_KNOWN - 1)).begins_incident(9.0)
    assert not after(*[0.1] * MIN_KNOWN).begins_incident(0.2)
    assert after(*[0.1] * MIN_KNOWN).begins_incident(0.201)


def test_a_step_is_slow_only_beyond_what_steps_usually_differ_by() -> None:
    restless = [0.08, 0.12] * MIN_KNOWN
    edge = 0.1 + DEVIATIONS * NORMAL_MAD * 0.02
    assert not after(*restless).begins_incident(edge - 0.001)
    assert after(*restless).begins_incident(edge + 0.001)


def test_steps_that_are_long_by_turns_are_usual() -> None:
    accumulates = after(*[0.1] * MIN_KNOWN, *([0.1] * 3 + [0.15]) * 50, *([0.1] * 3 + [0.19]) * 50)
    assert not any(accumulates.begins_incident(each) for each in ([0.1] * 3 + [0.3]) * 4)
    assert accumulates.begins_incident(0.4)


def test_a_stretch_of_slow_steps_is_one_incident_and_the_next_comes_after_usual_ones() -> None:
    steps = after(*[0.1] * 50)
    assert [steps.begins_incident(1.0) for _ in range(5)] == [True, False, False, False, False]
    assert not any(steps.begins_incident(0.1) for _ in range(USUAL_AGAIN - 1))
    assert not steps.begins_incident(1.0)
    assert not any(steps.begins_incident(0.1) for _ in range(USUAL_AGAIN))
    assert steps.begins_incident(1.0)


def test_a_program_that_stays_slow_is_usual_in_the_end() -> None:
    steps = after(*[0.1] * KNOWN_STEPS)
    assert sum(steps.begins_incident(0.5) for _ in range(2 * KNOWN_STEPS)) == 1
    assert not steps.begins_incident(0.6)
    assert steps.usual == 0.5


def test_no_more_than_so_many_an_hour() -> None:
    clock = Clock()
    steps = after(*[0.1] * 50, most=2, clock=clock)

    def incident() -> bool:
        found = steps.begins_incident(1.0)
        assert not any(steps.begins_incident(0.1) for _ in range(USUAL_AGAIN))
        return found

    assert [incident(), incident(), incident()] == [True, True, False]
    clock.now = HOUR - 1
    assert not incident()
    clock.now = HOUR
    assert incident()


@pytest.mark.parametrize(
    "words", [["--when-slow", "1"], ["--when-slow", "2", "--steps", "whole"], ["--when-slow", "x"]]
)
def test_a_factor_that_says_nothing_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--out", "x", *words, "--", "train.py"])


def told(phase: str, rank: int, step: int = 0, path: str = "") -> Event:
    return Event(phase, rank, {"step_number": step, "text": f"step {step}", "path": path})


def test_the_recordings_that_ranks_make_of_one_slow_step_belong_together() -> None:
    incidents = Incidents()
    assert incidents.take(told("incident", 1, 500)) is None
    assert incidents.take(told("incident", 0, 500 + SAME_WITHIN)) is None
    assert incidents.take(told("written", 1, path="/out/a.rank1.pt.trace.json.gz")) is None
    first = incidents.take(told("written", 0, path="/out/a.rank0.pt.trace.json.gz"))
    assert first is not None
    assert sorted(first.names) == ["a.rank0.pt.trace.json.gz", "a.rank1.pt.trace.json.gz"]
    incidents.take(told("incident", 0, 900))
    alone = incidents.take(told("written", 0, path="/out/a.2.rank0.pt.trace.json.gz"))
    incidents.take(told("incident", 1, 901 + SAME_WITHIN))
    later = incidents.take(told("written", 1, path="/out/a.2.rank1.pt.trace.json.gz"))
    assert incidents.all == [first, alone, later], "two ranks may each have a second one that is not the same"


def let_it_end(over: Path, journal: str) -> None:
    """Only what the journal already tells of lets the program end."""
    until = time.monotonic() + 150
    while not History().entries(Series.INCIDENT, journal) and time.monotonic() < until:
        time.sleep(0.05)
    over.touch()


@pytest.mark.thorough  # the daily one is that of two ranks
def test_a_step_made_slow_is_recorded_once_diagnosed_and_kept_in_the_journal(
    tmp_path: Path, torch_python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "capture",
        "torch",
        "--when-slow",
        "40",
        "--active",
        "3",
        "--journal",
        "mine",
        "--out",
        str(tmp_path / "out"),
    ]
    over = tmp_path / "over"
    script = [torch_python, str(SCRIPTS / "sometimes_slow.py"), "120", "80", str(over)]
    threading.Thread(target=let_it_end, args=(over, "mine"), daemon=True).start()
    assert main([*words, "--", *script]) == 0
    shown = capsys.readouterr()
    assert "ended by itself" in shown.err, "the script goes on to its end"
    (recording,) = (tmp_path / "out").glob("*.pt.trace.json.gz")
    assert str(recording) in shown.out
    assert "Slow step 1: step " in shown.out
    (entry,) = History().entries(Series.INCIDENT, "mine")
    assert recording.name in entry.reason
    assert main(["trend", "--incidents", "mine"]) == 0
    assert "usually" in capsys.readouterr().out


@pytest.mark.thorough
def test_a_run_without_a_slow_step_is_a_good_one(
    tmp_path: Path, torch_python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["capture", "torch", "--when-slow", "1000", "--out", str(tmp_path / "out")]
    assert main([*words, "--", torch_python, str(SCRIPTS / "sometimes_slow.py"), "60"]) == 0
    assert "No step took 1000 times as long as usual, in 6" in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*"))


def test_a_step_made_slow_on_one_of_two_ranks_is_one_incident_of_both(
    tmp_path: Path, torch_python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["capture", "torch", "--when-slow", "40", "--active", "3", "--journal", "two"]
    over = tmp_path / "over"
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    script = [*launcher, str(SCRIPTS / "sometimes_slow.py"), "120", "80", str(over)]
    threading.Thread(target=let_it_end, args=(over, "two"), daemon=True).start()
    words += ["--out", str(tmp_path / "out"), "--env", "GLOO_SOCKET_IFNAME=lo", "--env", "OMP_NUM_THREADS=1"]
    assert main([*words, "--", torch_python, *script]) == 0
    shown = capsys.readouterr()
    assert "ended by itself" in shown.err, "the script goes on to its end"
    assert shown.out.count("Slow step ") == shown.out.count("Slow step 1: step ") == 1
    names = sorted(path.name for path in (tmp_path / "out").glob("*.pt.trace.json.gz"))
    assert names == [f"sometimes_slow.rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
    assert all(str(tmp_path / "out" / name) in shown.out for name in names)
    (entry,) = History().entries(Series.INCIDENT, "two")
    assert all(name in entry.reason for name in names)
    assert main(["trend", "--incidents", "two"]) == 0
    assert "usually" in capsys.readouterr().out
