"""The window of a trial: one row a candidate, filled in while a program runs with each change and without it."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtWidgets import QDialog, QMessageBox, QProgressBar, QSpinBox, QWidget

from rules.trials.trial import Kind, Trials
from rules.verdict import trials as wording
from viewer.appearance.widgets import (
    ElidedLabel,
    HorizontalLine,
    Label,
    horizontal,
    push_button,
    resize_within_screen,
    scrolling,
    vertical,
)
from viewer.capture.trials.launch import runs_for_real
from viewer.capture.trials.trying import Progress
from viewer.desktop.jobs import Jobs
from viewer.dialogs.report_export import ask_for_report
from viewer.dialogs.trials.loss_curves import LossCurves, curves_of
from viewer.dialogs.trials.patch_view import PatchView
from viewer.dialogs.trials.rows import AxisRow, TrialRows
from viewer.dialogs.trials.session import Subject, TrialSession, in_shown_order
from viewer.reports.rendering.markdown_report import as_markdown
from viewer.reports.trial_report import trials_report

FIRST_SIZE = (1400, 900)
SECONDS, MIN_SECONDS, MAX_SECONDS = 120, 5, 24 * 3600
HOW = "Each change is switched on and off while the program runs, block by block, and timed."
OUT_OF_THE_WAY = (
    "Use its own arguments or environment to keep those out of the way, as in WANDB_MODE=offline."
)
FOOT_HEIGHT, NOTES_HEIGHT = 230, 130  # with a chart or a patch, and with notes alone
TICK_MS = 1000
ALL_BUT_A_PIXEL = 10_000  # parts, to one of the stretch that takes what the scroll bar leaves


class TrialsWindow(QDialog):
    """Shows one ``TrialSession``; ``tried`` carries the ``Trials`` when it has ended."""

    tried = Signal(object)

    def __init__(self, subject: Subject, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = TrialSession(subject, self)
        self._jobs = Jobs(self)
        self._asked_to_stop = False
        self._doing, self._ends = "", 0.0
        self.clock = QTimer(self)
        self.clock.setInterval(TICK_MS)
        self.name = Path(subject.request.target.program).name
        self.setWindowTitle(f"Try it: {self.name}")
        self.heading = Label(f"Try it: {self.name}", pixels=18, weight=QFont.Weight.DemiBold)
        self.summary = Label(HOW, "secondary", wrap=True)
        self.notice = Label(f"{runs_for_real(subject.request)} {OUT_OF_THE_WAY}", wrap=True)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(6)
        self.bar.setRange(0, 1)
        self.bar.setAccessibleName("Time used")
        self.state = ElidedLabel("", "secondary")
        self.seconds = QSpinBox()
        self.seconds.setRange(MIN_SECONDS, MAX_SECONDS)
        self.seconds.setValue(SECONDS)
        self.seconds.setSuffix(" s")
        self.seconds.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.seconds.setAccessibleName("Time limit")
        self.limit_label = Label("Measure for", "secondary")
        self.start_button = push_button("Start", self.start)
        self.stop_button = push_button("Stop", self.stop)
        self.stop_button.setToolTip("Ends the trial at the next step and keeps the results so far")
        self.axis = AxisRow()
        self.rows = TrialRows(self.axis)
        self.losses = LossCurves()
        self.patch = PatchView()
        self.notes = Label("", "secondary", pixels=12, wrap=True, selectable=True)
        self.copy_button = push_button("Copy", self.copy_report)
        self.report_button = push_button("Report ...", self.export_report)
        self.close_button = push_button("Close", self.close)
        self._lay_out()
        self._connect()
        self._show_results(None)
        self._show_state(running=False)
        resize_within_screen(self, *FIRST_SIZE)
        self.start_button.setFocus()

    def begin(self) -> None:
        """Start, unless this is the first trial of the program: then say first what a trial is."""
        if self.session.was_tried():
            self.start()

    def start(self) -> None:
        if self.session.running:
            return
        self._asked_to_stop = False
        self.rows.show_candidates(())
        self._show_results(None)
        self.summary.setText(HOW)
        self._tell("Starting", 0.0)
        self.clock.start()
        self.session.start(float(self.seconds.value()))
        self._show_state(running=True)

    def stop(self) -> None:
        """End it at the next step and show what is known."""
        self._asked_to_stop = True
        self.stop_button.setEnabled(False)
        self.clock.stop()
        self.state.setText("Stopping; results so far are kept")
        self.session.stop()

    def reject(self) -> None:
        """Escape and the close button end here: ask before a running trial is lost."""
        if self.session.running and not self._may_kill():
            return
        self.session.end_now()
        self._jobs.close(0.2)
        super().reject()

    def copy_report(self) -> None:
        if self.session.trials is not None:
            QGuiApplication.clipboard().setText(as_markdown(trials_report(self.session.trials, self.name)))

    def export_report(self) -> None:
        """Ask for a file and write the same Markdown as the command."""
        trials = self.session.trials
        if trials is not None:
            makers = {"markdown": lambda: as_markdown(trials_report(trials, self.name)).encode()}
            say = self.state.setText
            ask_for_report(makers, "trial", self._jobs, self, lambda *told: say(" ".join(told)))

    def _may_kill(self) -> bool:
        box = QMessageBox(self)
        box.setWindowTitle("Try it")
        box.setText("A trial is running.")
        box.setInformativeText("If you close now, the program is killed and the trial is lost.")
        kill = box.addButton("Kill it and close", QMessageBox.ButtonRole.DestructiveRole)
        keep = box.addButton("Go on", QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(keep)
        box.exec()
        return box.clickedButton() is kill

    def _on_progress(self, far: Progress) -> None:
        if not self.session.running:
            return
        known = far.trial or far.so_far
        if known is not None:
            doing = ""
            if far.trial is None and far.block:
                doing = f"measuring: {far.block} of {far.of} blocks"
            self.rows.show_trial(known, doing)
        if far.trial is not None or self._asked_to_stop:
            return
        parts = [far.text]
        if far.of:
            parts[0] += f": block {far.block} of {far.of}"
        if known is not None and known.gain is not None:
            parts.append(f"{wording.times(known.gain)} so far")
        self._tell(" · ".join(parts), monotonic() + far.seconds_left if far.seconds_left else 0.0)

    def _tell(self, doing: str, ends: float) -> None:
        """What is done now, and when the time is up, in seconds of the monotonic clock; 0 if that is not known."""
        self._doing, self._ends = doing, ends
        self._tell_time()

    def _tell_time(self) -> None:
        left = max(self._ends - monotonic(), 0.0) if self._ends else 0.0
        if self._ends:
            self.bar.setRange(0, 1000)
            self.bar.setValue(round(1000 * (1 - min(left / self.seconds.value(), 1.0))))
        else:
            self.bar.setRange(0, 0)
        in_time = f" · about {left:.0f} s left" if left >= 1 else " · finishing" if self._ends else ""
        self.state.setText(self._doing + in_time)

    def _on_ended(self, trials: Trials) -> None:
        self.clock.stop()
        self._show_state(running=False)
        self.bar.setRange(0, 1)
        self.bar.setValue(1)
        self.state.setText("Stopped" if trials.ended == "stopped" else "")
        self.summary.setText(wording.summary(trials))
        self._show_results(trials)
        self.tried.emit(trials)

    def _show_results(self, trials: Trials | None) -> None:
        """Rows of all that is known; the losses where some were compared, and what to be careful about."""
        if trials is not None:
            known = [
                *([] if trials.restless else trials.trials),
                *([trials.control] if trials.control else []),
            ]
            by_switch = {each.candidate.switch: each for each in known if not each.candidate.against}
            ordered = in_shown_order([each.candidate for each in by_switch.values()])
            self.rows.show_candidates(ordered)
            for candidate in ordered:
                self.rows.show_trial(by_switch[candidate.switch])
        curves = curves_of(trials) if trials is not None else []
        self.losses.show_curves(curves)
        self._of_losses.setVisible(bool(curves))
        self.patch.show_trials(trials or Trials(), self.session.source)
        has_patch = trials is not None and not trials.restless and bool(self.patch.patch.files)
        self._of_patch.setVisible(has_patch)
        if trials is not None and has_patch:
            self.rows.offer_patches(trials, self.session.source)
        said = [*wording.caution(trials), *wording.left_out(trials)] if trials is not None else []
        if trials is not None and any(
            each.candidate.kind is Kind.CEILING and each.gain for each in trials.trials
        ):
            said.append("A ceiling is not a change to keep: something was removed only to see what it costs.")
        self.notes.setText("\n".join(said))
        self._of_notes.setVisible(bool(said))
        self._foot.setFixedHeight(FOOT_HEIGHT if curves or has_patch else NOTES_HEIGHT)
        self._foot.setVisible(bool(curves or said or has_patch))

    def _show_state(self, *, running: bool) -> None:
        known = self.session.trials is not None
        self.notice.setVisible(not running and not known)
        for each in (self.limit_label, self.seconds, self.start_button):
            each.setVisible(not running)
        self.start_button.setText("Try again" if known else "Start")
        self.start_button.setDefault(not known)
        self.stop_button.setVisible(running)
        self.stop_button.setEnabled(running)
        for each in (self.copy_button, self.report_button):
            each.setEnabled(known)

    def _connect(self) -> None:
        session = self.session
        self.clock.timeout.connect(self._tell_time)
        session.said.connect(lambda text: self._tell(text, 0.0))
        session.candidates_known.connect(lambda found: self.rows.show_candidates(in_shown_order(found)))
        session.progressed.connect(self._on_progress)
        session.ended.connect(self._on_ended)
        self.rows.patch_wanted.connect(self.patch.show_switches)
        self.patch.said.connect(self.state.setText)

    def _lay_out(self) -> None:
        layout = vertical(self, (20, 18, 20, 14), 8)
        for shown in (self.heading, self.summary, self.notice, self.bar):
            layout.addWidget(shown)
        line = horizontal(spacing=8)
        line.addWidget(self.state, 1)
        for control in (self.limit_label, self.seconds, self.start_button, self.stop_button):
            line.addWidget(control)
        layout.addLayout(line)
        self._scroll = scrolling(self.rows)
        head = horizontal(margins=(0, 4, 0, 0))
        head.addWidget(self.axis, ALL_BUT_A_PIXEL)
        head.addStretch(1)
        layout.addLayout(head)
        layout.addWidget(HorizontalLine())
        layout.addWidget(self._scroll, 1)
        layout.addWidget(HorizontalLine())
        layout.addWidget(self._make_foot())
        buttons = horizontal(spacing=8)
        buttons.addStretch(1)
        for button in (self.copy_button, self.report_button, self.close_button):
            buttons.addWidget(button)
        layout.addLayout(buttons)

    def _make_foot(self) -> QWidget:
        self._foot, self._of_losses, self._of_patch, self._of_notes = (QWidget() for _ in range(4))
        notes = QWidget()
        lines = vertical(notes, (0, 0, 0, 0))
        lines.addWidget(self.notes)
        lines.addStretch(1)
        row = horizontal(self._foot, (0, 0, 0, 0), 24)
        for title, part, content, share in (
            ("Loss of the program, step by step", self._of_losses, self.losses, 3),
            (f"Patch for {self.name}", self._of_patch, self.patch, 4),
            ("Notes", self._of_notes, scrolling(notes), 2),
        ):
            column = vertical(part, (0, 0, 0, 0), 4)
            column.addWidget(Label(title, weight=QFont.Weight.DemiBold, pixels=12))
            column.addWidget(content, 1)
            row.addWidget(part, share)
        return self._foot
