"""Which functions only wait for another thread or process, or spin until there is work."""

from __future__ import annotations

from parsers.model.late import regex

_OF_A_LOCK = regex(
    r"(?:_thread\.\w+|_multiprocessing\.SemLock)\.(?:acquire|__enter__)|<built-in method (?:acquire|__enter__)\b.*"
)


def waits_for_a_lock(function: str) -> bool:
    """Whether a function of that name, as tracers of Python write it, waits for a lock: others work meanwhile."""
    return _OF_A_LOCK.fullmatch(function) is not None


_WAITING = {  # of Python's own modules
    "threading.py": {"join", "wait", "acquire", "_wait_for_tstate_lock", "__enter__"},
    "connection.py": {"_recv", "recv", "recv_bytes", "poll", "_poll", "wait", "accept"},
    "pool.py": {"wait", "get", "_handle_tasks", "_handle_workers", "_handle_results", "_wait_for_updates"},
    "popen_fork.py": {"poll", "wait"},
    "process.py": {"join"},
    "queue.py": {"get", "put"},
    "queues.py": {"get", "put"},
    "selectors.py": {"select"},
    "subprocess.py": {"wait", "_wait", "_try_wait", "communicate", "_communicate"},
    "thread.py": {"_worker"},
}
_SPINS = regex(r"(?:__|__x64_sys_|do_)?sched_yield|SwitchToThread|NtYieldExecution")


def waits_for_others(function: str, file: str) -> bool:
    """Whether a sampled function of Python's own modules is one that waits for another thread or process."""
    return function in _WAITING.get(file.replace("\\", "/").rpartition("/")[2], ())


def spins(function: str) -> bool:
    """Whether a sampled function gives the core to others for a moment, as threads do that wait without sleeping."""
    return _SPINS.fullmatch(function) is not None
