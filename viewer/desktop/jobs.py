"""Background jobs: the only module that knows threads; one slot for each question, and the newest asker wins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import field
from functools import cache
from typing import Any, ParamSpec, TypeVar

from PySide6.QtCore import QObject, Qt, Signal
from shiboken6 import isValid

from parsers.collecting import hold_garbage, let_garbage_go
from parsers.model import Cancelled, Progress
from parsers.model.late import dataclass

_REPORT_EVERY_S = 0.04
_PATIENCE_S = 2.0

P = ParamSpec("P")
T = TypeVar("T")
Failed = Callable[[Exception], None]


@dataclass(slots=True, eq=False)
class _Job:
    slot: str
    progress: Progress
    answer: Callable[[Any], None]
    failed: Failed | None
    stopped: Callable[[], None] | None
    thread: threading.Thread | None = None
    last_report: float = field(default=0.0)


_running: set[_Job] = set()


def end_all(seconds: float = _PATIENCE_S) -> None:
    """Cancel the jobs of all windows, and wait a moment for their threads, before the program ends.

    Python ends a thread that goes on while the interpreter is taken down where it stands; inside of Qt that aborts
    the process.
    """
    deadline = time.monotonic() + seconds
    for job in (jobs := tuple(_running)):
        job.progress.cancel()
    for job in jobs:
        if job.thread is not None:
            job.thread.join(max(deadline - time.monotonic(), 0.0))


class _Post(QObject):
    """Carries calls to the GUI thread. It is never deleted, whereas a window may be while its threads still report."""

    call = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.call.connect(self._do, Qt.ConnectionType.QueuedConnection)

    def send(self, call: Callable[[], None]) -> None:
        """Run a call on the GUI thread, from any thread; drop it once Qt is being taken down."""
        with suppress(RuntimeError):  # "Signal source has been deleted"
            self.call.emit(call)

    def _do(self, call: Callable[[], None]) -> None:
        call()


@cache
def _post() -> _Post:
    """The one of the program, made on the GUI thread."""
    return _Post()


class Jobs(QObject):
    """Runs pure functions that take a ``Progress`` off the GUI thread and hands their results back on it.

    Asking again in a slot cancels what runs there; an old answer is dropped, never shown.
    """

    progressed = Signal(str, float, str)  # slot, 0 to 1, what is being done
    started = Signal(str)
    ended = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._current: dict[str, _Job] = {}
        self._threads: set[threading.Thread] = set()
        self._turn = threading.Lock()
        self._post = _post()
        self._closed = False

    def ask(
        self,
        slot: str,
        work: Callable[[Progress], T],
        answer: Callable[[T], None],
        failed: Failed | None = None,
        stopped: Callable[[], None] | None = None,
        in_turn: bool = False,
    ) -> None:
        """Run ``work`` in ``slot``; ``answer`` gets its result, unless a newer question came in between.

        Of the jobs that are to run ``in_turn`` only one runs at a time: they share the interpreter with the window.

        An exception goes to ``failed``, or to ``sys.excepthook`` where there is none. ``stopped`` is called when
        ``cancel`` ended the job. Once this is closed, nothing is run.
        """
        if self._closed:
            return
        self.forget(slot)
        job = _Job(slot, Progress(), answer, failed, stopped)
        job.progress = Progress(lambda fraction, doing: self._report(job, fraction, doing))
        self._current[slot] = job
        turn = self._turn if in_turn else nullcontext()
        job.thread = threading.Thread(
            target=self._run, args=(job, work, turn), name=f"job {slot}", daemon=True
        )
        self._threads = {thread for thread in self._threads if thread.is_alive()} | {job.thread}
        self.started.emit(slot)
        job.thread.start()

    def cancel(self, slot: str) -> None:
        """Stop the job of a slot at its next step; the asker's ``stopped`` is called."""
        job = self._current.get(slot)
        if job is not None:
            job.progress.cancel()

    def forget(self, slot: str) -> None:
        """Stop the job of a slot and drop whatever it still answers."""
        job = self._current.pop(slot, None)
        if job is not None:
            job.progress.cancel()
            self.ended.emit(slot)

    def is_running(self, slot: str) -> bool:
        return slot in self._current

    @property
    def busy(self) -> bool:
        return bool(self._current)

    def close(self, seconds: float = _PATIENCE_S) -> None:
        """Forget every job, start none any more, and wait a moment for the threads to end."""
        self._closed = True
        for slot in list(self._current):
            self.forget(slot)
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        self._threads = {thread for thread in self._threads if thread.is_alive()}

    def _report(self, job: _Job, fraction: float, doing: str) -> None:
        now = time.monotonic()
        if now - job.last_report >= _REPORT_EVERY_S:
            job.last_report = now
            self.on_gui_thread(self._on_report)(job, fraction, doing)

    def _run(self, job: _Job, work: Callable[[Progress], Any], turn: AbstractContextManager[Any]) -> None:
        _running.add(job)
        try:
            with turn:
                hold_garbage()  # widgets of a closed window must be collected on the GUI thread
                try:
                    job.progress.stop_if_wanted()
                    result, error = work(job.progress), None
                except Exception as raised:
                    result, error = None, raised
                finally:
                    self._post.send(let_garbage_go)
            self.on_gui_thread(self._on_settled)(job, result, error)
        finally:
            _running.discard(job)

    def on_gui_thread(self, take: Callable[P, None]) -> Callable[P, None]:
        """``take`` as any thread may call it: it runs on the GUI thread later, unless the window is gone by then."""

        def call(*values: P.args, **named: P.kwargs) -> None:
            self._post.send(lambda: take(*values, **named) if isValid(self) else None)

        return call

    def _on_report(self, job: _Job, fraction: float, doing: str) -> None:
        if self._current.get(job.slot) is job:
            self.progressed.emit(job.slot, fraction, doing)

    def _on_settled(self, job: _Job, result: Any, error: Exception | None) -> None:
        if self._current.get(job.slot) is not job:
            return
        del self._current[job.slot]
        self.ended.emit(job.slot)
        if error is None:
            job.answer(result)
        elif isinstance(error, Cancelled):
            if job.stopped is not None:
                job.stopped()
        elif job.failed is not None:
            job.failed(error)
        else:
            raise error
