"""How much of databases, and of what is kept of recordings, is read and believed, each with a case on either side."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import MemoryKind, Progress
from parsers.nsys import arguments, conversion, export, memory_use, metrics
from parsers.nsys.reading import Reading, RowCodes, _all_plausible, thread_id
from parsers.sqlite import database, guarded, private_copy, read_only, row_source
from parsers.sqlite.database import Database, TableDamaged, _Query, _Room
from parsers.sqlite.guarded import GuardedConnection
from parsers.storage import cache, columns, entries
from tests.parsers.claimed import ClaimedList
from tests.parsers.nsys_exports import export as exported
from tests.parsers.nsys_exports import kernel

MB, GB, S = 1 << 20, 1 << 30, 1_000_000_000
DECADE_NS = 315_360_000_000_000_000


class Reached(Exception):
    """What would be done next."""


def sparse(path: Path, size: int) -> Path:
    """A file that takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


# --- nsys


def test_arguments_of_a_call_are_shown_with_200_frames() -> None:
    held = sqlite3.connect(":memory:")
    held.execute("CREATE TABLE chains (id, symbol, module, stackDepth)")
    held.execute("CREATE TABLE StringIds (id, value)")
    held.executemany("INSERT INTO chains VALUES (1, 1, 1, ?)", [(depth,) for depth in range(201)])
    held.execute("INSERT INTO StringIds VALUES (1, 'f')")
    table = SimpleNamespace(rows=lambda sql, key: held.execute(sql, key).fetchall())
    assert len(arguments._call_chain(cast(Any, table), "chains", 1)) == 200
    held.close()


def test_the_export_of_nsys_needs_170_bytes_for_an_event_of_16_bytes_or_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def require(_: Path, events: int, each: int, __: str) -> None:
        assert events == path.stat().st_size // 16
        assert each == 170
        raise Reached

    path = exported(tmp_path / "run.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": [kernel(1, 9)]}, {2: "k", 3: "k"})
    monkeypatch.setattr(Reading, "expect", lambda *_: 10**12)
    monkeypatch.setattr(export, "require_memory", require)
    with pytest.raises(Reached):
        open_trace([path])


def test_identifiers_of_threads_have_24_bits() -> None:
    assert thread_id(0x123 << 24 | 0xABCDEF) == 0xABCDEF


def test_identifiers_of_rows_tell_a_million_values_apart() -> None:
    codes = RowCodes(2)
    known = SimpleNamespace(of=lambda column: column, values=range(1 << 20))
    codes._columns = cast(Any, [known, known])
    codes.of(np.array([(1 << 20) - 1]), np.array([7]))
    assert codes.keys == [((1 << 20) - 1, 7)]


@pytest.mark.parametrize(("lasts", "plausible"), [(DECADE_NS, True), (DECADE_NS + 1, False)])
def test_the_reading_of_nsys_believes_ten_years(lasts: int, plausible: bool) -> None:
    assert _all_plausible(np.array([1]), np.array([1 + lasts])) is plausible


@pytest.mark.parametrize(("operation", "begins"), [(0, True), (1, False)])
def test_a_memory_use_of_nsys_is_an_allocation_or_a_release(
    operation: int, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("start", "process", "device", "kind", "bytes", "address")
    batch = {name: np.zeros(1, np.int64) for name in names} | {"operation": np.array([operation])}
    table = SimpleNamespace(
        columns=dict.fromkeys(("start", "bytes", "memoryOperationType")), expression=lambda *each: each
    )
    held = SimpleNamespace(table=lambda _: table)
    reading = SimpleNamespace(database=held, batches=lambda *_: [batch])
    monkeypatch.setattr(memory_use, "memory_kinds", lambda _: {0: MemoryKind.DEVICE})
    (found,) = memory_use._changes(cast(Any, reading)).values()
    assert found[0].begins.tolist() == [begins]


@pytest.mark.parametrize(("stated", "mhz"), [(1_000_000, 1_000_000), (1_000_001, 1.000001)])
def test_metrics_of_nsys_in_mhz_above_a_million_are_in_hertz(
    stated: int, mhz: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    asked = ("timestamp", "typeId", "metricId", "value")
    table = SimpleNamespace(columns=dict.fromkeys(asked), expression=lambda *each: each)
    batch = {"time": np.ones(1, np.int64), "type": np.zeros(1, np.int64), "metric": np.zeros(1, np.int64)}
    reading = SimpleNamespace(
        database=SimpleNamespace(table=lambda _: table, few=lambda *_: [(0, 0, "SM clock [MHz]")]),
        batches=lambda *_: [batch | {"value": np.array([stated])}],
    )
    monkeypatch.setattr(metrics, "gpus_known_as", lambda *_: {})
    monkeypatch.setattr(metrics, "add_counter", lambda *told: shown.append(float(told[4][0])))
    metrics.read_gpu_metrics(cast(Any, reading), cast(Any, None), {})
    assert shown == [mhz]


def test_a_conversion_by_nsys_is_done_where_the_database_is_four_times_as_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Process:
        returncode = 0
        _polled = iter([None, 0, 0])

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def poll(self) -> int | None:
            return next(self._polled)

        def wait(self, _: float) -> int:
            return 0

    steps = []
    monkeypatch.setattr("parsers.nsys.conversion.subprocess.Popen", Process)
    progress = SimpleNamespace(step=lambda share, _: steps.append(share))
    report, output = sparse(tmp_path / "run.nsys-rep", 1_000), sparse(tmp_path / "run.sqlite", 2_000)
    conversion._export(report, Path("nsys"), output, cast(Any, progress))
    assert steps == [0.5]


# --- SQLite


def test_a_database_has_four_bytes_for_a_row_and_its_text_becomes_twice_as_long(tmp_path: Path) -> None:
    path = sparse(tmp_path / "run.sqlite", 4_000)
    asked = SimpleNamespace(rows=lambda _: [(10**12,)], path=path)
    table = SimpleNamespace(has_rowid=True, rowid="rowid", name="t")
    assert Database.size(cast(Any, asked), cast(Any, table)) == 1_000
    assert _Room.of(4_000, None) == _Room(1_000, 8_000)


@pytest.mark.parametrize(("apart", "are_counted"), [(100_000, False), (100_001, True)])
def test_the_rows_of_a_database_are_counted_out_where_it_has_no_four_bytes_for_each_number(
    apart: int, are_counted: bool, tmp_path: Path
) -> None:
    asked = []

    def rows(sql: str, _: object = ()) -> list[tuple[int | None]]:
        asked.append(sql)
        return [(apart if "max" in sql else 0,)]

    stretched = SimpleNamespace(rows=rows, path=sparse(tmp_path / "run.sqlite", 400_000))
    next(Database._stretches(cast(Any, stretched), cast(Any, SimpleNamespace(has_rowid=True, name="t"))))
    assert any("OFFSET" in sql for sql in asked) is are_counted


def test_a_small_table_of_a_database_is_read_for_a_million_rows() -> None:
    asked: list[str] = []
    of_one = SimpleNamespace(
        table=lambda _: SimpleNamespace(name="t", __contains__=lambda _: True), rows=asked.append
    )
    Database.few(cast(Any, of_one), "t")
    assert asked[0].endswith("LIMIT 1048576")


@pytest.mark.parametrize(("most_rows", "longest_s"), [(None, 30.0), (10, 0.3)])
def test_a_query_of_a_database_takes_half_a_minute_or_in_a_preview_a_moment(
    most_rows: int | None, longest_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watch(_: Progress, longest: float, *, whole: bool) -> None:
        assert (longest, whole) == (longest_s, most_rows is not None)
        raise Reached

    monkeypatch.setattr(database, "Watch", watch)
    with pytest.raises(Reached):
        Database(Path("run.sqlite"), "", most_rows=most_rows)._connect()


def test_what_is_left_of_a_damaged_database_is_read_in_pieces_of_1024_rows(tmp_path: Path) -> None:
    read = []

    class Damaged(_Query):
        def _read(self, *asked: Any) -> Any:
            read.append(asked[1:])
            raise TableDamaged

    Damaged(
        Database(sparse(tmp_path / "run.sqlite", 1), ""), cast(Any, SimpleNamespace(name="t")), {}, ""
    ).fetch(None)
    assert read == [(False, 65_536), (True, 1_024)]


def test_a_guarded_database_is_waited_for_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(_: str, *, timeout: float, **__: object) -> None:
        assert timeout == 2.0
        raise Reached

    monkeypatch.setattr("parsers.sqlite.guarded.sqlite3.connect", connect)
    with pytest.raises(Reached):
        GuardedConnection("")


@pytest.mark.parametrize(("count", "is_read"), [(5_000, True), (5_001, False)])
def test_a_guarded_database_has_5000_tables(count: int, is_read: bool) -> None:
    asked = cast(Any, SimpleNamespace(rows=lambda sql: [(count,)] if "count" in sql else []))
    if is_read:
        GuardedConnection._find_tables(asked)
    else:
        with pytest.raises(sqlite3.DataError, match="5,001 tables"):
            GuardedConnection._find_tables(asked)


@pytest.mark.parametrize(
    ("ask", "home", "longest_s"),
    [
        (lambda path: read_only._listed(path, 0, 0), guarded, 2.0),
        (lambda path: row_source.RowSource.of(path, lambda *_: {}).arguments(0), row_source, 1.0),
    ],
    ids=["for its tables, read only", "for one row, as a row source"],
)
def test_a_database_is_asked_for_a_moment(
    ask: Callable[[Path], object],
    home: Any,
    longest_s: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def watch(*, longest_s: float, whole: bool) -> None:
        asked.append(longest_s)
        raise OSError

    asked: list[float] = []
    monkeypatch.setattr(home, "Watch", watch)
    ask(exported(tmp_path / "run.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": [kernel(1, 9)]}, {2: "k", 3: "k"}))
    assert asked == [longest_s]


def test_a_private_copy_leaves_half_a_gigabyte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=GB))
    assert private_copy.room_for_more(tmp_path) == 512 * MB


def test_a_row_source_knows_rows_by_40_bits() -> None:
    packed = row_source.source_rows(3, np.array([(1 << 40) - 1, 1 << 40]))
    assert row_source.place_of(int(packed[0])) == (3, (1 << 40) - 1)
    assert int(packed[1]) == -1


# --- what is kept


@pytest.mark.parametrize(
    ("events", "size", "is_kept"),
    [(200_000, 4_000_000_000, True), (199_999, 1, False), (200_000, 4_000_000_001, False)],
    ids=["the least and the most", "too few events", "too much"],
)
def test_the_cache_keeps_recordings_of_200000_events_in_four_gigabytes(
    events: int, size: int, is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = SimpleNamespace(format="f", state=(1, 1), file="f")
    trace = SimpleNamespace(events=ClaimedList(events), kernels=(), inputs=[origin])
    monkeypatch.setattr(cache, "reopenable_parser", lambda _: SimpleNamespace(format="f", version=1))
    monkeypatch.setattr("parsers.storage.traces.bytes_of", lambda _: size)
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    assert (cache._entry_for(cast(Any, trace)) is not None) is is_kept


def test_columns_lie_at_multiples_of_64_bytes() -> None:
    packed = columns.encoded({"a": np.ones(1, np.uint8), "b": np.ones(1, np.int64)})
    found = columns.decoded(packed)[1]
    assert found["b"].ctypes.data - found["a"].ctypes.data == 64


@pytest.mark.parametrize(("hours_ahead", "kept"), [(23, "ahead"), (25, "now")])
def test_entries_used_more_than_a_day_ahead_were_used_while_the_clock_was_wrong(
    hours_ahead: int, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_700_000_000.0
    monkeypatch.setattr("parsers.storage.entries.time.time", lambda: now)
    for name, used in (("ahead", now + hours_ahead * 3_600), ("now", now)):
        (tmp_path / name).write_bytes(b"0123456789")
        os.utime(tmp_path / name, (used, used))
    entries.trim(tmp_path, 10)
    assert [each.name for each in tmp_path.iterdir()] == [kept]
