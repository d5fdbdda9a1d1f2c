"""The toolbar: open, record, compare, the search field, and the step that numbers speak of."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, SignalInstance
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QPushButton, QSizePolicy, QToolButton, QWidget

from parsers.model.units import duration
from viewer.document import Document
from viewer.labels import Label
from viewer.palette import SearchField

SEARCH_WIDTH = 460
NARROW = 880


class StepSelector(QWidget):
    """All steps or one of them, with buttons for the previous and the next one; hidden without steps."""

    def __init__(self, document: Document) -> None:
        super().__init__()
        self._document = document
        self.box = QComboBox()
        self.box.setAccessibleName("Step")
        self.box.setMinimumWidth(168)
        self.box.setMaxVisibleItems(20)
        self.box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.previous = self._arrow("‹", "Previous step ([)")
        self.next = self._arrow("›", "Next step (])")
        self.previous.clicked.connect(lambda: self.move_by(-1))
        self.next.clicked.connect(lambda: self.move_by(1))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(Label("Step", "secondary"))
        layout.addSpacing(4)
        layout.addWidget(self.previous)
        layout.addWidget(self.box)
        layout.addWidget(self.next)
        self.box.activated.connect(lambda index: document.select_step(index - 1))
        document.trace_changed.connect(lambda _: self._fill())
        document.analysis_changed.connect(lambda _: self._fill())
        document.step_changed.connect(lambda index: self.box.setCurrentIndex(index + 1))
        self._fill()

    @staticmethod
    def _arrow(text: str, tip: str) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.setFixedSize(26, 28)
        button.setStyleSheet("padding: 0;")
        return button

    def move_by(self, by: int) -> None:
        """Select the next or the previous step of the same rank; from all steps, the first or the last."""
        steps = self._document.steps
        now = self._document.step
        if not steps:
            return
        if now < 0:
            self._document.select_step(0 if by > 0 else len(steps) - 1)
            return
        same = [index for index, step in enumerate(steps) if step.rank == steps[now].rank]
        place = same.index(now) + by
        if 0 <= place < len(same):
            self._document.select_step(same[place])

    def _fill(self) -> None:
        steps = self._document.steps
        self.box.clear()
        self.setVisible(len(steps) > 1)
        if not steps:
            return
        t0, t1 = self._document.analysis.window if self._document.analysis is not None else (0, 0)
        ranks = {step.rank for step in steps}
        self.box.addItem(f"All steps   {duration(t1 - t0)}")
        for index, step in enumerate(steps):
            number = f"{index + 1} of {len(steps)}" if len(ranks) == 1 else f"rank {step.rank}: {step.name}"
            self.box.addItem(f"{number}   {duration(step.end - step.start)}")
        self.box.setCurrentIndex(self._document.step + 1)
        self.box.view().setMinimumWidth(220)


class ToolBar(QWidget):
    """One row; everything in it is also in the menu and the palette."""

    open_wanted = Signal()
    record_wanted = Signal()
    compare_wanted = Signal()

    def __init__(self, document: Document, window: QWidget) -> None:
        super().__init__(window)
        self.setObjectName("toolrow")
        self._brand = Label("Stallscope", pixels=14, weight=QFont.Weight.DemiBold)
        self.open = self._button("Open", "Open a recording", self.open_wanted)
        self.record = self._button(
            "Record", "Run a script under a profiler, then open the recording", self.record_wanted
        )
        self.compare = self._button("Compare", "Compare this recording with another one", self.compare_wanted)
        self.search = SearchField(window)
        self.search.setMaximumWidth(SEARCH_WIDTH)
        self.search.setMinimumWidth(160)
        self.search.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.steps = StepSelector(document)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(14, 7, 14, 7)
        layout.setSpacing(8)
        layout.addWidget(self._brand)
        layout.addSpacing(16)
        for button in (self.open, self.record, self.compare):
            layout.addWidget(button)
        layout.addSpacing(8)
        layout.addStretch(1)
        layout.addWidget(self.search, 20)
        layout.addStretch(1)
        layout.addSpacing(8)
        layout.addWidget(self.steps)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._brand.setVisible(self.width() >= NARROW)

    def _button(self, text: str, tip: str, signal: SignalInstance) -> QPushButton:
        button = QPushButton(text)
        button.setToolTip(tip)
        button.setMinimumHeight(30)
        button.setMinimumWidth(72)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(signal)
        return button
