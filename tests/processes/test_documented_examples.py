"""Whatever README and documents show can be typed, and does what they say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import resources
from tests.processes.answers import assert_answered, assert_answered_or_refused
from tests.processes.documented import RECORDINGS, WRITTEN, Documented, documented
from tests.processes.installed import REPOSITORY
from tests.processes.place import Done, Place
from tests.processes.recordings import Recordings
from viewer.cli import _parser, command_names

SAMPLE = "elementwise_chain.pt.trace.json.gz"
GATES = '[limits]\nstep-time = "5%"\n'
SCRIPT = "print('trained')\n"
OUTPUTS = (*WRITTEN.values(), "converted", "regions.parquet")
FOLDERS = ("project", "traces")
# needs a profiler, another machine or a library that a machine may lack, and then says so
DAILY = ("diagnose", "query")
NEEDING = ("capture", "try", "attach", "check", "s3://bucket/run", "tcp://localhost:8786")


class Typist:
    """Puts into a place what a documented command names, and types the command."""

    def __init__(self, place: Place, recordings: Recordings) -> None:
        self._place = place
        self._recordings = recordings

    def types(self, command: Documented) -> Done:
        if any(word in command.words for word in ("trend", "remove", "baseline:main")):
            assert_answered(self._place.run("baseline", "save", "main", self._given("kept.pt.trace.json.gz")))
        if command.words[:2] == ("places", "remove"):
            assert_answered(self._place.run("places", "save", *command.words[2:], "ssh:localhost"))
        words = [self._meant(word) for word in command.words]
        return self._place.run(*words, given=b"")

    def _meant(self, word: str) -> str | Path:
        written = self._place.written / word
        if word.startswith("ssh://"):
            return word
        if word == "FOLDER":
            return self._place.give(self._recordings.ranks())
        if word in RECORDINGS or word.endswith((".json", ".json.gz", ".nsys-rep", "/")):
            return self._given(word)
        if word == "gates.toml":
            written.write_text(GATES)
        elif word == "train.py":
            written.write_text(SCRIPT)
        elif word in FOLDERS:
            written.mkdir()
        return written if word in OUTPUTS or written.exists() else word

    def _given(self, word: str) -> Path:
        path = self._place.given / word
        if not path.exists():
            sample = resources.path("samples") / SAMPLE
            if word.endswith("/"):
                path.mkdir()
                self._place.names.add(SAMPLE)
            shutil.copy(sample, path)
            self._place.names.add(path.name)
        return path


def _examples() -> list[object]:
    """All of them; for every day the longest of some commands are enough."""
    daily = {
        max(
            (each for each in documented(REPOSITORY) if each.words[0] == name),
            key=lambda each: len(each.words),
        )
        for name in DAILY
    }
    return [
        pytest.param(each, id=str(each), marks=() if each in daily else pytest.mark.thorough)
        for each in documented(REPOSITORY)
    ]


@pytest.mark.parametrize("command", documented(REPOSITORY), ids=str)
def test_every_word_that_is_shown_is_understood(
    command: Documented, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gates.toml").write_text(GATES)
    assert callable(_parser(command.words).parse_args(command.words).run)


@pytest.mark.parametrize("command", _examples())
def test_what_is_shown_can_be_typed(command: Documented, place: Place, recordings: Recordings) -> None:
    done = Typist(place, recordings).types(command)
    if any(word in command.words or "ssh://" in " ".join(command.words) for word in NEEDING):
        assert_answered_or_refused(done, says_what_it_does=command.words[0] == "try")
    else:
        assert_answered(done)
    for word in {*command.words} & {*OUTPUTS}:
        assert done.code or (place.written / word).exists()


def test_every_command_is_shown(repository: Path) -> None:
    assert {each.words[0] for each in documented(repository)} >= set(command_names())
