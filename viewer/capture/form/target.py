"""The part of the capture dialog that says what to run: script or module, arguments, interpreter, folder, machine."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QFileDialog, QLineEdit, QMenu, QPlainTextEdit, QPushButton, QWidget

from viewer.appearance.widgets import NO_MARGINS, Form, Label, beside, fill, push_button, vertical
from viewer.capture.attachable import attachable_programs
from viewer.capture.form.where import WhereField
from viewer.capture.interpreters import Probe, found_interpreters, probe
from viewer.capture.request import CaptureProblem, Target, TargetKind
from viewer.capture.target_words import UnreadableCommand, is_launcher_of_python, read_running, read_target
from viewer.desktop.jobs import Jobs

KINDS = {
    "Script": TargetKind.SCRIPT,
    "Module (-m)": TargetKind.MODULE,
    "Program": TargetKind.COMMAND,
    "Running program": TargetKind.RUNNING,
}
NOBODY_RUNS = "No program of this machine was started with KINETO_USE_DAEMON=1"
MORE = "More: folder, launcher, environment, other machine"
MORE_OF_RUNNING = "More: environment, other machine"
PROGRAM_HINT = "train.py, or a command: torchrun --nproc_per_node=2 train.py"
RUNNING_HINT = "process ID, job:77 for a Slurm job, or any"
RUNNING_NOTE = (
    "The program must have been started with KINETO_USE_DAEMON=1. "
    "Attaching waits until it answers, and leaves it running."
)


INSTALLED_BESIDE = frozenset({"torchrun", "accelerate", "deepspeed"})  # their Python


def _beside(interpreter: str, launcher: str) -> str:
    """The launcher that is installed with this interpreter; the bare name where there is none."""
    found = Path(interpreter).parent / launcher if os.sep in interpreter else None
    return str(found) if found is not None and os.access(found, os.X_OK) else launcher


def _python_beside(launcher: tuple[str, ...]) -> str:
    """The Python that a launcher which was found beside it runs with; empty for other launchers."""
    found = Path(launcher[0]) if launcher else Path()
    if not found.is_absolute() or found.name not in INSTALLED_BESIDE:
        return ""
    pythons = (found.with_name(each) for each in ("python", "python3"))
    return next((str(each) for each in pythons if os.access(each, os.X_OK)), "")


class TargetForm(QWidget):
    """Fields for a target; ``changed`` on every edit and when the interpreter has answered."""

    changed = Signal()

    def __init__(self, jobs: Jobs) -> None:
        super().__init__()
        self._jobs = jobs
        self.kind = QComboBox()
        self.kind.addItems(list(KINDS))
        self.program = _field(PROGRAM_HINT)
        self.arguments = _field('--epochs 1 --name "first run"')
        self.interpreter = QComboBox()
        self.interpreter.setEditable(True)
        self.interpreter.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.interpreter_note = Label("", "secondary", wrap=True)
        self.running_note = Label(RUNNING_NOTE, "secondary", wrap=True)
        self.folder = _field("the folder of the script")
        self.launcher = _field("torchrun --nproc_per_node=2")
        self.where = WhereField()
        self.environment = QPlainTextEdit()
        self.environment.setPlaceholderText("CUDA_VISIBLE_DEVICES=0")
        self.environment.setMaximumHeight(56)
        self.environment.setTabChangesFocus(True)
        self._more = QPushButton(MORE)
        self._more.setFlat(True)
        self._more.setAutoDefault(False)
        self._more.setCheckable(True)
        self._more.setProperty("link", "bare")
        self._extra = QWidget()
        self.problem = ""  # of the interpreter that answered last
        self._lay_out()
        self._connect()
        self._show_more(False)
        self.refresh_interpreters()

    def target(self) -> Target:
        """The target as filled in; raises ``CaptureProblem`` where it cannot be read."""
        try:
            arguments = tuple(shlex.split(self.arguments.text()))
            launcher = tuple(shlex.split(self.launcher.text()))
        except ValueError as error:
            raise CaptureProblem(
                "A quotation mark is not closed.", "Close it, or put a \\ before it."
            ) from error
        kind = self.chosen_kind
        if kind is TargetKind.RUNNING:
            return self._running()
        interpreter = self._interpreter_path() if kind is not TargetKind.COMMAND else ""
        if launcher and launcher[0] in INSTALLED_BESIDE and not self.where.place:
            launcher = (_beside(interpreter, launcher[0]), *launcher[1:])
        if is_launcher_of_python(launcher):
            interpreter = ""
        return Target(
            kind,
            self.program.text().strip(),
            arguments,
            interpreter,
            (),
            launcher,
            self._folder_or_the_scripts(kind),
            self._environment(),
        )

    @property
    def chosen_kind(self) -> TargetKind:
        """How the program is started, or that it runs already."""
        return list(KINDS.values())[self.kind.currentIndex()]

    def _running(self) -> Target:
        if not self.program.text().strip():
            return Target(TargetKind.RUNNING)
        try:
            process = read_running(self.program.text())
        except UnreadableCommand as problem:
            raise CaptureProblem(str(problem)) from problem
        interpreter = "" if self.where.place else self._interpreter_path()
        return Target(TargetKind.RUNNING, process, interpreter=interpreter, environment=self._environment())

    def show_target(self, target: Target, place: str = "", setup: str = "") -> None:
        self.kind.setCurrentIndex(list(KINDS.values()).index(target.kind))
        self.program.setText(target.program)
        self.arguments.setText(shlex.join(target.arguments))
        beside = "" if place else _python_beside(target.launcher)
        launcher = (Path(target.launcher[0]).name, *target.launcher[1:]) if beside else target.launcher
        self.launcher.setText(shlex.join(launcher))
        self.folder.setText(target.folder)
        self.where.show_place(place, setup)
        self.environment.setPlainText(
            "\n".join(f"{key}={value}" for key, value in target.environment.items())
        )
        if python := target.interpreter or beside:
            self._pick_interpreter(python)
            self._probe()
        elif place:
            self.interpreter.setEditText("")
        self._more.setChecked(bool(target.launcher or target.environment or place))

    def refresh_interpreters(self) -> None:
        """Look again for interpreters near the script."""
        chosen = self.interpreter.currentText()
        folder = self._near()
        self.interpreter.blockSignals(True)
        self.interpreter.clear()
        for found in found_interpreters(folder):
            self.interpreter.addItem(f"{found.path}  ({found.origin})", found.path)
        self.interpreter.blockSignals(False)
        if chosen:
            self._pick_interpreter(chosen)
        self._probe()

    def _lay_out(self) -> None:
        self.kind.setAccessibleName("What is run")
        self._form = form = Form()
        form.add("Program", self.kind, self.program, push_button("Browse ...", self._browse_program))
        form.add("Arguments", self.arguments)
        form.add("Python", self.interpreter, push_button("Browse ...", self._browse_interpreter))
        form.add("", self.interpreter_note)
        form.add("", self.running_note)
        form.setRowVisible(self.running_note, False)
        self._more_form = extra = Form(self._extra)
        self._folder_row = beside(self.folder, push_button("Browse ...", self._browse_folder))
        extra.add("Working folder", self._folder_row)
        extra.add("Launcher", self.launcher)
        extra.add("Environment", self.environment)
        extra.add("Where", self.where)
        extra.add("", self.where.note)
        extra.add("Set up", self.where.setup)
        fill(vertical(self, NO_MARGINS, 6), form, (self._more, 0, Qt.AlignmentFlag.AlignLeft), self._extra)

    def _connect(self) -> None:
        for field in (self.program, self.arguments, self.folder, self.launcher):
            field.textChanged.connect(self.changed)
        self.where.changed.connect(self.changed)
        self.environment.textChanged.connect(self.changed)
        self.kind.currentIndexChanged.connect(self._kind_changed)
        self.program.editingFinished.connect(self._program_entered)
        self.folder.editingFinished.connect(self.refresh_interpreters)
        self.where.entered.connect(self._place_entered)
        self.where.problem.connect(self.interpreter_note.setText)
        self.interpreter.currentTextChanged.connect(self.changed)
        self.interpreter.currentIndexChanged.connect(self._probe)
        typed = self.interpreter.lineEdit()
        if typed is not None:
            typed.editingFinished.connect(self._probe)
        self._more.toggled.connect(self._show_more)

    def _show_more(self, shown: bool) -> None:
        self._extra.setVisible(shown)

    def _kind_changed(self) -> None:
        python = self.chosen_kind is not TargetKind.COMMAND
        running = self.chosen_kind is TargetKind.RUNNING
        self.interpreter.setEnabled(python)
        self._form.setRowVisible(self.interpreter_note, python and not running)
        self._form.setRowVisible(self.running_note, running)
        self.program.setPlaceholderText(RUNNING_HINT if running else PROGRAM_HINT)
        self._form.setRowVisible(self.arguments, not running)
        for field in (self._folder_row, self.launcher):
            self._more_form.setRowVisible(field, not running)
        self._more.setText(MORE_OF_RUNNING if running else MORE)
        self.changed.emit()

    def _program_entered(self) -> None:
        """A whole command typed or pasted into the field is taken apart into the other fields."""
        text = self.program.text().strip()
        if self.chosen_kind is TargetKind.RUNNING:
            return
        try:
            words = shlex.split(text)
            if len(words) > 1 and not Path(text).exists():
                target = read_target(words, self.folder.text(), self._interpreter_path())
                self.show_target(target, self.where.place, self.where.setup.text())
        except (ValueError, UnreadableCommand):
            pass
        self.refresh_interpreters()

    def _place_entered(self) -> None:
        if self.where.place and self.interpreter.findText(self.interpreter.currentText()) >= 0:
            self.interpreter.setEditText("")
        self._probe()

    def _probe(self) -> None:
        path = self._interpreter_path()
        self.problem = ""
        if self.where.place:
            self._jobs.forget("interpreter")
            self.interpreter_note.setText("Uses python3 of that place unless you give a path there.")
            return
        if not path:
            return
        self.interpreter_note.setText("asking ...")
        self._jobs.ask("interpreter", lambda _: probe(path), self._show_probe, lambda _: None)

    def _show_probe(self, answer: Probe) -> None:
        self.problem = answer.problem
        if answer.problem:
            self.interpreter_note.setText(f"{answer.problem} {answer.fix}")
        else:
            nvtx = f", nvtx {answer.nvtx}" if answer.nvtx else ""
            self.interpreter_note.setText(f"Python {answer.python}, torch {answer.torch}{nvtx}")
        self.changed.emit()

    def _interpreter_path(self) -> str:
        index = self.interpreter.findText(self.interpreter.currentText())
        found = self.interpreter.itemData(index) if index >= 0 else None
        return str(found) if found else self.interpreter.currentText().strip()

    def _pick_interpreter(self, wanted: str) -> None:
        for index in range(self.interpreter.count()):
            if wanted in (self.interpreter.itemData(index), self.interpreter.itemText(index)):
                self.interpreter.setCurrentIndex(index)
                return
        self.interpreter.setEditText(wanted)

    def _near(self) -> Path | None:
        folder = self._folder_or_the_scripts(TargetKind.SCRIPT)
        return Path(folder) if folder and Path(folder).is_dir() else None

    def _folder_or_the_scripts(self, kind: TargetKind) -> str:
        written = self.folder.text().strip()
        if written or kind is not TargetKind.SCRIPT:
            return written
        script = Path(self.program.text().strip())
        return str(script.parent) if script.is_absolute() else ""

    def _environment(self) -> Mapping[str, str]:
        settings = {}
        for line in self.environment.toPlainText().splitlines():
            name, equals, value = line.strip().partition("=")
            if line.strip() and (not equals or not name):
                raise CaptureProblem(f"The environment line {line.strip()!r} is not NAME=VALUE.")
            if name:
                settings[name] = value
        return settings

    def _browse_program(self) -> None:
        if self.chosen_kind is TargetKind.RUNNING:
            self._offer_running()
            return
        name, _ = QFileDialog.getOpenFileName(
            self, "Script to record", self.program.text(), "Python (*.py);;All (*)"
        )
        if name:
            self.program.setText(name)
            self._program_entered()

    def _offer_running(self) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        found = [] if self.where.place else attachable_programs()
        for program in found:
            action = menu.addAction(f"{program.pid}  {program.command}".replace("&", "&&"))
            action.triggered.connect(lambda _=False, pid=program.pid: self.program.setText(str(pid)))
        if not found:
            menu.addAction(NOBODY_RUNS).setEnabled(False)
        menu.popup(self.program.mapToGlobal(self.program.rect().bottomLeft()))

    def _browse_interpreter(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self, "Python interpreter", self._interpreter_path())
        if name:
            self._pick_interpreter(name)
            self._probe()

    def _browse_folder(self) -> None:
        name = QFileDialog.getExistingDirectory(self, "Working folder", self.folder.text())
        if name:
            self.folder.setText(name)
            self.refresh_interpreters()


def _field(placeholder: str) -> QLineEdit:
    field = QLineEdit()
    field.setPlaceholderText(placeholder)
    field.setClearButtonEnabled(True)
    return field
