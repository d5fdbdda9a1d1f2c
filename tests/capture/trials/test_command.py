"""``stallscope try``: what it prints, keeps and answers with, and what it says of a wrong request."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rules.trials.blocks import Block
from rules.trials.trial import Candidate, Kind, Promised, Trials, trial_of
from tests.capture.pretend import SCRIPTS, script_request
from viewer.capture.trials import launch
from viewer.capture.trials.journal import keep_trials, program_of, was_tried
from viewer.capture.trials.trying import Progress, Trying, Wish
from viewer.cli import main
from viewer.commands import try_
from viewer.terminal.exit_codes import BAD_INPUT, DONE, GATE_INCONCLUSIVE
from viewer.user_data.history import History, Series

CONTROL = Candidate("control", Kind.CONTROL, "Nothing changed (control)")
FUSED = Candidate(
    "fused-optimizer", Kind.SWITCH, "Use a fused optimizer", "fuse-optimizer-1", Promised(1.0, 1.16, 1.3)
)


def blocks(gain: float) -> list[Block]:
    return [
        Block("x", changed, 8, (8e7 + number * 1e5) / (gain if changed else 1.0))
        for number, changed in enumerate((False, True, True, False) * 3)
    ]


def trials(gain: float, control: float = 1.0, problem: str = "") -> Trials:
    return Trials(
        (trial_of(FUSED, blocks(gain) if gain else []),), trial_of(CONTROL, blocks(control)), problem=problem
    )


Asked = Callable[..., int]


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[[Trials], None]:
    """Have the command be answered with these values, without a program."""

    class Nothing:
        killed, traceback, recordings, problem, fix, retry = False, "", (), "", "", None

        def run(self) -> Nothing:
            return self

        def kill(self) -> None:
            pass

    def answer(found: Trials) -> None:
        monkeypatch.setattr(launch, "first_recording", lambda request, folder: Nothing())
        monkeypatch.setattr(Trying, "run", lambda self: found)

    return answer


def test_the_exit_code_and_the_last_line_say_what_came_of_it(
    answered: Callable[[Trials], None], capsys: pytest.CaptureFixture[str]
) -> None:
    answered(trials(1.15))
    assert main(["try", "--", "python", "train.py"]) == DONE
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-1].startswith("Measured: 1.15")
    assert "runs for real" in shown.err
    answered(trials(1.15, control=1.3))
    assert main(["try", "--", "python", "train.py"]) == GATE_INCONCLUSIVE
    assert "too noisy to tell" in capsys.readouterr().out
    answered(trials(0.0, problem="The script failed: ValueError: x"))
    assert main(["try", "--", "python", "train.py"]) == try_.FAILED
    assert "The script failed: ValueError: x" in capsys.readouterr().out


def test_results_are_values_in_json_a_table_in_markdown_and_an_entry_in_the_journal(
    answered: Callable[[Trials], None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answered(trials(1.15))
    page = tmp_path / "page.md"
    words = ["try", "--json", "--markdown", str(page), "--journal", "mine", "--", "python", "train.py"]
    assert main(words) == DONE
    told = json.loads(capsys.readouterr().out)
    control, fused = told["trials"]
    assert (control["kind"], fused["kind"], fused["fix"]) == ("control", "switch", "fuse-optimizer-1")
    assert fused["gain"] == pytest.approx(1.15, rel=0.01)
    assert fused["low"] < fused["gain"] < fused["high"]
    assert fused["promised"] == {"low": 1.0, "expected": 1.16, "high": 1.3}
    assert (fused["blocks"], fused["refused"], fused["verdict"]) == (12, None, "proved")
    text = page.read_text("utf-8")
    assert "| Use a fused optimizer | switched on and off while it runs | 1.16x (1.00 to 1.3) |" in text
    (entry,) = History().entries(Series.TRIAL, "mine")
    (kept,) = entry.trials
    assert (kept.switch, kept.promised, kept.held) == ("fused-optimizer", (1.0, 1.16, 1.3), True)
    main(words)
    assert "runs for real" not in capsys.readouterr().err, "the user was told before"


def test_what_a_restless_machine_measured_is_not_kept(tmp_path: Path) -> None:
    request = script_request("training.py", tmp_path)
    history = History()
    assert not keep_trials(request, trials(1.15, control=1.3))
    assert not was_tried(request)
    assert keep_trials(request, trials(1.5))
    assert was_tried(request)
    (entry,) = history.entries(Series.TRIAL, program_of(request))
    assert entry.trials[0].held is False, "more than was promised"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fix", "fuse", "--", "python", "train.py"], "There is no fix and no change 'fuse'"),
        (["--fix", "align-shapes", "--", "python", "train.py"], "needs a change of the code"),
        (["--"], "name the program"),
        (["--", "./server"], "Changes are tried in Python programs, and ./server is not one."),
        (["--steps", "region", "--", "python", "train.py"], "needs --region NAME"),
        (["--env", "X", "--", "python", "train.py"], "is not NAME=VALUE"),
        (["--", "python", "no-such-script.py"], "There is no script no-such-script.py"),
        (["--recording", "no-such-file.json", "--", "python", "train.py"], "no-such-file.json"),
    ],
)
def test_a_wrong_request_is_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["try", "--cwd", str(tmp_path), *words]) == BAD_INPUT
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("blocks", "fits"), [("3", False), ("4", True), ("100", True), ("101", False), ("x", False)]
)
def test_blocks_are_four_to_a_hundred(
    blocks: str, fits: bool, answered: Callable[[Trials], None], capsys: pytest.CaptureFixture[str]
) -> None:
    answered(trials(1.15))
    if fits:
        assert main(["try", "--blocks", blocks, "--", "python", "train.py"]) == DONE
        return
    with pytest.raises(SystemExit) as ended:
        main(["try", "--blocks", blocks, "--", "python", "train.py"])
    assert ended.value.code == BAD_INPUT
    assert "not a number of blocks" in capsys.readouterr().err


def typed(
    tmp_path: Path, python: str, *options: str, script: str = "trial_state.py", **settings: str
) -> list[str]:
    environment = {"LOG": str(tmp_path / "log"), "OMP_NUM_THREADS": "1", **settings}
    given = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
    return ["try", *given, *options, "--", python, str(SCRIPTS / script)]


def test_a_real_script_is_tried_from_the_recording_to_the_table(
    tmp_path: Path, torch_python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = typed(
        tmp_path, torch_python, "--fix", "no-optimizer", "--time-limit", "4", "--json", "--blocks", "4"
    )
    assert main(words) in (DONE, GATE_INCONCLUSIVE)
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["ended"] in ("complete", "time", "stopped")
    assert [each["switch"] for each in told["trials"]] == ["control", "no-optimizer"]
    assert told["trials"][0]["gain"] is not None
    assert told["program"]["device"] == "cpu"


@pytest.mark.thorough
def test_a_script_that_fails_and_one_without_steps_are_told(
    tmp_path: Path, torch_python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed(tmp_path, torch_python, script="failing_at_once.py")) == try_.FAILED
    assert "Traceback" in capsys.readouterr().err
    words = typed(tmp_path, torch_python, "--fix", "threads", script="tensors_only.py")
    assert main(words) == try_.FAILED
    said = capsys.readouterr().err
    assert "No steps found" in said
    assert "--region NAME" in said


def test_ctrl_c_stops_and_what_is_known_is_told(
    answered: Callable[[Trials], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stops: list[Trying] = []

    def run(trial: Trying) -> Trials:
        signal.raise_signal(signal.SIGINT)
        return replace(trials(1.15), ended="stopped")

    answered(trials(1.15))
    monkeypatch.setattr(Trying, "run", run)
    monkeypatch.setattr(Trying, "stop", lambda trial: stops.append(trial))
    assert main(["try", "--", "python", "train.py"]) == DONE
    assert len(stops) == 1
    shown = capsys.readouterr()
    assert "stopping; results so far will be shown; Ctrl+C again kills the program" in shown.err
    assert "1.15" in shown.out


@pytest.mark.thorough
def test_a_trial_that_is_stopped_keeps_its_blocks_and_leaves_no_process(
    tmp_path: Path, torch_python: str
) -> None:
    request = script_request(
        "trial_state.py", tmp_path, python=torch_python, LOG=str(tmp_path / "log"), OMP_NUM_THREADS="1"
    )
    heard: list[Progress] = []

    def stop_at_first_block(progress: Progress) -> None:
        heard.append(progress)
        if len(heard) == 10:
            trial.stop()

    wish = Wish(request, ("foreach-optimizer",), blocks=50, seconds=600.0)
    trial = Trying(wish, tmp_path, on_progress=stop_at_first_block)
    found = trial.run()
    assert found.ended == "stopped" or found.restless
    assert found.control is not None
    assert found.control.blocks >= 8
    assert json.loads((tmp_path / "log").read_text().splitlines()[-1])["end"]
