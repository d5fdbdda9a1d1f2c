"""A command reads what may cost more than it looks in a process that ends when the user wants it."""

from __future__ import annotations

import gzip
import os
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Cancelled, Progress, TraceError
from tests.parsers.traces import assert_same
from viewer.loading.loader import SMALL_BYTES, may_cost_more_than_it_looks, read_apart
from viewer.loading.process import LoadingProcess

from .conftest import STUCK, is_alive

EVENT = b'{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
SMALL = b'{"traceEvents": [' + EVENT + b"]}"


def plain(path: Path) -> None:
    path.write_bytes(SMALL)


def packed(path: Path) -> None:
    path.write_bytes(gzip.compress(SMALL))


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
    [(plain, False), (packed, True), (archive, True), (database, True), (not_small, True), (pipe, False)],
)
def test_what_is_packed_a_database_or_not_small_is_read_apart(
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
    assert readers == {"loading/loader.py", "loading/serve.py"}


def test_what_is_read_apart_is_the_same(tmp_path: Path) -> None:
    packed(tmp_path / "run.json.gz")
    assert_same(read_apart([tmp_path / "run.json.gz"], Progress()), open_trace([tmp_path / "run.json.gz"]))


def test_what_cannot_be_used_is_said_as_always(tmp_path: Path) -> None:
    (tmp_path / "run.gz").write_bytes(gzip.compress(b"nothing that is known"))
    with pytest.raises(TraceError, match="not a recording that Stallscope knows"):
        read_apart([tmp_path / "run.gz"], Progress())


@pytest.mark.parametrize("stop", [KeyboardInterrupt, Cancelled])
def test_a_reading_that_never_ends_is_ended_when_the_user_wants_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before_it_reads: Callable[[str], None],
    stop: type[BaseException],
) -> None:
    packed(tmp_path / "run.json.gz")
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
        read_apart([tmp_path / "run.json.gz"], Progress(listener))
    (number,) = numbers
    assert not is_alive(number)
