"""What is tried from a window: the program of the open recording, or that of the recorder's form."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QObject, Qt

from parsers.model import Progress, TraceError

if TYPE_CHECKING:
    from rules.trials.record import FixRecord, KeptTrial
    from rules.trials.trial import Trials
    from viewer.capture.request import CaptureRequest
    from viewer.capture.storage import Run
    from viewer.dialogs.trials.session import Subject
    from viewer.dialogs.trials.window import TrialsWindow
    from viewer.documents.what_if import WhatIf
    from viewer.window.parts import Parts
    from viewer.window.recording import WindowRecording

T = TypeVar("T")
REMEMBERED, RECORDS = "earlier trials", "promises on this machine"


class WindowTrials(QObject):
    """Bound to the parts of one window and to its fixes."""

    def __init__(self, parts: Parts, model: WhatIf, recording: WindowRecording) -> None:
        super().__init__(parts.window)
        self._parts, self._model, self._recording = parts, model, recording
        self.shown: TrialsWindow | None = None
        model.try_wanted.connect(self.try_fixes)
        recording.try_wanted.connect(self.try_program)
        parts.document.plan_changed.connect(lambda _: self._remember())

    def try_fixes(self, fixes: tuple[str, ...]) -> None:
        """Try fixes of the open recording, all of them where none is named; asks for the program if it is not known."""
        from viewer.capture.trials.journal import run_that_made

        run = run_that_made(self._parts.document.paths)
        if run is not None:
            self._try(run.request, fixes, of_open=True)
            return
        self._recording.ask_for_program(lambda request: self._try(request, fixes, of_open=True))

    def try_program(self, request: CaptureRequest) -> None:
        """Try all that makes sense in a program of which nothing is promised yet."""
        self._try(request, (), of_open=False)

    def _try(self, request: CaptureRequest, fixes: tuple[str, ...], *, of_open: bool) -> None:
        from viewer.capture.request import CaptureProblem
        from viewer.capture.trials.launch import trial_request
        from viewer.dialogs.trials.session import Subject

        plan = self._model.plan if of_open else None
        try:
            subject = Subject(trial_request(request), fixes, plan.promises if plan is not None else None)
        except CaptureProblem as problem:
            self._parts.banner.say(problem.problem, problem.fix)
            return
        self._show(subject, of_open=of_open)

    def end_now(self) -> None:
        """Nothing of a trial is left when its window is gone."""
        if self.shown is not None:
            self.shown.session.end_now()
            self.shown.close()

    def _show(self, subject: Subject, *, of_open: bool) -> None:
        from viewer.dialogs.trials.window import TrialsWindow

        if self.shown is not None and self.shown.session.running:  # two at a time would measure each other
            self.shown.raise_()
            self.shown.activateWindow()
            return
        if self.shown is not None:
            self.shown.close()
        paths = self._parts.document.paths
        shown = self.shown = TrialsWindow(subject, self._parts.window)
        shown.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        shown.destroyed.connect(lambda: self._gone(shown))
        if of_open:
            shown.tried.connect(
                lambda trials: self._keep(trials) if paths == self._parts.document.paths else None
            )
        shown.show()
        shown.begin()

    def _gone(self, window: TrialsWindow) -> None:
        if self.shown is window:
            self.shown = None

    def _keep(self, trials: Trials) -> None:
        from rules.trials.record import kept_trials

        self._model.keep_measured(kept_trials(trials))
        self._read_records()

    def _remember(self) -> None:
        """What earlier trials of the program measured stands beside its promises, too."""

        def work(run: Run | None) -> list[KeptTrial]:
            from viewer.capture.trials.journal import earlier_trials

            return earlier_trials(run.request) if run is not None else []

        self._from_journal(REMEMBERED, work, self._model.keep_measured)
        self._read_records()

    def _read_records(self) -> None:
        """How promises of each fix held on the machine of what is open."""

        def work(run: Run | None) -> list[FixRecord]:
            from viewer.capture.trials.journal import records_on

            return records_on(run.request if run is not None else None)

        self._from_journal(RECORDS, work, self._model.keep_records)

    def _from_journal(
        self, name: str, ask: Callable[[Run | None], list[T]], take: Callable[[list[T]], None]
    ) -> None:
        """``ask`` the journal of the run that made what is open, and ``take`` what it finds, if it is still open."""
        paths = self._parts.document.paths
        if self._model.plan is None or not paths:
            return

        def work(progress: Progress) -> list[T]:
            from viewer.capture.trials.journal import run_that_made

            progress.step(0.0, "reading the journal")
            return ask(run_that_made(paths))

        def failed(error: Exception) -> None:
            if not isinstance(error, TraceError):
                raise error

        def answer(found: list[T]) -> None:
            if found and paths == self._parts.document.paths:
                take(found)

        self._parts.document.jobs.ask(name, work, answer, failed, in_turn=True)
