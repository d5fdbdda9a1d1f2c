"""The field *Where*: this machine, a place by how it is reached, or one that was given a name."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QInputDialog, QLineEdit, QWidget

from viewer.appearance.widgets import NO_MARGINS, Label, fill, horizontal, push_button
from viewer.remote.names import PlaceProblem, place_kinds, place_of, remember, remembered

THIS_MACHINE = "This machine"


class WhereField(QWidget):
    """``place`` is empty for this machine; ``setup`` prepares the environment at the place."""

    changed = Signal()
    entered = Signal()
    problem = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.choice = QComboBox()
        self.choice.setEditable(True)
        self.choice.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.choice.setAccessibleName("Where it runs")
        examples = ", ".join(kind.example for kind in place_kinds().values())
        self.note = Label(f"{THIS_MACHINE}, or for example {examples}", "faint", wrap=True)
        self.setup = QLineEdit()
        self.setup.setPlaceholderText("module load cuda, source venv/bin/activate, conda run -n NAME")
        self.setup.setAccessibleName("Line that prepares the environment there")
        self.keep = push_button("Remember ...", tip="Give this place a name, with its environment line")
        fill(horizontal(self, NO_MARGINS, 6), (self.choice, 1), self.keep)
        self._fill()
        self.choice.currentTextChanged.connect(self._chosen)
        self.setup.textChanged.connect(self.changed)
        typed = self.choice.lineEdit()
        if typed is not None:
            typed.editingFinished.connect(self.entered)
        self.choice.activated.connect(self.entered)
        self.keep.clicked.connect(self._ask_for_a_name)
        self._chosen()

    @property
    def place(self) -> str:
        """As the command line has it."""
        text = self.choice.currentText().strip()
        return "" if text == THIS_MACHINE else text

    def show_place(self, place: str, setup: str) -> None:
        self.choice.setCurrentText(place or THIS_MACHINE)
        self.setup.setText(setup)

    def remember(self, name: str) -> None:
        try:
            remember(name, place_of(self.place, self.setup.text().strip()))
        except PlaceProblem as problem:
            self.problem.emit(f"{problem.problem} {problem.hint}")
            return
        self._fill()
        self.show_place(name, "")

    def _fill(self) -> None:
        text = self.choice.currentText()
        self.choice.blockSignals(True)
        self.choice.clear()
        self.choice.addItems([THIS_MACHINE, *remembered()])
        self.choice.setCurrentText(text or THIS_MACHINE)
        self.choice.blockSignals(False)

    def _chosen(self) -> None:
        elsewhere = bool(self.place)
        self.keep.setEnabled(elsewhere and self.place not in remembered())
        self.setup.setEnabled(elsewhere)
        self.changed.emit()

    def _ask_for_a_name(self) -> None:
        name, accepted = QInputDialog.getText(self, "Remember this place", "Name")
        if accepted and name.strip():
            self.remember(name.strip())
