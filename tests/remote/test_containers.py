"""Containers and pods: a real podman, and pretended engines that run their words in a folder of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.capture.pretend import PretendTools
from tests.examples import one_of
from tests.remote.far_machine import NSYS
from tests.remote.podman_engine import IMAGE, PodmanEngine, Unusable
from tests.remote.test_recording_elsewhere import OnAThread, shell_request
from viewer.capture.recording import Recording
from viewer.capture.request import CaptureProblem
from viewer.remote.names import PlaceProblem, place_of

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
    one_of(
        2,
        [
            ("container:trainer", ["exec", "-i", "trainer"]),
            ("container:team/torch:2.13", ["run", "-d", "--rm", "--init", "--entrypoint", "sleep"]),
        ],
    ),
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
        pytest.param("pod:trainer-0", ["exec", "-i", "trainer-0", "--"], marks=pytest.mark.thorough),
        pytest.param(
            "pod:team/trainer-0", ["exec", "-i", "-n", "team", "trainer-0", "--"], marks=pytest.mark.thorough
        ),
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


@pytest.fixture(scope="session")
def podman_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodmanEngine]:
    try:
        engine = PodmanEngine(tmp_path_factory.mktemp("podman"))
    except Unusable as why:
        pytest.skip(str(why))
    yield engine
    engine.close()


@pytest.fixture
def podman(podman_engine: PodmanEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[PodmanEngine]:
    """The engine, in which only the container that a test has started is left when it ends."""
    monkeypatch.setenv("PATH", f"{podman_engine.bin}{os.pathsep}{os.environ['PATH']}")
    before = podman_engine.run("ps", "--all", "--quiet")
    yield podman_engine
    assert podman_engine.run("ps", "--all", "--quiet") == before


@pytest.fixture(scope="session")
def started(podman_engine: PodmanEngine) -> str:
    """The name of a container that runs."""
    podman_engine.run("run", "-d", "--init", "--name", "trainer", "--entrypoint", "sleep", IMAGE, "infinity")
    return "trainer"


@pytest.mark.thorough
@pytest.mark.parametrize("of_an_image", [False, True], ids=["running", "image"])
def test_a_program_is_recorded_in_a_real_container(
    podman_engine: PodmanEngine, podman: PodmanEngine, started: str, tmp_path: Path, of_an_image: bool
) -> None:
    heard: list[str] = []
    request = shell_request("", tmp_path / "here", 'echo "$A in $(ls -d /*)"; [ ! -e /home ] && echo inside')
    outcome = Recording(
        replace(request, on=f"container:{IMAGE if of_an_image else started}"), heard.append
    ).run()
    assert outcome.problem == ""
    assert "b c! in /bin" in "".join(heard)
    assert "inside" in "".join(heard)
    assert outcome.recordings[0].stat().st_size == 300_000
    assert podman.run("exec", started, "ls", "/tmp") == ""


@pytest.mark.thorough
def test_killing_ends_what_runs_in_a_real_container(
    podman: PodmanEngine, started: str, tmp_path: Path
) -> None:
    script = "echo begun; setsid sleep 66.6 & sleep 66.6"
    run = OnAThread(replace(shell_request("", tmp_path / "here", script), on=f"container:{started}"))
    run.wait_for(lambda: "begun" in run.text)
    run.recording.kill()
    assert run.outcome().killed
    words = podman.run("exec", started, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "66.6" not in words
    assert podman.run("exec", started, "ls", "/tmp") == ""
