"""The offer that a recording opened beside another one makes: read both as one run, or compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QPushButton, QToolButton, QWidget

from viewer.look import theme
from viewer.look.labels import ElidedLabel

if TYPE_CHECKING:
    from viewer.window.main_window import MainWindow


def offer(window: MainWindow, earlier: MainWindow) -> SecondRecordingOffer | None:
    """Make the offer at the top of ``window``, about the recording of ``earlier``; None where there is no place."""
    middle = window.centralWidget()
    layout = middle.layout() if middle is not None else None
    if not isinstance(layout, QBoxLayout) or not earlier.document.paths:
        return None
    bar = SecondRecordingOffer(window, earlier)
    layout.insertWidget(0, bar)
    return bar


class SecondRecordingOffer(QWidget):
    """One line with two buttons, shown once the file is read; gone when one is used or another file is opened."""

    def __init__(self, window: MainWindow, earlier: MainWindow) -> None:
        super().__init__()
        self._window, self._earlier = window, earlier
        self._about = earlier.document.paths
        name = self._about[0].name
        self.setAccessibleName(f"{name} is open in another window")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(18, 6, 10, 6)
        layout.setSpacing(8)
        layout.addWidget(ElidedLabel(f"{name} is open in another window.", "secondary"), 1)
        self.join_button = QPushButton("Add this as another rank of it")
        self.join_button.setToolTip("Reads both as ranks of one run, on one clock")
        self.join_button.clicked.connect(self._join)
        self.compare_button = QPushButton("Compare the two")
        self.compare_button.setToolTip("Says what changed from that recording to this one")
        self.compare_button.clicked.connect(self._compare)
        self.close_button = QToolButton()
        self.close_button.setText("✕")
        self.close_button.setAutoRaise(True)
        self.close_button.setAccessibleName("Close this offer")
        self.close_button.clicked.connect(self._leave)
        for button in (self.join_button, self.compare_button, self.close_button):
            layout.addWidget(button)
        self._read = False
        self.hide()
        earlier.destroyed.connect(self._leave)
        window.document.trace_changed.connect(self._on_trace)
        window.document.failed.connect(self._leave)

    def _is_open(self) -> bool:
        return self._earlier.isVisible() and self._earlier.document.paths == self._about

    def _on_trace(self, trace: object) -> None:
        if self._window.document.preview:
            return
        if trace is None or self._read or not self._is_open():
            self._leave()
        else:
            self._read = True
            self.show()

    def _join(self) -> None:
        window, earlier, paths = self._window, self._earlier, self._window.document.paths
        if not (self._is_open() and paths):
            return self._leave()
        earlier.open([*self._about, *paths])
        earlier.raise_()
        earlier.activateWindow()
        window.close()

    def _compare(self) -> None:
        from viewer.dialogs.comparing import compare_with

        earlier, paths = self._earlier, self._window.document.paths
        if self._is_open() and paths:
            earlier.raise_()
            earlier.activateWindow()
            compare_with(earlier, paths)
        self._leave()

    def _leave(self) -> None:
        self.hide()
        self.deleteLater()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self._leave()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.fillRect(self.rect(), theme.mixed(colors.accent, colors.panel, 0.12))
        painter.fillRect(0, self.height() - 1, self.width(), 1, colors.line)
