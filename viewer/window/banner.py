"""The banner: one plain sentence of what went wrong, or of what is news, and one of what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QFont, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QWidget

from viewer.appearance import theme
from viewer.appearance.plain_text import one_line
from viewer.appearance.widgets import Label, close_button, horizontal, vertical


class Banner(QWidget):
    """Hidden until something is to be said; never blocks the window. Everything in it is plain text."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("banner")
        self._good = False
        self.problem = Label("", weight=QFont.Weight.DemiBold, wrap=True, selectable=True)
        self.hint = Label("", "secondary", wrap=True, selectable=True)
        self.close_button = close_button("Close this message", self.hide, "Close (Esc)")
        texts = vertical(spacing=2)
        texts.addWidget(self.problem)
        texts.addWidget(self.hint)
        layout = horizontal(self, (18, 10, 10, 10))
        layout.addLayout(texts, 1)
        self._written: Path | None = None
        self.open_button, self.folder_button = QPushButton("Open"), QPushButton("Show in folder")
        self.open_button.clicked.connect(lambda: self._show_file(self._written))
        self.folder_button.clicked.connect(lambda: self._show_file(self._written, folder=True))
        self.action_button = QPushButton()
        self.action_button.clicked.connect(self._act)
        self._action: Callable[[], None] = self.hide
        for button in (self.action_button, self.open_button, self.folder_button):
            button.hide()
            layout.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        layout.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        self.hide()

    def say(self, problem: str, hint: str = "", *, good: bool = False, written: Path | None = None) -> None:
        """Show a problem, or with ``good`` news, and what to do about it; a file that was ``written`` can be opened."""
        self._good = good
        self._written = written
        self.action_button.hide()
        for button in (self.open_button, self.folder_button):
            button.setVisible(written is not None)
        problem, hint = one_line(problem), one_line(hint)
        self.problem.setText(problem)
        self.hint.setText(hint)
        self.hint.setVisible(bool(hint))
        self.setAccessibleName(f"{problem} {hint}".strip())
        self.show()
        self.update()

    def offer(self, title: str, action: Callable[[], None]) -> None:
        """Add a button that does something about what was said; the banner goes with it."""
        self._action = action
        self.action_button.setText(title)
        self.action_button.show()

    def _act(self) -> None:
        self.hide()
        self._action()

    def told_written(self, path: Path) -> None:
        self.say(f"Saved {path.name}", str(path.parent), good=True, written=path)

    @staticmethod
    def _show_file(path: Path | None, *, folder: bool = False) -> None:
        if path is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(path.parent if folder else path)))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.hide()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        color = colors.good if self._good else colors.error
        painter.fillRect(self.rect(), theme.mixed(color, colors.panel, 0.16))
        painter.fillRect(0, 0, 4, self.height(), color)
        painter.fillRect(0, self.height() - 1, self.width(), 1, colors.line)
