"""Threads for a piece of work, and the memory that it leaves to the next one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
_AT_ONCE = 2  # numpy moves numbers without holding the interpreter
_M_ARENA_MAX, _M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -8, -1, -3  # malloc.h of glibc
_KEPT_BYTES, _MAX_KEPT = 64 << 20, 32 << 20  # and the most that glibc takes for the latter
_WORTH_GIVING_BACK = 1 << 20  # rows: fewer leave a few MB
_WORTH_THREADS = 1 << 14  # events: what is to be done with fewer is done before a thread has started


def threads(count: int, name: str = "") -> ThreadPoolExecutor:
    """So many threads, which raise ``MemoryError`` where the system has none left for another one."""
    _share_one_heap()
    return _pool()(count, name)


@cache
def _pool() -> type[ThreadPoolExecutor]:
    from concurrent.futures import ThreadPoolExecutor  # late: small recordings are read without

    class Threads(ThreadPoolExecutor):
        def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
            try:
                return super().submit(fn, *args, **kwargs)
            except RuntimeError as error:
                raise MemoryError(str(error)) from error

    return Threads


@cache
def _share_one_heap() -> None:
    """A heap of a thread gives memory back after each large column, and the system clears it anew for the next one."""
    _tell_the_heap("mallopt", _M_ARENA_MAX, 1)


def give_back(rows: int) -> None:
    """Return to the system what work on columns of so many rows left free between those that stay."""
    if rows >= _WORTH_GIVING_BACK:
        _tell_the_heap("malloc_trim", 0)


def keep_memory() -> None:
    """For a process that does much of the same: what one piece of work leaves free, the next one needs again."""
    _tell_the_heap("mallopt", _M_MMAP_THRESHOLD, _MAX_KEPT)
    _tell_the_heap("mallopt", _M_TRIM_THRESHOLD, _KEPT_BYTES)


def _tell_the_heap(function: str, *arguments: int) -> None:
    if sys.platform == "linux":
        import ctypes

        if hasattr(library := ctypes.CDLL(None), function):
            getattr(library, function)(*arguments)


def side_by_side(work: Callable[[S], T], items: Iterable[S], events: int) -> Iterator[T]:
    """``work`` of each item, in order; two at a time where each goes through so many ``events`` that it pays."""
    if events < _WORTH_THREADS:
        yield from map(work, items)
        return
    with threads(_AT_ONCE) as pool:
        yield from pool.map(work, items)
