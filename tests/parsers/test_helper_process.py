"""A helper answers with what it was asked for and nothing else, and never outlives whom it helps."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parsers import helper_process
from parsers.helper_process import HelperProcess

PATIENCE_S = 30.0

Ask = Callable[..., HelperProcess]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """Starts a helper whose ``serve`` has this body."""
    started: list[HelperProcess] = []
    monkeypatch.setattr(
        helper_process, "CODE", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{helper_process.CODE}"
    )

    def start(body: str, request: bytes | None = b"", **more: object) -> HelperProcess:
        lines = textwrap.indent(textwrap.dedent(body), "    ")
        (tmp_path / "helping.py").write_text(f"import os, time\ndef serve(request, answer):\n{lines}\n")
        started.append(HelperProcess("helping", request, **more))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for each in started:
        each.end()


def said(helper: HelperProcess) -> list[bytes]:
    """Everything that a helper says until its end."""
    heard = []
    while (piece := helper.next(PATIENCE_S)) is not None:
        heard.append(piece)
    return heard


def test_it_gets_its_request_and_its_answer_comes_in_lines(ask: Ask) -> None:
    helper = ask("answer.write(request + b'\\nand more\\n')", b"a request")
    assert said(helper) == [b"a request\n", b"and more\n"]
    assert helper.process.wait() == 0


def test_it_finds_libraries_where_its_asker_does_but_not_in_the_folder_that_the_user_is_in(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("elsewhere", "here"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"found_{folder}.py").touch()
        monkeypatch.syspath_prepend(tmp_path / folder)
    monkeypatch.chdir(tmp_path / "here")
    helper = ask("""
        from importlib.util import find_spec
        answer.write(repr([bool(find_spec("found_" + each)) for each in ("elsewhere", "here")]).encode())
    """)
    assert said(helper) == [b"[True, False]"]


def test_it_starts_where_the_folder_that_the_user_was_in_is_gone(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert said(ask("answer.write(request)", b"still")) == [b"still"]


def test_an_answer_can_come_as_a_whole(ask: Ask) -> None:
    helper = ask("answer.write(b'\\n' * 3)", pieces=lambda pipe: [pipe.read()])
    assert said(helper) == [b"\n\n\n"]


def test_what_is_printed_gets_into_no_answer(ask: Ask) -> None:
    helper = ask("print('loud', flush=True); os.write(1, b'louder'); answer.write(b'quiet')")
    assert said(helper) == [b"quiet"]


def test_a_helper_that_fails_says_so_by_its_exit_code(ask: Ask) -> None:
    helper = ask("raise ZeroDivisionError")
    assert said(helper) == []
    assert helper.process.wait() != 0


def test_silence_is_told_from_the_end(ask: Ask) -> None:
    helper = ask("time.sleep(600)")
    with pytest.raises(queue.Empty):
        helper.next(0.01)
    assert helper.end() != 0
    assert helper.next(PATIENCE_S) is None


def test_it_ends_with_whoever_asked(ask: Ask) -> None:
    helper = ask("answer.write(b'here\\n'); answer.flush(); time.sleep(600)")
    assert helper.next(PATIENCE_S) == b"here\n"
    assert helper.process.stdin is not None
    helper.process.stdin.close()
    assert helper.process.wait() == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no groups of processes to end")
def test_what_it_started_ends_with_it(ask: Ask) -> None:
    body = """
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        answer.write(b"%d\\n" % child.pid); answer.flush(); time.sleep(600)
    """
    helper = ask(body, own_group=True)
    child = Path("/proc") / (helper.next(PATIENCE_S) or b"").decode().strip()
    assert child.exists()
    helper.end()
    until_it_ended(child)


def test_the_frozen_program_starts_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert helper_process._command("some.module") == [
        sys.executable,
        helper_process.FROZEN_WORD,
        "some.module",
        str(os.getpid()),
    ]


def test_one_that_was_started_ahead_waits_for_its_request(ask: Ask) -> None:
    helper = ask("answer.write(request)", None)
    with pytest.raises(queue.Empty):
        helper.next(0.01)
    helper.ask(b"x" * 100_000)
    assert b"".join(said(helper)) == b"x" * 100_000


WAITING = """
import select
from parsers.helper_process import is_asked
print(is_asked(), flush=True)
select.select([0], [], [])
print(is_asked(), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there nothing tells it")
def test_one_that_prepares_itself_knows_whether_its_request_is_there() -> None:
    command = [sys.executable, "-c", WAITING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as helper:
        assert helper.stdin is not None
        assert helper.stdout is not None
        assert helper.stdout.readline() == "False\n"
        helper.stdin.write("read this\n")
        helper.stdin.flush()
        assert helper.stdout.readline() == "True\n"


ASKER = """
import os, sys, threading, time
sys.path[:0] = [{folder!r}, {repository!r}]
from parsers import helper_process
helper_process.CODE = "import sys; sys.path.insert(0, {folder!r})\\n" + helper_process.CODE
started = []
starting = threading.Thread(target=lambda: started.append(helper_process.HelperProcess("helping", b"")))
starting.start(); starting.join()  # the helper lives on when the thread that wanted it has ended
print(started[0].next(30).decode(), end="", flush=True)
{then}
"""
HOLDING_THE_INTERPRETER = """import os, re
def serve(request, answer):
    answer.write(b"%d\\n" % os.getpid()); answer.flush()
    re.match("(a*)*b", "a" * 60)
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux ends a process that can do nothing for itself"
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_one_that_holds_the_interpreter_ends_with_its_asker_however_that_ends(
    tmp_path: Path, repository: Path, number: signal.Signals
) -> None:
    (tmp_path / "helping.py").write_text(HOLDING_THE_INTERPRETER)
    code = ASKER.format(folder=str(tmp_path), repository=str(repository), then="time.sleep(600)")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdout is not None
        helper = Path("/proc", asker.stdout.readline().strip())
        time.sleep(0.3)
        assert helper.exists()
        asker.send_signal(number)
        asker.wait()
    until_it_ended(helper)


def until_it_ended(process: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while "Z" not in (process / "stat").read_text().split()[2]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
