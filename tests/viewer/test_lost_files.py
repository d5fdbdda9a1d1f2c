"""Files that vanish, change, cannot be written or are shown twice: nothing is lost, and the window says why."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QLabel, QMessageBox
from pytestqt.qtbot import QtBot

import resources
from tests.examples import one_of
from tests.limits import room_in_a_file
from tests.parsers.chrome.traces import Event, complete, kernel, launch, text_of
from tests.parsers.nsys_exports import call, export
from tests.parsers.nsys_exports import kernel as nsys_kernel
from viewer.cli import main
from viewer.dialogs.page_dialog import QualityDialog
from viewer.panels.tables.table_view import Column, TableView
from viewer.user_data.session import Session, SessionError, session_path
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_ready

SAMPLE = resources.path("samples/elementwise_chain.pt.trace.json.gz")


def events(count: int = 60) -> list[Event]:
    found = []
    for number in range(count):
        at = number * 100
        found.append(complete("aten::mm", at, 80, args={"Input Dims": [[number, 2]], "which": number}))
        found.append(launch(at + 10, number + 1))
        found.append(kernel("gemm", at + 20, 60, number + 1, which=number))
    return found


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_text(text_of(events()))
    return path


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    kernels = [nsys_kernel(number * 1000 + 500, number * 1000 + 900, number + 1) for number in range(60)]
    calls = [call(number * 1000 + 100, number * 1000 + 200, number + 1) for number in range(60)]
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": kernels, "CUPTI_ACTIVITY_KIND_RUNTIME": calls}
    return export(tmp_path / "run.sqlite", tables)


def opened(window: MainWindow, qtbot: QtBot, path: Path) -> MainWindow:
    window.open([path])
    wait_until_ready(qtbot, window)
    assert window.document.trace is not None
    return window


def removed(path: Path) -> None:
    path.unlink()


def replaced_by_another(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(SAMPLE.read_bytes())
    other.replace(path)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut_in_place(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("happens", "form"),
    [
        (cut_in_place, "recording"),
        pytest.param(replaced_by_another, "exported", marks=pytest.mark.thorough),
        pytest.param(removed, "recording", marks=pytest.mark.thorough),
        pytest.param(emptied, "exported", marks=pytest.mark.thorough),
        pytest.param(removed, "exported", marks=pytest.mark.thorough),
        pytest.param(replaced_by_another, "recording", marks=pytest.mark.thorough),
        pytest.param(cut_in_place, "exported", marks=pytest.mark.thorough),
        pytest.param(emptied, "recording", marks=pytest.mark.thorough),
    ],
)
def test_a_file_that_changes_while_it_is_open_costs_arguments_only_and_is_said(
    empty_window: MainWindow,
    qtbot: QtBot,
    request: pytest.FixtureRequest,
    form: str,
    happens: Callable[[Path], None],
) -> None:
    path: Path = request.getfixturevalue(form)
    window = opened(empty_window, qtbot, path)
    trace = window.document.trace
    assert trace is not None
    starts = trace.events.start.copy()
    window.document.select_event(int(trace.gpu_operations[3]))
    wait_until_ready(qtbot, window)
    assert not window.banner.isVisible()
    happens(path)
    window.document.select_event(int(trace.gpu_operations[30]))
    wait_until_ready(qtbot, window)
    assert window.banner.isVisible()
    assert path.name in window.banner.problem.text()
    assert "changed or is gone" in window.banner.problem.text()
    assert window.document.trace is trace
    assert (trace.events.start == starts).all()
    for title in window.panels.titles():
        show_tab(window, qtbot, title)
    window.timeline.show_interval(0, trace.duration, animate=False)
    assert not window.grab().isNull()
    window.banner.hide()
    window.document.select_event(int(trace.gpu_operations[31]))
    wait_until_ready(qtbot, window)
    assert not window.banner.isVisible(), "it is said once"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes among the files")
def test_a_pipe_that_is_opened_is_refused_and_nobody_waits_for_it(
    empty_window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "run.stallscope")
    empty_window.open([tmp_path / "run.stallscope"])
    wait_until_ready(qtbot, empty_window)
    assert "not a regular file" in empty_window.banner.problem.text()


@pytest.mark.parametrize(("packed", "part"), one_of(3, [(True, 60_000), (False, 60_000), (True, 0.9)]))
def test_a_file_that_is_cut_off_says_so_first_and_a_click_tells_what_is_missing(
    empty_window: MainWindow, qtbot: QtBot, tmp_path: Path, packed: bool, part: float
) -> None:
    whole = resources.path("samples/healthy.pt.trace.json.gz").read_bytes()
    whole = whole if packed else gzip.decompress(whole)
    path = tmp_path / ("run.json.gz" if packed else "run.json")
    path.write_bytes(whole[: int(part * len(whole)) if part < 1 else int(part)])
    window = opened(empty_window, qtbot, path)
    assert window.verdict.sentence.text().startswith("The recording stops in the middle: ")
    assert "Copy the file again" in window.verdict.where.text()
    assert window.status.badge.text().endswith("events, cut off")
    qtbot.mouseClick(window.status.badge, Qt.MouseButton.LeftButton)
    (shown,) = (each for each in window.findChildren(QualityDialog) if each.isVisible())
    told = " ".join(each.text() for each in shown.findChildren(QLabel))
    assert "the file ends in the middle of an event" in told
    assert ("the gzip data ends early" in told) is packed
    qtbot.keyClick(shown, Qt.Key.Key_Escape)
    assert not shown.isVisible()


def test_a_file_that_was_replaced_opens_as_what_it_is_now(
    empty_window: MainWindow, qtbot: QtBot, recording: Path
) -> None:
    window = opened(empty_window, qtbot, recording)
    recording.write_text(text_of(events(90)))
    opened(window, qtbot, recording)
    assert window.document.trace is not None
    assert len(window.document.trace.events) == 270


def test_two_windows_on_one_file_keep_the_bookmarks_of_both(
    make_window: Callable[..., MainWindow], qtbot: QtBot, recording: Path
) -> None:
    one, other = (opened(make_window(), qtbot, recording) for _ in range(2))
    for number, window in enumerate((one, other, one, other)):
        window.bookmarks.add((number * 10, number * 10 + 5))
    titles = [(mark.start, mark.end) for mark in Session(session_path([recording]), [recording]).bookmarks()]
    assert titles == [(0, 5), (10, 15), (20, 25), (30, 35)]
    one.close()
    other.bookmarks.add((40, 45))
    assert len(other.bookmarks.bookmarks) == 5


@pytest.fixture
def full(recording: Path) -> Iterator[Session]:
    """A session whose database may not grow, as on a full disk."""
    session = Session(session_path([recording]), [recording])
    session.add(1, 2, "kept before")
    connection = session._writable().conn
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    yield session
    session.close()


def test_a_bookmark_that_finds_the_disk_full_is_said_and_the_others_stay(
    empty_window: MainWindow, qtbot: QtBot, recording: Path, full: Session
) -> None:
    with pytest.raises(SessionError, match="full"):
        full.add(1, 2, "x" * 100_000)
    window = opened(empty_window, qtbot, recording)
    window.bookmarks.use(full)
    full.keep("lanes", {})
    window.bookmarks._do(lambda session: session.add(5, 6, "x" * 100_000))
    assert window.banner.isVisible()
    assert "could not be written" in window.banner.problem.text()
    assert [mark.title for mark in window.bookmarks.bookmarks] == ["kept before"]


@pytest.mark.parametrize("happens", one_of(3, [removed, emptied, cut_in_place]))
def test_a_session_that_is_destroyed_under_the_window_is_said(
    empty_window: MainWindow, qtbot: QtBot, recording: Path, happens: Callable[[Path], None]
) -> None:
    window = opened(empty_window, qtbot, recording)
    window.bookmarks.add((0, 5))
    happens(session_path([recording]))
    window.bookmarks.add((10, 15))
    assert window.banner.isVisible()
    opened(window, qtbot, SAMPLE)
    assert window.document.paths == (SAMPLE,)


def test_a_copy_of_a_session_that_cannot_be_written_leaves_the_old_file(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(session_path([recording]), [recording])
    session.add(1, 2, "mine")
    target = session.copy_to(tmp_path / "notes.stallscope").path
    before = target.read_bytes()

    def full_disk(_: object, part: Path) -> None:
        part.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("viewer.user_data.session.shutil.copyfile", full_disk)
    with pytest.raises(SessionError, match="No space left"):
        session.copy_to(target)
    assert target.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["notes.stallscope", "run.json"]
    assert [mark.title for mark in session.bookmarks()] == ["mine"]


def chosen(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, **__: (str(path), ""))


def test_a_table_that_cannot_be_written_is_said_and_leaves_the_old_file(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableView([Column("name", "Name")], "Kernels")
    qtbot.addWidget(table)
    table.set_frame(pd.DataFrame({"name": ["a"]}))
    target = tmp_path / "kernels.csv"
    chosen(monkeypatch, target)
    table.export_csv()
    assert target.read_text() == "Name\na\n"

    def full_disk(path: Path, *_: str) -> int:
        with path.open("w") as file:
            file.write("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    table.set_frame(pd.DataFrame({"name": ["b"]}))
    table.export_csv()
    (box,) = table.findChildren(QMessageBox)
    assert "kernels.csv could not be written: No space left on device." in box.text()
    assert target.read_text() == "Name\na\n"
    assert [file.name for file in tmp_path.iterdir()] == ["kernels.csv"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("as_svg", [False, True])
def test_a_picture_that_finds_the_disk_full_is_said(window: MainWindow, as_svg: bool) -> None:
    assert not window.acts.write_picture(Path("/dev/full"), as_svg=as_svg)
    assert "No space left on device" in window.banner.problem.text()


@pytest.mark.parametrize(
    "words",
    [
        ["diagnose", "--html", "OUT", str(SAMPLE)],
        ["compare", "--html", "OUT", str(SAMPLE), str(SAMPLE)],
        ["convert", str(SAMPLE), "--to", "csv", "OUT"],
        ["convert", str(SAMPLE), "--to", "chrome", "OUT"],
        ["convert", str(SAMPLE), "--to", "parquet", "OUT"],
    ],
    ids=lambda words: " ".join(words[:2] + words[2:4][-1:])[:24],
)
def test_a_report_that_does_not_fit_on_the_disk_leaves_the_old_one(
    tmp_path: Path, words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.file"
    out.write_text("what was here before")
    with room_in_a_file(1000):
        code = main([str(out) if word == "OUT" else word for word in words])
    said = capfd.readouterr().err
    assert code == 2, said
    assert said.count("\n") == 1
    assert "could not be written" in said
    assert out.read_text() == "what was here before"
    assert [file.name for file in tmp_path.iterdir()] == ["out.file"]


def reads(process: int, path: Path) -> bool:
    """Whether a process, or one that it started, has the file open."""
    folder = Path(f"/proc/{process}/fd")
    try:
        if any(os.readlink(folder / number) == str(path) for number in os.listdir(folder)):
            return True
        threads = Path(f"/proc/{process}/task").iterdir()
        started = [each for thread in threads for each in (thread / "children").read_text().split()]
    except OSError:
        return False
    return any(reads(int(each), path) for each in started)


def killed_while_it_reads(command: list[str], path: Path, folder: Path) -> bool:
    """Start a program and kill it while it has the file open; False where it was done before that was seen."""
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=nowhere, stderr=nowhere, cwd=folder) as process:
        while process.poll() is None:
            if reads(process.pid, path):
                process.kill()
                return process.wait() == -signal.SIGKILL
            time.sleep(0.01)
    return False


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="only Linux tells which files a process has open"
)
@pytest.mark.thorough
def test_a_load_that_is_killed_leaves_nothing_that_hurts_the_next_one(
    tmp_path: Path, repository: Path, fresh_home: Path
) -> None:
    path = tmp_path / "large.json"
    path.write_text(text_of(events(15_000)))
    before = path.read_bytes()
    command = [sys.executable, "-m", "viewer.cli", "diagnose", "--json", str(path)]
    assert any(killed_while_it_reads(command, path, repository) for _ in range(20))
    answer = subprocess.run(command, capture_output=True, cwd=repository, check=True)
    assert json.loads(answer.stdout)["quality"]["events_kept"] == 45_000
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["large.json"]
    parts = [file for file in fresh_home.rglob("*") if file.name.endswith((".part", ".partial"))]
    assert parts == []


def test_the_cache_of_a_reader_in_a_folder_that_may_not_be_written_is_no_obstacle(
    empty_window: MainWindow, qtbot: QtBot, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from parsers.storage import cache

    monkeypatch.setattr(cache, "MIN_EVENTS", 1)
    monkeypatch.setattr(cache, "folder", lambda: Path("/proc/no such folder"))
    window = opened(empty_window, qtbot, recording)
    assert not window.banner.isVisible()
    assert window.document.trace is not None
    assert len(window.document.trace.events) == 180


def test_a_session_locked_by_another_program_is_said(
    empty_window: MainWindow, qtbot: QtBot, recording: Path
) -> None:
    window = opened(empty_window, qtbot, recording)
    window.bookmarks.add((0, 5))
    session = window.bookmarks.session
    assert session is not None
    session._writable().conn.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(session.path)
    other.execute("BEGIN EXCLUSIVE")
    window.bookmarks.add((10, 15))
    assert "locked" in window.banner.problem.text()
    other.rollback()
    other.close()
    window.bookmarks.add((20, 25))
    assert [mark.start for mark in window.bookmarks.bookmarks] == [0, 20]
