"""``stallscope trend --promises`` tells how well promises held in the trials of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rules.trials.record import MIN_TRIALS, KeptTrial
from viewer.cli import main
from viewer.reports.promise_records import NOTHING
from viewer.user_data.history import Entry, History, Series


def keep(store: Path, name: str, gain: float) -> None:
    trial = KeptTrial(
        "fused-optimizer", "switch", "Fused", "fuse-optimizer-1", (1.1, 1.2, 1.4), (gain, gain, gain)
    )
    History(store).keep(Entry(name, (), Series.TRIAL, saved=1.0, trials=(trial,)))


def test_count_the_trials_of_all_programs_or_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs.sqlite"
    for _ in range(MIN_TRIALS):
        keep(store, "one", 1.2)
    keep(store, "other", 3.0)
    assert main(["trend", "--promises", "--json", "--store", str(store)]) == 0
    (told,) = json.loads(capsys.readouterr().out)["promises"]
    assert (told["fix"], told["trials"], told["held"]) == ("fuse-optimizer", MIN_TRIALS + 1, MIN_TRIALS)
    assert told["correction"]["middle"] == pytest.approx(1.0)
    assert main(["trend", "--promises", "--store", str(store), "other"]) == 0
    assert "too few trials" in capsys.readouterr().out


def test_say_how_trials_come_to_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trend", "--promises", "--store", str(tmp_path / "none.sqlite")]) == 0
    assert NOTHING in capsys.readouterr().out
