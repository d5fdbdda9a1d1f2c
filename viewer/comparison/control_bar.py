"""The line above the timelines: where they are aligned, which steps, how wide, and what is linked."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication, QEvent, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QComboBox, QMenu, QSizePolicy, QToolButton, QWidget

from viewer.appearance.boxes import SPRING, fill, horizontal
from viewer.appearance.labels import Label, tooltip


class ControlBar(QWidget):
    """Emits what somebody chooses; setting something here tells nobody."""

    anchor_chosen = Signal(str)
    steps_chosen = Signal(int, int)  # place among the steps of either side
    rank_chosen = Signal(int)  # place among the offered ranks
    length_chosen = Signal(bool)  # True: same length
    linked = Signal(bool)
    all_lanes = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self.anchor, self.rank = QComboBox(), QComboBox()
        self.steps = QComboBox(), QComboBox()
        for box, name in (
            (self.anchor, "Aligned at"),
            (self.rank, "Rank"),
            (self.steps[0], "Step before"),
            (self.steps[1], "Step after"),
        ):
            box.setAccessibleName(name)
            box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
            box.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.scale, self.length = _toggle("same scale"), _toggle("same length")
        self.length.setToolTip(tooltip("Draw both steps at the same length, stretching one of them (T)"))
        self.scale.setToolTip(tooltip("Use the same time scale on both sides (T)"))
        group = QButtonGroup(self)
        for button in (self.scale, self.length):
            group.addButton(button)
        self.scale.setChecked(True)
        self.lanes = _toggle("all lanes")
        self.lanes.setToolTip(tooltip("Also show CPU lanes and counters"))
        self.link = _toggle("linked")
        self.link.setChecked(True)
        self.link.setToolTip(tooltip("Keep zoom, position and cursor in sync (Shift+L)"))
        self.menu = QToolButton()
        self.menu.setText("View ▾")
        self.menu.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.menu.setStyleSheet("QToolButton::menu-indicator { image: none; }")
        self.menu.setMenu(QMenu(self.menu))
        self._toggles = self.scale, self.length, self.lanes, self.link
        for button in self._toggles:
            action = self.menu.menu().addAction(button.text())
            action.setCheckable(True)
            action.setChecked(button.isChecked())
            button.toggled.connect(action.setChecked)
            action.triggered.connect(button.click)
        self._rank_label = Label("Rank", "secondary", pixels=12)
        layout = horizontal(self, (14, 5, 12, 5), 6)
        self._anchor_label = Label("Aligned at", "secondary", pixels=12)
        self._step_label = Label("Step", "secondary", pixels=12)
        fill(layout, self._anchor_label, self.anchor)
        layout.addSpacing(6)
        fill(layout, self._rank_label, self.rank, self._step_label, self.steps[0], self.steps[1])
        layout.addSpacing(6)
        fill(layout, self.scale, self.length, self.lanes, SPRING, self.link, self.menu)
        self.anchor.activated.connect(lambda _: self.anchor_chosen.emit(self.anchor.currentText()))
        self.rank.activated.connect(self.rank_chosen)
        for box in self.steps:
            box.activated.connect(
                lambda _: self.steps_chosen.emit(self.steps[0].currentIndex(), self.steps[1].currentIndex())
            )
        self.length.toggled.connect(self.length_chosen)
        self.link.toggled.connect(self.linked)
        self.lanes.toggled.connect(self.all_lanes)
        self.offer_ranks(())

    def offer_anchors(self, anchors: Sequence[str], chosen: str) -> None:
        _fill(self.anchor, anchors, chosen)

    def offer_steps(self, side: int, names: Sequence[str], chosen: str) -> None:
        _fill(self.steps[side], names, chosen)
        self.steps[side].setEnabled(len(names) > 1)

    def offer_ranks(self, names: Sequence[str]) -> None:
        """The ranks of both, the worst first; nothing to choose among fewer than two."""
        _fill(self.rank, names, names[0] if names else "")
        self.rank.setVisible(len(names) > 1)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Leave out what the boxes say by themselves, then put the buttons into a menu, where there is not room."""
        several = not self.rank.isHidden()
        for labelled, apart in ((True, True), (False, True), (False, False)):
            self._rank_label.setVisible(labelled and several)
            self._anchor_label.setVisible(labelled)
            self._step_label.setVisible(labelled)
            for button in self._toggles:
                button.setVisible(apart)
            self.menu.setVisible(not apart)
            if self.sizeHint().width() <= self.width():
                return

    def toggle_length(self) -> None:
        """From the same scale to the same length, or back."""
        (self.scale if self.length.isChecked() else self.length).setChecked(True)


def _toggle(text: str) -> QToolButton:
    button = QToolButton()
    button.setText(text)
    button.setAccessibleName(text)
    button.setCheckable(True)
    button.setStyleSheet("padding-left: 10px; padding-right: 10px;")
    return button


def _fill(box: QComboBox, names: Sequence[str], chosen: str) -> None:
    box.blockSignals(True)
    box.clear()
    box.addItems(list(names))
    QCoreApplication.sendEvent(box, QEvent(QEvent.Type.StyleChange))  # else its least width stays what it was
    box.setCurrentIndex(max(list(names).index(chosen), 0) if chosen in names else 0)
    box.blockSignals(False)
