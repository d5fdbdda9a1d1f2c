"""Recordings that stay on another machine are read as those here, by every command and by the window."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import fsspec
import pytest

import resources
from parsers.files.fetched import address_of, is_address, local_copy, trim
from parsers.model import Cancelled, Progress, TraceError
from rules.terms import DEFAULTS
from tests.asking.test_assistant import text_of
from tests.rank_runs import Run
from tests.remote.far_machine import FarMachine
from tests.viewer.test_results_never_replace_recordings import commands
from viewer.cli import main
from viewer.loading.loader import opened
from viewer.loading.ranks.far_ranks import reduced_there, unframed
from viewer.remote import addresses
from viewer.remote.addresses import bring_here, store_of
from viewer.remote.far import Far
from viewer.remote.names import place_of
from viewer.remote.transfer import fetch

SAMPLE = "sync_item.pt.trace.json.gz"
REPOSITORY = Path(__file__).parents[2]
Answers = Callable[..., str]


@pytest.fixture(autouse=True)
def nothing_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_fresh", {})


@pytest.fixture
def answers(capsys: pytest.CaptureFixture[str]) -> Answers:
    """What a command prints."""

    def answer(*words: str) -> str:
        assert main(words) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return answer


@pytest.fixture
def sample(far: FarMachine) -> Path:
    """A recording over there."""
    path = far.home / SAMPLE
    shutil.copy(resources.path("samples") / SAMPLE, path)
    return path


def of_baseline(answers: Answers, path: str) -> str:
    name = f"run {len(path)}"
    answers("baseline", "save", name, path)
    (run,) = json.loads(answers("trend", "--json", name))["runs"]
    return json.dumps({**run, "name": ""})


def of_convert(answers: Answers, path: str) -> str:
    target = Path(os.environ["STALLSCOPE_DATA"]).parent / f"{len(path)}.csv"
    answers("convert", path, "--to", "csv", str(target))
    return target.read_text("utf-8")


def of_mcp(answers: Answers, path: str) -> str:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def asked() -> str:
        words = ["-m", "viewer", "mcp", path]
        server = StdioServerParameters(
            command=sys.executable, args=words, cwd=REPOSITORY, env=dict(os.environ)
        )
        # Else it is what stood for standard error in the test that first loaded the SDK.
        with open(os.devnull, "w") as nowhere:
            async with Client(stdio_client(server, errlog=nowhere)) as client:
                listed = text_of(await client.call_tool("list_recordings"))
                opened = text_of(await client.call_tool("open_recording", {"path": listed}))
                said = text_of(await client.call_tool("diagnose", {"path": listed}))
                return f"{opened}{said}".replace(str(local_copy(path)) if is_address(path) else path, path)

    return anyio.run(asked)


def of_reduce(answers: Answers, path: str) -> str:
    below = local_copy(path).parent if is_address(path) else Path(path).parent
    words = [sys.executable, "-m", "viewer", "reduce", "--below", str(below), path]
    done = subprocess.run(words, capture_output=True, cwd=REPOSITORY, check=True)
    ((name, reduced),) = unframed(iter([done.stdout]))
    assert reduced.content
    return f"{name} {reduced.problem} {reduced.content!r}"


SQL = "select name, count(*) as n from kernels group by 1 order by 1"
COMMANDS: dict[str, Callable[[Answers, str], str]] = {
    "baseline save": of_baseline,
    "compare": lambda answers, path: answers("compare", "--json", path, path),
    "convert": of_convert,
    "diagnose": lambda answers, path: answers("diagnose", "--json", path),
    "mcp": of_mcp,
    "query": lambda answers, path: answers("query", "--format", "json", path, SQL),
    "reduce": of_reduce,
    "whatif": lambda answers, path: answers("whatif", "--json", path),
}
EVERY_DAY = ("diagnose",)
THOROUGH = pytest.mark.thorough


@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=() if each in EVERY_DAY else THOROUGH) for each in COMMANDS]
)
def test_a_command_says_the_same_of_an_address_as_of_a_file(
    answers: Answers, sample: Path, command: str
) -> None:
    address = f"ssh://far{sample}"
    here = COMMANDS[command](answers, str(sample))
    assert len(here) > 10
    assert COMMANDS[command](answers, address).replace(address, str(sample)) == here


def test_no_command_that_reads_recordings_is_left_out() -> None:
    reading = {
        name
        for name, parser in commands()
        if any(
            not action.option_strings and str(action.metavar)[:4] in ("PATH", "RUN")
            for action in parser._actions
        )
    }
    assert reading == set(COMMANDS)


def test_what_was_kept_of_an_address_is_told_by_it(answers: Answers, sample: Path) -> None:
    address = f"ssh://far/~/{SAMPLE}"
    assert SAMPLE in answers("baseline", "save", "far", address)
    (told,) = json.loads(answers("diagnose", "--json", address))["inputs"]
    assert told["path"] == address


@pytest.mark.parametrize(
    "command", ["diagnose", pytest.param("query", marks=THOROUGH), pytest.param("whatif", marks=THOROUGH)]
)
def test_a_command_says_the_same_of_what_a_service_holds(
    answers: Answers, command: str, tmp_path: Path
) -> None:
    source = resources.path("samples") / SAMPLE
    address = f"memory://bucket/runs/{SAMPLE}"
    system = fsspec.filesystem("memory")
    with system.open(f"/bucket/runs/{SAMPLE}", "wb") as target:
        target.write(source.read_bytes())
    try:
        here = COMMANDS[command](answers, str(source))
        assert COMMANDS[command](answers, address).replace(address, str(source)) == here
    finally:
        system.rm("/bucket", recursive=True)


def test_a_service_whose_library_is_missing_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    assert main(["diagnose", "s3://bucket/run.json.gz"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "pip install 'stallscope[s3]'" in line


def test_a_file_is_fetched_once_and_again_when_it_changed(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = local_copy(f"ssh://far{sample}")
    bring_here([copy])
    assert copy.read_bytes() == sample.read_bytes()
    fetched = []
    monkeypatch.setattr("viewer.remote.transfer.fetch", lambda *_: fetched.append(1))
    monkeypatch.setattr(addresses, "_fresh", {})
    bring_here([copy])
    assert fetched == []
    os.utime(sample, (1, 1))
    monkeypatch.setattr(addresses, "_fresh", {})
    bring_here([copy])
    assert fetched == [1]


def test_a_folder_is_listed_with_sizes_and_dates(far: FarMachine, sample: Path) -> None:
    folder = far.home / "runs [1]"
    (folder / "below").mkdir(parents=True, exist_ok=True)
    (folder / ".hidden").touch()
    shutil.copy(sample, folder / "one file.json.gz")
    with store_of("ssh://far") as store:
        entries = store.entries("ssh://far/~/runs [1]", 1)
    assert [(each.name, each.is_folder) for each in entries if each.name] == [
        ("below", True),
        ("one file.json.gz", False),
    ]
    assert entries[-1].bytes == sample.stat().st_size
    assert abs(entries[-1].modified - time.time()) < 3600


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("ssh://far/no/such/file", "no such file or folder"),
        ("ssh://nobody/x", "Connection refused"),
        ("ssh://far/a/../../x", "nothing at this address"),
        ("ssh:///x", "nothing at this address"),
    ],
)
def test_an_address_that_leads_nowhere_is_told_in_one_sentence(
    far: FarMachine, capsys: pytest.CaptureFixture[str], address: str, problem: str
) -> None:
    assert main(["diagnose", address]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line


def test_a_copy_knows_its_address() -> None:
    for address in ("ssh://me@box/a b/c.json", "s3://bucket/run/rank 0.json.gz"):
        assert address_of(local_copy(address)) == address
    assert address_of(Path("/a/b")) == ""
    assert not is_address("file:///a/b")
    assert not is_address("/a/b")


def test_copies_used_longest_ago_make_room(tmp_path: Path) -> None:
    copies = [local_copy(f"ssh://box/{name}") for name in "abc"]
    for number, copy in enumerate(copies):
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(b"x" * 100)
        os.utime(copy, (number + 1, 5))
    trim(copies[0], 250)
    assert [copy.exists() for copy in copies] == [True, False, True]


def test_a_transfer_is_stopped_at_once_and_continued_where_it_stopped(
    far: FarMachine, tmp_path: Path
) -> None:
    large = far.home / "large"
    large.write_bytes(os.urandom(6_000_000))
    machine = Far(place_of("ssh:wired"))
    machine.open()
    progress = Progress(lambda fraction, _: progress.cancel() if fraction > 0.3 else None)
    try:
        with pytest.raises(Cancelled):
            fetch(machine, str(large), tmp_path / "copy", progress)
        (part,) = tmp_path.glob(".copy.*.part")
        assert 0 < part.stat().st_size < 6_000_000
        before = far.wire.carried
        fetch(machine, str(large), tmp_path / "copy")
        assert far.wire.carried - before < 5_000_000
    finally:
        machine.close()
    assert (tmp_path / "copy").read_bytes() == large.read_bytes()
    assert not list(tmp_path.glob(".copy.*"))


def test_what_changed_on_the_way_is_not_taken_for_whole(
    far: FarMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (far.home / "file").write_bytes(b"x" * 1000)
    machine = Far(place_of("ssh:far"))
    machine.open()
    monkeypatch.setattr("viewer.remote.transfer._length_and_digest", lambda *_: (1000, "0" * 64))
    try:
        with pytest.raises(TraceError, match="changed while it was fetched"):
            fetch(machine, str(far.home / "file"), tmp_path / "copy")
    finally:
        machine.close()
    assert not (tmp_path / "copy").exists()
    assert not list(tmp_path.glob(".copy.*"))


@pytest.fixture(scope="session")
def ranks(far_machine: FarMachine) -> Path:
    """Eighteen ranks over there."""
    folder = far_machine.home / "ranks"
    folder.mkdir()
    Run(ranks=18, steps=4, operators=3, tensor=3, stages=2, kernel_ns=120_000, straggler=7).write(folder)
    return folder


def install(far: FarMachine) -> Path:
    """Stallscope over there, until the file is removed."""
    program = far.home / "bin" / "stallscope"
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} -m viewer.cli "$@"\n', "utf-8"
    )
    program.chmod(0o755)
    return program


def test_many_ranks_are_reduced_there_and_only_those_that_are_shown_are_fetched(
    answers: Answers, far: FarMachine, ranks: Path
) -> None:
    program = install(far)
    try:
        address = f"ssh://far{ranks}"
        there = json.loads(answers("diagnose", "--json", address))
        assert there == json.loads(answers("diagnose", "--json", str(ranks)))
        copy = local_copy(address)
        assert not copy.exists()
        reduced = reduced_there(copy, Progress(), DEFAULTS)
        assert reduced is not None
        assert len(reduced[1]) == 18
        read = opened([copy], Progress(), lambda _: None, DEFAULTS)
        assert read.many is not None
        assert len(read.many.facts.run.rows) == 18
        here = sorted(path.name for path in copy.iterdir())
        assert here == sorted(path.name for path in read.many.paths)
        assert len(here) == 2
    finally:
        program.unlink()


@pytest.mark.thorough
def test_many_ranks_are_fetched_where_nobody_there_can_reduce_them(
    answers: Answers, far: FarMachine, ranks: Path
) -> None:
    address = f"ssh://far{ranks}"
    there = json.loads(answers("diagnose", "--json", address))
    assert there == json.loads(answers("diagnose", "--json", str(ranks)))
    assert len(list(local_copy(address).iterdir())) == 18


def test_stopping_the_fetching_takes_effect_within_a_moment(far: FarMachine) -> None:
    """Also while the other side says nothing at all."""
    machine = Far(place_of("ssh:far"))
    machine.open()
    progress = Progress()
    threading.Timer(0.1, progress.cancel).start()
    try:
        with pytest.raises(Cancelled), machine.speaking("run", "sleep", "30.123") as speaking:
            for _ in speaking.pieces(progress.stop_if_wanted):
                pass
    finally:
        machine.close()
    for pid in far.processes("30.123"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
