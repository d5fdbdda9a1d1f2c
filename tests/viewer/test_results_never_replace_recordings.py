"""No result takes the place of a recording, or of anything else that the command reads."""

from __future__ import annotations

import argparse
import gzip
import importlib
import os
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.parsers.chrome.traces import complete, kernel, launch, text_of
from viewer.cli import command_names, main
from viewer.terminal.console import CommandParser
from viewer.terminal.exit_codes import BAD_INPUT, DONE
from viewer.user_data.storage import RecordingThere, in_one_piece, write_bytes

CONTENT = text_of(
    [
        each
        for step in range(4)
        for each in (
            complete(f"ProfilerStep#{step}", step * 1000, 990, "user_annotation"),
            launch(step * 1000 + 10, step + 1, "cudaLaunchKernel"),
            kernel("gemm", step * 1000 + 50, 600, step + 1),
        )
    ]
).encode()
COMMANDS = {
    "attach": ["--wait", "0.1", "any"],
    "baseline list": [],
    "baseline remove": ["nightly"],
    "baseline save": ["nightly", "a.json.gz"],
    "capture ncu": ["--print-command"],
    "capture nsys": ["--print-command"],
    "capture torch": ["--print-command"],
    "compare": ["a.json.gz", "b.json.gz"],
    "convert": ["--to", "csv", "a.json.gz", "out.csv"],
    "diagnose": ["a.json.gz"],
    "mcp": None,  # a server, with no option but the files
    "places check": None,  # no option
    "places list": None,
    "places remove": None,
    "places save": ["box", "ssh:me@gpu-box"],
    "query": ["a.json.gz", "select 1"],
    "reduce": ["a.json.gz"],
    "self-check": [],
    "trend": [],
    "try": [],
    "whatif": ["a.json.gz"],
}
NEEDS_THE_NETWORK = {"--host", "--scheduler"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two recordings, and the working folder."""
    for name in ("a.json.gz", "b.json.gz"):
        (tmp_path / name).write_bytes(CONTENT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def code_of(*words: str) -> int:
    try:
        return main(words)
    except SystemExit as ended:
        return int(ended.code or 0)


def parsers_below(
    name: str, parser: argparse.ArgumentParser
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    groups = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not groups:
        yield name, parser
    for group in groups:
        for word, each in group.choices.items():
            yield from parsers_below(f"{name} {word}".strip(), each)


def commands() -> list[tuple[str, argparse.ArgumentParser]]:
    top = CommandParser(prog="stallscope")
    group = top.add_subparsers()
    for module in command_names().values():
        importlib.import_module(module).declare(group)
    return list(parsers_below("", top))


def with_values() -> list[tuple[str, str]]:
    """Every option of every command that takes a value of any text."""
    return [
        (name, action.option_strings[-1])
        for name, parser in commands()
        for action in parser._actions
        if action.option_strings and action.nargs != 0 and not action.choices
        if action.option_strings[-1] not in NEEDS_THE_NETWORK
    ]


@pytest.mark.parametrize(("command", "option"), with_values())
def test_no_option_of_any_command_costs_the_recording_that_it_is_given(
    command: str, option: str, folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Such as rank0.json.gz of `diagnose --html rank*.json.gz`, which the shell makes the option's value."""
    words = COMMANDS[command]
    assert words is not None
    target = folder / "rank0.json.gz"
    target.write_bytes(CONTENT)
    more = ["--", sys.executable, "train.py"] if command.startswith(("capture", "try")) else []
    code = code_of(*command.split(), *words, option, target.name, *more)
    assert target.read_bytes() == CONTENT
    said = capsysbinary.readouterr().err.decode()
    if "results never replace" in said:
        assert code == BAD_INPUT
        assert said.count("\n") == 1
        assert sorted(each.name for each in folder.iterdir()) == ["a.json.gz", "b.json.gz", "rank0.json.gz"]


def test_the_commands_that_are_tried_are_all_there_are() -> None:
    assert dict.fromkeys(name for name, _ in commands()) == dict.fromkeys(COMMANDS)


OUTPUTS = [
    *(["diagnose", "a.json.gz", f"--{kind}"] for kind in ("html", "pdf", "markdown", "junit", "sarif")),
    *(["compare", "a.json.gz", "b.json.gz", f"--{kind}"] for kind in ("html", "pdf", "markdown", "junit")),
    *(["convert", "a.json.gz", "--to", to] for to in ("csv", "chrome", "parquet")),
    ["query", "a.json.gz", "select 1", "--out"],
    ["capture", "torch", "--print-command", "--save-runner"],
    *(["try", "--recording", "a.json.gz", f"--{kind}"] for kind in ("markdown", "patch")),
]


@pytest.mark.parametrize("words", OUTPUTS, ids=" ".join)
def test_every_output_refuses_a_recording_in_one_sentence_before_anything_is_read(
    words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("viewer.loading.loader.read_apart", lambda *_: pytest.fail("it was read"))
    (folder / "c.csv").write_bytes(CONTENT)
    more = ["--", "python", "x.py"] if words[0] == "capture" else []
    assert code_of(*words, "c.csv", *more) == BAD_INPUT
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "it looks like a recording of PyTorch profiler, which results never replace" in said.err
    assert (folder / "c.csv").read_bytes() == CONTENT


def linked(folder: Path) -> str:
    (folder / "link").symlink_to("a.json.gz")
    return "link"


def hard_linked(folder: Path) -> str:
    os.link(folder / "a.json.gz", folder / "hard")
    return "hard"


def by_another_way(folder: Path) -> str:
    (folder / "below").mkdir()
    return "below/../a.json.gz"


def by_descriptor(folder: Path) -> str:
    return f"/dev/fd/{os.open(folder / 'a.json.gz', os.O_RDONLY)}"


@pytest.mark.parametrize("named", [linked, hard_linked, by_another_way, by_descriptor])
def test_what_is_read_is_known_by_any_name(
    named: Callable[[Path], str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of("diagnose", "a.json.gz", "--html", named(folder)) == BAD_INPUT
    assert "The command reads this file" in capsys.readouterr().err
    assert (folder / "a.json.gz").read_bytes() == CONTENT


def test_a_file_of_limits_is_read_as_well(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gates = folder / "gates.toml"
    gates.write_text('fail-on = "high"\n')
    assert code_of("diagnose", "a.json.gz", "--gates", "gates.toml", "--html", "gates.toml") == BAD_INPUT
    assert gates.read_text() == 'fail-on = "high"\n'
    assert "The command reads this file" in capsys.readouterr().err


def test_a_patch_does_not_take_the_place_of_the_script(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = folder / "train.py"
    script.write_text("print('trained')\n")
    assert code_of("try", "--patch", "train.py", "--", sys.executable, "train.py") == BAD_INPUT
    assert script.read_text() == "print('trained')\n"
    assert "The command reads this file" in capsys.readouterr().err


def test_standard_input_is_what_it_comes_from(folder: Path) -> None:
    command = [sys.executable, "-m", "viewer", "diagnose", "-", "--html", str(folder / "a.json.gz")]
    with (folder / "a.json.gz").open("rb") as recording:
        ended = subprocess.run(
            command, stdin=recording, capture_output=True, cwd=Path(__file__).parents[2], check=False
        )
    assert ended.returncode == BAD_INPUT
    assert b"The command reads this file" in ended.stderr


def test_two_results_are_not_written_into_one_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("diagnose", "a.json.gz", "--html", "new", "--markdown", "./new") == BAD_INPUT
    assert "Two results cannot go into one file" in capsys.readouterr().err
    assert not (folder / "new").exists()


def database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE StringIds (id, value)")
    connection.close()


def archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("rank0.json.gz", CONTENT)


def export_of_another(path: Path) -> None:
    path.write_bytes(gzip.compress(CONTENT))


@pytest.mark.parametrize("make", [database, archive, export_of_another])
def test_files_of_a_named_folder_are_recordings_whatever_their_kind(
    make: Callable[[Path], None], folder: Path
) -> None:
    """A second export beside a report is one of them, although it is not named."""
    (folder / "runs").mkdir()
    (folder / "runs" / "rank0.json.gz").write_bytes(CONTENT)
    target = folder / "runs" / "report.html"
    make(target)
    before = target.read_bytes()
    assert code_of("diagnose", "runs", "--html", "runs/report.html") == BAD_INPUT
    assert target.read_bytes() == before


def test_former_results_are_replaced_by_results_of_their_kind(folder: Path) -> None:
    for _ in range(2):
        for words in (
            ["diagnose", "a.json.gz", "--html", "r.html", "--markdown", "r.md", "--junit", "r.xml"],
            ["convert", "a.json.gz", "--to", "csv", "r.csv"],
            ["convert", "a.json.gz", "--to", "parquet", "r.parquet"],
            ["convert", "a.json.gz", "--to", "chrome", "r.json"],
            ["convert", "a.json.gz", "--to", "chrome", "r.json.gz"],
            ["query", "a.json.gz", "select name, start_ns from events", "--out", "q.json"],
            ["query", "a.json.gz", "select name, start_ns from events", "--out", "q.csv"],
        ):
            assert code_of(*words) == DONE, words
    export = (folder / "r.json").read_bytes()
    assert code_of("convert", "a.json.gz", "--to", "csv", "r.json") == BAD_INPUT
    assert code_of("diagnose", "a.json.gz", "--html", "r.json") == BAD_INPUT
    assert code_of("convert", "r.json", "--to", "chrome", "r.json") == BAD_INPUT
    assert (folder / "r.json").read_bytes() == export


def test_ranks_are_not_written_over_recordings_of_their_name(folder: Path, fixtures: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "rank1.json.gz").write_bytes(CONTENT)
    assert code_of("convert", str(fixtures / "ddp"), "--to", "chrome", "out") == BAD_INPUT
    assert [each.name for each in (folder / "out").iterdir()] == ["rank1.json.gz"]
    assert (folder / "out" / "rank1.json.gz").read_bytes() == CONTENT


def test_devices_and_links_to_nothing_are_written_as_before(folder: Path) -> None:
    (folder / "dangling.html").symlink_to("page.html")
    assert code_of("diagnose", "a.json.gz", "--html", "dangling.html", "--markdown", os.devnull) == DONE
    assert (folder / "page.html").read_bytes().lower().startswith(b"<!doctype html")
    assert (folder / "dangling.html").is_symlink()


def test_nothing_that_writes_a_result_can_forget_it(folder: Path) -> None:
    with pytest.raises(RecordingThere), in_one_piece(folder / "a.json.gz"):
        pytest.fail("there is nothing to write to")
    with pytest.raises(RecordingThere):
        write_bytes(folder / "a.json.gz", b"<!doctype html>")
    assert (folder / "a.json.gz").read_bytes() == CONTENT
    assert not list(folder.glob(".*.part"))
