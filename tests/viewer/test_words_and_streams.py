"""Commands as a shell starts them: closed and full streams, little memory, empty values, words that are wrong."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

import resources
from tests.conftest import REPOSITORY
from viewer.cli import command_names, main
from viewer.terminal.exit_codes import BAD_INPUT, BROKEN, DONE
from viewer.terminal.memory_limit import MIN_ADDRESS_SPACE

SAMPLE = str(resources.path("samples") / "elementwise_chain.pt.trace.json.gz")
NO_ROOM = os.strerror(errno.ENOSPC)


def started(redirected: str, *words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """A command started by a shell, with streams redirected, after ``before``."""
    script = f'{before} exec "$@" {redirected}'
    return subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "viewer", *words],
        capture_output=True,
        text=True,
        errors="replace",
        cwd=REPOSITORY,
        timeout=110,
        check=False,
    )


def is_one_sentence(said: str) -> bool:
    return said.startswith("stallscope: ") and said.count("\n") == 1


@pytest.mark.parametrize(
    ("redirected", "words", "said"),
    [
        (">&-", ["diagnose", SAMPLE], "standard output: It is closed"),
        pytest.param(">&-", ["--help"], "standard output: It is closed", marks=pytest.mark.thorough),
        ("<&-", ["diagnose", "-"], "standard input: It is closed"),
        pytest.param(
            ">&- <&-",
            ["query", SAMPLE, "select 1", "--format", "json"],
            "standard output: It is closed",
            marks=pytest.mark.thorough,
        ),
        (">/dev/full", ["diagnose", "--json", SAMPLE], "standard output: There is no space left"),
    ],
)
def test_a_stream_that_fails_is_named_and_no_gate_has_failed(
    redirected: str, words: list[str], said: str
) -> None:
    ended = started(redirected, *words)
    assert ended.returncode == BAD_INPUT
    assert is_one_sentence(ended.stderr)
    assert said in ended.stderr


@pytest.mark.parametrize("redirected", [pytest.param("2>&-", marks=pytest.mark.thorough), "2>/dev/full <&-"])
def test_complaints_that_nobody_hears_cost_nothing(redirected: str) -> None:
    ended = started(redirected, "diagnose", SAMPLE)
    assert ended.returncode == DONE
    assert "memory" in ended.stdout
    ended = started(redirected, "diagnose", "gone.json")
    assert (ended.returncode, ended.stdout, ended.stderr) == (BAD_INPUT, "", "")


def test_a_file_does_not_take_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    """The lowest free descriptor is that of standard output, and a library that prints would print into the file."""
    page = tmp_path / "page.html"
    ended = started(">&- <&- 2>&-", "diagnose", SAMPLE, "--html", str(page))
    assert ended.returncode == BAD_INPUT
    assert page.read_text("utf-8").lower().startswith("<!doctype html")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space hold on Linux")
@pytest.mark.parametrize(
    "limit",
    ["ulimit -v 60000;", "ulimit -v 150000;", pytest.param("ulimit -d 100000;", marks=pytest.mark.thorough)],
)
def test_too_little_memory_to_start_is_one_sentence(limit: str) -> None:
    ended = started("", "diagnose", SAMPLE, before=limit)
    assert (ended.returncode, ended.stdout) == (BAD_INPUT, "")
    assert is_one_sentence(ended.stderr)
    assert "too little to start" in ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space hold on Linux")
def test_what_fails_to_load_under_a_limit_is_no_mistake_of_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(*_: object) -> None:
        raise ImportError("libicudata.so.73: failed to map segment from shared object")

    monkeypatch.setattr("viewer.loading.loader.read_apart", load)
    assert main(["diagnose", SAMPLE]) == BROKEN
    capsys.readouterr()
    monkeypatch.setattr("viewer.terminal.memory_limit.address_space", lambda: MIN_ADDRESS_SPACE)
    assert "There is not enough memory for it." in refused(capsys, "diagnose", SAMPLE)


def test_threads_that_cannot_be_started_are_a_shortage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("viewer.loading.loader.read_apart", load)
    assert "There is not enough memory for it." in refused(capsys, "diagnose", SAMPLE)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    try:
        code = main(words)
    except SystemExit as ended:
        code = int(ended.code or 0)
    said = capsys.readouterr()
    assert (code, said.out) == (BAD_INPUT, "")
    assert is_one_sentence(said.err)
    return said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["diagnose", "--jsn", SAMPLE], "--jsn (did you mean --json?)"),
        (["diagnose", "--markdwon=a.md", SAMPLE], "--markdwon (did you mean --markdown?)"),
        (["compare", SAMPLE, SAMPLE, "--fail-on-regresion", "5"], "did you mean --fail-on-regression?"),
        (["whatif", "--frobnicate", SAMPLE], "unknown: --frobnicate."),
        (["diagnose", "--fail-on", "hihg", SAMPLE], "choose from"),
        (["baseline", "sav", "a", SAMPLE], "choose from"),
        (["convert", SAMPLE], "--to"),
        (["compare", SAMPLE], "compare needs two runs"),
        (["diagnos", SAMPLE], "Did you mean `stallscope diagnose`?"),
    ],
)
def test_a_wrong_word_is_answered_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(capsys, *words)


def test_a_file_whose_name_is_the_beginning_of_an_option_can_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "-run.json").touch()
    monkeypatch.chdir(tmp_path)
    assert "write the name of the file -run.json as ./-run.json" in refused(capsys, "diagnose", "-run.json")


def test_a_file_that_is_called_like_a_command_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "diagnos").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("viewer.start.opening.has_display", lambda: False)
    assert "there is no display" in refused(capsys, "diagnos")


EMPTY = {
    "attach": [[""], ["--on=", "1"], ["--setup", "", "1"], ["--python=", "1"], ["--out", "", "1"], ["--journal=", "1"]],
    "baseline": [["save", "", SAMPLE], ["save", "x", ""], ["list", "--store", ""], ["remove", "--store=", "x"]],
    "capture": [["torch", "--out", "", "--", "x.py"], ["nsys", "--cwd=", "--", "x.py"]],
    "compare": [["", SAMPLE], [SAMPLE, ""], ["--before", "", "--after", SAMPLE], ["--series", SAMPLE, ""]],
    "convert": [["", "--to", "csv", "o"], [SAMPLE, "--to", "csv", ""]],
    "diagnose": [[""], [SAMPLE, ""], [SAMPLE, "--html", ""], [SAMPLE, "--gates="], ["--scheduler", "", SAMPLE]],
    "mcp": [[""]],
    "places": [["save", "", "ssh:x"], ["save", "x", ""], ["save", "x", "ssh:x", "--setup="], ["check", ""]],
    "query": [["", "select 1"], [SAMPLE, ""], [SAMPLE, "select 1", "--out", ""]],
    "reduce": [[""], [SAMPLE, ""], ["--below", "", SAMPLE]],
    "self-check": [],
    "trend": [[""], ["--html="], ["--store", ""]],
    "try": [["--recording", "", "--", "x.py"], ["--fix", "", "--", "x.py"], ["--markdown=", "--", "x.py"]],
    "whatif": [[""], ["--fix", "", SAMPLE]],
}  # fmt: skip


@pytest.mark.parametrize("command", sorted(command_names()))
def test_an_empty_value_is_no_name_of_the_current_folder(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in EMPTY[command]:
        assert "the value is empty" in refused(capsys, command, *words), words


def test_an_empty_name_opens_no_window(capsys: pytest.CaptureFixture[str]) -> None:
    assert "the value is empty" in refused(capsys, "")


def test_the_recorded_program_may_get_an_empty_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "torch", "--print-command", "--", "python", "x.py", "--name", ""]) == DONE
    assert "''" in capsys.readouterr().out
