"""Whatever a stranger's database defines besides tables is never run, and what its tables claim is checked."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Cancelled, Malformed, Progress, Trace
from parsers.sqlite import database as databases
from parsers.sqlite.database import Database, TableDamaged
from parsers.sqlite.guarded import GuardedConnection, Watch
from tests.parsers.nsys_exports import call, export, kernel

# The cases lie on either side of these.
MAX_TABLES = 5_000

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"


def recording(path: Path, *statements: str, count: int = 3) -> Path:
    rows = [kernel(number * 10 + 1, number * 10 + 5, number + 1) for number in range(count)]
    calls = [call(number * 10, number * 10 + 1, number + 1) for number in range(count)]
    export(path, {KERNELS: rows, "CUPTI_ACTIVITY_KIND_RUNTIME": calls})
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("BEGIN")
    for statement in statements:
        connection.execute(statement)
    connection.execute("COMMIT")
    connection.close()
    return path


def replaced(table: str, view: str) -> tuple[str, str]:
    return f"DROP TABLE IF EXISTS {table}", f"CREATE VIEW {table} AS {view}"


def opened(path: Path) -> Trace:
    trace = open_trace([path])
    for event in range(len(trace.events)):
        trace.arguments(event)
    return trace


VIEWS = {
    "never ends": replaced(
        "NVTX_EVENTS", f"{ENDLESS} SELECT n AS start, n + 1 AS end, 59 AS eventType FROM r"
    ),
    "never ends where names are": replaced("StringIds", f"{ENDLESS} SELECT n AS id, n AS value FROM r"),
    "never ends where the machine is described": replaced(
        "TARGET_INFO_GPU", f"{ENDLESS} SELECT n AS id, n AS name, n AS cuDevice FROM r"
    ),
    "joins a table with itself again and again": replaced(
        "OSRT_API",
        f"SELECT a.start, a.end, a.globalPid AS globalTid, 1 AS nameId FROM {KERNELS} a, {KERNELS} b, {KERNELS} c",
    ),
    "makes a name of a gigabyte": replaced(
        "StringIds", "SELECT 3 AS id, printf('%.*c', 900000000, 'x') AS value"
    ),
    "asks a virtual table": ("CREATE VIRTUAL TABLE NVTX_EVENTS USING fts5(start, eventType, text)",),
}


@pytest.mark.parametrize("statements", VIEWS.values(), ids=VIEWS)
def test_views_and_virtual_tables_of_a_file_are_never_run_and_its_tables_are_shown(
    tmp_path: Path, statements: tuple[str, ...]
) -> None:
    trace = opened(recording(tmp_path / "run.sqlite", *statements))
    assert len(trace.gpu_operations) == 3
    assert trace.arguments(int(trace.gpu_operations[0]))["correlationId"] == 1


def test_a_name_that_a_table_computes_is_no_name(tmp_path: Path) -> None:
    path = recording(
        tmp_path / "run.sqlite",
        "DROP TABLE StringIds",
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT AS (printf('%.*c', 7, 'x')))",
        "INSERT INTO StringIds (id) VALUES (2), (3)",
        f"ALTER TABLE {KERNELS} ADD COLUMN more TEXT AS (printf('%.*c', 7, 'x'))",
        "UPDATE sqlite_master SET sql = replace(sql, ' 7,', ' 900000000,')",
    )
    trace = opened(path)
    assert len(trace.gpu_operations) == 3
    assert max(map(len, trace.strings)) < 100
    assert "more" not in trace.arguments(int(trace.gpu_operations[0]))


def test_a_database_of_very_many_tables_is_refused_with_their_number(tmp_path: Path) -> None:
    path = recording(
        tmp_path / "run.sqlite", *(f"CREATE TABLE t{number} (x)" for number in range(MAX_TABLES))
    )
    with pytest.raises(Malformed, match=r"5,00\d tables"):
        open_trace([path])


def queries_of(monkeypatch: pytest.MonkeyPatch, path: Path) -> int:
    asked = 0
    statement = databases._Query._statement

    def counted(self: databases._Query, stretch: tuple[int, int] | None, convert: bool) -> str:
        nonlocal asked
        asked += 1
        return statement(self, stretch, convert)

    with monkeypatch.context() as patched:
        patched.setattr(databases._Query, "_statement", counted)
        assert len(open_trace([path]).gpu_operations) == 200
    return asked


def test_rowids_far_apart_cost_no_query_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dense = recording(tmp_path / "dense.sqlite", count=200)
    sparse = recording(
        tmp_path / "sparse.sqlite", f"UPDATE {KERNELS} SET rowid = rowid * 10000000000", count=200
    )
    assert queries_of(monkeypatch, sparse) == queries_of(monkeypatch, dense)


def test_a_page_that_is_used_again_and_again_is_damage(tmp_path: Path) -> None:
    """Interior pages whose children are all the same page make a few kilobytes into billions of rows."""
    path = tmp_path / "run.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA page_size = 512")
    connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, x) WITHOUT ROWID")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(number, number) for number in range(2_000)])
    connection.commit()
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 't'").fetchone()
    connection.close()
    data = bytearray(path.read_bytes())

    def child_places(page: int) -> list[int]:
        at = (page - 1) * 512
        cells = struct.unpack_from(">H", data, at + 3)[0]
        return [at + struct.unpack_from(">H", data, at + 12 + 2 * cell)[0] for cell in range(cells)] + [
            at + 8
        ]

    upper, leaf = root, root
    while data[(leaf - 1) * 512] == 2:
        upper, leaf = leaf, struct.unpack_from(">I", data, child_places(leaf)[0])[0]
    for _ in range(5):
        data += data[(upper - 1) * 512 : upper * 512]
    last = len(data) // 512
    struct.pack_into(">I", data, 28, last)
    chain = [root, *range(last - 4, last + 1), leaf]
    for page, below in pairwise(chain):
        for place in child_places(page):
            struct.pack_into(">I", data, place, below)
    path.write_bytes(data)
    database = Database.open(path)
    table = database.table("t")
    assert table is not None
    batches = database.batches(table, {"k": "k"})
    with pytest.raises(TableDamaged, match="more than the file holds"):
        list(batches)
    database.close()


@pytest.mark.parametrize("stop", [Cancelled, KeyboardInterrupt])
def test_a_query_ends_when_the_user_stops_it(tmp_path: Path, stop: type[BaseException]) -> None:
    path = recording(tmp_path / "run.sqlite", "CREATE TABLE many (x)")
    filled = sqlite3.connect(path)
    filled.executemany("INSERT INTO many VALUES (?)", [(number,) for number in range(20_000)])
    filled.commit()
    filled.close()
    looks = 0

    class Stopping(Progress):
        def stop_if_wanted(self) -> None:
            nonlocal looks
            looks += 1
            if looks == 3:
                raise stop

    database = GuardedConnection(f"{path.as_uri()}?mode=ro&immutable=1", Watch(Stopping()))
    with pytest.raises(stop):
        database.rows("SELECT count(*) FROM many a, many b WHERE a.x + b.x < 0")
    assert looks == 3
    database.close()


def test_a_query_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    path = recording(tmp_path / "run.sqlite", count=2000)
    database = GuardedConnection(f"{path.as_uri()}?mode=ro&immutable=1", Watch(longest_s=0.0))
    with pytest.raises(sqlite3.OperationalError, match="too long"):
        database.rows(f"SELECT count(*) FROM {KERNELS} a, {KERNELS} b WHERE a.start + b.start < 0")
    database.close()


def interrupted(folder: Path) -> Path:
    """A database with a journal beside it, as a program leaves them that is killed in the middle of a change."""
    theirs = folder / "theirs"
    theirs.mkdir()
    path = recording(theirs / "run.sqlite", count=5000)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA cache_size = 2")
    connection.execute(f'UPDATE {KERNELS} SET "end" = start - 1')
    copies = folder / "copy"
    copies.mkdir()
    for name in ("run.sqlite", "run.sqlite-journal"):
        (copies / name).write_bytes((theirs / name).read_bytes())
    connection.rollback()
    connection.close()
    return copies / "run.sqlite"


def test_a_journal_that_names_another_file_never_deletes_it(tmp_path: Path) -> None:
    path = interrupted(tmp_path)
    other = tmp_path / "thesis.txt"
    other.write_text("years of work")
    name = os.fsencode(other)
    journal = path.with_name("run.sqlite-journal")
    end = journal.read_bytes()
    end += bytes(-len(end) % 512) + struct.pack(">I", (1 << 30) // 4096 + 1) + name
    end += struct.pack(">II", len(name), sum(name)) + bytes.fromhex("d9d505f920a163d7")
    journal.write_bytes(end)
    trace = open_trace([path])
    assert other.read_text() == "years of work"
    assert any(note.kind == "changes left out" for note in trace.quality.notes)


def test_changes_for_which_there_is_no_room_are_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = interrupted(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("parsers.sqlite.read_only.shutil.copyfile", full)
    trace = open_trace([path])
    assert any(note.kind == "changes left out" for note in trace.quality.notes)


def test_a_pipe_is_no_database(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.sqlite")
    with pytest.raises(Malformed, match="not a regular file"):
        Database.open(tmp_path / "run.sqlite")


def in_wal_mode(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()


@pytest.mark.parametrize("changed", [in_wal_mode, lambda _: None], ids=["write-ahead", "usual"])
def test_nothing_lies_beside_a_database_while_it_is_open(
    tmp_path: Path, changed: Callable[[Path], None]
) -> None:
    path = recording(tmp_path / "run.sqlite")
    changed(path)
    database = Database.open(path)
    assert database.rows(f"SELECT count(*) FROM {KERNELS}") == [(3,)]
    assert [file.name for file in tmp_path.iterdir()] == ["run.sqlite"]
    database.close()
