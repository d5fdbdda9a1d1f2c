"""The history of torch's caching allocator, kept while a program is recorded and saved beside its trace."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import os
import shutil
from typing import Any, Callable

MAX_EVENTS = 1000000
"""Events that are kept: about 200 MB of the program's own memory; older ones are forgotten."""


class AllocatorHistory:
    """Does nothing where torch sees no GPU, or is too old to keep a history."""

    def __init__(self, say: Callable[..., None]) -> None:
        self._say = say
        self._memory: Any = None

    def start(self) -> None:
        """Keep every allocation from now on, with the Python stack that made it."""
        with contextlib.suppress(Exception):
            torch = importlib.import_module("torch")
            if not torch.cuda.is_available():
                return
            torch.cuda.memory._record_memory_history(max_entries=MAX_EVENTS, stacks="python")
            self._memory = torch.cuda.memory
        if self._memory is None:
            self._say("problem", text="this torch keeps no history of its memory: only the trace is written")

    def write(self, path: str) -> bool:
        """Save what is known so far, packed; False where there is nothing."""
        if self._memory is None:
            return False
        plain, packed = path + ".plain.part", path + ".part"
        try:
            self._memory._dump_snapshot(plain)
            with open(plain, "rb") as source, gzip.open(packed, "wb", compresslevel=1) as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
            os.replace(packed, path)
        finally:
            for left in (plain, packed):
                with contextlib.suppress(OSError):
                    os.remove(left)
        return True

    def stop(self) -> None:
        memory, self._memory = self._memory, None
        if memory is not None:
            with contextlib.suppress(Exception):
                memory._record_memory_history(enabled=None)
