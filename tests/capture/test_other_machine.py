"""Recording through ssh: a pretended ssh joins its words and hands them to a shell, exactly as the real one does."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.capture.pretend import SCRIPTS, PretendTools, script_request
from viewer.capture.failures import CaptureProblem
from viewer.capture.places import OtherMachine, is_plain_name, remote_start
from viewer.capture.recording import Recording
from viewer.capture.request import Window
from viewer.capture.trials.launch import Launcher, Order

SSH = """
import subprocess
host = argv.index('gpu@far')
sys.exit(subprocess.call(['/bin/sh', '-c', ' '.join(argv[host + 1:])], cwd=os.environ['FAR_HOME']))
"""
SCP = """
import shutil
source, target = (word.split(':', 1)[1] if word.startswith('gpu@far:') else word for word in argv[-2:])
shutil.copy(source, target)
"""


@pytest.fixture
def far(pretend_tools: PretendTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "far home"
    home.mkdir()
    (home / "tmp").mkdir()
    monkeypatch.setenv("FAR_HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    pretend_tools.add("ssh", SSH)
    pretend_tools.add("scp", SCP)
    return home


def test_a_script_is_recorded_there_and_the_file_comes_back(
    far: Path, tmp_path: Path, torch_python: str
) -> None:
    project = far / "my project"
    project.mkdir()
    request = script_request("inference.py", tmp_path / "here", python=torch_python)
    shutil.copy(request.target.program, project / "infer it.py")
    shutil.copy(SCRIPTS / "without_compiler.py", project)
    target = replace(request.target, program="infer it.py", folder="my project", arguments=("it's", "$HOME"))
    outcome = Recording(replace(request, target=target, host="gpu@far", window=Window(warmup=1))).run()
    assert outcome.problem == ""
    assert [path.parent for path in outcome.recordings] == [tmp_path / "here"]
    assert outcome.recordings[0].stat().st_size > 500
    left = [name for name in os.listdir(far / "tmp") if name.startswith("stallscope")]
    assert left == [], "nothing of ours stays on the other machine"


def test_changes_are_tried_there_and_what_they_gave_comes_back(
    far: Path, tmp_path: Path, torch_python: str
) -> None:
    shutil.copy(SCRIPTS / "trial_state.py", far)
    settings = {"LOG": str(far / "log"), "OMP_NUM_THREADS": "1"}
    request = script_request("trial_state.py", tmp_path / "here", python=torch_python, **settings)
    request = replace(request, target=replace(request.target, program="trial_state.py"), host="gpu@far")
    heard: list[str] = []
    launcher = Launcher(
        request, tmp_path / "here", lambda line: heard.append(str(line["kind"])), lambda text: None
    )
    order = Order((("foreach-optimizer", 1.0),), seconds=600.0, rounds=1, steps=2, skip=2)
    account = launcher.launch(order).account
    assert account.ended == "complete"
    assert {block.candidate for block in account.blocks} >= {"control", "foreach-optimizer"}
    assert heard.count("block") == len(account.blocks)
    assert [name for name in os.listdir(far / "tmp") if name.startswith("stallscope.")] == []


def test_a_host_that_does_not_answer_is_explained(pretend_tools: PretendTools, tmp_path: Path) -> None:
    pretend_tools.add(
        "ssh", "print('gpu@far: Permission denied (publickey).', file=sys.stderr); sys.exit(255)\n"
    )
    pretend_tools.add("scp")
    with pytest.raises(CaptureProblem, match="cannot be reached") as caught:
        Recording(replace(script_request("inference.py", tmp_path / "here"), host="gpu@far")).run()
    assert "BatchMode" in caught.value.fix


@pytest.mark.parametrize("host", ["-oProxyCommand=touch /tmp/x", " "])
def test_a_host_is_never_taken_for_an_option(host: str) -> None:
    with pytest.raises(CaptureProblem):
        OtherMachine(host)


def test_the_remote_start_survives_any_word() -> None:
    import shlex
    import subprocess

    awkward = ["two words", "it's", '"', "$HOME", "`id`", "a;b", "größe", ""]
    words = remote_start(
        [sys.executable, "-c", "import sys; print(sys.argv[1:])", *awkward], "/", {"A": "b c'd"}
    )
    said = subprocess.run(
        ["/bin/sh", "-c", shlex.join(words)], capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == repr(awkward)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "C:x", "-rf", "a\nb", "a*", "$(x)>y", "\x1b[2J"],
)
def test_what_another_machine_lists_is_fetched_only_under_a_plain_name(name: str) -> None:
    assert not is_plain_name(name)
    assert is_plain_name("run 1.pt.trace.json.gz")
