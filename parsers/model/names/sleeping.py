"""What the operating system tells of a thread that does not run: on which processor it was, and what it waits for."""

from __future__ import annotations

from enum import Enum

from parsers.model.late import regex

_PROCESSOR = regex(r"CPU( \d+)?$")


def processor_name(number: int | None) -> str:
    """The name of a stretch in which a thread runs on a processor; None: on which is not known."""
    return "CPU" if number is None else f"CPU {number}"


def is_processor(name: str) -> bool:
    """Whether an event of this name is such a stretch."""
    return _PROCESSOR.match(name) is not None


class WaitFor(Enum):
    """What a thread waits for while it is off the processor; of several, the first that holds."""

    TIMER = "a timer"
    IO = "I/O"
    THREAD = "another thread"
    UNKNOWN = "something that was not recorded"


# Calls of the C library and of Linux, as Nsight Systems names those that take long
_CALLS = {
    WaitFor.TIMER: regex(r"(clock_)?nanosleep(64|_time64)?$|u?sleep$|pause$|thrd_sleep$|sigtimedwait$"),
    WaitFor.IO: regex(
        r"_*(p?poll|p?select|epoll_p?wait2?|accept4?|recv(from|m?msg)?|connect|f(data)?sync|msgrcv|mq_(timed)?receive|"
        r"sigwait(info)?|wait(pid|id|3|4)?|io_getevents|ioctl)(_chk|64)?$"
    ),
    WaitFor.THREAD: regex(
        r"pthread_(cond_(timed|clock)?wait|mutex_(timed|clock)?lock|rwlock_(timed|clock)?(rd|wr)lock|barrier_wait|"
        r"(timed|clock)?join(_np)?)$|sem_(timed|clock)?wait$|semop$|semtimedop$|futex(_wait\w*)?$"
    ),
}
# These copy what is there already, or wait until something is
_TRANSFERS = regex(
    r"_*(p?readv?2?|p?writev?2?|fread|fwrite|fgets|fgetc|getline|send(to|m?msg|file)?)(64)?(_\w+)?$"
)


def waits_for(name: str) -> WaitFor | None:
    """What a call of the operating system lets its thread wait for; None for those that may work instead."""
    return next((kind for kind, pattern in _CALLS.items() if pattern.match(name)), None)


def may_wait_for(name: str) -> WaitFor | None:
    """The same where the thread is known not to have run in it."""
    return waits_for(name) or (WaitFor.IO if _TRANSFERS.match(name) else None)
