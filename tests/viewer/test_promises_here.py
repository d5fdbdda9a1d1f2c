"""What trials on this machine measured stands beside the promises of ``diagnose`` and ``whatif``."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import resources
from rules.trials.record import MIN_TRIALS, KeptTrial
from viewer.cli import main
from viewer.user_data.history import Entry, History, Series

SAMPLE = resources.path("samples") / "elementwise_chain.pt.trace.json.gz"
FIX = "compile-model"
SAID = re.compile(
    r"On\s+this\s+machine,\s+(\d+)\s+trials\s+measured\s+0\.50\s+times\s+the\s+promise:\s+expect"
)
Told = Callable[..., str]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    def ask(*words: object) -> str:
        assert main([*map(str, words), str(SAMPLE)]) == 0
        return capsys.readouterr().out

    return ask


def keep(trials: int, gain: float = 0.5, host: str = "", history: History | None = None) -> None:
    """So many trials of promises of 2x that measured ``gain`` times that."""
    measured = (2 * gain - 0.01, 2 * gain, 2 * gain + 0.01)
    trial = KeptTrial("compile", "switch", "Compile", f"{FIX}-1", (1.5, 2.0, 2.6), measured)
    for _ in range(trials):
        name = f"torch: train.py on {host or socket.gethostname()}"
        (history or History()).keep(Entry(name, (), Series.TRIAL, saved=1.0, trials=(trial,)))


def fix_in(answer: str) -> dict[str, Any]:
    (found,) = (each for each in json.loads(answer)["fixes"] if each["fix"] == FIX)
    return dict(found)


@pytest.mark.parametrize("command", ["whatif", "diagnose"])
def test_enough_trials_make_a_band_of_this_machine(command: str, told: Told) -> None:
    assert "On this machine" not in told(command)
    before = fix_in(told(command, "--json"))
    assert before["here"] is None
    keep(MIN_TRIALS)
    said = SAID.search(told(command))
    assert said is not None
    assert said[1] == str(MIN_TRIALS)
    after = fix_in(told(command, "--json"))
    here = after.pop("here")
    assert (here["trials"], here["held"]) == (MIN_TRIALS, 0)
    assert here["expected"] == pytest.approx(0.5 * before["expected"], abs=0.01)
    assert here["low"] < here["expected"] < here["high"]
    assert after == {name: value for name, value in before.items() if name != "here"}


@pytest.mark.parametrize("trials", [1, MIN_TRIALS - 1])
def test_fewer_say_only_how_often_promises_held(trials: int, told: Told) -> None:
    keep(trials, gain=1.0)
    text = " ".join(told("whatif").split())
    assert ("in the one trial" if trials == 1 else f"held in {trials} of {trials} trials") in text
    assert "expect" not in text
    assert fix_in(told("whatif", "--json"))["here"] == {"trials": trials, "held": trials}


def test_what_another_machine_measured_says_nothing_here(told: Told) -> None:
    keep(MIN_TRIALS, host="another-machine")
    assert "this machine" not in told("whatif")
    assert fix_in(told("whatif", "--json"))["here"] is None


def test_a_damaged_journal_costs_no_diagnosis(told: Told) -> None:
    keep(MIN_TRIALS)
    before = told("diagnose", "--json")
    History().path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 8)
    after = told("diagnose", "--json")
    assert fix_in(before)["here"] is not None
    assert fix_in(after)["here"] is None


@pytest.mark.thorough
def test_it_is_the_journal_in_the_folder_of_the_user(tmp_path: Path, repository: Path) -> None:
    """As a process of its own, asked twice: a kept answer does not outlive a new trial."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    environment |= {"HOME": str(tmp_path), "APPDATA": str(tmp_path), "LOCALAPPDATA": str(tmp_path)}

    def python(code: str, *words: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", code, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=repository,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    ask = "import sys; from viewer.cli import main; sys.exit(main(sys.argv[1:]))"
    assert SAID.search(python(ask, "whatif", str(SAMPLE))) is None
    python(f"from tests.viewer.test_promises_here import keep; keep({MIN_TRIALS})")
    assert SAID.search(python(ask, "whatif", str(SAMPLE))) is not None
