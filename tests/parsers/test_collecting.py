"""Python's collector of garbage rests until the last who asked for it is done."""

from __future__ import annotations

import gc
from contextlib import ExitStack

import pytest

from parsers import collecting
from parsers.collecting import without_garbage_collection


@pytest.fixture(autouse=True)
def held_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of a window in an earlier test may hold it still."""
    monkeypatch.setattr(collecting, "_held_by", 0)
    monkeypatch.setattr(collecting, "_was_on", True)
    gc.enable()


def test_who_ends_first_does_not_wake_the_collector_for_the_others() -> None:
    first, second = ExitStack(), ExitStack()
    first.enter_context(without_garbage_collection())
    second.enter_context(without_garbage_collection())
    first.close()
    assert not gc.isenabled()
    second.close()
    assert gc.isenabled()
    gc.disable()
    try:
        with without_garbage_collection():
            pass
        assert not gc.isenabled(), "it was off before"
    finally:
        gc.enable()
