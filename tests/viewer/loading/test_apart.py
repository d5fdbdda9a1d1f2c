"""A command reads what may cost more than it looks in a process that ends when the user wants it."""

from __future__ import annotations

import gzip
import os
import sqlite3
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Cancelled, Progress, TraceError
from tests.parsers.traces import assert_same
from viewer.loading import apart
from viewer.loading.apart import SMALL_BYTES, may_cost_more_than_it_looks
from viewer.loading.loader import read_apart
from viewer.loading.process import LoadingProcess
from viewer.loading.ranks.asking import FULL_RANKS

from .conftest import STUCK, is_alive

EVENT = b'{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
SMALL = b'{"traceEvents": [' + EVENT + b"]}"


def plain(path: Path) -> None:
    path.write_bytes(SMALL)


def packed(path: Path) -> None:
    path.write_bytes(gzip.compress(SMALL))


def packed_twice(path: Path) -> None:
    path.write_bytes(gzip.compress(gzip.compress(SMALL)))


def packed_in_two_parts(path: Path) -> None:
    path.write_bytes(gzip.compress(SMALL) + gzip.compress(b" " * SMALL_BYTES))


def packed_and_cut(path: Path) -> None:
    path.write_bytes(gzip.compress(SMALL)[:-9])


def packed_to_the_limit(path: Path) -> None:
    path.write_bytes(gzip.compress(SMALL + b" " * (SMALL_BYTES - len(SMALL))))


def packed_and_not_small(path: Path) -> None:
    path.write_bytes(gzip.compress(SMALL + b" " * (SMALL_BYTES - len(SMALL) + 1)))


def packed_database(path: Path) -> None:
    database(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a.json", SMALL)


def database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE a (b)")
    connection.commit()
    connection.close()


def not_small(path: Path) -> None:
    path.write_bytes(SMALL + b" " * SMALL_BYTES)


def pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "apart"),
    [
        (plain, False),
        (packed, False),
        (packed_to_the_limit, False),
        (packed_and_not_small, True),
        (packed_in_two_parts, True),
        (packed_twice, True),
        (packed_and_cut, True),
        (packed_database, True),
        (archive, True),
        (database, True),
        (not_small, True),
        (pipe, False),
    ],
)
def test_an_archive_a_database_and_what_is_not_small_once_unpacked_are_read_apart(
    tmp_path: Path, make: Callable[[Path], None], apart: bool
) -> None:
    make(tmp_path / "run")
    assert may_cost_more_than_it_looks([tmp_path / "run"]) is apart
    assert may_cost_more_than_it_looks([tmp_path]) is apart


def test_nobody_reads_a_file_but_by_this_module_and_the_process_it_starts(repository: Path) -> None:
    viewer = repository / "viewer"
    readers = {
        file.relative_to(viewer).as_posix()
        for file in viewer.rglob("*.py")
        if "open_trace" in file.read_text()
    }
    assert readers == {
        "loading/loader.py", "loading/serve.py", "loading/recording_server.py", "doctor/trial.py"
    }  # fmt: skip


def test_what_is_read_apart_is_the_same(tmp_path: Path) -> None:
    archive(tmp_path / "run.zip")
    assert_same(read_apart([tmp_path / "run.zip"], Progress()), open_trace([tmp_path / "run.zip"]))


def test_what_cannot_be_used_is_said_as_always(tmp_path: Path) -> None:
    (tmp_path / "run.gz").write_bytes(gzip.compress(b"nothing that is known" + b" " * SMALL_BYTES))
    with pytest.raises(TraceError, match="not a recording that Stallscope knows"):
        read_apart([tmp_path / "run.gz"], Progress())


@pytest.mark.parametrize("stop", [KeyboardInterrupt, Cancelled])
def test_a_reading_that_never_ends_is_ended_when_the_user_wants_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before_it_reads: Callable[[str], None],
    stop: type[BaseException],
) -> None:
    archive(tmp_path / "run.zip")
    before_it_reads(STUCK)
    numbers: list[int] = []
    trace = LoadingProcess.trace

    def noted(self: LoadingProcess, *arguments: object) -> object:
        numbers.append(self.number)
        return trace(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(LoadingProcess, "trace", noted)
    looks = 0

    def listener(_: float, __: str) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise stop

    with pytest.raises(stop):
        read_apart([tmp_path / "run.zip"], Progress(listener))
    (number,) = numbers
    assert not is_alive(number)


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> Iterator[apart._Ready]:
    """No process waits for a request yet; what is started is ended with the test."""
    fresh = apart._Ready()
    monkeypatch.setattr(apart, "_ready", fresh)
    monkeypatch.setattr(apart, "_NEXT_AFTER_S", 0.0)
    yield fresh
    fresh.again = False
    if (left := fresh.take()) is not None:
        left.end()


@pytest.mark.parametrize(
    ("words", "starts"),
    [(["diagnose", "small"], False), (["diagnose", "packed"], False), (["diagnose", "archive"], True),
     (["small"], True), (["diagnose", ""], False),
     (["diagnose", "absent", "a\0b"], False), ([], False), (["self-check"], False)],
)  # fmt: skip
def test_the_process_is_started_for_what_a_command_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ready: apart._Ready, words: list[str], starts: bool
) -> None:
    plain(tmp_path / "small")
    packed(tmp_path / "packed")
    archive(tmp_path / "archive")
    monkeypatch.chdir(tmp_path)
    apart.start_ahead(words)
    assert (ready.take() is not None) is starts


@pytest.mark.parametrize(("count", "starts"), [(FULL_RANKS, True), (FULL_RANKS + 1, False)])
def test_none_is_started_for_more_files_than_are_read_in_full(
    tmp_path: Path, ready: apart._Ready, count: int, starts: bool
) -> None:
    (tmp_path / "beside").mkdir()
    for number in range(count):
        archive(tmp_path / f"{number}.zip")
    apart.start_ahead(["diagnose", str(tmp_path)])
    assert (ready.take() is not None) is starts


def test_one_that_was_started_ahead_reads(tmp_path: Path, ready: apart._Ready) -> None:
    archive(tmp_path / "run.zip")
    apart.start_ahead(["diagnose", str(tmp_path / "run.zip")])
    waiting = ready._helper
    assert waiting is not None
    process = LoadingProcess([tmp_path / "run.zip"], only_read=True)
    assert process.number == waiting.process.pid
    assert len(process.trace(Progress(), lambda _: None).events) == 1
    process.close()


def test_one_that_died_while_it_waited_is_replaced(tmp_path: Path, ready: apart._Ready) -> None:
    archive(tmp_path / "run.zip")
    ready.start()
    assert ready._helper is not None
    ready._helper.end()
    assert len(read_apart([tmp_path / "run.zip"], Progress()).events) == 1


def test_a_window_has_the_next_one_wait_already(ready: apart._Ready) -> None:
    apart.keep_one_ready()
    first = apart.reader()
    deadline = time.monotonic() + 30
    while ready._helper is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert ready._helper.process.pid != first.process.pid
    first.end()
