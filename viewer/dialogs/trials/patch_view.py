"""The patch of a trial: the lines that write its changes into the user's script, to copy, save or write there."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtGui import QFontDatabase, QGuiApplication, QSyntaxHighlighter, QTextCharFormat
from PySide6.QtWidgets import QFileDialog, QMessageBox, QPlainTextEdit, QWidget

from rules.trials.trial import Trials
from rules.verdict import trials as wording
from viewer.appearance import theme
from viewer.appearance.widgets import Label, horizontal, push_button, vertical
from viewer.capture.request import CaptureProblem
from viewer.capture.trials.source import Patch, Source
from viewer.user_data.storage import is_written


class DiffColors(QSyntaxHighlighter):
    """Added lines are green, removed ones red, and places grey."""

    def highlightBlock(self, text: str) -> None:
        colors = theme.current()
        starts = {"+": colors.good, "-": colors.error, "@": colors.text_secondary}
        color = starts.get(text[:1])
        if color is not None:
            shown = QTextCharFormat()
            shown.setForeground(colors.text_secondary if text.startswith(("+++", "---")) else color)
            self.setFormat(0, len(text), shown)


class PatchView(QWidget):
    """Shows what won as a diff. ``said`` carries what became of saving or writing it."""

    said = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.patch = Patch()
        self._source = Source()
        self._trials = Trials()
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName("Patch")
        self._colors = DiffColors(self.text.document())
        self.about = Label("", "secondary", pixels=theme.SECONDARY_PX, wrap=True)
        self.copy_button = push_button("Copy patch", self.copy)
        self.save_button = push_button("Save patch ...", self.save)
        self.write_button = push_button("Write into the script ...", self.write)
        self.write_button.setToolTip("Changes your own file, after you have confirmed it")
        column = vertical(self, (0, 0, 0, 0), 4)
        column.addWidget(self.text, 1)
        column.addWidget(self.about)
        row = horizontal(spacing=8)
        for button in (self.copy_button, self.save_button, self.write_button):
            row.addWidget(button)
        row.addStretch(1)
        column.addLayout(row)

    def show_trials(self, trials: Trials, source: Source) -> None:
        """The patch for all that won."""
        self._trials, self._source = trials, source
        self.show_switches(trials.winners)

    def show_switches(self, switches: tuple[str, ...]) -> None:
        self.patch = self._source.patch(switches)
        self.text.setPlainText(self.patch.diff)
        missing = self.patch.missing
        self.about.setText(wording.unpatched(self._trials, missing) if missing and self.patch.files else "")
        self.about.setVisible(bool(self.about.text()))

    def copy(self) -> None:
        QGuiApplication.clipboard().setText(self.patch.diff)
        self.said.emit("Patch copied.")

    def save(self) -> None:
        name = f"{self.patch.files[0].path.stem}.patch" if self.patch.files else "changes.patch"
        chosen, _ = QFileDialog.getSaveFileName(self, "Save patch", name, "Patches (*.patch *.diff)")
        if not chosen:
            return
        path = Path(chosen)
        path = path if path.suffix else path.with_suffix(".patch")
        if is_written(path, self.patch.diff.encode(), self.said.emit):
            self.said.emit(f"Patch saved as {path.name}.")

    def write(self) -> None:
        """Change the user's own files, once they have agreed to it."""
        names = ", ".join(each.path.name for each in self.patch.files)
        box = QMessageBox(self)
        box.setWindowTitle("Write into the script")
        box.setText(f"Change {names}?")
        box.setInformativeText(
            "The lines shown will be written to "
            + "\n".join(str(each.path) for each in self.patch.files)
            + "."
        )
        agreed = box.addButton(f"Change {names}", QMessageBox.ButtonRole.AcceptRole)
        keep = box.addButton("Cancel", QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(keep)
        box.exec()
        if box.clickedButton() is not agreed:
            return
        try:
            self.patch.apply()
        except CaptureProblem as error:
            self.said.emit(f"{error.problem} {error.fix}".strip())
            return
        self.write_button.setEnabled(False)
        self.said.emit(f"{names} was changed.")
