"""How places are written, and how words reach a shell that is not ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from viewer.remote.far import is_plain_name
from viewer.remote.far_script import far_line
from viewer.remote.names import PlaceProblem, find_place, forget, place_of, remember, remembered


def test_a_place_is_read_as_it_is_written() -> None:
    assert place_of("").steps == ()
    assert place_of("here").text == "here"
    assert place_of("ssh:me@box").steps == (("ssh", "me@box"),)
    assert place_of(" ssh:me@box ").text == "ssh:me@box"


def test_options_of_a_job_follow_the_name_of_its_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STALLSCOPE_DATA", str(tmp_path))
    here = place_of("slurm --nodes=2 --comment='two words'")
    assert here.steps == (("slurm", ""),)
    assert here.options == ("--nodes=2", "--comment=two words")
    assert here.title == "slurm"
    behind = place_of("slurm:me@login --partition gpu/a")
    assert (behind.title, behind.options) == ("slurm:me@login", ("--partition", "gpu/a"))
    remember("cluster", behind)
    assert find_place("cluster", "module load cuda").options == behind.options


@pytest.mark.parametrize(
    "text", ["slurm two", "slurm --comment='", "slurm:", "container:x/slurm", "slurm/container:x"]
)
def test_what_is_no_job_of_a_cluster_is_refused(text: str) -> None:
    with pytest.raises(PlaceProblem):
        place_of(text)


@pytest.mark.parametrize(
    "text", ["box", "ssh:", "ssh:-oProxyCommand=touch /tmp/x", "ssh: ", "ssh:a\nb", "tcp:x"]
)
def test_what_names_no_place_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(PlaceProblem) as caught:
        place_of(text)
    assert "ssh:me@gpu-box" in caught.value.hint or "user@machine" in caught.value.hint


def test_a_place_is_remembered_by_name_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    remember("box", place_of("ssh:me@box", "module load cuda"))
    assert find_place("box") == place_of("ssh:me@box", "module load cuda")
    assert find_place("box", "conda run -n x").setup == "conda run -n x"
    assert list(remembered()) == ["box"]
    assert forget("box")
    assert not forget("box")
    with pytest.raises(PlaceProblem):
        remember("ssh:box", place_of("ssh:me@box"))


AWKWARD = [
    "two words",
    "it's",
    '"',
    "$HOME",
    "`id`",
    "a;b",
    "größe",
    "",
    "back\\slash",
    "wow!! !x",
    "a\nb",
    "\\'",
]


@pytest.mark.parametrize("shell", ["sh", "bash", "fish", "tcsh"])
def test_a_line_says_the_same_to_every_login_shell(shell: str) -> None:
    try:
        said = subprocess.run(
            [shell, "-c", far_line(["printf", "[%s]", *AWKWARD])], capture_output=True, check=True
        ).stdout
    except FileNotFoundError:
        pytest.skip(f"{shell} is not installed")
    assert said.decode() == "".join(f"[{word}]" for word in AWKWARD)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "C:x", "-rf", "a\nb", "a*", "$(x)>y", "\x1b[2J"],
)
def test_what_another_machine_lists_is_fetched_only_under_a_plain_name(name: str) -> None:
    assert not is_plain_name(name)
    assert is_plain_name("run 1.pt.trace.json.gz")
