"""Threads for a piece of work."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads(ThreadPoolExecutor):
    """Raises ``MemoryError`` where the system has none left for another thread."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError as error:
            raise MemoryError(str(error)) from error
