"""Reduces the files of many ranks on this machine: in this process, or in as many as there are cores."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing.context import BaseContext

from parsers.helper_process import end_with
from parsers.model import Progress
from parsers.model.threads import keep_memory
from viewer.desktop.ending import end_at_once_when_told
from viewer.loading.ranks.reducing import load, reduce_rank
from viewer.loading.ranks.summaries import Reduced, Wanted

_LOOK_EVERY_S = 0.1
_COLLECT_AFTER = 5_000  # objects more than were freed: what some 20 ranks leave, 30 MB
_AHEAD = 2  # recordings asked for, for each process: so many answers at most wait to be taken
FEW = 4  # recordings that are reduced sooner than another process has started

_ENDED = "The process that read it was killed, perhaps for lack of memory."

Answer = Callable[[int, Reduced], None]


def processes() -> int:
    """How many processes this machine has cores for."""
    return max(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 1)


def reduce_here(wanted: Sequence[Wanted], workers: int, answer: Answer, progress: Progress) -> None:
    """Reduce every recording; ``answer`` gets the number of each and what became of it, in any order.

    A recording whose process dies is tried once more alone, and is then said to be unreadable. Raises ``Cancelled``.
    """
    if workers < 2 or len(wanted) < FEW:
        for number, each in enumerate(wanted):
            progress.step(number / len(wanted), _said(number, len(wanted)))
            part = progress.part(number / len(wanted), (number + 1) / len(wanted))
            answer(number, reduce_rank(each, part))
        return
    suspects = _reduce_in_pool(wanted, range(len(wanted)), workers, answer, progress)
    for number in suspects:  # each alone, so that only the guilty one is blamed
        for _ in _reduce_in_pool(wanted, [number], 1, answer, progress):
            answer(number, Reduced(problem=_ENDED))


def _said(done: int, count: int) -> str:
    return f"reading rank {done + 1:,} of {count:,}"


def _reduced(wanted: Wanted) -> Reduced:
    """What a process of the pool does."""
    reduced = reduce_rank(wanted)
    _leave_what_was_loaded()
    return reduced


@cache
def _leave_what_was_loaded() -> None:
    """Nobody looks for garbage again in what the first recording made the process load.

    What a rank leaves is freed at once but for some 200 objects that hold one another: these are looked for less often.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


def _reduce_in_pool(
    wanted: Sequence[Wanted], numbers: Sequence[int], workers: int, answer: Answer, progress: Progress
) -> list[int]:
    """Reduce these in a pool of processes; those that were in work when one of them died are given back."""
    left: Iterator[int] = iter(numbers)
    running: dict[Future[Reduced], int] = {}
    ended: queue.SimpleQueue[Future[Reduced]] = queue.SimpleQueue()
    lost: list[int] = []
    done = 0
    workers = min(workers, len(numbers))
    pool = _pool(workers)
    try:
        while True:
            while len(running) < _AHEAD * workers and (number := next(left, None)) is not None:
                try:
                    future = pool.submit(_reduced, wanted[number])
                except BrokenProcessPool:
                    lost.append(number)
                    break
                running[future] = number
                future.add_done_callback(ended.put)
            if not running:
                if lost and (rest := list(left)):
                    _end(pool)
                    pool, left = _pool(workers), iter(rest)
                    continue
                return lost
            progress.step(done / len(numbers), _said(done, len(numbers)))
            with contextlib.suppress(queue.Empty):
                future = ended.get(timeout=_LOOK_EVERY_S)
                number = running.pop(future)
                try:
                    answer(number, future.result())
                    done += 1
                except BrokenProcessPool:
                    lost.append(number)
    finally:
        _end(pool)


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, _context(), initializer=_end_with_the_pool, initargs=(os.getpid(),))


def _context() -> BaseContext:
    """Copies of this process, which has loaded what reduces by then; processes that load it anew where it has threads.

    A copy of a process with threads has the locks that they held, and nobody who lets them go.
    """
    if not _has_one_thread():
        _start_tracker()
        return multiprocessing.get_context("spawn")
    load()
    return multiprocessing.get_context("fork")


def _has_one_thread() -> bool:
    """Whether this process has no threads, not even of libraries; False where the system does not tell."""
    try:
        return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def _start_tracker() -> None:
    """Start what the standard library keeps locks of spawned workers with, deaf to a terminal that is closed.

    It ends with this process. If the signal ended it before, this process would start another one, and complain.
    """
    if sys.platform != "win32":
        from multiprocessing import resource_tracker

        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        try:
            resource_tracker.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_the_pool(asker: int) -> None:
    """However the process that has the pool ends, its workers do, too. They keep memory for the next rank.

    Looking for garbage in what they share with it would copy that.
    """
    gc.freeze()
    end_with(asker)
    end_at_once_when_told()
    keep_memory()
    owner = multiprocessing.parent_process()
    assert owner is not None

    def wait_for_it() -> None:
        owner.join()
        os._exit(1)

    threading.Thread(target=wait_for_it, daemon=True).start()


def _end(pool: ProcessPoolExecutor) -> None:
    """End the processes at once, whatever they are reading."""
    running = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in running:
        process.kill()
    for process in running:
        process.join()
