"""What a question may cost, and how the process that answers it is held to its memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from parsers.model.late import dataclass

MAX_SECONDS = 30.0
MAX_MEMORY = 1_000_000_000  # bytes beyond what the recording takes
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes of one question, once the tables that it names are there."""

    seconds: float = MAX_SECONDS
    memory: int = MAX_MEMORY


class MemoryLimit:
    """Lets this process take ``limit`` bytes for questions beyond what it takes for anything else.

    Linux counts (``RLIMIT_DATA``, writable memory of its own), whatever DuckDB believes. What a question leaves in the
    hands of the allocator does not make room for the next. Where a system has no such count, whoever asks must watch,
    who therefore hears when a question has ``begun``.
    """

    def __init__(self, limit: int, begun: Callable[[], None]) -> None:
        self.limit = limit
        self._begun = begun
        self._others = 0
        self._left = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """A question is answered inside: more memory is refused by the system."""
        self._begun()
        if sys.platform != "linux":
            yield
            return
        import resource

        before = resource.getrlimit(resource.RLIMIT_DATA)
        self._others += max(_writable_bytes() - self._left, 0)
        wanted = self._others + self.limit
        stricter = wanted if before[0] == resource.RLIM_INFINITY else min(wanted, before[0])
        resource.setrlimit(resource.RLIMIT_DATA, (stricter, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, before)
            self._left = _writable_bytes()


_of_this_process: list[MemoryLimit] = []


def limit_this_process(limit: MemoryLimit) -> None:
    """Let all questions that this process is asked from now on be held to this."""
    _of_this_process[:] = [limit]


def limit_of_this_process() -> MemoryLimit | None:
    """What ``limit_this_process`` said; None where questions are bounded by DuckDB's own count alone."""
    return next(iter(_of_this_process), None)


def _writable_bytes() -> int:
    """What ``RLIMIT_DATA`` is compared with: ``VmData`` of proc(5)."""
    for line in Path("/proc/self/status").read_bytes().splitlines():
        if line.startswith(b"VmData:"):
            return int(line.split()[1]) * _KIB
    return 0


def resident_bytes(process: int) -> int:
    """Memory that a process holds for itself now, without the files it maps; 0 where it has ended."""
    if sys.platform == "linux":
        try:
            pages = Path(f"/proc/{process}/statm").read_bytes().split()
        except OSError:
            return 0
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE") if pages else 0
    else:
        import psutil

        try:
            return int(psutil.Process(process).memory_info().rss)
        except psutil.Error:
            return 0
