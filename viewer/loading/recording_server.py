"""What the process does that holds a recording: it answers one call after the other about it. It knows no Qt."""

from __future__ import annotations

import gc
import importlib
import queue
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from parsers.helper_process import later_lines
from parsers.model import Cancelled, Progress, Trace
from viewer.loading.messages import (
    Answered,
    Asking,
    Call,
    Held,
    Hold,
    Message,
    Mistaken,
    More,
    Part,
    Speaker,
    Stopped,
    order_of,
    outcome,
)
from viewer.query.errors import MemoryReached, QueryError
from viewer.query.limits import MemoryLimit, limit_this_process

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis

_PART_BYTES = 1 << 20
_AHEAD = 8  # parts that nobody has taken yet


class _Orders:
    """What is asked, in turn; a thread listens, so that what is being answered can be stopped."""

    def __init__(self, speaker: Speaker) -> None:
        self._calls: queue.SimpleQueue[tuple[Call, Progress, threading.Semaphore]] = queue.SimpleQueue()
        self._speaker = speaker
        threading.Thread(target=self._listen, daemon=True).start()

    def next(self) -> tuple[Call, Progress, threading.Semaphore]:
        """A call, its progress, and how many parts of its answer may be said."""
        return self._calls.get()

    def _listen(self) -> None:
        progress, room = Progress(), threading.Semaphore(0)
        for line in later_lines():
            order = order_of(line)
            if isinstance(order, Call):
                progress, room = Progress(self._speaker.step), threading.Semaphore(_AHEAD)
                self._calls.put((order, progress, room))
            elif isinstance(order, More):
                room.release()
            else:
                progress.cancel()


def hold(wanted: Hold, speaker: Speaker) -> None:
    """Read what is wanted, and answer calls about it until nobody is there to ask."""
    path = next((each for run in wanted.runs for each in run), "recording")
    limit_this_process(MemoryLimit(wanted.memory, lambda: speaker.say(Asking())))
    held = outcome(lambda: _analyses(wanted, Progress(speaker.step)), path)
    if not isinstance(held, list):
        speaker.say(held)
        return
    speaker.say(Held())
    gc.freeze()  # what was loaded and read stays
    orders = _Orders(speaker)
    while True:
        answered = partial(_answered, *orders.next(), held, speaker)
        speaker.say(outcome(answered, path))


def _analyses(wanted: Hold, progress: Progress) -> list[Analysis]:
    from rules.analysis.analysis import Analysis
    from rules.terms import Thresholds

    thresholds = Thresholds(wanted.thresholds)
    if wanted.handed is not None:
        from parsers.storage.handover import take_over

        return [Analysis(take_over(wanted.handed), thresholds)]
    from parsers import open_trace

    traces: list[Trace] = []
    for number, run in enumerate(wanted.runs):
        part = progress.part(number / len(wanted.runs), (number + 1) / len(wanted.runs))
        traces.append(open_trace([Path(each) for each in run], part))
    return [Analysis(trace, thresholds) for trace in traces]


def _answered(
    call: Call, progress: Progress, room: threading.Semaphore, analyses: list[Analysis], speaker: Speaker
) -> Message:
    """Say the answer, part by part; returns how it ended."""
    function = getattr(importlib.import_module(call.module), call.function)
    try:
        for piece in function(*analyses, progress=progress, **call.arguments):
            for begin in range(0, len(piece), _PART_BYTES):
                while not room.acquire(timeout=0.05):
                    progress.stop_if_wanted()
                speaker.say(Part(piece[begin : begin + _PART_BYTES]))
    except Cancelled:
        return Stopped()
    except MemoryError:
        return Mistaken.of(MemoryReached())
    except QueryError as error:
        return Mistaken.of(error)
    return Answered()
