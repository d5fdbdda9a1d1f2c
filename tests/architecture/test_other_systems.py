"""Every place that asks for the system is listed; what other systems do there runs here with their calls replaced."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parsers import helper_process, program_search
from parsers.files import private_folder
from parsers.model import threads
from viewer.appearance.key_names import key_names
from viewer.capture import commands, interpreters, process_tree, storage, tools
from viewer.desktop import editors
from viewer.desktop.single_instance import SingleInstance
from viewer.loading.ranks import pool
from viewer.query import limits
from viewer.terminal import memory_limit
from viewer.user_data import recent

ASKS = re.compile(r"\bsys\.platform\b|\bos\.name\b|\bplatform\.system\(")
Pretend = Callable[[Any, str], None]


def test_every_place_that_asks_for_the_system_is_listed(repository: Path) -> None:
    told = set(
        re.findall(
            r"`((?:viewer|parsers|rules|stallscope)/[\w/]+\.py)`",
            (repository / "docs/systems.md").read_text(),
        )
    )
    asking = {
        str(file.relative_to(repository))
        for folder in ("viewer", "parsers", "rules", "stallscope")
        for file in (repository / folder).rglob("*.py")
        if ASKS.search(file.read_text("utf-8")) and "torch_runner" not in file.parts
    }
    assert asking - told == set(), "not in docs/systems.md"
    assert told - asking == set(), "listed, and asks no more"


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Let one module believe that it runs on another system."""

    def on(module: Any, platform: str) -> None:
        if hasattr(module, "sys"):
            fields = {
                name: getattr(sys, name) for name in ("maxsize", "modules", "executable", "stdin", "stdout")
            }
            monkeypatch.setattr(module, "sys", SimpleNamespace(platform=platform, **fields))
        if platform == "win32" and hasattr(module, "os"):
            names = {name: getattr(os, name) for name in dir(os) if not name.startswith("__")}
            monkeypatch.setattr(module, "os", SimpleNamespace(**{**names, "name": "nt"}))

    return on


def refused(*_: object, **__: object) -> Any:
    raise AssertionError("called on a system that does not have it")


def test_no_limit_of_a_shell_is_known_on_windows(pretend: Pretend) -> None:
    pretend(memory_limit, "win32")
    assert memory_limit.address_space() == sys.maxsize


def test_nobody_is_asked_for_by_a_signal_on_windows(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (recent, storage):
        pretend(module, "win32")
        monkeypatch.setattr(module.os, "kill", refused, raising=False)
    assert recent._runs(1 << 30) is True
    assert storage.is_alive(1 << 30, 0.0) is False
    assert storage.is_alive(1 << 30, storage.time.time()) is True


def test_processes_are_ended_by_what_the_system_has(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(words: list[str], **_: object) -> Any:
        ran.append(words)
        return subprocess.CompletedProcess(words, 0, "  11 10\n  12 11\n  99 1\n", "")

    monkeypatch.setattr(process_tree.subprocess, "run", run)
    ended: list[int] = []
    monkeypatch.setattr(process_tree, "_signal", lambda family, _: ended.extend(sorted(family)))
    monkeypatch.setattr(process_tree.os, "killpg", lambda *_: None)
    process_tree._kill_without_proc(10)
    assert ran[-1][0] == "ps"
    assert ended == [10, 11, 12]
    pretend(process_tree, "win32")
    process_tree._kill_without_proc(10)
    assert ran[-1] == ["taskkill", "/PID", "10", "/T", "/F"]


def test_a_helper_is_ended_alone_on_windows_and_not_by_the_kernel(pretend: Pretend) -> None:
    pretend(helper_process, "win32")
    ended: list[str] = []
    process: Any = SimpleNamespace(
        poll=lambda: None,
        kill=lambda: ended.append("kill"),
        wait=lambda: ended.append("wait"),
        stdin=None,
        stdout=None,
        stderr=None,
    )
    helper_process._end(process, own_group=True)
    assert ended == ["kill", "wait"]
    helper_process.end_with(1)  # no prctl, and no end, although the asker is another one


def test_a_private_folder_is_nobodys_on_windows_when_its_file_can_be_removed(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(private_folder, "win32")
    monkeypatch.setattr(private_folder.fcntl, "flock", refused)
    held = tmp_path / "owner"
    os.close(private_folder.hold(held))
    with private_folder._of_nobody(held) as abandoned:
        assert abandoned
    with private_folder._of_nobody(held) as abandoned:
        assert not abandoned, "it is gone already"


def test_windows_programs_are_looked_for_on_path_alone(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(program_search, "win32")
    monkeypatch.setattr(program_search.shutil, "which", refused)
    monkeypatch.setenv("PATHEXT", ".EXE;.BAT")
    for folder in ("here", "on path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "nsys.EXE").write_text("")
    monkeypatch.chdir(tmp_path / "here")
    assert program_search.program("nsys", str(tmp_path / "on path")) == str(tmp_path / "on path" / "nsys.EXE")
    assert program_search.program("nsys", ".") is None


def test_memory_of_questions_is_counted_elsewhere_and_not_limited(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(limits, "darwin")
    monkeypatch.setattr("resource.setrlimit", refused)
    with limits.MemoryLimit(1 << 20, lambda: None).held():
        pass

    class Error(Exception):
        pass

    def process(number: int) -> Any:
        if number != 7:
            raise Error
        return SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=4096))

    monkeypatch.setitem(sys.modules, "psutil", SimpleNamespace(Process=process, Error=Error))
    assert limits.resident_bytes(7) == 4096
    assert limits.resident_bytes(8) == 0


def test_what_only_linux_has_is_not_touched_elsewhere(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctypes.CDLL", refused)
    pretend(threads, "darwin")
    threads._share_one_heap.__wrapped__()
    threads.give_back(1 << 30)
    pretend(pool, "win32")
    monkeypatch.setattr(pool.signal, "pthread_sigmask", refused)
    pool._start_tracker()


@pytest.mark.usefixtures("qapp")
def test_the_first_window_listens_at_a_pipe_on_windows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from viewer.desktop import single_instance

    here = SingleInstance(key="me", folder=tmp_path)
    monkeypatch.setattr(single_instance.sys, "platform", "win32")
    there = SingleInstance(key="me", folder=tmp_path)
    assert (here._name, there._name) == (str(tmp_path / "me"), "stallscope-me")


def test_commands_are_split_and_shown_as_the_systems_shell_does(pretend: Pretend) -> None:
    assert (
        commands.shell_line(["C:\\my py\\python.exe", "train.py"], windows=True)
        == '"C:\\my py\\python.exe" train.py'
    )
    pretend(editors, "win32")
    assert editors.split('"C:\\Program Files\\code.exe" --goto {file}:{line}') == [
        "C:\\Program Files\\code.exe",
        "--goto",
        "{file}:{line}",
    ]


def test_interpreters_and_profilers_are_looked_for_where_the_system_has_them(
    pretend: Pretend, tmp_path: Path
) -> None:
    pretend(interpreters, "win32")
    found = [path for path, _ in interpreters._candidates(tmp_path)]
    assert str(tmp_path / ".venv" / "Scripts" / "python.exe") in found
    assert {"linux", "win32"} <= set().union(*(places for places in tools._PLACES.values()))


def test_ctrl_is_called_cmd_on_a_mac() -> None:
    assert key_names("Ctrl+Enter runs", "darwin") == "Cmd+Enter runs"
    assert key_names("Ctrl+Enter runs", "linux") == "Ctrl+Enter runs"
