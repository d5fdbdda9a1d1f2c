"""The journal of recorded programs: what each recording promised, and what the next one of the same program got.

A program is the same by its tool, its script or command, its arguments without numbers, and its machine, or by the name
that the user gave its journal. The journal lies in the user's data folder, never beside a recording.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from parsers.model import TraceError
from parsers.model.late import dataclass, regex
from rules.analysis.analysis import Analysis
from rules.diagnosis import Diagnosis
from rules.fixes.plan import plan_of
from rules.gates.against_kept import judgement_on
from rules.gates.figures import figures_of
from rules.gates.kept_promises import promises_of, since_then
from rules.trials.record import FixRecord, KeptTrial, kept_trials, records_by_fix
from rules.trials.trial import Trials
from rules.verdict.verdict import verdict
from viewer.capture.request import CaptureRequest
from viewer.capture.storage import History as Runs
from viewer.capture.storage import Run
from viewer.capture.trials.launch import trial_request
from viewer.user_data.history import Entry, History, Series

_NUMBER = regex(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
MAX_NAME_LENGTH = 400
MAX_NAMED = 3  # files of a slow step, beside the first


def program_of(request: CaptureRequest) -> str:
    """What the program is called in the journal."""
    target = request.target
    script = (
        str(Path(target.folder or ".", target.program).resolve()) if "/" in target.program else target.program
    )
    arguments = " ".join(_NUMBER.sub("_", word) for word in target.arguments)
    return f"{request.tool.value}: {script} {arguments}{_ending(request)}".replace("  ", " ")[
        :MAX_NAME_LENGTH
    ]


def _ending(request: CaptureRequest | None) -> str:
    """How the names of all programs end that run where this one does, or here."""
    host = request.on.removeprefix("ssh:") if request is not None else ""
    return f" on {host or socket.gethostname()}"


def keep_trials(request: CaptureRequest, trials: Trials, name: str = "") -> bool:
    """Write what was promised and measured of each change; whether there was anything to write. Raises TraceError."""
    kept = kept_trials(trials)
    if kept:
        entry = Entry(name or program_of(request), (), Series.TRIAL, saved=time.time(), trials=kept)
        History().keep(entry)
    return bool(kept)


def keep_incident(request: CaptureRequest, said: str, names: Sequence[str], name: str = "") -> Entry:
    """Write that a step was slow, how slow, and how the files that tell of it are called. Raises TraceError."""
    first, *others = sorted(names) or [""]
    files = (
        f"{first} and {len(others)} more"
        if len(others) > MAX_NAMED
        else " ".join(filter(None, [first, *others]))
    )
    entry = Entry(
        name or program_of(request), (), Series.INCIDENT, reason=f"{said} ({files})" if said else files
    )
    return History().keep(entry)


def was_tried(request: CaptureRequest, name: str = "") -> bool:
    """Whether the journal holds a trial of a program. Raises TraceError."""
    return bool(History().entries(Series.TRIAL, name or program_of(request)))


def earlier_trials(request: CaptureRequest) -> list[KeptTrial]:
    """What trials of a program measured, those of the same change by the last of them. Raises TraceError."""
    if not request.target.is_python:
        return []
    entries = History().entries(Series.TRIAL, program_of(trial_request(request)))
    return list({each.switch: each for entry in entries for each in entry.trials}.values())


def records_on(request: CaptureRequest | None) -> list[FixRecord]:
    """How promises held, by fix, on the machine where a program runs, or on this one. Raises TraceError."""
    entries = History().entries(Series.TRIAL)
    ending = _ending(request)
    return list(records_by_fix(each for one in entries if one.name.endswith(ending) for each in one.trials))


def records_for(paths: Sequence[Path]) -> dict[str, FixRecord]:
    """The same for the machine that made these files, by fix; none where the journal cannot be read."""
    try:
        if not History().entries(Series.TRIAL):
            return {}
        run = run_that_made(paths)
        return {each.fix: each for each in records_on(run.request if run is not None else None)}
    except (TraceError, OSError):
        return {}


def run_that_made(paths: Sequence[Path]) -> Run | None:
    """The run of the recorder that wrote these files, or all in these folders; None for files of others."""
    wanted = {Path(path).absolute() for path in paths}
    found = [run for run in Runs().runs() if run.recordings and _are_of(wanted, run)]
    in_a_folder = len(found) > 1 and any(path.is_dir() for path in wanted)  # that holds those of others, too
    return found[0] if found and not in_a_folder else None


def _are_of(wanted: set[Path], run: Run) -> bool:
    """Whether these are the recordings of a run, each by itself or with the folder that it lies in."""
    made = {path.absolute() for path in run.recordings}
    return wanted <= made | {path.parent for path in made} and all(
        path in wanted or path.parent in wanted for path in made
    )


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of a new recording of a program; ``since`` is when the one before was made, as people write it."""

    program: str
    since: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.lines)


def keep_in_journal(run: Run, analysis: Analysis, diagnosis: Diagnosis, name: str = "") -> Told | None:
    """Write what a run's recording promises, and say what became of what the one before it promised.

    None for the first recording of a program, and for one that is older than what is kept; a recording without GPU
    work or without steps is not kept. Raises TraceError where the journal cannot be used.
    """
    figures = figures_of(analysis)
    if not figures.gpus or not figures.found_by:
        return None
    history = History()
    program = name or program_of(run.request)
    former = history.entries(Series.PROGRAM, program)
    if (
        former and run.started <= former[-1].saved <= time.time()
    ):  # what is kept of a wrong clock's future is older
        return None
    plan = plan_of(analysis)
    entry = Entry(program, (figures,), Series.PROGRAM, promises=promises_of(plan), saved=run.started)
    history.keep(entry)
    if not former:
        return None
    before = former[-1]
    lines = since_then(
        before.promises, judgement_on(before.runs, entry.runs), plan, verdict(analysis, diagnosis)
    )
    return Told(program, f"{datetime.fromtimestamp(before.saved):%Y-%m-%d %H:%M}", tuple(lines))
