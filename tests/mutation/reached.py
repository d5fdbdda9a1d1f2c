"""A plugin of pytest: notes which functions of the product each test runs, and how long it takes."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

import pytest

from tests.mutation.constants import READERS, REPOSITORY

FILE = "STALLSCOPE_REACHED"
_FOLDERS = tuple(f"{REPOSITORY / root}{os.sep}" for root in READERS)
_numbers: dict[str, int] = {}
_known: dict[CodeType, int] = {}
_reached: dict[str, tuple[float, list[int]]] = {}


def _number_of(code: CodeType) -> int:
    """The number of "file:function" of a function of the product; -1 for any other."""
    if not code.co_filename.startswith(_FOLDERS):
        return -1
    file = Path(code.co_filename).relative_to(REPOSITORY).as_posix()
    return _numbers.setdefault(f"{file}:{code.co_qualname.partition('.<locals>')[0]}", len(_numbers))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Listen to every call while a test and its fixtures run."""
    reached: set[int] = set()

    def called(frame: FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        number = _known.get(code)
        if number is None:
            number = _known[code] = _number_of(code)
        reached.add(number)

    begun = time.process_time()
    threading.settrace(called)
    sys.settrace(called)  # of calls alone: it asks for no lines
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        _reached[item.nodeid] = time.process_time() - begun, sorted(reached - {-1})


def pytest_sessionfinish() -> None:
    """Write what was noted."""
    Path(os.environ[FILE]).write_text(json.dumps({"places": list(_numbers), "tests": _reached}))
