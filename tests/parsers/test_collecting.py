"""Python's collector of garbage rests until the last who asked for it is done."""

from __future__ import annotations

import gc
from contextlib import ExitStack

from parsers.collecting import without_garbage_collection


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
