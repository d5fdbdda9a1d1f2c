"""The banner: one plain sentence of what went wrong, or of what is news, and one of what to do."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QToolButton, QWidget

from viewer.look import theme
from viewer.look.boxes import horizontal, vertical
from viewer.look.labels import Label
from viewer.reports.plain_text import one_line


class Banner(QWidget):
    """Hidden until something is to be said; never blocks the window. Everything in it is plain text."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("banner")
        self._good = False
        self.problem = Label("", weight=QFont.Weight.DemiBold, wrap=True, selectable=True)
        self.hint = Label("", "secondary", wrap=True, selectable=True)
        self.close_button = QToolButton()
        self.close_button.setText("✕")
        self.close_button.setAutoRaise(True)
        self.close_button.setAccessibleName("Close this message")
        self.close_button.setToolTip("Close (Esc)")
        self.close_button.clicked.connect(self.hide)
        texts = vertical(spacing=2)
        texts.addWidget(self.problem)
        texts.addWidget(self.hint)
        layout = horizontal(self, (18, 10, 10, 10))
        layout.addLayout(texts, 1)
        layout.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        self.hide()

    def say(self, problem: str, hint: str = "", *, good: bool = False) -> None:
        """Show a problem, or with ``good`` news, and what to do about it."""
        self._good = good
        problem, hint = one_line(problem), one_line(hint)
        self.problem.setText(problem)
        self.hint.setText(hint)
        self.hint.setVisible(bool(hint))
        self.setAccessibleName(f"{problem} {hint}".strip())
        self.show()
        self.update()

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
