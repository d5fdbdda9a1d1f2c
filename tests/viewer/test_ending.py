"""Told to end by the system, a command and the window end at once and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from viewer.app import application, ended_by_signals
from viewer.desktop.ending import end_tidily_when_told, ending_at_once

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows ends processes without asking them")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def waiting(temporary: Path, repository: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command that keeps what comes on standard input, and gets some of it."""
    with subprocess.Popen(
        [sys.executable, "-m", "stallscope", "diagnose", "-"],
        cwd=repository,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as command:
        assert command.stdin is not None
        command.stdin.write(b"{" * (1 << 20))
        command.stdin.flush()
        while not any(temporary.glob("*/standard input")):
            assert command.poll() is None
        yield command
        command.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_told_to_end_removes_what_it_keeps(
    waiting: subprocess.Popen[bytes], temporary: Path, number: signal.Signals
) -> None:
    waiting.send_signal(number)
    assert waiting.wait(30) == 128 + number
    assert not list(temporary.iterdir())
    assert waiting.stderr is not None
    assert waiting.stderr.read() == b""


def test_what_a_killed_command_kept_goes_with_the_next_one(
    waiting: subprocess.Popen[bytes], temporary: Path, repository: Path, fixtures: Path
) -> None:
    waiting.kill()
    waiting.wait(30)
    assert list(temporary.iterdir())
    sample = fixtures / "torch" / "elementwise_chain.pt.trace.json.gz"
    subprocess.run(
        [sys.executable, "-m", "stallscope", "diagnose", sample],
        cwd=repository,
        check=True,
        capture_output=True,
    )
    assert not list(temporary.iterdir())


@pytest.fixture
def handlers() -> Iterator[None]:
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_the_window_hears_a_signal_while_nothing_happens_in_it(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    app = application()
    codes: list[int] = []
    monkeypatch.setattr(app, "exit", codes.append)
    monkeypatch.setattr(app, "quit", lambda: codes.append(0))
    with ended_by_signals(app):
        os.kill(os.getpid(), number)
        qtbot.waitUntil(lambda: codes == [code])


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_just_before_the_event_loop_starts_ends_the_window(
    number: signal.Signals, code: int
) -> None:
    app = application()
    hangs = QTimer(singleShot=True, interval=60_000)
    hangs.timeout.connect(lambda: app.exit(-1))
    hangs.start()
    with ended_by_signals(app):
        os.kill(os.getpid(), number)
        assert app.exec() == code
    hangs.stop()


@pytest.mark.usefixtures("handlers")
def test_a_signal_while_qt_calls_back_before_the_event_loop_ends_the_window() -> None:
    app = application()
    hangs = QTimer(singleShot=True, interval=60_000)
    hangs.timeout.connect(lambda: app.exit(-1))
    hangs.start()
    with ended_by_signals(app):
        QTimer.singleShot(0, lambda: os.kill(os.getpid(), signal.SIGTERM))
        for _ in range(20):
            app.processEvents()
            time.sleep(0.005)
        assert app.exec() == 143
    hangs.stop()


@pytest.mark.usefixtures("handlers")
def test_while_qt_begins_signals_end_the_process_without_python() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_tidily_when_told()
    before = signal.getsignal(signal.SIGTERM)
    with ending_at_once():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_DFL


@pytest.mark.usefixtures("handlers")
def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with ended_by_signals(application()):
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


_IS_TOLD_WHILE_IT_REMOVES = """
import os, signal, sys, threading, weakref
from viewer.desktop.ending import end_tidily_when_told

class Held:
    pass

def remove():
    os.kill(os.getpid(), signal.SIGTERM)
    print("removed")

end_tidily_when_told()
held = Held()
weakref.finalize(held, remove)
del held
print("goes on")
threading.Event().wait(60)
"""


def test_a_signal_lets_a_removal_come_to_its_end_and_ends_the_process_then(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IS_TOLD_WHILE_IT_REMOVES],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 128 + signal.SIGTERM
    assert "removed" in done.stdout
    assert done.stderr == ""


_CLEANS_UP = """
import atexit, os, signal, sys
from viewer.desktop.ending import end_is_near, end_tidily_when_told

def clean_up():
    for _ in range(int(sys.argv[1])):
        os.kill(os.getpid(), int(sys.argv[2]))
    print("cleaned up")

end_tidily_when_told()
atexit.register(clean_up)
end_is_near()
sys.exit(3)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("signals", [1, 2])
def test_a_signal_does_not_tear_the_cleaning_up_of_a_command_apart_but_a_second_one_does(
    repository: Path, signals: int, number: signal.Signals
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CLEANS_UP, str(signals), str(int(number))],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (3 if signals == 1 else -number)
    assert done.stderr == ""
    assert ("cleaned up" in done.stdout) is (signals == 1)
