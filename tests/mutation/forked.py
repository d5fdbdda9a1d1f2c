"""A plugin of pytest: collects once, then changes a constant in a forked copy for each change, and runs tests there.

What a module or a class made of a constant as it was loaded does not follow: ``constants.made_of_it_as_loaded`` says
for which, and each change of those starts a process of its own (``tests.mutation.changed``).
"""

from __future__ import annotations

import ast
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from parsers.model.late import dataclass
from tests.mutation.constants import REPOSITORY, Constant, module_of

HANG_S = 600  # of waiting; of a processor, some times what the tests take
_POLL_S = 0.01


@dataclass(frozen=True, eq=False)
class Task:
    """One change of a constant, and the tests that are to notice it."""

    constant: Constant
    value: float
    tests: Sequence[str]  # or files, of which all are asked
    seconds: float  # that the tests take of a processor


def _importers() -> dict[tuple[str, str], list[tuple[ModuleType, str]]]:
    """By module and name: who imports it, and what it is called there."""
    found: dict[tuple[str, str], list[tuple[ModuleType, str]]] = defaultdict(list)
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if (
            not file
            or Path(file).suffix != ".py"
            or not Path(file).is_relative_to(REPOSITORY)
            or ".venv" in file
        ):
            continue
        for node in ast.walk(ast.parse(Path(file).read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in node.names:
                    here = name.asname or name.name
                    if isinstance(vars(module).get(here), int | float):
                        found[node.module, name.name].append((module, here))
    return found


class Forked:
    """Runs tasks, and reports each with the test that noticed it, or None.

    ``failing`` are tests that fail here though nothing is changed: what they noticed counts for nothing.
    """

    def __init__(
        self, tasks: Sequence[Task], processes: int, report: Callable[[Task, str | None], None]
    ) -> None:
        self._tasks = tasks
        self._processes = processes
        self._report = report
        self._importers: dict[tuple[str, str], list[tuple[ModuleType, str]]] = {}
        self.failing: frozenset[str] = frozenset()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of running what was collected."""
        items: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in session.items:
            items[item.nodeid].append(item)
            items[item.nodeid.partition("::")[0]].append(item)
        for task in self._tasks:
            importlib.import_module(module_of(task.constant.file))
        self._importers = _importers()
        noticing: set[str] = set()
        running: dict[int, tuple[Task, float, Path]] = {}
        waiting = list(reversed(self._tasks))
        while waiting or running:
            while waiting and len(running) < self._processes:
                task = waiting.pop()
                place = _place()
                tests = [item for test in task.tests for item in items.get(test, ())]
                child = _fork(tests, place, 30 + 5 * task.seconds, lambda task=task: self._change(task))  # type: ignore[misc]
                running[child] = task, time.monotonic() + HANG_S, place
            for child, (task, until, place) in list(running.items()):
                if time.monotonic() > until:
                    os.kill(child, signal.SIGKILL)
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    test = _failed(place)[:1] or (["its end"] if status else [])
                    noticing |= set(test)
                    self._report(task, test[0] if test else None)
                    del running[child]
            time.sleep(_POLL_S)
        place = _place()
        tests = [item for item in session.items if item.nodeid in noticing]
        os.waitpid(_fork(tests, place, HANG_S, None), 0)
        self.failing = frozenset(_failed(place))
        return True

    def _change(self, task: Task) -> None:
        """Another number for everybody who knows the constant."""
        constant, value = task.constant, task.value
        home = sys.modules[module_of(constant.file)]
        if not isinstance(vars(home)[constant.name], int | float):
            object.__setattr__(vars(home)[constant.name], "default", value)
            return
        setattr(home, constant.name, value)
        known = [(home.__name__, constant.name)]
        for source in known:
            for module, name in self._importers.get(source, ()):
                setattr(module, name, value)
                known.append((module.__name__, name))


def _place() -> Path:
    return Path(tempfile.mkdtemp(prefix="stallscope-changed-"))


def _failed(place: Path) -> list[str]:
    """The tests that a copy noted; nothing of it stays."""
    noted = place / "failed"
    failed = noted.read_text().splitlines() if noted.exists() else []
    shutil.rmtree(place, ignore_errors=True)
    return failed


def _fork(tests: list[pytest.Item], place: Path, seconds: float, change: Callable[[], None] | None) -> int:
    """The number of a copy of this process that runs tests, up to the first that fails where something is changed.

    It ends after so many seconds of a processor.
    """
    sys.stdout.flush()
    if child := os.fork():
        return child
    code = 1
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = tempfile.tempdir = str(place)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        if change is not None:
            change()
        noted = _Noted(place / "failed", change is None)
        for item, following in zip(tests, [*tests[1:], None], strict=True):
            if item is tests[0]:
                item.config.pluginmanager.unregister(name="terminalreporter")
                item.config.pluginmanager.register(noted)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        code = 0
    finally:
        os._exit(code)


class _Noted:
    def __init__(self, place: Path, goes_on: bool) -> None:
        self._place, self._goes_on = place, goes_on

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The first failure is enough where something is changed."""
        if report.failed:
            with self._place.open("a") as file:
                file.write(f"{report.nodeid}\n")
            if not self._goes_on:
                os._exit(1)
