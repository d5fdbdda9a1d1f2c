"""Python's collector of garbage, held back for as long as it would disturb."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_held_by = 0
_was_on = False


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """No garbage is collected meanwhile, in any thread; those who ask at once each get until their own end."""
    global _held_by, _was_on
    with _lock:
        if not _held_by:
            _was_on = gc.isenabled()
            gc.disable()
        _held_by += 1
    try:
        yield
    finally:
        with _lock:
            _held_by -= 1
            if not _held_by and _was_on:
                gc.enable()
