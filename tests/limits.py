"""What the process of the tests was given by who started it: limits of the system, and signals it does not hear."""

from __future__ import annotations

import compileall
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

REPOSITORY = Path(__file__).resolve().parent.parent
Limits = Mapping[str, tuple[int, int]]


def limits() -> Limits:
    """Every limit by its name: what applies now, and what it may be raised to."""
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {name: resource.getrlimit(getattr(resource, name)) for name in names}


def set_back(usual: Limits) -> list[str]:
    """Names of the limits that are no longer the usual ones; each is set back."""
    changed = [name for name, limit in limits().items() if limit != usual[name]]
    for name in changed:
        with suppress(ValueError):  # nobody but root may raise what was lowered for good
            resource.setrlimit(getattr(resource, name), usual[name])
    return changed


def hear_signals() -> None:
    """Hear Ctrl+C, which what a script starts in the background does not, and neither would what is started here."""
    for number, usual in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        if hasattr(signal, number) and signal.getsignal(getattr(signal, number)) is signal.SIG_IGN:
            signal.signal(getattr(signal, number), usual)


@contextmanager
def room_in_a_file(most_bytes: int) -> Iterator[None]:
    """No file can be made longer, as on a full disk; never around a whole test, whose outcome may go to a file."""
    if resource is None:
        pytest.skip("Windows cannot limit the size of files")
    _compile_all()
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


@cache
def _compile_all() -> None:
    """Python 3.11 takes bytecode that the limit has cut for whole and keeps it, so there must be none to write."""
    for name in ("parsers", "resources", "rules", "stallscope", "viewer"):
        compileall.compile_dir(REPOSITORY / name, quiet=2)
