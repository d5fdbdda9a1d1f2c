"""The two lines above the budget: what limits a step, what to do about it, and notes as pills. Nothing is cut off."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from viewer.appearance import theme
from viewer.appearance.widgets import NO_MARGINS, Label, fill, horizontal, tooltip, unbroken, vertical


class Sentence(Label):
    """The verdict; a click shows the evidence."""

    clicked = Signal()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit()


class Pill(QLabel):
    """A short word about the recording; the mouse over it, and a screen reader, get the sentence."""

    def __init__(self, word: str, told: str) -> None:
        super().__init__(word)
        self.told = told
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("pill", True)
        self.setFont(theme.font(theme.SECONDARY_PX))
        self.setToolTip(tooltip(told))
        self.setAccessibleName(f"{word}: {told}")


class Headline(QWidget):
    """``sentence`` above, ``where`` below it, pills at the right."""

    def __init__(self) -> None:
        super().__init__()
        self.sentence = Sentence("", pixels=theme.VERDICT_PX + 1, weight=QFont.Weight.DemiBold, wrap=True)
        self.sentence.setCursor(Qt.CursorShape.PointingHandCursor)
        self.where = Label("", "secondary", pixels=theme.BODY_PX, wrap=True)
        self.pills: list[Pill] = []
        row = horizontal(spacing=6)
        row.addWidget(self.sentence, 1)
        self._beside = horizontal(spacing=6)
        row.addLayout(self._beside)
        row.setAlignment(self._beside, Qt.AlignmentFlag.AlignTop)
        self.without_recorder = QPushButton("without the profiler")
        self.without_recorder.setCheckable(True)
        self.without_recorder.setChecked(True)
        self.without_recorder.setProperty("chip", True)
        self.without_recorder.hide()
        self._beside.addWidget(self.without_recorder, 0, Qt.AlignmentFlag.AlignVCenter)
        fill(vertical(self, NO_MARGINS, 2), row, self.where)

    def say(self, sentence: str, where: str = "", pills: tuple[tuple[str, str], ...] = ()) -> None:
        """Show both lines, and a pill for each (word, sentence) that says something."""
        self.sentence.setText(sentence)
        self.where.setText(unbroken(where))
        self.where.setVisible(bool(where))
        for former in self.pills:
            self._beside.removeWidget(former)
            former.deleteLater()
        self.pills = [Pill(word, told) for word, told in pills if told]
        for each in self.pills:
            self._beside.addWidget(each, 0, Qt.AlignmentFlag.AlignVCenter)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """As high as the lines are at this width: the menu area of a window asks for no height by width."""
        layout = self.layout()
        if layout is not None and self.width() > 0:
            layout.activate()
            self.setFixedHeight(layout.heightForWidth(self.width()))
