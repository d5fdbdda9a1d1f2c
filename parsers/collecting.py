"""Python's collector of garbage, held back for as long as it would disturb."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 100_000, 10, 10  # columns make few objects, loading the program many that stay

_lock = threading.Lock()
_held_by = 0
_was_on = False


def collect_seldom() -> None:
    """For a process that works on columns and then ends."""
    gc.set_threshold(*_SELDOM)


def hold_garbage() -> None:
    """From now on no garbage is collected in any thread, until all who held it let it go."""
    global _held_by, _was_on
    with _lock:
        if not _held_by:
            _was_on = gc.isenabled()
            gc.disable()
        _held_by += 1


def let_garbage_go() -> None:
    """Once for each ``hold_garbage``; the thread that does it last may be the next to collect."""
    global _held_by
    with _lock:
        _held_by -= 1
        if not _held_by and _was_on:
            gc.enable()


def is_held() -> bool:
    """Whether somebody holds it back."""
    return _held_by > 0


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """No garbage is collected meanwhile."""
    hold_garbage()
    try:
        yield
    finally:
        let_garbage_go()
