"""Buttons of dialogs and bars."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QPushButton, QToolButton


def push_button(text: str = "", pressed: Callable[..., object] | None = None, tip: str = "") -> QPushButton:
    """A button that Enter does not press while something else has the focus."""
    button = QPushButton(text)
    button.setAutoDefault(False)
    button.setToolTip(tip)
    if pressed is not None:
        button.clicked.connect(pressed)
    return button


def close_button(says: str, pressed: Callable[..., object], tip: str = "") -> QToolButton:
    """The cross at the end of a bar."""
    button = QToolButton()
    button.setText("✕")
    button.setAutoRaise(True)
    button.setAccessibleName(says)
    button.setToolTip(tip)
    button.clicked.connect(pressed)
    return button
