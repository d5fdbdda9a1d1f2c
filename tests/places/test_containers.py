"""Containers and pods: pretended engines that run their words as the real ones do, in a folder of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.capture.pretend import PretendTools
from tests.places.far_machine import NSYS
from tests.places.test_recording_elsewhere import shell_request
from viewer.capture.failures import CaptureProblem
from viewer.capture.recording import Recording
from viewer.places.names import PlaceProblem, place_of

ENGINE = """
import subprocess
inside = os.environ['INSIDE']
def run(words):
    path = {'PATH': inside + ':' + os.environ['PATH'], 'TMPDIR': inside, 'HOME': inside}
    sys.exit(subprocess.call(words, env=path, cwd=inside))
"""
DOCKER = (
    ENGINE
    + """
if argv[:2] == ['container', 'inspect']:
    sys.exit(argv[2] != 'trainer')
if argv[:2] == ['image', 'inspect']:
    sys.exit(argv[2] != 'team/torch:2.13')
if argv[0] == 'run':
    print('c0ffee')
elif argv[0] == 'exec':
    assert argv[1] == '-i' and argv[2] in ('trainer', 'c0ffee'), argv
    run(argv[3:])
elif argv[0] != 'rm':
    sys.exit(1)
"""
)
KUBECTL = (
    ENGINE
    + """
assert argv[:2] == ['exec', '-i'], argv
run(argv[argv.index('--') + 1:])
"""
)


@pytest.fixture
def inside(pretend_tools: PretendTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "nsys").write_text(NSYS)
    (folder / "nsys").chmod(0o755)
    monkeypatch.setenv("INSIDE", str(folder))
    yield folder
    assert [path.name for path in folder.iterdir()] == ["nsys"], "nothing of ours is left inside"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("container:trainer", ["exec", "-i", "trainer"]),
        ("container:team/torch:2.13", ["run", "-d", "--rm", "--init", "--entrypoint", "sleep"]),
    ],
)
def test_a_program_is_recorded_in_a_container(
    inside: Path, pretend_tools: PretendTools, tmp_path: Path, place: str, words: list[str]
) -> None:
    pretend_tools.add("docker", DOCKER)
    heard: list[str] = []
    request = replace(shell_request("", tmp_path / "here", 'echo "in $PWD: $A"'), on=place)
    outcome = Recording(request, heard.append).run()
    assert outcome.problem == ""
    assert f"in {inside}: b c!" in "".join(heard)
    assert [path.name for path in outcome.recordings] == ["sh.sqlite"]
    calls = pretend_tools.calls("docker")
    assert any(call[: len(words)] == words for call in calls)
    assert (["rm", "-f", "c0ffee"] in calls) == ("torch" in place), "what was started for it is gone"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("pod:trainer-0", ["exec", "-i", "trainer-0", "--"]),
        ("pod:team/trainer-0", ["exec", "-i", "-n", "team", "trainer-0", "--"]),
        ("pod:team/trainer-0/main", ["exec", "-i", "-n", "team", "trainer-0", "-c", "main", "--"]),
    ],
)
def test_a_program_is_recorded_in_a_pod(
    inside: Path, pretend_tools: PretendTools, tmp_path: Path, place: str, words: list[str]
) -> None:
    pretend_tools.add("kubectl", KUBECTL)
    outcome = Recording(replace(shell_request("", tmp_path / "here"), on=place)).run()
    assert outcome.problem == ""
    assert len(outcome.recordings) == 1
    assert {tuple(call[: len(words)]) for call in pretend_tools.calls("kubectl")} == {tuple(words)}


def test_a_container_that_is_not_there_is_told(pretend_tools: PretendTools, tmp_path: Path) -> None:
    for engine in ("docker", "podman"):
        pretend_tools.add(engine, "print('Error: No such object', file=sys.stderr); sys.exit(1)\n")
    with pytest.raises(CaptureProblem, match="no such container or image"):
        Recording(replace(shell_request("", tmp_path / "here"), on="container:other")).run()


def test_a_container_on_another_machine_is_a_place() -> None:
    place = place_of("ssh:me@box/container:team/torch:2.13")
    assert place.steps == (("ssh", "me@box"), ("container", "team/torch:2.13"))
    assert place.text == "ssh:me@box/container:team/torch:2.13"
    for text in ("container", "container:", "pod:a/b/c/d", "container:-v", "ssh:a/ssh:b"):
        with pytest.raises(PlaceProblem):
            place_of(text)
