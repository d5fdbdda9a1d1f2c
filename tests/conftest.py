"""Shared by all tests: no display needed, no user's settings touched, and where the recordings lie."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from pytestqt.qtbot import QtBot

from parsers import collecting
from tests.first_imports import share_first_imports
from tests.limits import hear_signals, limits, set_back
from viewer.loading import apart

if TYPE_CHECKING:
    from tests.processes.installed import Installed
    from tests.shared_folder import SharedFolder

REPOSITORY = Path(__file__).resolve().parent.parent
HANG_S = 60
# What lies in HOME and in each of the others while nobody has written anything.
_EMPTY = [[".cache", ".config", ".local", ".run"], [], [], [], [], []]
_XDG_DIRECTORIES = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_CACHE_HOME": ".cache",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "XDG_RUNTIME_DIR": ".run",
}


def _home_environment(home: Path) -> dict[str, str]:
    """HOME and the XDG variables of one throw-away home; its directories are made."""
    environment = {"HOME": str(home)}
    for variable, below in _XDG_DIRECTORIES.items():
        directory = home / below
        directory.mkdir(parents=True, exist_ok=True)
        environment[variable] = str(directory)
    (home / ".run").chmod(0o700)
    return environment


# A commit is judged by the same examples everywhere, and by more of them in .ci/run (tests/examples.py);
# `--hypothesis-profile=search` looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=20)
settings.register_profile("more", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("search", max_examples=1000, deadline=None)
settings.load_profile("repeatable")

# Dozens of tests start the program anew; where Python may not keep its bytecode, each would compile all of it again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Thousands of tests and their modules stay until the end: no collection of garbage need look through them, neither
# while they are collected nor later.
gc.disable()

# Thousands of windows and commands open small recordings; a process for each would take most of the time of all tests.
# tests/viewer/loading reads even the smallest as the program does, and so does every command that is a process itself.
apart.MIN_BYTES_IN_WINDOW = apart.LARGE_BYTES
apart.OF_UNKNOWN_COST = ()

# A wait ends as soon as what is waited for is there. How long it may last only tells a hang from a busy machine,
# on which a window took more than the usual 5 s to become the active one.
for _wait in (QtBot.waitActive, QtBot.waitExposed, QtBot.waitSignal, QtBot.waitSignals, QtBot.waitUntil):
    _wait.__kwdefaults__["timeout"] = HANG_S * 1000

hear_signals()

# Before anything imports Qt or reads a settings folder, also while tests are collected.
_session_home = tempfile.TemporaryDirectory(prefix="stallscope-tests-", ignore_cleanup_errors=True)
os.environ.update(_home_environment(Path(_session_home.name)))
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: a worker waits for windows and processes almost as long as it computes."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


def pytest_collection(session: pytest.Session) -> None:
    """Before a process collects all tests."""
    share_first_imports(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Several processes get the modules in a mixed order, the same each time: while windows wait, other tests compute.

    In the order of folders all processes would come to the windows last, and wait at the same time.
    """
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: zlib.crc32(item.nodeid.partition("::")[0].encode()))


def pytest_collection_finish() -> None:
    """From here on there is garbage, of which a process has room for ten times as much before it is looked for."""
    gc.freeze()
    gc.set_threshold(7_000, 10, 10)
    gc.enable()


def pytest_unconfigure() -> None:
    """Remove the session's throw-away home."""
    _session_home.cleanup()


@pytest.fixture
def only_new_garbage() -> None:
    """``gc.collect`` looks through what the test makes: all that others keep would take a second or more."""
    gc.freeze()


_usual_limits = limits()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call() -> Iterator[None]:
    """No test may leave a limit of the system on, its fixtures neither: what is said of the test would run into it."""
    try:
        return (yield)
    finally:
        if changed := set_back(_usual_limits):
            pytest.fail(f"left on after the test: {', '.join(changed)}")


_empty_homes: list[tuple[Path, dict[str, str]]] = []


def _entries(environment: dict[str, str]) -> list[list[str]]:
    return [sorted(os.listdir(folder)) for folder in environment.values() if os.path.isdir(folder)]


@pytest.fixture(autouse=True)
def fresh_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty HOME for every test, so that no test sees settings, caches or recent files of another.

    Most tests leave it empty, and the next one gets it.
    """
    if _empty_homes:
        home, environment = _empty_homes.pop()
    else:
        home = Path(tempfile.mkdtemp(dir=_session_home.name))
        environment = _home_environment(home)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    if "PySide6.QtCore" in sys.modules:
        from PySide6.QtCore import QSettings

        for settings_format in (QSettings.Format.NativeFormat, QSettings.Format.IniFormat):
            QSettings.setPath(settings_format, QSettings.Scope.UserScope, str(home / ".config"))
    yield home
    if _entries(environment) == _EMPTY:
        _empty_homes.append((home, environment))


def _jobs() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("job ")]


@pytest.fixture(autouse=True)
def no_job_outlives_its_test() -> Iterator[None]:
    """A window's background job ends with the test: in the next one it would report, or hold back the collector."""
    yield
    if (widgets := sys.modules.get("PySide6.QtWidgets")) is None:
        return
    from PySide6.QtCore import QCoreApplication, QEvent

    until = time.monotonic() + HANG_S
    # A timer of a window that is only to be deleted might ask for another job, even during the next test.
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    widgets.QApplication.processEvents()  # where a job's answer asks for the next one, and each lets the collector go
    while (jobs := _jobs()) or collecting.is_held():
        assert time.monotonic() < until, (
            f"after the test these go on: {jobs}, or nobody lets the collector go"
        )
        widgets.QApplication.processEvents()
        time.sleep(0.001)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_folder(testrun_uid: str) -> Iterator[SharedFolder]:
    """A folder of this run of the tests, for what takes long to make."""
    from tests.shared_folder import SharedFolder

    folder = SharedFolder(f"stallscope-tests-{testrun_uid}")
    yield folder
    folder.leave()


@pytest.fixture(scope="session")
def installed(shared_folder: SharedFolder) -> Installed:
    """The program, installed from the wheel."""
    from tests.processes.installed import install, installed_in

    return installed_in(shared_folder.once("installed", install))


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of the small recordings that are kept with the tests."""
    return REPOSITORY / "tests" / "fixtures"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of full-size recordings beside the checkout; the test is skipped where there is none."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the full-size recordings (../shared/data) are not on this machine")
    return folder
