"""Databases in any state open or are refused with one sentence, and nothing is ever written beside them."""

from __future__ import annotations

import gzip
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.files.unpacking_limit import available_bytes
from parsers.model import Cancelled, Malformed, Progress, TraceError, UnknownFormat
from parsers.sqlite import private_copy
from tests.examples import examples
from tests.parsers.nsys_exports import call, export, kernel, nvtx, write_table

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that must hold the same files afterwards."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    yield theirs
    assert not list(theirs.glob("*-shm")), "a file was made beside the recording"


def recording(folder: Path, count: int = 3) -> Path:
    rows = [kernel(number * 10 + 1, number * 10 + 5, number + 1) for number in range(count)]
    calls = [call(number * 10, number * 10 + 1, number + 1) for number in range(count)]
    return export(folder / "run.sqlite", {KERNELS: rows, "CUPTI_ACTIVITY_KIND_RUNTIME": calls})


def test_changes_that_lie_in_a_wal_are_read_from_a_private_copy(folder: Path) -> None:
    path = recording(folder)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute(f"INSERT INTO {KERNELS} SELECT * FROM {KERNELS} WHERE rowid = 1")
    connection.commit()
    copies = folder.parent / "copy"
    copies.mkdir()
    for name in ("run.sqlite", "run.sqlite-wal"):
        (copies / name).write_bytes((folder / name).read_bytes())
    connection.close()
    before = {file.name: file.stat().st_mtime_ns for file in copies.iterdir()}
    trace = open_trace([copies / "run.sqlite"])
    assert len(trace.gpu_operations) == 4
    assert trace.arguments(0)
    assert {file.name: file.stat().st_mtime_ns for file in copies.iterdir()} == before


def test_a_write_that_was_interrupted_is_rolled_back_in_a_private_copy(folder: Path) -> None:
    path = recording(folder, 5000)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA cache_size = 2")
    connection.execute(f'UPDATE {KERNELS} SET "end" = start - 1')
    copies = folder.parent / "copy"
    copies.mkdir()
    for name in ("run.sqlite", "run.sqlite-journal"):
        (copies / name).write_bytes((folder / name).read_bytes())
    connection.rollback()
    connection.close()
    before = {file.name: file.stat().st_mtime_ns for file in copies.iterdir()}
    trace = open_trace([copies / "run.sqlite"])
    assert (len(trace.gpu_operations), trace.quality.quarantined) == (5000, 0)
    assert {file.name: file.stat().st_mtime_ns for file in copies.iterdir()} == before


def test_a_database_in_wal_mode_without_its_wal_opens(folder: Path) -> None:
    path = recording(folder)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert [file.name for file in folder.iterdir()] == ["run.sqlite"]
    assert len(open_trace([path]).gpu_operations) == 3
    assert [file.name for file in folder.iterdir()] == ["run.sqlite"]


def test_a_read_only_folder_and_file_open(folder: Path) -> None:
    path = recording(folder)
    path.chmod(0o400)
    folder.chmod(0o500)
    try:
        assert len(open_trace([path]).gpu_operations) == 3
    finally:
        folder.chmod(0o700)


def test_a_database_that_another_program_has_locked_opens_and_says_so(folder: Path) -> None:
    path = recording(folder)
    other = sqlite3.connect(path)
    other.execute("BEGIN EXCLUSIVE")
    try:
        trace = open_trace([path])
    finally:
        other.rollback()
        other.close()
    assert len(trace.gpu_operations) == 3
    assert any(note.kind == "database in use" for note in trace.quality.notes)


@pytest.mark.parametrize("name", ["with space#and%20?.sqlite", "über ➜.sqlite", "run.pb"])
def test_a_name_with_odd_characters_is_no_obstacle(folder: Path, name: str) -> None:
    path = recording(folder).rename(folder / name)
    trace = open_trace([path])
    assert trace.arguments(0)


def test_a_table_that_is_cut_off_is_shown_up_to_the_cut(folder: Path) -> None:
    path = recording(folder, 20_000)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    trace = open_trace([path])
    assert 1_000 < len(trace.gpu_operations) <= 20_000
    assert any(note.kind == "damaged table" for note in trace.quality.notes)


def test_a_database_that_is_cut_off_in_its_first_page_is_refused(folder: Path) -> None:
    path = recording(folder)
    for size in (20, 99, 100, 700, 4000):
        short = folder / f"{size}.sqlite"
        short.write_bytes(path.read_bytes()[:size])
        with pytest.raises(TraceError) as caught:
            open_trace([short])
        assert caught.value.hint
        short.unlink()


def test_a_database_of_something_else_is_refused_by_name(folder: Path) -> None:
    path = folder / "photos.sqlite"
    connection = sqlite3.connect(path)
    write_table(connection, "photos", [{"id": 1, "start": 5}])
    connection.commit()
    connection.close()
    with pytest.raises(UnknownFormat, match="not written by a supported profiler"):
        open_trace([path])


@pytest.mark.parametrize(
    ("table", "whose", "instead"),
    [
        ("StringTable", "nvprof wrote", "--print-gpu-trace --csv"),
        ("CANN_API", "Ascend's profiler wrote", "trace_view.json"),
    ],
)
def test_databases_of_other_profilers_are_refused_with_what_to_open(
    folder: Path, table: str, whose: str, instead: str
) -> None:
    path = folder / "run.sqlite"
    connection = sqlite3.connect(path)
    write_table(connection, table, [{"id": 1}])
    write_table(connection, "CUPTI_ACTIVITY_KIND_KERNEL", [{"start": 1, "end": 2, "name": 1}])
    connection.commit()
    connection.close()
    with pytest.raises(UnknownFormat, match=whose) as refused:
        open_trace([path])
    assert instead in refused.value.hint


def test_text_that_only_begins_like_a_database_is_refused(folder: Path) -> None:
    path = folder / "run.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"not really " * 1000)
    with pytest.raises(TraceError):
        open_trace([path])


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_compressed_database_opens_and_its_arguments_too(folder: Path, pack) -> None:  # type: ignore[no-untyped-def]
    path = recording(folder)
    packed = folder / "run.bin"
    packed.write_bytes(pack(path.read_bytes()))
    path.unlink()
    trace = open_trace([packed])
    assert len(trace.gpu_operations) == 3
    assert trace.inputs[0].path == str(packed)
    assert trace.arguments(0)["correlationId"]
    assert [file.name for file in folder.iterdir()] == ["run.bin"]


def test_a_compressed_database_that_is_cut_off_is_refused(folder: Path) -> None:
    path = recording(folder, 5000)
    packed = gzip.compress(path.read_bytes())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(Malformed, match="cut off or damaged"):
        open_trace([path])
    assert not list(private_copy.cache_folder().iterdir()), "an unfinished copy was left behind"


def test_a_compressed_bomb_stops_at_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parsers.sqlite.private_copy.room_for_more", lambda _: 10_000_000)
    path = folder / "bomb.sqlite.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"SQLite format 3\0")
        for _ in range(40):
            file.write(bytes(1_000_000))
    with pytest.raises(TraceError, match="not enough space"):
        open_trace([path])
    assert not list(private_copy.cache_folder().iterdir())


def test_a_full_disk_is_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recording(folder)
    path.write_bytes(gzip.compress(path.read_bytes()))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("parsers.sqlite.private_copy.os.replace", full)
    with pytest.raises(TraceError, match="No space left"):
        open_trace([path])


def test_old_copies_make_room_for_new_ones(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_copy, "KEPT_BYTES", 150)
    cache = private_copy.cache_folder()
    for age, name in ((300, "oldest"), (200, "old"), (100, "new")):
        (cache / name).write_bytes(bytes(100))
        os.utime(cache / name, (1_700_000_000 - age, 1_700_000_000 - age))
    monkeypatch.setattr(private_copy.time, "time", lambda: 1_700_000_000.0)
    path = recording(folder)
    path.write_bytes(gzip.compress(path.read_bytes()))
    open_trace([path])
    assert "oldest" not in {file.name for file in cache.iterdir()}
    assert "new" in {file.name for file in cache.iterdir()}


def test_a_file_that_is_replaced_or_gone_has_no_arguments(folder: Path) -> None:
    path = recording(folder)
    trace = open_trace([path])
    assert trace.arguments(0)
    path.unlink()
    assert trace.arguments(0) == {}
    recording(folder, 4)
    assert trace.arguments(0) == {}, "rows of another recording would be lies"


def test_a_load_can_be_cancelled(folder: Path) -> None:
    path = recording(folder, 1000)
    seen: list[float] = []
    progress = Progress(
        lambda fraction, _: (seen.append(fraction), progress.cancel() if len(seen) == 3 else None)
    )
    with pytest.raises(Cancelled):
        open_trace([path], progress)
    assert len(seen) == 3


def test_progress_never_goes_back_and_ends_near_one(folder: Path) -> None:
    path = recording(folder, 1000)
    seen: list[float] = []
    open_trace([path], Progress(lambda fraction, _: seen.append(fraction)))
    assert seen == sorted(seen)
    assert seen[-1] > 0.8


def test_an_export_that_cannot_fit_in_memory_is_refused_with_both_numbers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recording(folder, 2000)
    monkeypatch.setattr("parsers.files.unpacking_limit.available_bytes", lambda: 4000 * 170 * 10 // 9 + 2)
    assert len(open_trace([path]).gpu_operations) == 2000
    monkeypatch.setattr("parsers.files.unpacking_limit.available_bytes", lambda: 4000 * 170 * 10 // 9 - 2)
    with pytest.raises(
        TraceError, match=r"about 4,000 events, which need 0\.0 GB of memory; 0\.0 GB are free"
    ):
        open_trace([path])


def test_the_memory_of_this_computer_is_known() -> None:
    free = available_bytes()
    assert free is not None
    assert 10**7 < free < 10**15


def test_names_of_any_kind_stay_text(folder: Path) -> None:
    odd = [
        "<b>bold</b>",
        "\x1b[31mred",
        "\u202eright to left",
        "=cmd()",
        "a\x00b",
        "x" * 1_000_000,
        "\ud83d".encode("utf-8", "surrogatepass"),
    ]
    rows = [nvtx(number * 10 + 1, number * 10 + 5, text) for number, text in enumerate(odd)]  # type: ignore[arg-type]
    trace = open_trace([export(folder / "run.sqlite", {"NVTX_EVENTS": rows})])
    names = {trace.name(event) for event in range(len(trace.events))}
    assert {"<b>bold</b>", "\x1b[31mred", "=cmd()"} <= names
    assert len(trace.events) == len(odd)


@pytest.mark.parametrize("count", [3_000, pytest.param(30_000, marks=pytest.mark.thorough)])
def test_thousands_of_lanes_open(folder: Path, count: int) -> None:
    rows = [kernel(number + 1, number + 2, streamId=number) for number in range(count)]
    trace = open_trace([export(folder / "run.sqlite", {KERNELS: rows})])
    assert len(trace.lanes) == count


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return recording(tmp_path_factory.mktemp("healthy"), 60).read_bytes()


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_never_crash_the_reader(tmp_path: Path, healthy: bytes, data: st.DataObject) -> None:
    damaged = bytearray(healthy)
    for _ in range(data.draw(st.integers(1, 30))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(bytes(damaged[: data.draw(st.integers(1, len(damaged)))]))
    try:
        trace = open_trace([path])
    except TraceError:
        return
    assert trace.quality.events_read == trace.quality.events_kept + trace.quality.quarantined


@pytest.mark.parametrize("broken", ["missing", "does not load"])
def test_a_driver_that_cannot_be_loaded_is_not_called_damage_of_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    import adbc_driver_sqlite.dbapi
    from adbc_driver_manager import InternalError

    path = recording(folder)

    def fails(*_: object, **__: object) -> None:
        raise InternalError("dlopen() failed: libadbc_driver_sqlite.so: wrong ELF class", status_code=9)

    if broken == "missing":
        monkeypatch.setitem(sys.modules, "adbc_driver_sqlite", None)
    else:
        monkeypatch.setattr(adbc_driver_sqlite.dbapi, "connect", fails)
    with pytest.raises(TraceError, match="its driver does not load") as caught:
        open_trace([path])
    assert "The file is fine" in caught.value.hint
