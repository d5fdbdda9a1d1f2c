"""Of what all processes of the tests import, each compiles a part: in a new clone that takes longer than collecting."""

from __future__ import annotations

import contextlib
import importlib
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shared_folder import SharedFolder

TESTS = Path(__file__).resolve().parent
PATIENCE_S = 120.0


def share_first_imports(config: pytest.Config) -> None:
    """Import a part of all test modules, and wait until the other processes of this run have imported theirs."""
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    folder = SharedFolder(f"stallscope-tests-{worker['testrunuid']}")
    config.add_cleanup(folder.leave)
    for module in part_of_modules(number, count):
        with contextlib.suppress(Exception, pytest.skip.Exception):  # whoever collects it says so
            importlib.import_module(module)
    if number == 0 and not (config.rootpath / ".hypothesis" / "constants").is_dir():
        keep_constants()
    (folder.path / f".imported-{number}").touch()
    until = time.monotonic() + PATIENCE_S
    while len(list(folder.path.glob(".imported-*"))) < count and time.monotonic() < until:
        time.sleep(0.02)


def part_of_modules(number: int, count: int) -> list[str]:
    """The names of the test modules that fall to one of ``count`` processes."""
    modules = sorted(TESTS.rglob("test_*.py"))[number::count]
    return [".".join(each.relative_to(TESTS.parent).with_suffix("").parts) for each in modules]


@settings(max_examples=1, database=None)
@given(st.none())
def keep_constants(_: None) -> None:
    """Hypothesis looks for the constants of all modules before its first example, and keeps them in a folder."""
