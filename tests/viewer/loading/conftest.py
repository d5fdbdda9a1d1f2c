"""A recording that counts as large, and loading processes that stop where a test wants them to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parsers import helper_process
from parsers.files.signatures import DATABASE, PACKED
from tests.benchmarks import kineto_like
from viewer.loading import apart, process
from viewer.loading.process import LoadingProcess

from ..conftest import make_window

__all__ = ["make_window"]

STUCK = """import parsers, time
def stuck(*_, **__):
    time.sleep(600)
parsers.open_trace = stuck
"""
RUNNING_OUT = """import parsers
def run_out(*_, **__):
    raise MemoryError
parsers.open_trace = run_out
"""
SCARCE = """import parsers, resource
usual = parsers.open_trace
def scarce(*words, **named):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 21),) * 2)
    return usual(*words, **named)
parsers.open_trace = scarce
"""
MISTAKEN = """import parsers
def mistaken(*_, **__):
    raise ZeroDivisionError("of ours")
parsers.open_trace = mistaken
"""


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 25,000 events in three chunks."""
    path = tmp_path_factory.mktemp("recording") / "run.pt.trace.json"
    kineto_like.write(path, 25_000)
    return path


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even the smallest file is read by a process of its own, and a few thousand events are a preview."""
    monkeypatch.setattr(apart, "MIN_BYTES_IN_WINDOW", 1)
    monkeypatch.setattr(apart, "LARGE_BYTES", 1)
    monkeypatch.setattr(apart, "OF_UNKNOWN_COST", (*PACKED, DATABASE))
    monkeypatch.setattr(process, "PREVIEW_EVENTS", 3_000)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[LoadingProcess]]:
    """The loading processes that a window started; they are ended with the test."""
    made: list[LoadingProcess] = []

    class Remembered(LoadingProcess):
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(process, "LoadingProcess", Remembered)
    yield made
    for each in made:
        each.close()


@pytest.fixture
def before_it_reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes later loading processes run some code first."""

    def do(code: str) -> None:
        first, last = helper_process.CODE.split("importlib.import_module", 1)
        monkeypatch.setattr(helper_process, "CODE", f"{first}{code}importlib.import_module{last}")

    return do


def is_alive(number: int) -> bool:
    """Whether a process still runs."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True
