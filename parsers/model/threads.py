"""Threads for a piece of work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
_AT_ONCE = 2  # numpy moves numbers without holding the interpreter
_WORTH_THREADS = 1 << 14  # events: what is to be done with fewer is done before a thread has started


class Threads(ThreadPoolExecutor):
    """Raises ``MemoryError`` where the system has none left for another thread."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError as error:
            raise MemoryError(str(error)) from error


def side_by_side(work: Callable[[S], T], items: Iterable[S], events: int) -> Iterator[T]:
    """``work`` of each item, in order; two at a time where each goes through so many ``events`` that it pays."""
    if events < _WORTH_THREADS:
        yield from map(work, items)
        return
    with Threads(_AT_ONCE) as threads:
        yield from threads.map(work, items)
