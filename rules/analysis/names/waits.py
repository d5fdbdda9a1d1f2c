"""Which of Python's built-in functions only wait for another thread."""

from __future__ import annotations

from parsers.model.late.regex import regex

_OF_A_LOCK = regex(
    r"(?:_thread\.\w+|_multiprocessing\.SemLock)\.(?:acquire|__enter__)|<built-in method (?:acquire|__enter__)\b.*"
)


def waits_for_a_lock(function: str) -> bool:
    """Whether a function of that name, as tracers of Python write it, waits for a lock: others work meanwhile."""
    return _OF_A_LOCK.fullmatch(function) is not None
