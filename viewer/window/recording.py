"""What is recorded from a window: the files are opened, or compared with the open ones, and the journal is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal

from parsers.model import Progress, TraceError
from viewer.documents.document import Stage

if TYPE_CHECKING:
    from rules import Diagnosis
    from rules.analysis.analysis import Analysis
    from viewer.capture.form.dialog import CaptureDialog
    from viewer.capture.request import CaptureRequest
    from viewer.capture.trials.journal import Told
    from viewer.comparison.window import ComparisonWindow
    from viewer.window.parts import Parts

JOURNAL = "journal"
# recorded now, to be put into the journal by the window that opens them
_FRESH: set[tuple[Path, ...]] = set()


class WindowRecording(QObject):
    """Bound to the parts of one window; what became of earlier promises is told on its banner."""

    open_wanted = Signal(object)  # list of Path
    open_beside_wanted = Signal(object)  # list of Path, while another recording is open here
    try_wanted = Signal(object)  # CaptureRequest

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts.window)
        self._parts = parts
        self._dialog: CaptureDialog | None = None
        parts.document.diagnosis_changed.connect(self._diagnosed)

    def record(self, request: CaptureRequest | None = None) -> None:
        """Open the dialog that runs a script under a profiler, set up for ``request``; its files are opened."""
        self._ask(request, self._open)

    def attach(self) -> None:
        """Open the dialog to record a program that already runs."""
        from viewer.capture.request import CaptureRequest, Target, TargetKind

        self.record(CaptureRequest(target=Target(TargetKind.RUNNING, "any")))

    def again(self) -> None:
        """Record the program of the open files once more, and compare: the open ones came before."""
        from viewer.capture.trials.journal import run_that_made

        run = run_that_made(self._parts.document.paths)
        if run is None:
            self._parts.banner.say(
                "Stallscope does not know how this was recorded, because it was not recorded here, or too long ago.",
                "Use File > Record a script, then compare the two.",
            )
            return
        name = self._parts.document.paths[0].name
        self._ask(run.request, self._compare, title=f"Record again and compare with {name}")

    def ask_for_program(self, try_it: Callable[[CaptureRequest], None]) -> None:
        """Open the dialog to say what is to be tried; who records instead has the files opened."""
        self._ask(None, self._open, try_it)

    def _ask(
        self,
        request: CaptureRequest | None,
        take: object,
        try_it: Callable[[CaptureRequest], None] | None = None,
        title: str = "",
    ) -> None:
        try:
            from viewer.capture.form.dialog import CaptureDialog
        except ImportError as error:
            self._parts.banner.say("Recording is not available in this installation.", str(error))
            return
        if self._dialog is not None:  # a recording may be running in it
            self._dialog.raise_()
            self._dialog.activateWindow()
            return
        dialog = CaptureDialog(self._parts.window, request, for_trial=try_it is not None)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if title:
            dialog.setWindowTitle(title)
        dialog.captured.connect(take)
        dialog.try_wanted.connect(try_it or self.try_wanted)
        dialog.finished.connect(self._forget_dialog)
        self._dialog = dialog
        dialog.show()

    def _forget_dialog(self) -> None:
        self._dialog = None

    def _open(self, paths: list[Path]) -> None:
        _FRESH.add(tuple(paths))
        nothing = self._parts.document.stage is Stage.EMPTY
        (self.open_wanted if nothing else self.open_beside_wanted).emit(paths)

    def _compare(self, paths: list[Path]) -> None:
        from viewer.comparison.window import compare_with

        compared = compare_with(self._parts.document, paths, self._parts.window)
        if compared is not None:
            compared.shown.connect(lambda: self._keep_compared(compared, paths))

    def _keep_compared(self, compared: ComparisonWindow, paths: Sequence[Path]) -> None:
        result = compared.result
        if result is not None and result.sides is not None:
            before, after = result.sides
            self._keep(
                (self._parts.document.paths, before.analysis, before.diagnosis),
                (paths, after.analysis, after.diagnosis),
            )

    def _diagnosed(self, diagnosis: Diagnosis | None) -> None:
        document = self._parts.document
        if diagnosis is None or document.analysis is None or document.paths not in _FRESH:
            return
        _FRESH.discard(document.paths)
        self._keep((document.paths, document.analysis, diagnosis))

    def _keep(self, *recordings: tuple[Sequence[Path], Analysis, Diagnosis]) -> None:
        """In their order; what became of promises is told of the last."""

        def work(progress: Progress) -> Told | None:
            from viewer.capture.trials.journal import keep_in_journal, run_that_made

            told = None
            for paths, analysis, diagnosis in recordings:
                progress.step(0.0, "writing the journal")
                run = run_that_made(paths)
                told = None if run is None else keep_in_journal(run, analysis, diagnosis)
            return told

        def failed(error: Exception) -> None:
            if not isinstance(error, TraceError):
                raise error
            self._parts.banner.say(error.problem, error.hint)

        self._parts.document.jobs.ask(JOURNAL, work, self._tell, failed, in_turn=True)

    def _tell(self, told: Told | None) -> None:
        if told is not None:
            self._parts.banner.say(told.lines[0], " ".join(told.lines[1:]), good=True)
