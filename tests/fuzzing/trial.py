"""One input: opened, perhaps diagnosed and reported; what is not the usual output or a refusal is raised."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from pathlib import Path

from parsers import open_trace
from parsers.model import Trace, TraceError
from rules import diagnose
from rules.analysis.analysis import Analysis
from tests.fuzzing.seeds import SESSION
from viewer.reports.diagnosis_report import as_html
from viewer.reports.json_report import as_json
from viewer.reports.text_report import as_text
from viewer.user_data.session import Session
from viewer.user_data.storage import SessionError

MAX_SECONDS = 10.0  # of processor time, and by the clock
MAX_BYTES = 1 << 30  # of memory, above what the process took before
ASKED_EVENTS = 4
DIAGNOSED = 0.1  # of the inputs that open as a trace of a form that was seen before; of a new form, all are
OPENED, REFUSED = "opened", "refused"

Ask = Callable[[Hashable], bool]  # whether a form is new


def use_file(format: str, file: Path, chance: random.Random, is_new: Ask) -> Hashable:
    """None where it opens; else the place where it was refused. Anything else is raised: a fault of the program."""
    try:
        if format == SESSION:
            _read_session(file)
        else:
            _use(open_trace([file]), chance, is_new)
    except (TraceError, SessionError) as error:
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__ from None
        return _place_of(error)
    return None


def _use(trace: Trace, chance: random.Random, is_new: Ask) -> None:
    quality = trace.quality
    if quality.events_read != quality.events_kept + quality.quarantined:
        raise AssertionError(f"the account does not add up: {quality}")
    for _ in range(min(len(trace.events), ASKED_EVENTS)):
        trace.arguments(chance.randrange(len(trace.events)))
    if not is_new(_form_of(trace)) and chance.random() >= DIAGNOSED:
        return
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
    return (place.tb_frame.f_code.co_filename, place.tb_lineno) if place is not None else ("", 0)


def _read_session(file: Path) -> None:
    session = Session(file)
    session.recordings  # noqa: B018  (it reads)
    session.bookmarks()
    session.kept("lanes")
