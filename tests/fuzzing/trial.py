"""One damaged input, opened, diagnosed and reported, within bounds of time and memory."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import tempfile
import time
from collections.abc import Iterator
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
OPENED, REFUSED = "opened", "refused"


class TooSlow(BaseException):
    """An input took too long; no ``except`` of the program may take it for damage of the file."""


def try_out(data: bytes, format: str, chance: random.Random) -> str:
    """``OPENED`` or ``REFUSED``. Anything else is raised: a fault of the program."""
    before = _peak()
    outcome = OPENED
    with tempfile.TemporaryDirectory(prefix="stallscope-fuzz-") as folder:
        file = Path(folder) / "input"
        file.write_bytes(data)
        try:
            with _within_time(len(data)):
                if format == SESSION:
                    _read_session(file)
                else:
                    _use(open_trace([file]), chance)
        except (TraceError, SessionError):
            outcome = REFUSED
        beside = sorted(each.name for each in Path(folder).iterdir())
    if beside != ["input"]:
        raise AssertionError(f"left beside the recording: {beside}")
    if _peak() - before > MOST_BYTES:
        raise MemoryError(f"{(_peak() - before) >> 20} MB")
    return outcome


def _use(trace: Trace, chance: random.Random) -> None:
    quality = trace.quality
    if quality.events_read != quality.events_kept + quality.quarantined:
        raise AssertionError(f"the account does not add up: {quality}")
    diagnosis, analysis = diagnose(trace), Analysis(trace)
    if diagnosis.crashed:
        raise AssertionError("a rule failed: " + "; ".join(diagnosis.crashed.values()))
    for report in (as_text, as_html, as_json):
        report(trace, diagnosis, analysis)
    for _ in range(min(len(trace.events), ASKED_EVENTS)):
        trace.arguments(chance.randrange(len(trace.events)))


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
