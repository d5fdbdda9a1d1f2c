"""The window that records a script: what to run, how to record it, the exact command, and the run itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFont, QFontDatabase, QGuiApplication, QKeyEvent
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QInputDialog,
    QMenu,
    QMessageBox,
    QPlainTextEdit,
    QTabWidget,
    QWidget,
)

from parsers.model import Progress
from viewer.appearance import theme
from viewer.appearance.widgets import (
    MARGIN,
    NO_MARGINS,
    SPRING,
    HorizontalLine,
    Label,
    fill,
    horizontal,
    push_button,
    resize_within_screen,
    scrolling,
    vertical,
)
from viewer.capture import advice, commands, tools
from viewer.capture.commands import FILE_NAME, save_runner
from viewer.capture.form.history import HistoryView
from viewer.capture.form.options import AttachingForm, OptionsForm
from viewer.capture.form.run import RunView
from viewer.capture.form.target import TargetForm
from viewer.capture.plan import command_for, lines_there, needs_interpreter, new_folder, portable_lines
from viewer.capture.recording import Outcome
from viewer.capture.request import CaptureProblem, CaptureRequest, TargetKind, Tool
from viewer.capture.storage import FarRun, History, Presets, far_runs
from viewer.capture.tools import ToolFound
from viewer.capture.trials.launch import trial_request
from viewer.desktop.jobs import Jobs
from viewer.remote.names import PlaceProblem, find_place

SIZE = (880, 744)
CHOOSE_PRESET = "Presets"
MISSING_PROGRAM = "Pick the script or module to record."
MISSING_PROCESS = "Name the process to attach to."


class CaptureDialog(QDialog):
    """Fill in, record, and hand the files over: ``captured`` carries them as a list of paths.

    ``try_wanted`` carries the request whose program is to be tried instead; ``for_trial`` makes that the usual button.
    """

    captured = Signal(list)
    try_wanted = Signal(object)  # CaptureRequest

    def __init__(
        self, parent: QWidget | None = None, preset: CaptureRequest | None = None, *, for_trial: bool = False
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Record a script")
        resize_within_screen(self, *SIZE)
        self._jobs = Jobs(self)
        self._presets = Presets()
        self._found: dict[Tool, ToolFound] = {}
        self._out = ""
        self.target = TargetForm(self._jobs)
        self.options = OptionsForm()
        self.attaching = AttachingForm()
        self.run_view = RunView(self._jobs)
        self.history = HistoryView(History())
        self.presets = QComboBox()
        self.presets.setAccessibleName("Preset")
        self.warnings = Label("", "secondary", wrap=True)
        self.problem = Label("", wrap=True)
        self.command = QPlainTextEdit()
        self.command.setReadOnly(True)
        self.command.setAccessibleName("Command")
        self.command.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.command.setFixedHeight(68)
        self.tabs = QTabWidget()
        self.record = push_button("Record", self.start)
        self.try_button = push_button("Try it", self.try_it)
        self.try_button.setToolTip("Makes changes in your running program and measures the gain of each")
        self._usual = self.try_button if for_trial else self.record
        self._usual.setDefault(True)
        self.close_button = push_button("Close", self.close)
        self._refresh_soon = QTimer(self)
        self._refresh_soon.setSingleShot(True)
        self._refresh_soon.timeout.connect(self._refresh)
        self._lay_out()
        self._connect()
        self.show_request(self._with_target(preset))
        self._fill_presets()
        self._offer_what_was_left()
        self._jobs.ask("tools", _find_tools, self._show_tools, lambda _: None)

    def request(self) -> CaptureRequest:
        """The recording as filled in; raises ``CaptureProblem`` where a field cannot be read."""
        filled = CaptureRequest(
            target=self.target.target(),
            out=self._out,
            on=self.target.where.place,
            setup=self.target.where.setup.text().strip(),
        )
        form = self.attaching if filled.target.kind is TargetKind.RUNNING else self.options
        return form.apply_to(filled)

    def _with_target(self, preset: CaptureRequest | None) -> CaptureRequest:
        """What to show first: options without a program, from a finding, are for the program recorded last."""
        last = self._presets.last_used() or CaptureRequest()
        if preset is None:
            return last
        if preset.target.program:
            return preset
        return replace(preset, target=last.target, on=last.on, setup=last.setup, out=last.out)

    def show_request(self, request: CaptureRequest) -> None:
        self._out = request.out
        self.target.show_target(request.target, request.on, request.setup)
        self.options.show_request(request)
        self.attaching.show_request(request)
        self.tabs.setCurrentIndex(0)
        self._refresh()

    def start(self) -> None:
        try:
            request = self.request()
        except CaptureProblem as problem:
            self.problem.setText(str(problem))
            return
        self._run(request)

    def _run(self, request: CaptureRequest, again: FarRun | None = None) -> None:
        self._show_run()
        self._allow(False)
        self.run_view.start(request, again)

    def _show_run(self) -> None:
        self.tabs.setTabVisible(1, True)
        self.tabs.setCurrentIndex(1)

    def _offer_what_was_left(self) -> None:
        left = next((each for each in far_runs() if each.can_be_fetched), None)
        if left is not None:
            self._show_run()
            self.run_view.offer(left)

    def try_it(self) -> None:
        """Hand the program over to be tried; nothing is recorded here."""
        try:
            request = trial_request(self.request())
        except CaptureProblem as problem:
            self.problem.setText(str(problem))
            return
        self.try_wanted.emit(request)
        self.close()

    def reject(self) -> None:
        """Escape and the close button end here: ask before a running recording is lost."""
        if self.run_view.running and not self._may_close():
            return
        self._jobs.close(0.2)
        super().reject()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ctrl+Return does from anywhere in the form what the usual button does."""
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter and event.modifiers() & Qt.KeyboardModifier.ControlModifier and self._usual.isEnabled():
            self._usual.click()
            return
        super().keyPressEvent(event)

    def _may_close(self) -> bool:
        """Ask what becomes of the recording that runs; one that is finished first closes the dialog at its end."""
        box = QMessageBox(self)
        box.setWindowTitle("Record a script")
        box.setText("A recording is running.")
        box.setInformativeText(
            "Finish it now and keep the steps recorded so far, or kill the program and lose them?"
        )
        finish = box.addButton("Finish and keep", QMessageBox.ButtonRole.AcceptRole)
        kill = box.addButton("Kill it and close", QMessageBox.ButtonRole.DestructiveRole)
        keep = box.addButton("Keep recording", QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(finish)
        box.setEscapeButton(keep)
        box.exec()
        chosen = box.clickedButton()
        if chosen is finish:
            self.run_view.finish_now()
        if chosen is not kill:
            return False
        self.run_view.end_now()
        return True

    def _allow(self, recording: bool) -> None:
        for button in (self.record, self.try_button):
            button.setEnabled(recording)
        self._usual.setDefault(recording)

    def _ended(self, outcome: object) -> None:
        self._allow(True)
        self.history.refresh()
        self._fill_presets()
        if isinstance(outcome, Outcome) and outcome.recordings:
            self.captured.emit(list(outcome.recordings))
            if not outcome.traceback:
                self.close()

    def _retry(self, request: CaptureRequest) -> None:
        self.show_request(request)
        self.start()

    def _reopen(self, paths: list[Path]) -> None:
        self.captured.emit(paths)
        self.close()

    def _refresh(self) -> None:
        """Show the command, warnings and what keeps it from running."""
        try:
            request = self.request()
            self.command.setPlainText(self._preview(request))
            self.warnings.setText("\n".join(f"• {warning}" for warning in advice.warnings(request)))
            running = request.target.kind is TargetKind.RUNNING
            missing = "" if request.target.program else MISSING_PROCESS if running else MISSING_PROGRAM
            found = self._found.get(request.tool)
            if not missing and found is not None and found.problem and not request.on:
                missing = found.problem
            if not missing and not request.on and needs_interpreter(request):
                missing = self.target.problem
        except (CaptureProblem, PlaceProblem) as problem:
            missing = (
                f"{problem.problem} {problem.hint}" if isinstance(problem, PlaceProblem) else str(problem)
            )
            self.command.clear()
            self.warnings.clear()
        self.command.setVisible(bool(self.command.toPlainText()))  # empty it takes the room of the fields
        self._follow_kind()
        self.problem.setText(missing)
        self.warnings.setVisible(bool(self.warnings.text()))
        self._allow(not missing and not self.run_view.running)

    def _follow_kind(self) -> None:
        running = self.target.chosen_kind is TargetKind.RUNNING
        self.options.setVisible(not running)
        self.attaching.setVisible(running)
        self.record.setText("Attach" if running else "Record")
        self.try_button.setVisible(not running)

    def _preview(self, request: CaptureRequest) -> str:
        target = request.target
        if not target.program:
            return ""
        if request.on:
            return "\n".join(lines_there(request, find_place(request.on, request.setup).setup))
        found = self._found.get(request.tool)
        out = request.out or str(new_folder(request))
        words = command_for(
            request,
            out,
            target.name,
            tool_path=found.path if found is not None else "",
            version=found.version if found is not None else (),
        )
        return commands.shell_line(words, target.folder, dict(target.environment))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.command.toPlainText())

    def _copy_portable(self) -> None:
        try:
            lines = portable_lines(self.request())
        except CaptureProblem as problem:
            self.problem.setText(str(problem))
            return
        QGuiApplication.clipboard().setText("\n".join(lines))

    def _save_runner(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self, "Save the runner", FILE_NAME)
        if name:
            try:
                save_runner(Path(name))
            except OSError as error:
                self.problem.setText(f"{Path(name).name} could not be written: {error.strerror or error}.")

    def _save_preset(self) -> None:
        name, accepted = QInputDialog.getText(self, "Save preset", "Name")
        if accepted and name.strip():
            self.save_preset(name.strip())

    def save_preset(self, name: str) -> None:
        try:
            self._presets.save(name, self.request())
        except (CaptureProblem, OSError) as problem:
            self.problem.setText(str(problem))
        self._fill_presets()

    def _pick_preset(self, index: int) -> None:
        saved = self._presets.all().get(self.presets.itemText(index)) if index > 0 else None
        if saved is not None:
            self.show_request(saved)

    def _remove_preset(self) -> None:
        if self.presets.currentIndex() > 0:
            self._presets.remove(self.presets.currentText())
            self._fill_presets()

    def _fill_presets(self) -> None:
        chosen = self.presets.currentText()
        self.presets.blockSignals(True)
        self.presets.clear()
        self.presets.addItems([CHOOSE_PRESET, *self._presets.all()])
        self.presets.setCurrentIndex(max(0, self.presets.findText(chosen)))
        self.presets.blockSignals(False)

    def _pick_out(self) -> None:
        name = QFileDialog.getExistingDirectory(self, "Folder for the recordings", self._out)
        if name:
            self._out = name
            self._refresh()

    def _show_tools(self, found: dict[Tool, ToolFound]) -> None:
        self._found = found
        self.options.show_tools(found)
        self._refresh()

    def _connect(self) -> None:
        for form in (self.target, self.options, self.attaching):
            form.changed.connect(lambda: self._refresh_soon.start(0))
        self.run_view.ended.connect(self._ended)
        self.run_view.retry_wanted.connect(self._retry)
        self.run_view.fetch_wanted.connect(lambda left: self._run(left.request, left))
        self.history.open_wanted.connect(self._reopen)
        self.history.reuse_wanted.connect(self.show_request)
        self.presets.activated.connect(self._pick_preset)
        self.tabs.currentChanged.connect(lambda index: self.history.refresh() if index == 2 else None)

    def _lay_out(self) -> None:
        form = QWidget()
        fill(
            vertical(form, (MARGIN, MARGIN, MARGIN, MARGIN), 12),
            self._heading("What to run", self._preset_row()),
            self.target,
            HorizontalLine(),
            self._heading("How to record it"),
            self.options,
            self.attaching,
            self.warnings,
            SPRING,
        )
        scroll = scrolling(form, sideways=True)
        set_up = QWidget()
        fill(vertical(set_up, NO_MARGINS, 0), (scroll, 1), HorizontalLine(), _padded(self._command_part()))
        self.tabs.addTab(set_up, "Set up")
        self.tabs.addTab(_padded(self.run_view), "Run")
        self.tabs.addTab(_padded(self.history), "History")
        self.tabs.setTabVisible(1, False)
        buttons = fill(
            horizontal(margins=(16, 8, 16, 12), spacing=8),
            (self.problem, 1),
            0,
            self.close_button,
            self.try_button,
            self.record,
        )
        fill(vertical(self, NO_MARGINS, 0), (self.tabs, 1), HorizontalLine(), buttons)

    def _heading(self, text: str, beside: QHBoxLayout | None = None) -> QHBoxLayout:
        row = fill(QHBoxLayout(), Label(text, pixels=theme.BODY_PX + 1, weight=QFont.Weight.DemiBold), SPRING)
        if beside is not None:
            row.addLayout(beside)
        return row

    def _command_part(self) -> QWidget:
        part = QWidget()
        fill(vertical(part, NO_MARGINS, 8), self._heading("Command", self._command_row()), self.command)
        return part

    def _preset_row(self) -> QHBoxLayout:
        row = fill(
            QHBoxLayout(),
            self.presets,
            push_button("Save ...", self._save_preset),
            push_button("Remove", self._remove_preset),
        )
        return row

    def _command_row(self) -> QHBoxLayout:
        copies = push_button("Copy")
        menu = QMenu(copies)
        menu.addAction("Copy", self._copy)
        menu.addAction("Copy command for another machine", self._copy_portable)
        menu.addAction(f"Save the file it needs there ({FILE_NAME}) ...", self._save_runner)
        copies.setMenu(menu)
        row = fill(QHBoxLayout(), push_button("Save into ...", self._pick_out), copies)
        return row


def _find_tools(_: Progress) -> dict[Tool, ToolFound]:
    return {tool: tools.find(tool.value) for tool in (Tool.NSYS, Tool.NCU)}


def _padded(widget: QWidget) -> QWidget:
    holder = QWidget()
    fill(vertical(holder, (16, 12, 16, 12)), widget)
    return holder
