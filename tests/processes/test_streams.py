"""Whatever standard input and output are: closed, full, or read by somebody who leaves early."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

import pytest

import resources
from tests.processes.answers import assert_answered, assert_answered_or_refused
from tests.processes.place import Place
from tests.processes.recordings import Recordings
from tests.processes.subjects import SUBJECTS, Subject

SAMPLE = resources.path("samples") / "elementwise_chain.pt.trace.json.gz"
CLOSED = ("<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-")
DAILY_CLOSED = (">&-", "<&- >&- 2>&-")
PRINTING = {
    "diagnose": ("diagnose", "SAMPLE", "--json"),
    "tables": ("diagnose", "SAMPLE", "--tables"),
    "whatif": ("whatif", "SAMPLE"),
    "compare": ("compare", "SAMPLE", "SAMPLE"),
    "query": ("query", "SAMPLE", "SELECT * FROM kernels", "--format", "csv"),
    "list": ("query", "--list"),
    "self-check": ("self-check",),
    "refused": ("diagnose", "nowhere.json"),
}
COMMANDS = [
    pytest.param(name, marks=() if name == "diagnose" else pytest.mark.thorough, id=name) for name in PRINTING
]


def shell(what: str) -> tuple[str, ...]:
    """Starts the words that follow, redirected as a shell writes it."""
    return ("bash", "-c", f'"$@" {what}', "bash")


@pytest.fixture
def sample(place: Place) -> str:
    path = place.given / SAMPLE.name
    shutil.copy(SAMPLE, path)
    place.names.add(path.name)
    return str(path)


def words_of(name: str, sample: str) -> list[str]:
    return [sample if word == "SAMPLE" else word for word in PRINTING[name]]


@pytest.mark.parametrize(
    ("command", "ways"),
    [
        ("diagnose", DAILY_CLOSED),
        *(pytest.param(name, CLOSED, marks=pytest.mark.thorough) for name in PRINTING),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} ways",
)
def test_an_answer_that_nobody_can_hear_is_refused_and_nothing_else(
    command: str, ways: Sequence[str], place: Place, sample: str
) -> None:
    words = words_of(command, sample)
    usual = place.run(*words)
    for closed in ways:
        done = place.run(*words, under=shell(closed))
        if "2>&-" in closed:
            assert done.err == "", closed
        else:
            assert_answered_or_refused(done)
        if ">&-" in closed.split():
            assert (done.code, done.out) == (2, b""), closed
        else:
            assert (done.code, done.out) == (usual.code, usual.out), closed


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_leaves_is_no_mistake(command: str, place: Place, sample: str) -> None:
    done = place.run(*words_of(command, sample), under=shell('| head -c 20; echo "${PIPESTATUS[0]}" >&2'))
    *said, code = done.err.splitlines()
    assert "Traceback" not in done.err
    assert code == ("2" if command == "refused" else "0"), said
    assert len(done.out) <= 20


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is full")
@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_without_room_is_said(command: str, place: Place, sample: str) -> None:
    done = place.run(*words_of(command, sample), under=shell("> /dev/full"))
    assert done.code == 2, done.err
    assert_answered_or_refused(done)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "subject", [each for each in SUBJECTS if not each.lasts and each.name != "mcp"], ids=str
)
def test_closed_streams_of_real_sizes(subject: Subject, place: Place, recordings: Recordings) -> None:
    subject.prepare(place, recordings)
    words = subject.words(place, recordings)
    for closed in CLOSED:
        shutil.rmtree(place.cache, ignore_errors=True)
        done = place.run(*words, under=shell(closed))
        assert "Traceback" not in done.err
        assert done.code in {*subject.codes, 2}, (closed, done.err)
        assert done.code != 2 or ">&-" in closed.split()


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("mcp", "SAMPLE"), id="mcp"),
        pytest.param(("diagnose", "-"), id="recording", marks=pytest.mark.thorough),
    ],
)
def test_an_input_that_ends_at_once_is_an_end(words: tuple[str, ...], place: Place, sample: str) -> None:
    done = place.run(*(sample if word == "SAMPLE" else word for word in words), given=b"")
    if words[0] == "mcp":
        assert_answered(done)
    else:
        assert done.code == 2
        assert_answered_or_refused(done)
