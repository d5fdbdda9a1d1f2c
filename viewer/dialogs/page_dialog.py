"""A dialog that is one page to read: it scrolls with mouse and keys, and closes with Esc."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QScrollArea, QVBoxLayout, QWidget

from viewer.look.tab_order import TabOrder


class PageDialog(QDialog):
    """Shows ``body`` under a title; ``told`` is what screen readers call the page."""

    def __init__(
        self, title: str, told: str, size: tuple[int, int], body: QWidget, parent: QWidget | None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.resize(*size)
        self.tab_order = TabOrder(self)
        scroll = QScrollArea()
        scroll.setAccessibleName(told)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(body)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(scroll)

    def focusNextPrevChild(self, forward: bool) -> bool:
        return self.tab_order.step((self,), forward)
