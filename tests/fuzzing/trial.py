"""Damaged inputs of one format: opened, and some diagnosed and reported, within bounds of time and memory."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import time
from collections.abc import Hashable, Iterator
from pathlib import Path
from types import FrameType

from parsers import open_trace
from parsers.model import Trace, TraceError
from rules import diagnose
from rules.analysis.analysis import Analysis
from tests.fuzzing.seeds import SESSION
from viewer.kept.session import Session
from viewer.kept.storage import SessionError
from viewer.reports.html_report import as_html
from viewer.reports.json_report import as_json
from viewer.reports.text_report import as_text

FIRST_S, S_A_BYTE = 2.0, 20e-6  # of processor time: what any input may take, and what its length adds
MOST_S = 10.0
MOST_BYTES = 1 << 30  # of memory, above what the process took before
ASKED_EVENTS = 4
DIAGNOSED = 0.1  # of the inputs that open as a trace of a form that was seen before; of a new form, all are
OPENED, REFUSED = "opened", "refused"


class TooSlow(BaseException):
    """An input took too long; no ``except`` of the program may take it for damage of the file."""


class Trials:
    """Inputs of one format, tried in a folder of their own; ``forms`` tells in how many ways they were read so far."""

    def __init__(self, format: str, folder: Path, chance: random.Random) -> None:
        self.format = format
        self.forms: set[Hashable] = set()
        self._file = folder / "input"
        self._chance = chance

    def of(self, data: bytes) -> str:
        """``OPENED`` or ``REFUSED``. Anything else is raised: a fault of the program."""
        before = _peak()
        outcome = OPENED
        self._file.unlink(missing_ok=True)  # a trace that still lives reads the bytes that it was made of
        self._file.write_bytes(data)
        try:
            with _within_time(len(data)):
                if self.format == SESSION:
                    _read_session(self._file)
                else:
                    self._use(open_trace([self._file]))
        except (TraceError, SessionError) as error:
            outcome = REFUSED
            self.forms.add(_place_of(error))
        beside = set(os.listdir(self._file.parent)) - {self._file.name}
        if beside:
            for name in beside:
                (self._file.parent / name).unlink()
            raise AssertionError(f"left beside the recording: {sorted(beside)}")
        if _peak() - before > MOST_BYTES:
            raise MemoryError(f"{(_peak() - before) >> 20} MB")
        return outcome

    def _use(self, trace: Trace) -> None:
        quality = trace.quality
        if quality.events_read != quality.events_kept + quality.quarantined:
            raise AssertionError(f"the account does not add up: {quality}")
        for _ in range(min(len(trace.events), ASKED_EVENTS)):
            trace.arguments(self._chance.randrange(len(trace.events)))
        form = _form_of(trace)
        if form in self.forms and self._chance.random() >= DIAGNOSED:
            return
        self.forms.add(form)
        diagnosis, analysis = diagnose(trace), Analysis(trace)
        if diagnosis.crashed:
            raise AssertionError("a rule failed: " + "; ".join(diagnosis.crashed.values()))
        for report in (as_text, as_html, as_json):
            report(trace, diagnosis, analysis)


def _form_of(trace: Trace) -> Hashable:
    """What sorts of things a trace holds and lost, and about how many: inputs of one form go much the same way."""
    return (
        len(trace.events).bit_length(),
        len(trace.links.launch).bit_length(),
        frozenset(lane.kind for lane in trace.lanes),
        frozenset(trace.attributes),
        frozenset(note.kind for note in trace.quality.notes),
        (len(trace.devices), len(trace.kernels), len(trace.counters), len(trace.tables), len(trace.memory)),
    )


def _place_of(error: Exception) -> Hashable:
    """Where an input was refused."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return None if place is None else (place.tb_frame.f_code.co_filename, place.tb_lineno)


def _read_session(file: Path) -> None:
    session = Session(file)
    session.recordings  # noqa: B018  (it reads)
    session.bookmarks()
    session.kept("lanes")


@contextlib.contextmanager
def _within_time(length: int) -> Iterator[None]:
    allowed = min(FIRST_S + S_A_BYTE * length, MOST_S)
    begun = time.process_time()

    def too_slow(_: int, __: FrameType | None) -> None:
        raise TooSlow(f"more than {allowed:.1f} s for {length:,} bytes")

    before = signal.signal(signal.SIGPROF, too_slow)
    signal.setitimer(signal.ITIMER_PROF, MOST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if time.process_time() - begun > allowed:
        raise TooSlow(f"more than {allowed:.1f} s for {length:,} bytes")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
