"""``stallscope capture`` records, prints where the recording is, and diagnoses it."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.capture.pretend import SCRIPTS
from viewer.cli import main


def test_a_script_is_recorded_and_diagnosed(
    tmp_path: Path, torch_python: str, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = [
        "--out",
        str(out),
        "--active",
        "3",
        "--",
        torch_python,
        str(SCRIPTS / "inference.py"),
        "--out",
        "x",
    ]
    assert main(["capture", "torch", *words]) == 0
    said = capfd.readouterr()
    path = out / "inference.pt.trace.json.gz"
    assert said.out.splitlines()[0] == str(path)
    assert path.is_file()
    assert "No GPU activity" in said.out
    assert "recording step 1 of 3" in said.err


def test_a_failing_script_makes_the_command_fail(
    tmp_path: Path, pretended_torch_python: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--out", str(tmp_path), "--", pretended_torch_python, str(SCRIPTS / "failing_at_once.py")]
    assert main(["capture", "torch", *words]) == 1
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.index("Traceback") < said.err.index("stallscope: The script failed: ValueError")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["torch"], "name the program to record"),
        (["torch", "--", "python", "-c", "1"], "put it into a file"),
        (["torch", "--", "nowhere.py"], "There is no script nowhere.py"),
        (["torch", "--cwd", "/nowhere", "--", "a.py"], "There is no folder /nowhere"),
        (["torch", "--env", "X", "--", "a.py"], "NAME=VALUE"),
        (["torch", "--preset", "mine", "--", "a.py"], "no preset mine"),
        (["torch", "--python", "/nowhere/python", "--", str(SCRIPTS / "failing.py")], "no interpreter"),
    ],
)
def test_bad_use_is_one_sentence_and_exit_code_2(
    words: list[str], says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["capture", *words]) == 2
    said = capfd.readouterr().err.strip()
    assert says in said
    assert len(said.splitlines()) == 1


@pytest.mark.thorough
def test_the_command_for_another_machine_runs_with_the_saved_runner(
    tmp_path: Path, torch_python: str, capfd: pytest.CaptureFixture[str]
) -> None:
    runner = tmp_path / "stallscope_runner.pyz"
    words = ["--print-command", "--save-runner", str(runner), "--cwd", str(tmp_path), "--active", "1"]
    assert main(["capture", "torch", *words, "--", "python3", str(SCRIPTS / "inference.py")]) == 0
    line = capfd.readouterr().out.strip().partition(" && ")[2]
    assert "stallscope_recorder/session.py" in zipfile.ZipFile(runner).namelist()
    copied = [torch_python if word == "python3" else word for word in shlex.split(line)]
    said = subprocess.run(copied, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "[stallscope] recording step 1 of 1" in said.stderr
    assert (tmp_path / "inference.pt.trace.json.gz").is_file()


def test_ctrl_c_finishes_an_endless_script_and_keeps_its_steps(tmp_path: Path, torch_python: str) -> None:
    program = "import sys; from viewer.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["capture", "torch", "--no-diagnosis", "--out", str(tmp_path), "--active", "100000", "--"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words, torch_python, str(SCRIPTS / "endless.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "recording step 2" in line:
            break
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.strip() == str(tmp_path / "endless.pt.trace.json.gz")
