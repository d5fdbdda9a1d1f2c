"""What build servers run: the script of the gate in a plain shell, and the files that call it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import resources

CI = resources.path("ci")


PROGRAM = """#!/bin/sh
# Stands for the program: keeps names in a file, answers compare with $ANSWER, and writes down what it was asked.
printf '%s\\n' "$*" >>"$ASKED"
case "$1 $2" in
"baseline list") cat "$KEPT" ;;
"baseline save") echo "$3  12 ms a step" >>"$KEPT" ;;
compare*)
    while [ $# -gt 1 ]; do
        [ "$1" != --markdown ] || echo "## said" >"$2"
        shift
    done
    exit "$ANSWER"
    ;;
esac
"""


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
def test_the_gate_keeps_a_baseline_fails_a_slower_build_and_takes_it_with_a_reason(tmp_path: Path) -> None:
    program, asked, kept = (tmp_path / name for name in ("stallscope", "asked", "kept"))
    program.write_text(PROGRAM)
    program.chmod(0o755)
    kept.touch()
    summary = tmp_path / "summary.md"
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "ASKED": str(asked),
        "KEPT": str(kept),
        "STALLSCOPE_AFTER": "a run.json",
        "STALLSCOPE_LIMITS": "5%\nlaunches=0",
        "STALLSCOPE_OUT": str(tmp_path / "report"),
        "GITHUB_STEP_SUMMARY": str(summary),
    }

    def gate(answer: int, **more: str) -> int:
        asked.write_text("")
        words = ["sh", str(CI / "gate.sh")]
        return subprocess.run(
            words, env={**environment, "ANSWER": str(answer), **more}, check=False
        ).returncode

    assert gate(0) == 3, "there is no baseline yet"
    assert gate(0, STALLSCOPE_SAVE="true") == 0
    assert kept.read_text().startswith("main ")
    assert gate(1, STALLSCOPE_SAVE="true") == 1
    assert "baseline save" not in asked.read_text()
    assert summary.read_text() == "## said\n"
    assert gate(1, STALLSCOPE_SAVE="true", STALLSCOPE_REASON="a larger model") == 0
    assert "baseline save main a run.json --reason a larger model" in asked.read_text()
    assert gate(3) == 3
    assert gate(0, STALLSCOPE_BEFORE="old.json", STALLSCOPE_STORE="runs.sqlite") == 0
    assert "--store runs.sqlite --fail-on-regression 5% --fail-on-regression launches=0" in asked.read_text()


def test_the_action_hands_its_inputs_over_as_variables_and_never_as_text_of_a_script() -> None:
    action = (CI / "action.yml").read_text("utf-8")
    inputs = set(re.findall(r"^  (\w+):\n    description:", action, re.MULTILINE))
    assert set(re.findall(r"STALLSCOPE_\w+: \$\{\{ inputs\.(\w+) \}\}", action)) == inputs
    assert not re.search(r"run:.*\$\{\{", action)
    script = (CI / "gate.sh").read_text("utf-8")
    for variable in set(re.findall(r"STALLSCOPE_\w+", action + (CI / "gitlab.yml").read_text("utf-8"))):
        assert variable in script
