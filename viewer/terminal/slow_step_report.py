"""Slow steps of a program that runs: each is diagnosed and written into the journal as soon as its files are there."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path, PurePosixPath, PureWindowsPath

from parsers.model import TraceError
from parsers.model.late import dataclass
from viewer.capture.output_stream import Event
from viewer.capture.recording import Outcome
from viewer.capture.request import CaptureRequest
from viewer.capture.trials.journal import keep_incident
from viewer.terminal.console import complain
from viewer.terminal.exit_codes import DONE, INTERRUPTED

SAME_WITHIN = 2
"""Steps between which ranks notice the same slow step: one waits for the other only in the next collective."""


@dataclass(slots=True)
class Incident:
    """A slow step. ``waits_for`` are the ranks that have told of it and not written their recording yet."""

    step: int
    text: str
    ranks: set[int] = field(default_factory=set)
    waits_for: set[int] = field(default_factory=set)
    names: list[str] = field(default_factory=list)

    def files(self, among: Sequence[Path]) -> list[Path]:
        """Those of its files that are here, in their order."""
        return [path for path in among if path.name in self.names]


class Incidents:
    """All of a run, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[Incident] = []
        self._current: dict[int, Incident] = {}

    def take(self, event: Event) -> Incident | None:
        """The incident whose last recording this event tells of."""
        if event.phase == "incident":
            self._begin(event)
        elif event.phase == "written" and event.rank in self._current:
            incident = self._current[event.rank]
            incident.names.append(_name(str(event.values.get("path", ""))))
            was_waited_for = event.rank in incident.waits_for
            incident.waits_for.discard(event.rank)
            return incident if was_waited_for and not incident.waits_for else None
        return None

    def _begin(self, event: Event) -> None:
        step = event.values.get("step_number")
        step = step if isinstance(step, int) else -1
        last = self.all[-1] if self.all else None
        if last is None or event.rank in last.ranks or abs(step - last.step) > SAME_WITHIN:
            last = Incident(step, str(event.values.get("text", "")))
            self.all.append(last)
        last.ranks.add(event.rank)
        last.waits_for.add(event.rank)
        self._current[event.rank] = last


def _name(path: str) -> str:
    return (PureWindowsPath(path) if "\\" in path else PurePosixPath(path)).name


FAILED = 1
Diagnose = Callable[[Sequence[Path], str], int]


class SlowStepReport:
    """``take`` is called by the thread that reads the program's output, which never waits for a diagnosis.

    Files of a program on another machine come at its end: until then the journal alone tells of its slow steps.
    """

    def __init__(self, request: CaptureRequest, diagnose: Diagnose | None, journal: str) -> None:
        self._request = request
        self._diagnose = diagnose
        self._journal = journal
        self._incidents = Incidents()
        self._folder: Path | None = None
        self._settled: queue.SimpleQueue[Incident | None] = queue.SimpleQueue()
        self._told: list[Incident] = []
        self._kept: list[Incident] = []
        self._code = DONE
        self._thread: threading.Thread | None = None

    def take(self, event: Event) -> None:
        if event.phase == "written" and not self._request.on:
            self._folder = Path(str(event.values.get("path", ""))).parent
        settled = self._incidents.take(event)
        if settled is None:
            return
        self._settled.put(settled)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="slow steps", daemon=True)
            self._thread.start()

    def finish(self, outcome: Outcome) -> int:
        """Tell of what has not been told, the last one last; the exit code. A run without a slow step went well."""
        if self._thread is not None:
            self._settled.put(None)
            self._thread.join()
        if not outcome.recordings:
            complain(f"{outcome.problem} {outcome.fix}".rstrip())
            if outcome.killed:
                return INTERRUPTED
            return FAILED if outcome.exit_code or outcome.traceback else DONE
        for incident in self._incidents.all:
            if incident not in self._told and (files := incident.files(outcome.recordings)):
                self._tell(incident, files)
        if outcome.failure:
            complain(f"the script failed ({outcome.failure}); what was recorded is kept")
        return FAILED if outcome.traceback and self._code == DONE else self._code

    def _work(self) -> None:
        while (incident := self._settled.get()) is not None:
            self._keep(incident)
            files = [] if self._folder is None else incident.files(sorted(self._folder.iterdir()))
            if files:
                self._tell(incident, files)

    def _tell(self, incident: Incident, files: Sequence[Path]) -> None:
        self._told.append(incident)
        self._keep(incident)
        print(f"\nSlow step {len(self._told)}: {incident.text}", *files, sep="\n", flush=True)
        if self._diagnose is not None:
            self._code = max(self._code, self._diagnose(files, self._journal))

    def _keep(self, incident: Incident) -> None:
        if incident in self._kept:
            return
        self._kept.append(incident)
        try:
            keep_incident(self._request, incident.text, incident.names, self._journal)
        except TraceError as error:
            complain(error)
