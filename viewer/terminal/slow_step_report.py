"""Slow steps of a program that runs: each is diagnosed and written into the journal as soon as its files are there."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from parsers.model import TraceError
from viewer.capture.incidents import Incident, Incidents
from viewer.capture.output_stream import Event
from viewer.capture.recording import Outcome
from viewer.capture.request import CaptureRequest
from viewer.capture.trials.journal import keep_incident
from viewer.terminal.console import complain
from viewer.terminal.exit_codes import DONE, INTERRUPTED

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
