"""The server as its clients have it: a process between two pipes, one slow call beside others, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from viewer.assistant import recordings
from viewer.assistant.answers import MAX_BYTES
from viewer.assistant.recordings import MAX_PATHS, Recordings, Refused

from .test_limits import FOR_EVER, busy, helpers_of, is_alive, until, until_dead

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc"),
    pytest.mark.timeout(600),  # each starts several processes
]
PATIENCE_S = 150.0
READING = "reading"
# a recording whose name says so is read for ever by a process that holds the interpreter, and that leaves a sign first
SERVER = """
import sys
from dataclasses import replace
sys.path.insert(0, {repository!r})
from parsers import helper_process
first, last = helper_process.CODE.split("importlib.import_module", 1)
helper_process.CODE = first + '''import parsers, re
def slow(paths, *more, real=parsers.open_trace, **named):
    if str(paths[0]).endswith("slow.json"):
        open({sign!r}, "w").close()
        re.match("(a*)*b", "a" * 60)
    return real(paths, *more, **named)
parsers.open_trace = slow
importlib.import_module''' + last
from viewer.assistant import recordings
recordings.MAX_ANSWERING_S = {answering_s}
def asked(key, limits, bounds, real=recordings.AskedRecording):
    return real(key, limits, replace(bounds, opening_s={opening_s}) if key[0][0].name == "slow.json" else bounds)
recordings.AskedRecording = asked
from viewer.cli import main
main(["mcp", {folder!r}])
"""


class Client:
    """Speaks JSON-RPC over pipes, as any client does."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        self.folder = folder
        self._answers: dict[int, str] = {}
        self._heard = threading.Condition()
        self._number = 0
        self.is_deaf = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        known = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        self.answer(self.send("initialize", known))
        self._write({"method": "notifications/initialized"})

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        output, rest = self.process.stdout.fileno(), b""
        while not self.is_deaf:
            if not select.select([output], [], [], 0.05)[0]:
                continue
            if not (read := os.read(output, 1 << 16)):
                return
            *lines, rest = (rest + read).split(b"\n")
            with self._heard:
                for line in lines:
                    self._answers[json.loads(line).get("id", -1)] = line.decode()
                self._heard.notify_all()

    def stop_listening(self) -> None:
        """Close the output, as one who is gone does."""
        self.is_deaf = True
        self._listener.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stop_listening()
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]

    def send(self, method: str, parameters: dict[str, Any]) -> int:
        self._number += 1
        self._write({"id": self._number, "method": method, "params": parameters})
        return self._number

    def call(self, tool: str, **arguments: Any) -> int:
        return self.send("tools/call", {"name": tool, "arguments": arguments})

    def answer(self, number: int) -> str:
        """The line that answers a request."""
        with self._heard:
            assert self._heard.wait_for(lambda: number in self._answers, PATIENCE_S)
        return self._answers[number]

    def has_answered(self, number: int) -> bool:
        return number in self._answers

    def text(self, number: int) -> str:
        return "\n".join(
            part.get("text", "") for part in json.loads(self.answer(number))["result"]["content"]
        )


Start = Callable[..., Client]


@pytest.fixture
def start(fixtures: Path, tmp_path: Path, repository: Path) -> Iterator[Start]:
    """Starts a server over a quick recording and one that is read for ever."""
    folder, temporary = tmp_path / "recordings", tmp_path / "temporary"
    for each in (folder, temporary):
        each.mkdir()
    for name in ("quick.json", "slow.json"):
        shutil.copy(fixtures / "rocm/rocprofv3.json", folder / name)
    started: list[Client] = []
    sign = tmp_path / READING

    def begin(opening_s: float = 120.0, answering_s: float = 60.0) -> Client:
        code = SERVER.format(
            repository=str(repository),
            folder=str(folder),
            sign=str(sign),
            opening_s=opening_s,
            answering_s=answering_s,
        )
        started.append(Client([sys.executable, "-c", code], temporary))
        return started[-1]

    yield begin
    for client in started:
        client.end()


def slow_call(client: Client) -> tuple[int, list[int]]:
    """A call that takes for ever, and the processes that work on it."""
    number = client.call("open_recording", path="slow.json")
    until((client.folder.parent / READING).exists, PATIENCE_S)
    return number, helpers_of(client.process.pid)


def test_others_are_answered_while_one_recording_is_read_and_its_reading_has_an_end(start: Start) -> None:
    client = start(opening_s=1.5)
    slow = client.call("open_recording", path="slow.json")
    opened = client.call("open_recording", path="quick.json")
    asked = client.call(
        "query", path=["quick.json"] * MAX_PATHS, sql="SELECT list(name) AS names FROM kernels"
    )
    assert json.loads(client.text(opened))["events"] > 0
    assert json.loads(client.text(asked))["rows"] == [[["gemm(float*)"]]]
    assert "quick.json" in client.text(client.call("list_recordings"))
    assert "takes longer than 1.5 s" in client.text(slow)
    assert json.loads(client.text(client.call("open_recording", path="quick.json")))["events"] > 0
    assert len(helpers_of(client.process.pid)) == 1


@pytest.mark.thorough
def test_a_question_has_an_end_and_the_recording_stays_open(start: Start) -> None:
    client = start(answering_s=60.0)
    client.text(client.call("open_recording", path="quick.json"))
    helpers = helpers_of(client.process.pid)
    too_much = client.call("query", path="quick.json", sql="SELECT repeat('x', 3000000000)")
    assert "more memory than the 1.00 GB" in client.text(too_much)
    until_dead(helpers)
    assert json.loads(client.text(client.call("query", path="quick.json", sql="SELECT 1 AS a")))["rows"] == [
        [1]
    ]


def test_what_is_said_of_a_long_call_is_short_and_so_is_an_answer(start: Start) -> None:
    from viewer.assistant.server import MAX_SAID

    client = start()
    long = "x" * 2_000_000
    for number in (
        client.call("query", path="quick.json", sql=f"SELECT {long}"),
        client.call("query", path="quick.json", sql=long),
        client.call("tables", path="quick.json", name=long),
        client.call(long),
        client.call("query", path=[1] * 2_000, sql=5),
        client.call("open_recording", path=long),
        client.call("open_recording", path=["quick.json"] * (MAX_PATHS + 1)),
        client.call("predictions", path="quick.json", fixes=[long]),
    ):
        assert len(client.text(number)) <= MAX_SAID
    assert f"at most {MAX_PATHS}" in client.text(number - 1)
    many = client.call(
        "query", path="quick.json", sql="SELECT repeat('x', 1000) AS a FROM range(1000)", rows=500
    )
    told = json.loads(client.text(many))
    assert (told["rows_in_all"], len(told["rows"][0][0])) == (1_000, 400)
    wide = ", ".join(f"repeat('x', 400) AS c{number}" for number in range(100))
    answer = client.answer(
        client.call("query", path="quick.json", sql=f"SELECT {wide} FROM range(500)", rows=500)
    )
    assert 0.5 * MAX_BYTES < len(answer) < 1.5 * MAX_BYTES


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["input ends", "SIGKILL", "output is closed", "SIGTERM"])
def test_the_server_ends_at_once_with_its_helpers_while_a_tool_works(start: Start, how: str) -> None:
    client = start()
    quick = client.call("open_recording", path="quick.json")
    assert json.loads(client.text(quick))["events"] > 0
    number, helpers = slow_call(client)
    assert len(helpers) >= 2
    assert not client.has_answered(number)
    process = client.process
    assert process.stdin is not None
    if how == "input ends":
        process.stdin.close()
    elif how == "output is closed":
        client.stop_listening()
    else:
        process.send_signal(getattr(signal, how))
    process.wait(60)
    until_dead(helpers)
    if how != "SIGKILL":
        assert list(client.folder.iterdir()) == []
    assert process.returncode == {"SIGTERM": 128 + signal.SIGTERM, "SIGKILL": -signal.SIGKILL}.get(how, 0)


KILLED = """
import json, subprocess, sys, time
words = [sys.executable, "-m", "viewer", "mcp", {file!r}]
server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def say(message):
    server.stdin.write(json.dumps(dict(jsonrpc="2.0", **message)) + "\\n")
    server.stdin.flush()
client = dict(protocolVersion="2025-06-18", capabilities={{}}, clientInfo=dict(name="t", version="1"))
say(dict(id=1, method="initialize", params=client))
server.stdout.readline()
say(dict(method="notifications/initialized"))
say(dict(id=2, method="tools/call", params=dict(name="query", arguments=dict(path={file!r}, sql={sql!r}))))
print(server.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.thorough
def test_a_client_that_is_killed_leaves_nothing(fixtures: Path, repository: Path, tmp_path: Path) -> None:
    code = KILLED.format(file=str(fixtures / "rocm/rocprofv3.json"), sql=FOR_EVER)
    client = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=repository,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert client.stdout is not None
    server = int(client.stdout.readline())
    until(lambda: any(busy(each) for each in helpers_of(server)), PATIENCE_S)
    processes = [server, *helpers_of(server)]
    assert all(map(is_alive, processes))
    client.kill()
    client.wait()
    client.stdout.close()
    until_dead(processes)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_a_call_that_is_cancelled_is_stopped(start: Start) -> None:
    client = start()
    client.text(client.call("open_recording", path="quick.json"))
    slow, _ = slow_call(client)
    client._write({"method": "notifications/cancelled", "params": {"requestId": slow}})
    until(lambda: len(helpers_of(client.process.pid)) == 1)


@pytest.mark.thorough
def test_what_was_opened_is_bounded_in_number_and_memory(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from parsers.model import Progress
    from viewer.assistant import answers

    names = [f"{number}.json" for number in range(recordings.MAX_OPEN + 2)]
    for name in names:
        shutil.copy(fixtures / "rocm/rocprofv3.json", tmp_path / name)
    monkeypatch.setattr(recordings, "MAX_OPEN", 2)
    held = Recordings([tmp_path])

    def ask(name: str) -> None:
        held.ask([name], answers.told, Progress(), tool="about", arguments={})

    for name in names[:3]:
        ask(name)
    assert [key[0][0].name for key in held._open] == names[1:3]
    ask(names[1])
    ask(names[3])
    assert [key[0][0].name for key in held._open] == [names[1], names[3]]
    monkeypatch.setattr(recordings, "MAX_HELD_BYTES", 1)
    held._let_go()
    assert not held._open
    with pytest.raises(Exception, match=r"It needs more than 1 B of memory"):
        ask(names[0])
    held.close()


def test_calls_that_wait_are_bounded(fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from parsers.model import Cancelled, Progress
    from viewer.assistant import answers

    for name in ("one.json", "two.json"):
        shutil.copy(fixtures / "rocm/rocprofv3.json", tmp_path / name)
    monkeypatch.setattr(recordings, "MAX_OPEN", 1)
    monkeypatch.setattr(recordings, "MAX_WAITING", 1)
    monkeypatch.setattr(recordings, "MAX_WAIT_S", 0.1)
    held, progress = Recordings([tmp_path]), Progress()
    asking = {"tool": "query", "arguments": {"sql": FOR_EVER}}

    def ask() -> None:
        with pytest.raises(Cancelled):
            held.ask(["one.json"], answers.told, progress, **asking)

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: bool(held._open))
    with pytest.raises(Refused, match="Too many questions"):
        held.ask(["one.json"], answers.told, Progress(), **asking)
    with pytest.raises(Refused, match="The maximum number of recordings"):
        held.ask(["two.json"], answers.told, Progress(), **asking)
    progress.cancel()
    thread.join()
    held.close()


def test_a_path_is_opened_once_however_often_it_is_named(fixtures: Path, tmp_path: Path) -> None:
    file = shutil.copy(fixtures / "rocm/rocprofv3.json", tmp_path / "a.json")
    held = Recordings([tmp_path])
    assert held.files_of([str(file), "a.json", "./a.json"]) == (Path(file).resolve(),)
    assert len(held.files_of(["a.json"] * MAX_PATHS)) == 1
    with pytest.raises(Refused, match="65 paths"):
        held.files_of(["a.json"] * (MAX_PATHS + 1))
    with pytest.raises(Refused, match="Name a recording"):
        held.files_of([])


def test_limits_of_the_server_are_those_that_the_documentation_states(repository: Path) -> None:
    from viewer.assistant.server import MAX_SAID

    text = " ".join((repository / "docs/assistants.md").read_text("utf-8").split())
    for said in (
        f"{recordings.MAX_OPENING_S:g} s to read",
        f"{recordings.MAX_ANSWERING_S:g} s to answer",
        f"{MAX_PATHS} paths",
        f"{recordings.MAX_HELD_BYTES / 1e9:g} GB",
        f"{MAX_BYTES // 1_000} KB",
        f"{recordings.MAX_OPEN} recordings",
        f"{MAX_SAID} characters",
    ):
        assert said in text, said


@pytest.mark.thorough
def test_time_is_what_a_slow_answer_is_refused_for(start: Start) -> None:
    client = start(answering_s=0.001)
    assert "longer than the limit of 0.001 s" in client.text(client.call("diagnose", path="quick.json"))
