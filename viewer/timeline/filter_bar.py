"""The line above the lanes that says which of them are shown: what is typed, how many are left, and a way out."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QLineEdit, QWidget

from viewer.appearance import theme
from viewer.appearance.widgets import Label, close_button, fill, horizontal
from viewer.timeline.geometry.arrangement import EXAMPLE
from viewer.timeline.lane_commands import LaneHistory
from viewer.timeline.state import TimelineState


class FilterBar(QWidget):
    """Hidden while all lanes are shown and nobody types."""

    def __init__(self, state: TimelineState, history: LaneHistory) -> None:
        super().__init__()
        self._state, self._history = state, history
        self.field = QLineEdit()
        self.field.setPlaceholderText(EXAMPLE)
        self.field.setAccessibleName("Filter the lanes")
        self.field.textChanged.connect(self._apply)
        self.field.editingFinished.connect(self._close_if_empty)
        self.told = Label("", "secondary", pixels=12)
        self.close_button = close_button("Show all lanes", self.clear, "Show all lanes")
        self.close_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        fill(
            horizontal(self, (14, 4, 10, 4), 10),
            Label("Lanes", "secondary"),
            (self.field, 1),
            self.told,
            self.close_button,
        )
        state.content_changed.connect(self._say)
        self.hide()

    def start(self) -> None:
        """Let somebody type."""
        self.show()
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()

    def set_text(self, text: str) -> None:
        self.field.setText(text)
        self.setVisible(bool(text.strip()))

    def clear(self) -> None:
        self.field.clear()
        self.hide()

    def _apply(self, text: str) -> None:
        if text != self._state.filter:
            with self._history.change("filter the lanes", "filter"):
                self._state.filter = text
        self._say()

    def _close_if_empty(self) -> None:
        if not self.field.text().strip():
            self.hide()

    def _say(self) -> None:
        scene = self._state.scene
        if self.field.text() != self._state.filter:  # another recording
            self.set_text(self._state.filter)
        if scene is None or not self._state.filter.strip():
            self.told.setText("")
            return
        whole = sum(len(group.tracks) for group in scene.index.groups)
        left = sum(each.track.lane >= 0 or each.track.counter >= 0 for each in self._state.layout.scrolled)
        self.told.setText(f"filtered: {left:,} of {whole:,} lanes" if left else "No matching lanes")

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.fillRect(self.rect(), theme.mixed(colors.accent, colors.panel, 0.12))
        painter.fillRect(0, self.height() - 1, self.width(), 1, colors.line)
