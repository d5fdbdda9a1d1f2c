"""A command that is ended, or whose helper is, leaves no process and no file, and the next one works as ever."""

from __future__ import annotations

import itertools
import signal
import sys
import time
from dataclasses import replace

import pytest

from tests.processes.answers import is_mistaken
from tests.processes.kills import LATEST, SIGNALS, Killing, Trial, Victim
from tests.processes.place import Place
from tests.processes.recordings import DAILY, Recordings
from tests.processes.subjects import SUBJECTS, Subject

NSYS = """#!{python}
import subprocess, sys
if "--version" in sys.argv:
    print("NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0")
else:
    try:
        sys.exit(subprocess.run(sys.argv[sys.argv.index("--kill=sigterm") + 1 :]).returncode)
    except KeyboardInterrupt:
        sys.exit(130)
"""
Kills = tuple[tuple[signal.Signals, Victim, float, bool], ...]
MOMENTS = tuple(LATEST * number / 9 for number in range(10))
EVERY_DAY: Kills = ((signal.SIGKILL, Victim.PARENT, 0.7, False),)
MORE: dict[str, Kills] = {
    "diagnose": ((signal.SIGTERM, Victim.PARENT, 0.5, False), (signal.SIGKILL, Victim.HELPER, 0.6, False)),
    "diagnose-zip": (
        (signal.SIGKILL, Victim.PARENT, 0.4, False),
        (signal.SIGHUP, Victim.PARENT, 0.5, False),
        (signal.SIGINT, Victim.ALL, 0.6, False),
    ),
}


def _named(name: str) -> Subject:
    return next(each for each in SUBJECTS if each.name == name)


def _of(subject: Subject) -> list[Trial]:
    """Each signal to each victim at one of the ten moments, another for each command: together they see all."""
    first = SUBJECTS.index(subject)
    return [
        Trial(subject, number, victim, MOMENTS[(first + place * 3) % len(MOMENTS)], again=bool(place % 2))
        for place, (number, victim) in enumerate(itertools.product(SIGNALS, Victim))
    ]


@pytest.mark.parametrize(
    ("name", "kills"),
    [
        ("diagnose", EVERY_DAY),
        *(pytest.param(name, kills, marks=pytest.mark.thorough) for name, kills in MORE.items()),
    ],
    ids=["one", *MORE],
)
def test_nothing_is_left_of_what_was_ended(
    name: str, kills: Kills, place: Place, recordings: Recordings
) -> None:
    subject = _named(name)
    if kills is EVERY_DAY:
        subject = replace(subject, recording=lambda made: made.json(DAILY))
    killing = Killing(subject, place, recordings)
    trials = [Trial(killing.subject, *each) for each in kills]
    assert {str(trial): faults for trial in trials if (faults := killing.faults(trial))} == {}


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_nothing_is_left_of_any_command(subject: Subject, place: Place, recordings: Recordings) -> None:
    killing = Killing(subject, place, recordings)
    assert {str(trial): faults for trial in _of(subject) if (faults := killing.faults(trial))} == {}


@pytest.mark.thorough
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("seconds", [0.3, 1.0, 2.5])
def test_what_is_recorded_ends_with_its_recorder(
    seconds: float, number: signal.Signals, place: Place
) -> None:
    tools = place.root / "tools"
    tools.mkdir()
    nsys = tools / "nsys"
    nsys.write_text(NSYS.format(python=sys.executable))
    nsys.chmod(0o755)
    path = {"PATH": f"{tools}:{place.environment()['PATH']}"}
    words = ("capture", "nsys", "--out", place.written, "--", "sleep", "600")
    with place.started(*words, changed=path) as running:
        time.sleep(seconds)
        running.send(number)
        done = running.done()
    assert not is_mistaken(done, number)
    assert done.code in {-number, 128 + number, 130, 1}, done.err
    assert not list(place.written.rglob("*.part"))
