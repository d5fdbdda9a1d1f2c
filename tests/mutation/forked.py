"""A plugin of pytest: collects once, then changes a constant in a forked copy for each change, and runs tests there.

What a module or a class made of a constant as it was loaded does not follow: ``constants.made_of_it_as_loaded`` says
for which, and each change of those starts a process of its own (``tests.mutation.changed``).
"""

from __future__ import annotations

import ast
import os
import resource
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

from parsers.model.late.dataclass import dataclass
from tests.mutation.constants import REPOSITORY, Constant, module_of

HANG_S = 600  # of waiting; of a processor, some times what the tests take
_POLL_S = 0.01


@dataclass(frozen=True)
class Task:
    """One change of a constant, and the tests that are to notice it."""

    constant: Constant
    value: float
    tests: Sequence[str]
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
    """Runs tasks, and reports each with the test that noticed it, or None."""

    def __init__(
        self, tasks: Sequence[Task], processes: int, report: Callable[[Task, str | None], None]
    ) -> None:
        self._tasks = tasks
        self._processes = processes
        self._report = report
        self._importers: dict[tuple[str, str], list[tuple[ModuleType, str]]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of running what was collected."""
        items = {item.nodeid: item for item in session.items}
        self._importers = _importers()
        running: dict[int, tuple[Task, float, Path]] = {}
        waiting = list(reversed(self._tasks))
        while waiting or running:
            while waiting and len(running) < self._processes:
                task = waiting.pop()
                place = Path(tempfile.mkdtemp(prefix="stallscope-changed-"))
                sys.stdout.flush()
                if not (child := os.fork()):
                    self._look(task, [items[test] for test in task.tests if test in items], place)
                running[child] = task, time.monotonic() + HANG_S, place
            for child, (task, until, place) in list(running.items()):
                if time.monotonic() > until:
                    os.killpg(child, signal.SIGKILL)
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    noticed = place / "noticed"
                    by = noticed.read_text() if noticed.exists() else "its end" if status else None
                    self._report(task, by)
                    del running[child]
                    shutil.rmtree(place, ignore_errors=True)
            time.sleep(_POLL_S)
        return True

    def _look(self, task: Task, items: list[pytest.Item], place: Path) -> None:
        """In the copy: ends with it."""
        code = 1
        try:
            os.setpgid(0, 0)
            most = 30 + round(5 * task.seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (most, most))
            os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = str(place)
            os.environ["TMPDIR"] = str(place)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nothing, stream)
            self._change(task.constant, task.value)
            noted = _Noted(place / "noticed")
            for number, item in enumerate(items):
                item.config.pluginmanager.register(noted) if not number else None
                following = items[number + 1] if number + 1 < len(items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            code = 0
        except BaseException as error:  # the change took the process down: that is noticed too
            (place / "noticed").write_text(f"{type(error).__name__}: {error}")
        finally:
            os._exit(code)

    def _change(self, constant: Constant, value: float) -> None:
        """Another number for everybody who knows the constant."""
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


class _Noted:
    def __init__(self, place: Path) -> None:
        self._place = place

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The first failure is enough."""
        if report.failed:
            self._place.write_text(report.nodeid)
            os._exit(1)
