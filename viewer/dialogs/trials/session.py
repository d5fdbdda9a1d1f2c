"""One trial of a program, run outside the window: the first recording, every change, and the journal."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QCoreApplication, QObject, Signal

from parsers.files.private_folder import PrivateFolder
from parsers.model import Progress, TraceError
from parsers.model.late import dataclass
from rules.trials.trial import Candidate, Kind, Trials
from viewer.capture.recording import Recording
from viewer.capture.request import CaptureProblem, CaptureRequest
from viewer.capture.trials import journal
from viewer.capture.trials.launch import first_recording
from viewer.capture.trials.source import Source
from viewer.capture.trials.trying import Trying, Wish
from viewer.desktop.jobs import Jobs
from viewer.loading.promises import promises_if_any

if TYPE_CHECKING:
    from rules.fixes.plan import Promise

STOPPED_EARLY = "Stopped before anything was tried."
_NO_STEPS = "A trial needs a few hundred steps; say in the Record dialog what ends one."
_SLOT = "trial"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is tried: a program, some fixes of it or all, and what is promised; None: it is recorded first to know."""

    request: CaptureRequest
    fixes: tuple[str, ...] = ()
    promises: tuple[Promise, ...] | None = None


class TrialSession(QObject):
    """``start`` returns at once; ``ended`` carries the ``Trials``, also those of a trial that was stopped or failed."""

    said = Signal(str)  # what is done before the first block
    candidates_known = Signal(object)  # tuple of Candidate
    progressed = Signal(object)  # viewer.capture.trials.trying.Progress
    ended = Signal(object)  # Trials

    def __init__(self, subject: Subject, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.subject = subject
        self.trials: Trials | None = None
        self.source = Source()
        self._jobs = Jobs(self)
        self._turn = threading.Lock()
        self._active: Recording | Trying | None = None
        self._stopped = False
        if (program := QCoreApplication.instance()) is not None:
            program.aboutToQuit.connect(self.end_now)

    @property
    def running(self) -> bool:
        return self._jobs.is_running(_SLOT)

    def was_tried(self) -> bool:
        """Whether the user knows what a trial of this program does to it."""
        try:
            return journal.was_tried(self.subject.request)
        except TraceError:
            return False

    def start(self, seconds: float) -> None:
        """Measure for so many seconds; one that already runs is left alone."""
        if self.running:
            return
        self._stopped = False
        self.trials = None
        wish = Wish(self.subject.request, self.subject.fixes, seconds=seconds)
        self._jobs.ask(_SLOT, lambda progress: self._work(wish, progress), self._take, self._failed)

    def stop(self) -> None:
        """End it at the next step and keep what is known."""
        self._stopped = True
        self._jobs.ask("stop", lambda _: self._stop_active(), lambda _: None)

    def end_now(self) -> None:
        """Kill it and wait until nothing of it is left: the window is about to go."""
        self._stopped = True
        with self._turn:
            active = self._active
        if active is not None:
            active.kill()
        self._jobs.close()

    def _work(self, wish: Wish, progress: Progress) -> Trials:
        folder = PrivateFolder()
        promises = self.subject.promises
        if promises is None:
            self._on_window(self.said.emit)("Recording five steps to find out what to try first")
            promises = tuple(self._recorded_promises(wish.request, folder, progress))
        if self._stopped:
            return Trials(ended="stopped", problem=STOPPED_EARLY)
        tell = self._on_window(self.progressed.emit)
        trying = Trying(wish, folder.path / "trial", promises, tell)
        self._on_window(self.candidates_known.emit)(trying.candidates)
        self._on_window(self.said.emit)("Starting the program")
        self._activate(trying)
        trials = trying.run()
        self.source = trying.source
        self._activate(None)
        try:
            journal.keep_trials(wish.request, trials)
        except TraceError as error:
            told = f"{trials.problem} {error.problem} This trial is not in the journal.".strip()
            return replace(trials, problem=told)
        return trials

    def _recorded_promises(
        self, request: CaptureRequest, folder: PrivateFolder, progress: Progress
    ) -> Sequence[Promise]:
        recording = first_recording(request, folder.path)
        self._activate(recording)
        outcome = recording.run()
        self._activate(None)
        if outcome.killed:
            return ()
        if outcome.traceback:
            raise CaptureProblem(outcome.problem or "The script failed.", outcome.fix)
        if outcome.retry is not None:
            raise CaptureProblem(outcome.problem, _NO_STEPS)
        return promises_if_any(outcome.recordings, progress) if outcome.recordings else ()

    def _activate(self, active: Recording | Trying | None) -> None:
        """What ``stop`` and ``end_now`` act on; what begins after them ends at once."""
        with self._turn:
            self._active = active
        if self._stopped:
            self._stop_active()

    def _stop_active(self) -> None:
        with self._turn:
            active = self._active
        if isinstance(active, Trying):
            active.stop()
        elif active is not None:
            active.kill()

    def _on_window(self, take: Any) -> Any:
        return self._jobs.on_gui_thread(take)

    def _take(self, trials: Trials) -> None:
        self.trials = trials
        self.ended.emit(trials)

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, CaptureProblem):
            raise error
        self._take(Trials(ended="failed", problem=f"{error.problem} {error.fix}".strip()))


def in_shown_order(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The control and the whole stand at the end, below what they are compared with."""

    last = {Kind.CONTROL: 1, Kind.TOGETHER: 2}
    return sorted(candidates, key=lambda each: last.get(each.kind, 0))
