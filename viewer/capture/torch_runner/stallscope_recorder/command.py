"""The runner's command: reads the options, waits for torch, runs the script, and writes whatever was recorded."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import os
import signal
import sys
import threading
import time
from typing import Any, Callable, List

from . import script
from .options import Options, parse
from .session import Session, rank_of_this_process
from .status import Status
from .trials.recorder import Order, prepare_environment

POLL = 0.2
BOUNDARY_GRACE = 3.0
"""Seconds a stop request waits for the end of a step before it ends the recording wherever the script is."""
RANK_GRACE = 30.0
"""The same for a rank of a distributed run."""
EXIT_GRACE = 20.0
"""Seconds the script may take to end once it is told to; then the process ends without it."""
NO_STEPS_FOR = 120.0
"""Seconds without any sign of a step after which the whole run is recorded instead."""

current: Session | None = None


def main(arguments: List[str]) -> int:
    """Run the target named after ``--`` and return its exit code (0 when it was stopped after the recording)."""
    options, target = parse(arguments)
    rank = rank_of_this_process()
    status = Status(options.status, rank)
    status.say("starting", text=" ".join(target), pid=os.getpid())
    if options.trial:
        prepare_environment(Order(options.trial))
    session = begin(options, status, rank)
    _when_torch_is_imported(lambda: _torch_imported(session))
    code = script.run(target, session.script_failed)
    session.script_ended()
    return 0 if session.stopping_script else code


def begin(options: Options, status: Status, rank: int) -> Session:
    """A session in this process, with its watcher, its fork guard and its last chances to write."""
    global current
    session = Session(options, status, rank)
    current = session
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=session.switch_off)
    _write_before_hard_exit(session)
    with contextlib.suppress(ValueError, OSError):
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _terminated)
        wake = _wake_signal()
        signal.signal(wake, lambda *_: session.at_a_safe_point())
        if hasattr(signal, "siginterrupt"):
            signal.siginterrupt(wake, False)
        main_thread = threading.main_thread().ident or 0
        threading.Thread(
            target=_watch, args=(session, wake, main_thread), name="stallscope", daemon=True
        ).start()
    return session


def _torch_imported(session: Session) -> None:
    session.torch_is_there()
    with contextlib.suppress(ImportError, AttributeError):
        hand_over_to_children(session)


def _terminated(number: int, _: Any) -> None:
    raise SystemExit(128 + number)


def _wake_signal() -> Any:
    if hasattr(signal, "SIGRTMIN"):
        return int(signal.SIGRTMIN) + 7
    return int(getattr(signal, "SIGUSR2", getattr(signal, "SIGBREAK", signal.SIGINT)))


def _write_before_hard_exit(session: Session) -> None:
    leave = os._exit
    owner = os.getpid()

    def _exit(code: int) -> None:
        if os.getpid() == owner:
            with contextlib.suppress(Exception):
                session.script_ended()
        leave(code)

    os._exit = _exit  # type: ignore[assignment]


def _watch(session: Session, wake: int, main_thread: int) -> None:
    """Polls for the stop request and the time limits; never touches the profiler itself."""
    options = session.options
    began = time.monotonic()
    torch_since: float | None = None
    recording_since: float | None = None
    asked_at: float | None = None
    over_since: float | None = None
    while not session.switched_off:
        time.sleep(POLL)
        now = time.monotonic()
        if session.over:
            over_since = over_since or now
            if session.stopping_script and now - over_since > EXIT_GRACE:
                _leave_now()
            if options.keep_running:
                return
            continue
        if session.recorder is not None:
            torch_since = torch_since or now
        recording_since = (recording_since or now) if session.recording else None
        stop = bool(options.control) and os.path.exists(options.control)
        too_long = recording_since is not None and now - recording_since > options.time_limit
        if session.others_ask() or stop or too_long:
            asked_at = asked_at or now
            session.request()
        whole = options.steps == "whole"
        if asked_at is not None:
            if now - asked_at > _grace(session):
                _wake(wake, main_thread)
        elif torch_since is not None and not session.recording:
            late = whole and now - began >= options.delay
            if late or (
                options.steps == "auto"
                and not options.when_slow
                and not session.finder.seen_anything
                and now - torch_since > NO_STEPS_FOR
            ):
                session.request(start=True)
                _wake(wake, main_thread)


def _grace(session: Session) -> float:
    """How long a request to finish may wait for a boundary: ranks that stop anywhere would wait for each other."""
    if session.rank >= 0 and session.finder.source:
        return RANK_GRACE
    return 0.0 if session.options.steps == "whole" else BOUNDARY_GRACE


def _wake(number: Any, main_thread: int) -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread, number)
    else:
        import _thread

        _thread.interrupt_main(number)


def _leave_now() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)


class _TorchImport(importlib.abc.MetaPathFinder):
    """Calls back once, right after the module ``torch`` has been imported by whoever wants it."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch" or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        execute, then = spec.loader.exec_module, self._then

        def exec_module(module: Any) -> None:
            execute(module)
            then()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _when_torch_is_imported(then: Callable[[], None]) -> None:
    if "torch" in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _TorchImport(then))


class Recorded:
    """A picklable stand-in for the function that a spawned process runs."""

    def __init__(self, function: Any, options: Options) -> None:
        self.function = function
        self.options = options

    def __call__(self, index: int, *arguments: Any) -> Any:
        earlier = current
        if earlier is not None and earlier.hooks is not None:
            earlier.hooks.remove()
        if earlier is not None and earlier.switched_off:
            sys.modules["torch"]._C._autograd._enable_record_function(True)
        rank = rank_of_this_process()
        rank = index if rank < 0 else rank
        session = begin(self.options, Status(self.options.status, rank), rank)
        session.torch_is_there()
        try:
            return self.function(index, *arguments)
        except SystemExit:
            if not session.stopping_script:
                raise
        finally:
            session.script_ended()


def hand_over_to_children(session: Session) -> None:
    """From now on processes started by ``torch.multiprocessing.spawn`` or ``start_processes`` record themselves."""
    package = sys.modules["torch.multiprocessing"]
    module = sys.modules["torch.multiprocessing.spawn"]
    original = module.start_processes

    def start_processes(fn: Any, *args: Any, **kwargs: Any) -> Any:
        if session.switched_off:
            return original(fn, *args, **kwargs)
        session.handed_over = True
        return original(Recorded(fn, session.options), *args, **kwargs)

    module.start_processes = start_processes  # type: ignore[attr-defined]
    package.start_processes = start_processes  # type: ignore[attr-defined]
