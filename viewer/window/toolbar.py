"""The toolbar: open, record, compare, the search field, and the step that numbers speak of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt, Signal, SignalInstance
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QComboBox, QPushButton, QSizePolicy, QToolButton, QWidget

from parsers.model.units import duration
from viewer.appearance.widgets import NO_MARGINS, Label, horizontal
from viewer.documents.document import Document
from viewer.window.palette import SearchField

if TYPE_CHECKING:
    from rules.analysis.steps.steps import Step


ALL = -1
_SEPARATOR = -2
_IS_SEPARATOR = "separator"  # what a combo box looks for in the accessible description
_TOP = QModelIndex()
Index = QModelIndex | QPersistentModelIndex


class StepList(QAbstractListModel):
    """ "All steps", then the steps of each listed rank; the data of a row is the index of its step."""

    def fill(self, steps: Sequence[Step], ranks: Sequence[int | None], several: bool, whole_ns: int) -> None:
        self.beginResetModel()
        self._steps, self._whole_ns, self._several = steps, whole_ns, several
        self._rows: list[tuple[int, int, int]] = [(ALL, 0, 0)]  # step, its number in its rank, how many
        for rank in ranks:
            own = [index for index, step in enumerate(steps) if step.rank == rank]
            if self._several:
                self._rows.append((_SEPARATOR, 0, 0))
            self._rows += [(index, number, len(own)) for number, index in enumerate(own, 1)]
        self._places = {row[0]: place for place, row in enumerate(self._rows)}
        self.endResetModel()

    def place_of(self, step: int) -> int:
        """The row of a step; the first row for one that is not listed."""
        return self._places.get(step, 0)

    def rowCount(self, parent: Index = _TOP) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        step, number, count = self._rows[index.row()]
        if role == Qt.ItemDataRole.UserRole:
            return None if step == _SEPARATOR else step
        if role == Qt.ItemDataRole.AccessibleDescriptionRole and step == _SEPARATOR:
            return _IS_SEPARATOR
        if role != Qt.ItemDataRole.DisplayRole or step == _SEPARATOR:
            return None
        if step == ALL:
            return f"All steps   {duration(self._whole_ns)}"
        each = self._steps[step]
        whose = f"Rank {each.rank}: " if self._several else ""
        return f"{whose}{number} of {count}   {duration(each.end - each.start)}"

    def flags(self, index: Index) -> Qt.ItemFlag:
        separates = self._rows[index.row()][0] == _SEPARATOR
        return Qt.ItemFlag.NoItemFlags if separates else super().flags(index)


SEARCH_WIDTH, MIN_SEARCH = 460, 130
MIN_BOX, MAX_BOX, BESIDE_TEXT = 168, 236, 44  # px of the box of steps, and of what stands beside its text
MEASURED_STEPS = 200
NARROW = 880
MAX_RANKS_LISTED = 8  # of more, only the steps of the rank in focus are listed


class StepSelector(QWidget):
    """All steps or one of them, with buttons for the previous and the next one; hidden without steps."""

    def __init__(self, document: Document) -> None:
        super().__init__()
        self._document = document
        self._rank: int | None = None
        self.box = QComboBox()
        self._list = StepList(self.box)
        self._list.fill((), (), False, 0)
        self.box.setModel(self._list)
        self.box.setAccessibleName("Step")
        self.box.setMinimumWidth(MIN_BOX)
        self.box.setMaxVisibleItems(20)
        self.box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.previous = self._arrow("‹", "Previous step ([)")
        self.next = self._arrow("›", "Next step (])")
        self.previous.clicked.connect(lambda: self.move_by(-1))
        self.next.clicked.connect(lambda: self.move_by(1))
        layout = horizontal(self, NO_MARGINS, 4)
        self.title = Label("Step", "secondary")
        self.title.setContentsMargins(0, 0, 4, 0)
        layout.addWidget(self.title)
        layout.addWidget(self.previous)
        layout.addWidget(self.box)
        layout.addWidget(self.next)
        self.box.activated.connect(lambda _: document.select_step(int(self.box.currentData())))
        document.trace_changed.connect(lambda _: self._fill())
        document.analysis_changed.connect(lambda _: self._fill())
        document.step_changed.connect(self._on_step)
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

    def _on_step(self, step: int) -> None:
        if step >= 0:
            self.follow(self._document.steps[step].rank)
        self._show(step)

    def follow(self, rank: int | None) -> None:
        """From now on previous and next speak of the steps of this rank."""
        self._rank = rank
        if len(self._ranks()) > MAX_RANKS_LISTED:
            self._fill()

    def move_by(self, by: int) -> None:
        """Select the next or the previous step of the rank in focus; from all steps, its first or last."""
        steps, now = self._document.steps, self._document.step
        same = [index for index, step in enumerate(steps) if step.rank == self._rank]
        if not same:
            return
        if now < 0:
            self._document.select_step(same[0 if by > 0 else -1])
            return
        middle = (steps[now].start + steps[now].end) // 2
        near = min(same, key=lambda index: abs(steps[index].start + steps[index].end - 2 * middle))
        place = same.index(near) + by
        if 0 <= place < len(same):
            self._document.select_step(same[place])

    def _ranks(self) -> list[int | None]:
        return list(dict.fromkeys(step.rank for step in self._document.steps))

    def _fill(self) -> None:
        steps, ranks = self._document.steps, self._ranks()
        self.setVisible(len(steps) > 1)
        if ranks and self._rank not in ranks:
            self._rank = ranks[0]
        t0, t1 = self._document.analysis.window if self._document.analysis is not None else (0, 0)
        listed = ranks if len(ranks) <= MAX_RANKS_LISTED else [self._rank]
        self._list.fill(steps, listed, len(ranks) > 1, t1 - t0)
        self._show(self._document.step)
        rows = range(min(self._list.rowCount(), MEASURED_STEPS))
        texts = [str(self._list.data(self._list.index(row, 0)) or "") for row in rows]
        widest = max(map(self.box.fontMetrics().horizontalAdvance, texts), default=0) + BESIDE_TEXT
        self.box.setMinimumWidth(min(max(widest, MIN_BOX), MAX_BOX))
        self.box.view().setMinimumWidth(220)

    def _show(self, step: int) -> None:
        self.box.setCurrentIndex(self._list.place_of(step))


class ToolBar(QWidget):
    """One row; everything in it is also in the menu and the palette."""

    open_wanted = Signal()
    record_wanted = Signal()
    compare_wanted = Signal()

    def __init__(self, document: Document, window: QWidget, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("toolrow")
        self._brand = Label("Stallscope", pixels=14, weight=QFont.Weight.DemiBold)
        self._brand.setContentsMargins(0, 0, 16, 0)
        self.open = self._button("Open", "Open a recording", self.open_wanted)
        self.record = self._button(
            "Record", "Run a script under a profiler, then open the recording", self.record_wanted
        )
        self.compare = self._button("Compare", "Compare this recording with another one", self.compare_wanted)
        self.search = SearchField(window)
        self.search.setMaximumWidth(SEARCH_WIDTH)
        self.search.setMinimumWidth(MIN_SEARCH)
        self.search.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.steps = StepSelector(document)
        layout = horizontal(self, (14, 7, 14, 7), 8)
        layout.addWidget(self._brand)
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
        for words in (self._brand, self.steps.title):
            words.setVisible(self.width() >= NARROW)

    def _button(self, text: str, tip: str, signal: SignalInstance) -> QPushButton:
        button = QPushButton(text)
        button.setToolTip(tip)
        button.setMinimumHeight(30)
        button.setMinimumWidth(72)
        button.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(signal)
        return button
