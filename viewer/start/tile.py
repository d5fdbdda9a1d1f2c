"""A tile of the start page: a button with a title, a line of text and a small remark."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFont, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from viewer.look import theme
from viewer.look.labels import ElidedLabel, Label


class Tile(QAbstractButton):
    """A title, a line of text and a small remark; the whole tile is the button."""

    def __init__(self, title: str, text: str, remark: str) -> None:
        super().__init__()
        self.setText(title)
        self.setAccessibleName(f"{title}. {text}")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        layout = self._column = QVBoxLayout(self)
        layout.setContentsMargins(14, 11, 14, 11)
        layout.setSpacing(3)
        top = QHBoxLayout()
        top.setSpacing(10)
        top.addWidget(ElidedLabel(title, weight=QFont.Weight.DemiBold), 1)
        if remark:
            top.addWidget(Label(remark, "faint", pixels=theme.SECONDARY_PX))
        layout.addLayout(top)
        layout.addWidget(Label(text, "secondary", pixels=12, wrap=True))
        layout.addStretch(1)
        for child in self.findChildren(QWidget):
            child.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def sizeHint(self) -> QSize:
        return self._column.sizeHint()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        lifted = self.underMouse() or self.hasFocus()
        painter.setPen(QPen(colors.accent if self.hasFocus() else colors.line, 1))
        painter.setBrush(colors.hover if lifted else colors.panel)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
