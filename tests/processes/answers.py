"""What every answer of a command has in common, whatever happened to it."""

from __future__ import annotations

import signal

from tests.processes.place import Done

PACKAGE = "/site-packages/stallscope/"

ANSWERED = frozenset({0, 1, 3})  # done, a gate failed, a gate cannot decide
REFUSED = 2


def is_mistaken(done: Done, number: int = 0) -> bool:
    """Whether it ended with a traceback; one by Ctrl+C before Python has come to this program is Python's own."""
    is_told = "Traceback" in done.err or "Fatal Python error" in done.err
    return is_told and (number != signal.SIGINT or PACKAGE in done.err)


def assert_answered_or_refused(done: Done, *, says_what_it_does: bool = False) -> None:
    """It did what it was asked for, or said in one sentence why not, at most after what it was doing until then."""
    assert not is_mistaken(done), done.err[-1500:]
    assert done.code in {*ANSWERED, REFUSED}, (done.code, done.err[-500:])
    if done.code == REFUSED:
        assert done.err.splitlines()[-1].startswith("stallscope: "), done.err
        assert says_what_it_does or done.err.count("stallscope: ") == 1, done.err


def assert_answered(done: Done) -> None:
    """It did what it was asked for."""
    assert_answered_or_refused(done)
    assert done.code in ANSWERED, done.err
