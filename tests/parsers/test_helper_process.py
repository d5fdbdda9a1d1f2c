"""A helper answers with what it was asked for and nothing else, and never outlives whom it helps."""

from __future__ import annotations

import queue
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parsers import helper_process
from parsers.copied_process import can_copy, start_thread_no_copy_needs
from parsers.helper_process import HelperProcess

PATIENCE_S = 30.0

Ask = Callable[..., HelperProcess]


@pytest.fixture(params=["started", "copied"])
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Ask]:
    """Starts a helper whose ``serve`` has this body."""
    started: list[HelperProcess] = []
    copied = request.param == "copied"
    if copied and sys.platform != "linux":
        pytest.skip("processes are copied on Linux alone")
    monkeypatch.setattr(helper_process, "can_copy", lambda: copied)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        helper_process, "CODE", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{helper_process.CODE}"
    )

    def start(body: str, request: bytes = b"", **more: object) -> HelperProcess:
        lines = textwrap.indent(textwrap.dedent(body), "    ")
        (tmp_path / "helping.py").write_text(f"import os, time\ndef serve(request, answer):\n{lines}\n")
        started.append(HelperProcess("helping", request, copied=True, **more))  # type: ignore[arg-type]
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
    deadline = time.monotonic() + PATIENCE_S
    while child.exists() and "Z" not in (child / "stat").read_text().split()[2]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_of_several_threads_is_not_copied() -> None:
    waiting = threading.Event()
    before = can_copy()
    start_thread_no_copy_needs(waiting.wait)
    assert can_copy() == before
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    assert not can_copy()
    waiting.set()
    thread.join()


def test_the_frozen_program_starts_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert helper_process._command("some.module") == [
        sys.executable,
        helper_process.FROZEN_WORD,
        "some.module",
    ]
