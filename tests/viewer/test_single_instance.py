"""A second start hands its files to the running program."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

import resources
import viewer.app
from parsers.files.fetched import address_of
from parsers.files.fetched import folder as copies
from parsers.model import TraceError
from viewer.app import local_path
from viewer.desktop.single_instance import (
    AGREED,
    ANSWER,
    PROTOCOL,
    Request,
    SingleInstance,
    runtime_folder,
    session_key,
)
from viewer.dialogs.second_recording import SecondRecordingOffer
from viewer.documents.document import Stage
from viewer.window.main_window import MainWindow

KEY = "test"
SAMPLES = resources.path("samples")
ONE, OTHER = SAMPLES / "sync_item.pt.trace.json.gz", SAMPLES / "pageable_copy.pt.trace.json.gz"
UNRELATED = SAMPLES / "elementwise_chain.pt.trace.json.gz"


@pytest.fixture
def make_instance(qtbot: QtBot, fresh_home: Path) -> Iterator[Callable[[], SingleInstance]]:
    """Makes instances that share one folder, and closes them."""
    made: list[SingleInstance] = []

    def make() -> SingleInstance:
        instance = SingleInstance(fresh_home / ".run", KEY)
        made.append(instance)
        return instance

    yield make
    for instance in reversed(made):
        instance.close()


@pytest.fixture
def asked(make_instance: Callable[[], SingleInstance]) -> list[Request]:
    """What the first program hears."""
    first, heard = make_instance(), list[Request]()
    first.asked.connect(heard.append)
    assert first.start(Request())
    assert first.is_first
    return heard


LATER = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from viewer.desktop.single_instance import Request, SingleInstance

application = QCoreApplication([])
sys.exit(SingleInstance(Path(sys.argv[1]), sys.argv[2]).start(Request.unpacked(sys.stdin.buffer.read())))
"""


def test_a_later_start_hands_its_files_over(asked: list[Request], fresh_home: Path, qtbot: QtBot) -> None:
    wanted = Request((Path("/tmp/a b/ränk 0.json"), Path(os.fsdecode(b"/tmp/\xff.gz"))), 31_200_000)
    later = [sys.executable, "-c", LATER, str(fresh_home / ".run"), KEY]
    with subprocess.Popen(later, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(wanted.packed())
        process.stdin.close()
        qtbot.waitUntil(lambda: bool(asked))
    assert process.returncode == 0, "it opens no window of its own"
    assert asked == [wanted]


def test_relative_paths_are_those_of_the_later_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    request = Request.unpacked(Request((Path("x.json"),)).packed())
    assert request is not None
    assert request.paths == (tmp_path / "x.json",)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello\n",
        b"[]\n",
        b'{"protocol": 99, "paths": [], "at": null, "tokens": {}}\n',
        b'{"protocol": 2}\n',
        b'{"protocol": 2, "paths": 3, "at": null, "tokens": {}}\n',
        b'{"protocol": 2, "paths": [], "at": null, "tokens": []}\n',
    ],
)
def test_what_is_no_request_is_refused(line: bytes) -> None:
    assert Request.unpacked(line) is None


def test_only_the_desktops_own_variables_are_taken_over() -> None:
    request = Request((), None, {"XDG_ACTIVATION_TOKEN": "t", "LD_PRELOAD": "x"})
    unpacked = Request.unpacked(request.packed())
    assert unpacked is not None
    assert unpacked.tokens == {"XDG_ACTIVATION_TOKEN": "t"}


def test_a_refused_request_gets_no_answer(asked: list[Request], fresh_home: Path, qtbot: QtBot) -> None:
    answers: list[bytes] = []

    def talk() -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(fresh_home / ".run" / KEY))
            client.sendall(b"hello\n")
            answers.append(client.recv(64))

    thread = threading.Thread(target=talk)
    thread.start()
    qtbot.waitUntil(lambda: bool(answers))
    thread.join()
    assert answers == [b""]
    assert asked == []


def test_what_a_killed_program_left_does_not_matter(
    make_instance: Callable[[], SingleInstance], fresh_home: Path
) -> None:
    code = (
        "import os, sys; from pathlib import Path; from viewer.desktop.single_instance import Request, SingleInstance;"
        "from PySide6.QtCore import QCoreApplication; application = QCoreApplication([]);"
        f"first = SingleInstance(Path(sys.argv[1]), {KEY!r}); assert first.start(Request()); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(fresh_home / ".run")], check=True)
    assert (fresh_home / ".run" / KEY).exists()
    instance = make_instance()
    assert instance.start(Request())
    assert instance.is_first


def test_whoever_gave_up_waiting_is_not_opened_a_second_time(
    asked: list[Request], fresh_home: Path, qtbot: QtBot
) -> None:
    for request, agrees in ((Request((Path("/gave up"),)), False), (Request((Path("/waited"),)), True)):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(fresh_home / ".run" / KEY))
            client.sendall(request.packed())
            if agrees:
                client.setblocking(False)
                qtbot.waitUntil(lambda client=client: _answered(client))
                client.sendall(AGREED)
    qtbot.waitUntil(lambda: bool(asked))
    assert asked == [Request((Path("/waited"),))]


def _answered(client: socket.socket) -> bool:
    try:
        return client.recv(64) == ANSWER
    except BlockingIOError:
        return False


def test_files_handed_over_at_once_while_the_program_is_busy_are_each_opened_once(
    asked: list[Request], fresh_home: Path, qtbot: QtBot
) -> None:
    wanted = [Request((Path(f"/tmp/rank{number}.json"),)) for number in range(3)]
    command = [sys.executable, "-c", LATER, str(fresh_home / ".run"), KEY]
    others: list[subprocess.Popen[bytes]] = []
    for each in wanted:
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(each.packed())
        process.stdin.close()
        others.append(process)
    time.sleep(0.5)  # the first hears nothing meanwhile
    qtbot.waitUntil(lambda: all(each.poll() is not None for each in others))
    assert [each.returncode for each in others] == [0] * len(wanted), "none opens a window of its own"
    assert sorted(each.paths for each in asked) == [each.paths for each in wanted]


def test_a_program_that_does_not_answer_is_not_waited_for_long(
    make_instance: Callable[[], SingleInstance], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewer.desktop.single_instance.ANSWER_MS", 50)
    monkeypatch.setattr("viewer.desktop.single_instance.START_MS", 100)
    first, later = make_instance(), make_instance()
    assert first.start(Request())
    assert later.start(Request((Path("/x"),)))  # nobody runs the event loop of the first meanwhile
    assert not later.is_first


def test_where_no_folder_can_be_had_each_start_opens_its_own_window(
    fresh_home: Path, monkeypatch: pytest.MonkeyPatch, qapp: object
) -> None:
    blocked = fresh_home / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(blocked))
    assert SingleInstance().start(Request())


def test_the_folder_is_the_users_alone(fresh_home: Path) -> None:
    assert runtime_folder().stat().st_mode & 0o077 == 0


def test_the_program_started_twice_is_one_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "viewer"]
    said = tmp_path / "said"
    with said.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as first:
        try:
            server = runtime_folder() / session_key()
            until(lambda: server.exists() or first.poll() is not None)
            second = subprocess.run([*command, str(ONE)], timeout=60, check=False)
            assert first.poll() is None, said.read_text()
            assert second.returncode == 0
        finally:
            first.kill()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_displays_are_told_apart() -> None:
    assert session_key({"DISPLAY": ":0"}) != session_key({"DISPLAY": ":1"})
    assert session_key({"DISPLAY": ":0", "TERM": "x"}) == session_key({"DISPLAY": ":0"})


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("file:///tmp/a%20b/r%C3%A4nk.json", "/tmp/a b/ränk.json"),
        ("file://localhost/tmp/x.json", "/tmp/x.json"),
        ("FILE:///tmp/x.json", "/tmp/x.json"),
        ("/tmp/100%25.json", "/tmp/100%25.json"),
        ("a b.json", "a b.json"),
        ("file://elsewhere.invalid/x.json", "file:/elsewhere.invalid/x.json"),
    ],
)
def test_file_urls_are_paths(word: str, path: str) -> None:
    assert local_path(word) == Path(path)


@pytest.mark.parametrize(
    ("word", "copy"),
    [
        ("https://somewhere.invalid/x.json", "https/somewhere.invalid/x.json"),
        ("HTTPS://somewhere.invalid/x.json", "https/somewhere.invalid/x.json"),
        ("ssh://me@somewhere.invalid:22/a b/x.json", "ssh/me@somewhere.invalid%3A22/a b/x.json"),
    ],
)
def test_addresses_are_opened_as_copies_that_know_where_they_come_from(word: str, copy: str) -> None:
    scheme, _, rest = word.partition("://")
    assert local_path(word) == copies() / copy
    assert address_of(local_path(word)) == f"{scheme.lower()}://{rest}"


@pytest.mark.parametrize("word", ["https://", "https:///x.json", "ssh://somewhere.invalid/a/../../x.json"])
def test_an_address_that_leads_nowhere_is_no_path(word: str) -> None:
    with pytest.raises(TraceError, match="nothing at this address"):
        local_path(word)


@pytest.fixture
def windows(make_window: Callable[..., MainWindow], monkeypatch: pytest.MonkeyPatch) -> list[MainWindow]:
    """The windows of the program: one empty one at first."""
    listed = [make_window()]

    def open_window() -> MainWindow:
        listed.append(make_window())
        viewer.app._windows.append(listed[-1])
        return listed[-1]

    monkeypatch.setattr(viewer.app, "_windows", list(listed))
    monkeypatch.setattr(viewer.app, "open_window", open_window)
    return listed


def read(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: window.document.stage is Stage.READY and not window.jobs.busy)


def test_the_empty_window_takes_the_file_and_the_next_file_gets_a_window_with_an_offer(
    windows: list[MainWindow], qtbot: QtBot
) -> None:
    assert viewer.app.answer(Request((ONE,))) is windows[0]
    read(windows[0], qtbot)
    second = viewer.app.answer(Request((OTHER,)))
    read(second, qtbot)
    assert len(windows) == 2
    assert windows[0].document.paths == (ONE,)
    assert second.document.paths == (OTHER,)
    offered = second.findChild(SecondRecordingOffer)
    assert offered is not None
    assert offered.isVisible()


def test_what_is_no_rank_of_the_run_is_not_offered_as_one(
    windows: list[MainWindow], qtbot: QtBot, fixtures: Path
) -> None:
    viewer.app.answer(Request((ONE,)))
    read(windows[0], qtbot)
    offered = []
    for path in (ONE.parent / "healthy.pt.trace.json.gz", fixtures / "smi" / "dmon.txt"):
        window = viewer.app.answer(Request((path,)))
        read(window, qtbot)
        offer = window.findChild(SecondRecordingOffer)
        shown = [each for each in (offer.join_button, offer.compare_button) if each.isVisible()]
        offered.append([each.text() for each in shown])
    assert offered == [["Compare the two"], ["Show both together"]]


@pytest.mark.thorough
def test_another_program_is_not_offered_for_comparison(windows: list[MainWindow], qtbot: QtBot) -> None:
    viewer.app.answer(Request((ONE,)))
    read(windows[0], qtbot)
    second = viewer.app.answer(Request((UNRELATED,)))
    read(second, qtbot)
    qtbot.waitUntil(lambda: second.findChild(SecondRecordingOffer) is None)
    assert windows[0].document.paths == (ONE,)


def test_what_is_no_recording_makes_no_offer(windows: list[MainWindow], qtbot: QtBot, tmp_path: Path) -> None:
    viewer.app.answer(Request((ONE,)))
    read(windows[0], qtbot)
    notes = tmp_path / "notes.pt.trace.json"
    notes.write_text("hello")
    second = viewer.app.answer(Request((notes,)))
    qtbot.waitUntil(lambda: second.banner.isVisible())
    offered = second.findChild(SecondRecordingOffer)
    assert offered is None or not offered.isVisible()
    assert windows[0].document.paths == (ONE,)


@pytest.mark.thorough
def test_another_file_in_the_window_ends_the_offer(windows: list[MainWindow], qtbot: QtBot) -> None:
    viewer.app.answer(Request((ONE,)))
    read(windows[0], qtbot)
    second = viewer.app.answer(Request((OTHER,)))
    read(second, qtbot)
    second.open([SAMPLES / "healthy.pt.trace.json.gz"])
    qtbot.waitUntil(lambda: second.document.paths != (OTHER,))
    offered = second.findChild(SecondRecordingOffer)
    assert offered is None or not offered.isVisible()


def test_a_file_that_is_open_already_comes_to_the_front(windows: list[MainWindow], qtbot: QtBot) -> None:
    viewer.app.answer(Request((ONE,)))
    read(windows[0], qtbot)
    assert viewer.app.answer(Request((ONE,))) is windows[0]
    assert len(windows) == 1


def test_the_offer_reads_both_as_one_run(windows: list[MainWindow], qtbot: QtBot) -> None:
    ranks = SAMPLES / "straggler_four_ranks"
    viewer.app.answer(Request((ranks / "rank0.pt.trace.json.gz",)))
    read(windows[0], qtbot)
    second = viewer.app.answer(Request((ranks / "rank2.pt.trace.json.gz",)))
    read(second, qtbot)
    offered = second.findChild(SecondRecordingOffer)
    assert offered is not None
    offered.join_button.click()
    qtbot.waitUntil(lambda: len(windows[0].document.paths) == 2)
    read(windows[0], qtbot)
    trace = windows[0].document.trace
    assert trace is not None
    assert len(trace.ranks) == 2
    assert not second.isVisible()


def test_the_offer_compares_in_the_earlier_window(
    windows: list[MainWindow], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[object, tuple[Path, ...]]] = []
    monkeypatch.setattr(
        "viewer.comparison.window.compare_with",
        lambda document, paths, parent: compared.append((parent, tuple(paths))),
    )
    viewer.app.answer(Request((ONE,)))
    read(windows[0], qtbot)
    second = viewer.app.answer(Request((OTHER,)))
    read(second, qtbot)
    offered = second.findChild(SecondRecordingOffer)
    assert offered is not None
    offered.compare_button.click()
    assert compared == [(windows[0], (OTHER,))]


def test_a_start_without_files_shows_a_window_with_the_start_page(
    windows: list[MainWindow], qtbot: QtBot
) -> None:
    assert viewer.app.answer(Request()) is windows[0]
    viewer.app.answer(Request((ONE,)))
    read(windows[0], qtbot)
    assert viewer.app.answer(Request()).document.stage is Stage.EMPTY
    assert len(windows) == 2


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"protocol": 2, "paths": ' + b"[" * 100_000 + b', "at": null, "tokens": {}}',
        b"\xff\xfe",
        b"",
    ],
)
def test_a_line_that_is_no_request_is_none(line: bytes) -> None:
    assert Request.unpacked(line) is None


def test_names_that_cannot_be_files_and_tokens_that_are_no_text_are_left_out() -> None:
    stated = {
        "protocol": PROTOCOL,
        "paths": ["/run/a.json", "/run/\0b.json", "/run/\ud800.json", "/run/\udcff.json", 3],
        "at": 10**30,
        "tokens": {"XDG_ACTIVATION_TOKEN": "a\0b", "DESKTOP_STARTUP_ID": "id_1"},
    }
    request = Request.unpacked(json.dumps(stated).encode())
    assert request == Request(
        (Path("/run/a.json"), Path("/run/\udcff.json")), None, {"DESKTOP_STARTUP_ID": "id_1"}
    )
